//! The server misbehaves on demand, and counts what really happened.
//!
//! `PUT /oncebox/faults` takes a document that says which requests meet which fault, `GET` gives it back with how often
//! each rule has fired, `DELETE` ends it. `GET /oncebox/effects` tells every effect that really happened, `DELETE` begins
//! the count anew. Everything goes through one place, [`Misbehaviour::answer`], around whatever the server does itself.

mod answers;
mod bend;
mod call;
mod calls;
mod check;
mod document;
mod effects;
mod lists;
mod plan;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::{Operation, Repeat};
use parking_lot::RwLock;
use serde_json::{Value, json};

use answers::{limited, made_up, with_limits};
pub(crate) use bend::Cutter;
use bend::Turn;
use call::{Call, sandbox_in};
pub(crate) use calls::{Attempt, End, joined};
use calls::{Calls, Running};
pub(crate) use document::How;
use document::{Document, Fault, When};
use effects::Effects;
use plan::{Decision, Plan};

use crate::dispatch;
use crate::refusal::Refusal;

/// Largest document, and largest request that is looked into.
const MAX_BODY: usize = 1 << 20;
/// How long one may take to arrive.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// The faults that are in force, and the effects so far.
#[derive(Debug, Default)]
pub(crate) struct Misbehaviour {
    plan: RwLock<Arc<Plan>>,
    effects: Effects,
    calls: Arc<Calls>,
    /// The proxy before the server, where there is one.
    door: Option<Arc<oncebox_faults::Server>>,
}

/// Faults that a server begins with, read and found good.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    document: Document,
    pub(crate) script: oncebox_faults::Script,
}

impl Faults {
    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with it, with line, place and reason.
    pub(crate) fn read(json: &[u8]) -> Result<Self, String> {
        let document = check::parse(json)?;
        let script = check::script(&document)?;
        Ok(Self { document, script })
    }
}

/// What the server does itself with a request.
pub(crate) type Handle = Box<dyn FnOnce(Request<Body>) -> BoxFuture<'static, Response> + Send>;

impl Misbehaviour {
    /// Begins with faults, behind a proxy that has those of connections and frames.
    pub(crate) fn with(faults: Faults, door: Arc<oncebox_faults::Server>) -> Self {
        let plan = RwLock::new(Arc::new(Plan::new(faults.document)));
        Self { plan, door: Some(door), ..Self::default() }
    }

    /// The faults in force, as they were given, and how often each rule has fired.
    pub(crate) fn faults(&self) -> (Value, Vec<u64>) {
        let plan = self.plan();
        (json!(plan.document), plan.fired())
    }

    /// What really happened, as `GET /oncebox/effects` tells it.
    pub(crate) fn effects(&self) -> Value {
        json!(self.effects.report(None))
    }

