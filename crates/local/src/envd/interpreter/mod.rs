//! The code interpreter's port: `/execute` and `/contexts`, over Jupyter kernels.
//!
//! Each context is a Jupyter kernel with a small driver beside it (`kernel.py`), which speaks the kernel's protocol and
//! gives us a line for each thing it hears. Kernels are made when they are first needed, and end with the sandbox.

mod context;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, header};
use oncebox_protocol::api::EnvVars;
use oncebox_protocol::code_interpreter::{CodeContext, ExecuteCode, NewCodeContext};
use serde_json::{Value, json};
use tokio::sync::{Mutex, oneshot};

use self::context::{Context, Starter};
use super::answer::Refusal;
use super::paths::Paths;
use super::process::Reaper;
use super::users::User;

/// Contexts of one sandbox at a time.
const MAX_CONTEXTS: usize = 32;

/// The language there is.
const PYTHON: &str = "python";

/// The contexts of a sandbox.
pub(super) struct Interpreter {
    starter: Starter,
    paths: Arc<Paths>,
    /// In the order they were made; the first of a language in its home is the default.
    contexts: Mutex<Vec<Arc<Context>>>,
}

impl Interpreter {
    /// An interpreter by `python`, whose kernels get `env`.
    pub(super) fn new(python: PathBuf, env: EnvVars, paths: Arc<Paths>, reaper: Arc<Reaper>) -> Self {
        let home = paths.home(User::User);
        Self { starter: Starter { python, env, home, reaper }, paths, contexts: Mutex::default() }
    }

    /// Makes a context. It is made even if the caller stops waiting, whose it then is not: it ends again, unless it is the
    /// default one.
    async fn create(self: &Arc<Self>, cwd: Option<String>, default: bool) -> Result<Arc<Context>, Refusal> {
        let this = Arc::clone(self);
        let (give, made) = oneshot::channel();
        // A kernel that is given up while it starts would be left without anybody to end it.
        tokio::spawn(async move {
            let created = this.make(cwd.as_deref(), default).await;
            if let Err(Ok(context)) = give.send(created)
                && !context.is_default()
            {
                this.end(&context).await;
            }
        });
        let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the context was not made: its task ended");
        made.await.map_err(failed)?
    }

    async fn make(&self, cwd: Option<&str>, default: bool) -> Result<Arc<Context>, Refusal> {
        let directory = super::files::resolve(&self.paths, cwd.unwrap_or_default(), User::User)?;
        if !directory.is_dir() {
            let message = format!("cwd '{}' is not a directory", self.paths.display(&directory));
            return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
        }
        let mut contexts = self.contexts.lock().await;
        if default {
            // Somebody else may have made it meanwhile.
            if let Some(found) = contexts.iter().find(|context| context.is_default() && context.is_alive()) {
                return Ok(Arc::clone(found));
            }
            contexts.retain(|context| !context.is_default());
        }
        contexts.retain(|context| context.is_alive());
        if contexts.len() >= MAX_CONTEXTS {
            let message = format!("{MAX_CONTEXTS} contexts of this sandbox exist, the limit: remove one");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let context = Arc::new(self.starter.start(&directory, self.paths.display(&directory)).await?);
        if default {
            context.make_default();
        }
        contexts.push(Arc::clone(&context));
        Ok(context)
    }

    async fn find(&self, id: &str) -> Result<Arc<Context>, Refusal> {
        let contexts = self.contexts.lock().await;
        let context = contexts.iter().find(|context| context.id() == id).cloned().ok_or_else(|| not_found(id))?;
        if context.is_alive() {
            return Ok(context);
        }
        let message =
            format!("Context {} not found: its kernel has ended, with all it knew; make another", id.escape_debug());
        Err(Refusal::new(StatusCode::NOT_FOUND, message))
    }

    /// The context that code without one runs in, and what is to be said first: a new one knows nothing of what was run in one
    /// that has ended.
    async fn default(self: &Arc<Self>) -> Result<(Arc<Context>, Option<Value>), Refusal> {
        let found = self.contexts.lock().await.iter().find(|context| context.is_default()).cloned();
        let had_one = match found {
            Some(context) if context.is_alive() => return Ok((context, None)),
            found => found.is_some(),
        };
        let context = self.create(None, true).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let told = json!({
            "type": "stderr",
            "text": "the default context's kernel had ended, with all it knew; this is a new one\n",
            "timestamp": u64::try_from(now).unwrap_or(u64::MAX),
        });
        Ok((context, had_one.then_some(told)))
    }

    async fn end(&self, context: &Arc<Context>) {
        self.contexts.lock().await.retain(|other| !Arc::ptr_eq(other, context));
        context.end();
    }
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("Context {} not found", id.escape_debug()))
}

fn only_python(language: Option<&str>) -> Result<(), Refusal> {
    match language.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | PYTHON | "python3") => Ok(()),
        Some(other) => Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("Unsupported language '{}': the local server has kernels of Python", other.escape_debug()),
        )),
    }
}

/// The routes of the interpreter's port.
pub(super) fn routes(interpreter: Arc<Interpreter>) -> Router {
    Router::new()
        .route("/health", axum::routing::get(|| async { "OK" }))
        .route("/execute", axum::routing::post(execute))
        .route("/contexts", axum::routing::get(list).post(create))
        .route("/contexts/{id}", axum::routing::delete(remove))
        .route("/contexts/{id}/restart", axum::routing::post(restart))
        .fallback(super::no_such_route)
        .method_not_allowed_fallback(super::no_such_method)
        .with_state(interpreter)
}

type Shared = State<Arc<Interpreter>>;
type JsonBody<T> = Result<Json<T>, JsonRejection>;

fn read<T>(body: JsonBody<T>) -> Result<T, Refusal> {
    body.map(|Json(request)| request).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.body_text()))
}

async fn execute(State(interpreter): Shared, body: JsonBody<ExecuteCode>) -> Result<Response, Refusal> {
    let request = read(body)?;
    only_python(request.language.as_deref())?;
    let (context, first) = match request.context_id.as_deref() {
        Some(id) if id != "default" => (interpreter.find(id).await?, None),
        _ => interpreter.default().await?,
    };
    let lines = context.execute(request.code, request.env_vars.unwrap_or_default(), first);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

async fn list(State(interpreter): Shared) -> Json<Vec<CodeContext>> {
    Json(interpreter.contexts.lock().await.iter().map(|context| context.describe()).collect())
}

async fn create(State(interpreter): Shared, body: JsonBody<NewCodeContext>) -> Result<Json<CodeContext>, Refusal> {
    let request = read(body)?;
    only_python(request.language.as_deref())?;
    Ok(Json(interpreter.create(request.cwd, false).await?.describe()))
}

async fn remove(State(interpreter): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let context = interpreter.find(&id).await?;
    interpreter.end(&context).await;
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(State(interpreter): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    interpreter.find(&id).await?.restart().await?;
    Ok(StatusCode::NO_CONTENT)
}
