//! The code interpreter's port: `/execute` and `/contexts`, over Jupyter kernels.
//!
//! Each context is a Jupyter kernel with a small driver beside it (`kernel.py`), which speaks the kernel's protocol and
//! gives us a line for each thing it hears. Kernels are made when they are first needed, and end with the sandbox.

mod context;

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::{StatusCode, header};
use oncebox_protocol::api::EnvVars;
use oncebox_protocol::code_interpreter::{CodeContext, ExecuteCode, NewCodeContext};
use tokio::sync::Mutex;

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

    async fn create(&self, cwd: Option<&str>) -> Result<Arc<Context>, Refusal> {
        let directory = super::files::resolve(&self.paths, cwd.unwrap_or_default(), User::User)?;
        if !directory.is_dir() {
            let message = format!("cwd '{}' is not a directory", self.paths.display(&directory));
            return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
        }
        let mut contexts = self.contexts.lock().await;
        if contexts.len() >= MAX_CONTEXTS {
            let message = format!("{MAX_CONTEXTS} contexts of this sandbox exist, the limit: remove one");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let context = Arc::new(self.starter.start(&directory, self.paths.display(&directory)).await?);
        contexts.push(Arc::clone(&context));
        Ok(context)
    }

    async fn find(&self, id: &str) -> Result<Arc<Context>, Refusal> {
        let contexts = self.contexts.lock().await;
        contexts.iter().find(|context| context.id() == id).cloned().ok_or_else(|| not_found(id))
    }

    /// The context that code without one runs in.
    async fn default(&self) -> Result<Arc<Context>, Refusal> {
        let found = self.contexts.lock().await.iter().find(|context| context.is_default()).cloned();
        match found {
            Some(context) => Ok(context),
            None => {
                let context = self.create(None).await?;
                context.make_default();
                Ok(context)
            }
        }
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
    let context = match request.context_id.as_deref() {
        Some(id) if id != "default" => interpreter.find(id).await?,
        _ => interpreter.default().await?,
    };
    let lines = context.execute(request.code, request.env_vars.unwrap_or_default());
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

async fn list(State(interpreter): Shared) -> Json<Vec<CodeContext>> {
    Json(interpreter.contexts.lock().await.iter().map(|context| context.describe()).collect())
}

async fn create(State(interpreter): Shared, body: JsonBody<NewCodeContext>) -> Result<Json<CodeContext>, Refusal> {
    let request = read(body)?;
    only_python(request.language.as_deref())?;
    Ok(Json(interpreter.create(request.cwd.as_deref()).await?.describe()))
}

async fn remove(State(interpreter): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let context = interpreter.find(&id).await?;
    interpreter.contexts.lock().await.retain(|other| !Arc::ptr_eq(other, &context));
    context.end();
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(State(interpreter): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    interpreter.find(&id).await?.restart().await?;
    Ok(StatusCode::NO_CONTENT)
}
