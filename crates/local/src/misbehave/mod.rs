//! The server misbehaves on demand, and counts what really happened.
//!
//! `PUT /oncebox/faults` takes a document that says which requests meet which fault, `GET` gives it back with how often
//! each rule has fired, `DELETE` ends it. `GET /oncebox/effects` tells every effect that really happened, `DELETE` begins
//! the count anew. Everything goes through one place, [`Misbehaviour::answer`], around whatever the server does itself.

mod bend;
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
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::headers::{IDEMPOTENCY_KEY, ONCEBOX_TEST_ID};
use oncebox_protocol::{ErrorBody, Operation, Plane, Repeat};
use parking_lot::RwLock;
use serde_json::{Value, json};

pub(crate) use bend::Cutter;
use bend::Turn;
pub(crate) use calls::{Attempt, End, joined};
use calls::{Calls, Running};
pub(crate) use document::How;
use document::{Answer, Document, Fault, Filter, GROUPS, Keys, When};
use effects::{Effects, What};
use plan::{Allowance, Decision, Plan};

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
        if let Some(intent) = call.what.as_ref().and_then(|what| what.intent.as_deref()) {
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

/// A request on its way into the server.
struct Call {
    misbehaviour: Arc<Misbehaviour>,
    what: Option<What>,
    mints_sandbox: bool,
    is_sandboxes: bool,
    operation: Option<String>,
    request: Request<Body>,
    handle: Handle,
}

impl Call {
    async fn new(
        misbehaviour: &Arc<Misbehaviour>,
        sandbox: Option<&str>,
        operation: Option<&Operation>,
        request: Request<Body>,
        handle: Handle,
    ) -> Result<Self, Refusal> {
        let id = operation.map(|operation| operation.id.clone().into_owned());
        let is_create = id.as_deref().is_some_and(|id| is_of("create", id));
        let mut what = operation.filter(|operation| operation.repeat != Repeat::Safe).map(|operation| What {
            operation: operation.id.clone().into_owned(),
            key: request.headers().get(IDEMPOTENCY_KEY).and_then(|key| Some(key.to_str().ok()?.to_owned())),
            intent: None,
            test: request.headers().get(ONCEBOX_TEST_ID).and_then(|test| Some(test.to_str().ok()?.to_owned())),
            sandbox: sandbox.map(str::to_owned).or_else(|| sandbox_in(request.uri().path())),
        });
        let is_sandboxes = sandbox.is_none();
        let mut request = request;
        let is_control = operation.is_some_and(|operation| operation.plane == Plane::ControlPlane);
        if is_sandboxes && is_control && what.is_some() {
            // What a client sent before it went away has arrived. Files are streams, and larger than what is looked into.
            let (head, body) = request.into_parts();
            let body = read(body).await?;
            if let (true, Some(what)) = (is_create, &mut what) {
                what.intent = intent_in(&body);
            }
            request = Request::from_parts(head, Body::from(body));
        }
        let misbehaviour = Arc::clone(misbehaviour);
        Ok(Self { misbehaviour, what, mints_sandbox: is_create, is_sandboxes, operation: id, request, handle })
    }

    fn is_list(&self) -> bool {
        self.operation.as_deref().is_some_and(|id| is_of("list", id))
    }

    /// Applies what is amiss with the server as a whole. The answer, if that is one.
    fn bend(&mut self, plan: &Plan) -> Option<Response> {
        let document = &plan.document;
        let path = self.request.uri().path();
        if self.is_sandboxes
            && let Some(status) = document.v2_missing
            && path.starts_with("/v2/sandboxes")
        {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
            let words = if status == StatusCode::NOT_FOUND { "no such route" } else { "method not allowed" };
            return Some(Refusal::new(status, words).into_response());
        }
        if document.keys == Keys::Ignored {
            self.request.headers_mut().remove(IDEMPOTENCY_KEY);
        }
        if document.filter == Filter::Ignored && self.is_list() {
            lists::drop_filter(&mut self.request);
        }
        None
    }

    fn allowance(&self, plan: &Plan) -> Option<Allowance> {
        if self.mints_sandbox { plan.take_create() } else { None }
    }

    /// Has it done, and throws the answer away once it is known whether it was.
    async fn carry_out(self) {
        let response = self.respond().await;
        // A stream's first message tells whether it began.
        let mut body = response.into_body();
        let _ = body.frame().await;
    }

    /// Has it done; of a list that is amiss, what is left.
    async fn listed(self, plan: &Plan) -> Response {
        let is_list = self.is_list();
        let response = self.respond().await;
        if is_list { lists::bend(response, &plan.document).await } else { response }
    }

    /// Has it done, whatever becomes of the client.
    async fn respond(self) -> Response {
        let Self { misbehaviour, what, mints_sandbox, is_sandboxes, request, handle, .. } = self;
        let Some(what) = what else { return handle(request).await };
        let watched = async move { watch::effect(handle(request).await, what, mints_sandbox, &misbehaviour).await };
        if !is_sandboxes {
            return watched.await;
        }
        match tokio::spawn(watched).await {
            Ok(response) => response,
            Err(error) => Refusal::internal(error).into_response(),
        }
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

fn is_of(group: &str, operation: &str) -> bool {
    GROUPS.iter().any(|(name, members)| *name == group && members.contains(&operation))
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

fn intent_in(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    Some(body.get("metadata")?.get("oncebox.intent")?.as_str()?.to_owned())
}

/// The sandbox that a control-plane path names.
fn sandbox_in(path: &str) -> Option<String> {
    let mut segments = path.split('/').skip_while(|segment| *segment != "sandboxes").skip(1);
    segments.next().filter(|id| !id.is_empty()).map(str::to_owned)
}

fn made_up(answer: &Answer) -> Response {
    let mut response = match &answer.body {
        None => {
            let words = answer.status().canonical_reason().unwrap_or("made up");
            Json(ErrorBody::new(answer.code, words)).into_response()
        }
        Some(Value::String(text)) => text.clone().into_response(),
        Some(value) => Json(value).into_response(),
    };
    *response.status_mut() = answer.status();
    response.headers_mut().extend(answer.header_map());
    response
}

fn limited(allowance: Allowance) -> Response {
    let mut response = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "Rate limit exceeded").into_response();
    response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(allowance.reset));
    with_limits(response, allowance)
}

/// Says what is left in both forms: the protocol's three fields, and the two of the RateLimit draft.
fn with_limits(mut response: Response, allowance: Allowance) -> Response {
    let Allowance { limit, window, remaining, reset, .. } = allowance;
    let headers = response.headers_mut();
    headers.insert("ratelimit-limit", HeaderValue::from(limit));
    headers.insert("ratelimit-remaining", HeaderValue::from(remaining));
    headers.insert("ratelimit-reset", HeaderValue::from(reset));
    for (name, value) in [
        ("ratelimit-policy", format!("\"create\";q={limit};w={window}")),
        ("ratelimit", format!("\"create\";r={remaining};t={reset}")),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}