    /// The last requests, oldest first.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.calls.last()
    }

    /// Whether a request of the server itself is for this interface.
    pub(crate) fn is_for(path: &str) -> bool {
        path.starts_with("/oncebox/")
    }

    /// The interface.
    pub(crate) async fn manage(&self, request: Request<Body>) -> Response {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/oncebox/faults") => {
                let (faults, fired) = self.faults();
                Json(json!({"faults": faults, "fired": fired})).into_response()
            }
            (&Method::PUT, "/oncebox/faults") => match read(request.into_body()).await {
                Ok(body) => match Faults::read(&body).and_then(|faults| self.set(faults)) {
                    Ok(()) => StatusCode::NO_CONTENT.into_response(),
                    Err(error) => Refusal::bad_request(format!("the fault document: {error}")).into_response(),
                },
                Err(refusal) => refusal.into_response(),
            },
            (&Method::DELETE, "/oncebox/faults") => {
                *self.plan.write() = Arc::default();
                if let Some(door) = &self.door {
                    // Without rules it is a good one.
                    let _ = door.set_script(oncebox_faults::Script::new());
                }
                StatusCode::NO_CONTENT.into_response()
            }
            (&Method::GET, "/oncebox/effects") => match test_id(request.uri().query()) {
                Ok(test) => Json(self.effects.report(test.as_deref())).into_response(),
                Err(refusal) => refusal.into_response(),
            },
            (&Method::DELETE, "/oncebox/effects") => match test_id(request.uri().query()) {
                Ok(test) => {
                    self.effects.clear(test.as_deref());
                    StatusCode::NO_CONTENT.into_response()
                }
                Err(refusal) => refusal.into_response(),
            },
            (method, path) => {
                let message = format!(
                    "there is no {method} {}: faults can be GET, PUT and DELETEd, effects GET and DELETEd",
                    path.escape_debug()
                );
                Refusal::new(StatusCode::NOT_FOUND, message).into_response()
            }
        }
    }

    /// Puts faults in force, in place of those before.
    fn set(&self, faults: Faults) -> Result<(), String> {
        match &self.door {
            Some(door) => door.set_script(faults.script).map_err(|error| format!("frames: {error}"))?,
            None if faults.document.frames.is_some() => {
                return Err(
                    "frames: nothing stands before this server that could misbehave so; start it with a fault \
                            document, which may be empty"
                        .to_owned(),
                );
            }
            None => {}
        }
        *self.plan.write() = Arc::new(Plan::new(faults.document));
        Ok(())
    }

    /// Answers a request through the faults in force. `sandbox` is the one it is for; none: it is for the control plane.
    ///
    /// # Errors
    /// When there is to be no answer: the connection ends.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        call: dispatch::Call,
        sandbox: Option<&str>,
        request: Request<Body>,
        handle: Handle,
    ) -> Result<Response, How> {
        let operation = call.operation;
        let named = sandbox.map(str::to_owned).or_else(|| sandbox_in(request.uri().path()));
        let running = self.calls.begin(call.id(), named, request.headers());
        let answered = self.answer_noted(operation, sandbox, request, handle, &running).await;
        running.end(match &answered {
            Ok(response) => End::Answered(response.status().as_u16()),
            Err(_) => End::Cut,
        });
        answered
    }

    async fn answer_noted(
        self: &Arc<Self>,
        operation: Option<&'static Operation>,
        sandbox: Option<&str>,
        request: Request<Body>,
        handle: Handle,
        running: &Running,
    ) -> Result<Response, How> {
        let plan = self.plan();
        let has_effect = operation.is_some_and(|operation| operation.repeat != Repeat::Safe);
        if plan.is_quiet() && !has_effect {
            return Ok(handle(request).await);
        }
        let decision = plan.decide(operation.map(|operation| operation.id.as_ref()), request.headers());
        if let Some(fault) = decision.name() {
            running.met(fault);
        }
        if !has_effect && !decision.latency.is_zero() {
            tokio::time::sleep(decision.latency).await;
        }
        let call = match Call::new(self, sandbox, operation, request, handle).await {
            Ok(call) => call,
            Err(refusal) => return Ok(refusal.into_response()),
        };
        if let Some(intent) = call.intent() {
            running.named(intent);
        }
        if !has_effect || decision.latency.is_zero() {
            return Self::carry_through(call, plan, decision).await;
        }
        // A client that goes away meanwhile takes nothing back.
        let later = tokio::spawn(async move {
            tokio::time::sleep(decision.latency).await;
            Self::carry_through(call, plan, decision).await
        });
        later.await.unwrap_or(Err(How::Close))
    }

    async fn carry_through(mut call: Call, plan: Arc<Plan>, decision: Decision) -> Result<Response, How> {
        if let Some(refused) = call.bend(&plan) {
            return Ok(refused);
        }
        let allowance = call.allowance(&plan);
        if let Some(allowance) = allowance.filter(|allowance| !allowance.granted) {
            return Ok(limited(allowance));
        }
        let response = match decision.fault {
            Some(Fault::Status(answer)) if answer.when == When::Before => made_up(&answer),
            Some(Fault::Status(answer)) => {
                call.carry_out().await;
                made_up(&answer)
            }
            Some(Fault::Cut(cut)) => {
                if cut.when == When::After {
                    call.carry_out().await;
                }
                return Err(cut.how);
            }
            Some(Fault::Late(late)) => {
                let later = late.seconds.draw(decision.chance);
                tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    call.carry_out().await;
                });
                match &late.answer {
                    Some(answer) => made_up(answer),
                    None => return Err(late.how),
                }
            }
            Some(Fault::CutAnswer(cut)) => {
                let cutter = call.request.extensions().get::<Cutter>().cloned().unwrap_or_default();
                bend::answer(call.listed(&plan).await, cut.after, Turn::Cut(cut.how, cutter))
            }
            Some(Fault::StallAnswer(stall)) => {
                let time = stall.seconds.draw(decision.chance);
                bend::answer(call.listed(&plan).await, stall.after, Turn::Stall(time))
            }
            Some(Fault::HalfWrite(half)) => {
                call.request = bend::upload(call.request, half);
                call.respond().await
            }
            Some(Fault::Latency(_)) | None => call.listed(&plan).await,
        };
        Ok(match allowance {
            Some(allowance) => with_limits(response, allowance),
            None => response,
        })
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read())
    }
}

/// `?test_id=…`
fn test_id(query: Option<&str>) -> Result<Option<String>, Refusal> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Query {
        test_id: Option<String>,
    }
    let uri = format!("/?{}", query.unwrap_or_default());
    let uri = uri.parse().map_err(|_| Refusal::bad_request("the query makes no sense"))?;
    let query = axum::extract::Query::<Query>::try_from_uri(&uri);
    query.map(|query| query.0.test_id).map_err(|error| Refusal::bad_request(error.body_text()))
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    let whole = tokio::time::timeout(BODY_LIMIT, Limited::new(body, MAX_BODY).collect()).await;
    match whole {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {MAX_BODY} bytes")))
        }
        Ok(Err(error)) => Err(Refusal::bad_request(format!("the body ended early: {error}"))),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, format!("no whole body within {BODY_LIMIT:?}"))),
    }
}
