//! One request on its way to a server and back.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use oncebox::{Body, BoxError};
use oncebox_protocol::{Operation, Table, operations};
use oncebox_transport::{CallOptions, TrafficClass};
use std::time::Duration;

use crate::answer::{AnswerBody, Refusal, finish, whole};
use crate::body;
use crate::front::Front;
use crate::gate::{ENVD_PORT, Target};
use crate::headers::{for_sdk, for_server};
use crate::hide;
use crate::status::Watch;
use crate::tunnel::Wish;

/// The code interpreter's port (protocol fact).
const INTERPRETER_PORT: u16 = 49999;

/// Where a request goes.
struct Route {
    url: String,
    /// What leads there.
    headers: HeaderMap,
    operation: Option<&'static Operation>,
    plane: Plane,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plane {
    Api,
    Volumes,
    /// A daemon of the protocol in a sandbox.
    Daemon,
    /// A program of the user's own, whose answers are its own matter.
    Program,
}

/// Carries a request, and the answer back.
pub(crate) async fn carry(
    front: &Front,
    target: Target,
    mut parts: Parts,
    incoming: Incoming,
    watch: Watch,
) -> Response<AnswerBody> {
    let route = match route(front, &target, &parts) {
        Ok(route) => route,
        Err(refusal) => return refuse(refusal, watch, Some(incoming)).await,
    };
    let eager = route.operation.is_some_and(|operation| is_sent_at_once(front, route.plane, operation));
    let body = match body::take(incoming, front.forward.transport().replay_buffer_limit(), eager).await {
        Ok(body) => body,
        Err(refusal) => return refuse(refusal, watch, None).await,
    };
    let is_read = route.plane == Plane::Api && route.operation.is_some();
    let wish = Wish::of(&mut parts).filter(|_| route.plane == Plane::Program);
    for_server(&mut parts.headers, is_read);
    if let Some(wish) = &wish {
        wish.tell(&mut parts.headers);
    }
    send(front, route, parts, body, watch, wish).await
}

/// Carries a request of the control plane whose body is at hand.
pub(crate) async fn carry_to_api(front: &Front, mut parts: Parts, body: Bytes, watch: Watch) -> Response<AnswerBody> {
    match route(front, &Target::Api, &parts) {
        Ok(route) => {
            for_server(&mut parts.headers, true);
            send(front, route, parts, Body::from(body), watch, None).await
        }
        Err(refusal) => refuse(refusal, watch, None).await,
    }
}

/// Answers with a refusal.
pub(crate) async fn refuse(refusal: Refusal, watch: Watch, rest: Option<Incoming>) -> Response<AnswerBody> {
    if let Some(rest) = rest {
        body::drain(rest).await;
    }
    watch.answered(refusal.status, refusal.attempts);
    refusal.into_response()
}

fn route(front: &Front, target: &Target, parts: &Parts) -> Result<Route, Refusal> {
    let (method, path) = (&parts.method, parts.uri.path());
    let whole = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = HeaderMap::new();
    Ok(match target {
        Target::Volumes => {
            let operation = Table::volume_content().find(method, path);
            Route { url: front.forward.volumes(whole), headers, operation, plane: Plane::Volumes }
        }
        Target::Sandbox { id, port } => {
            let domain = front.domains.of(id);
            let found = front.forward.sandbox(id, *port, domain.as_deref(), whole);
            let (url, headers) = found.map_err(|error| Refusal::bad_request(error.to_string()))?;
            let (table, plane) = match *port {
                ENVD_PORT => (Some(Table::envd()), Plane::Daemon),
                INTERPRETER_PORT => (Some(Table::code_interpreter()), Plane::Daemon),
                _ => (None, Plane::Program),
            };
            Route { url, headers, operation: table.and_then(|table| table.find(method, path)), plane }
        }
        Target::SignedFiles => {
            let url = front.forward.signed_files(whole).ok_or_else(|| {
                Refusal::bad_request(
                    "these signed files name no sandbox: name it in E2b-Sandbox-Id, or use the host \
                     49983-<sandbox>.localhost",
                )
            })?;
            Route { url, headers, operation: Table::envd().find(method, path), plane: Plane::Daemon }
        }
        _ => {
            let (url, host) = front.forward.api(whole);
            if let Some(host) = host {
                headers.insert(HOST, host);
            }
            Route { url, headers, operation: Table::control_plane().find(method, path), plane: Plane::Api }
        }
    })
}

async fn send(
    front: &Front,
    route: Route,
    parts: Parts,
    body: Body,
    watch: Watch,
    wish: Option<Wish>,
) -> Response<AnswerBody> {
    let is_asked_for = hide::is_asked_for(parts.uri.query());
    let request = Request::builder().method(parts.method.clone()).uri(&route.url).body(body);
    let mut request = match request {
        Ok(request) => request,
        Err(error) => return refuse(Refusal::bad_request(format!("{}: {error}", route.url)), watch, None).await,
    };
    *request.headers_mut() = parts.headers;
    request.headers_mut().extend(route.headers);
    let mut options = options(front, route.plane, route.operation);
    if wish.is_some() {
        // Whatever its method: what a program begins when it is asked to change the protocol, nobody knows.
        options = options.upgrades(true).retries(0);
    }
    let transport = front.forward.transport();
    let failed = |error: oncebox_transport::Error| Refusal::failed(&error, route.plane != Plane::Api);

    if route.plane == Plane::Api && route.operation.is_some() {
        let response = match transport.send_collected(request, options).await {
            Ok(response) => response,
            Err(error) => return refuse(failed(error), watch, None).await,
        };
        let attempts = response.history().attempts().len();
        let (head, bytes) = response.into_http().into_parts();
        let answer = collected(front, head.status, head.headers, bytes, attempts, !is_asked_for);
        watch.answered(answer.status(), attempts);
        return answer;
    }
    let response = match transport.send(request, options).await {
        Ok(response) => response,
        Err(error) => return refuse(failed(error), watch, None).await,
    };
    let (mut head, body, history) = response.into_parts();
    let attempts = history.attempts().len();
    let protocol = head.headers.get(UPGRADE).cloned();
    for_sdk(&mut head.headers, false);
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        let Some((wish, server)) = wish.zip(head.extensions.remove::<OnUpgrade>()) else {
            let message = "the server changed the protocol, which nobody asked for";
            let refusal = Refusal { attempts, ..Refusal::new(StatusCode::BAD_GATEWAY, message) };
            return refuse(refusal, watch, None).await;
        };
        wish.granted(server, protocol, &mut head.headers, front.tally.tunnel());
    }
    if route.plane != Plane::Program {
        finish(head.status, &mut head.headers, attempts);
    }
    watch.answered(head.status, attempts);
    let mut answer = Response::new(body.map_err(BoxError::from).boxed_unsync());
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    answer
}

/// An answer that came whole.
pub(crate) fn collected(
    front: &Front,
    status: StatusCode,
    mut headers: HeaderMap,
    body: Bytes,
    attempts: usize,
    hides: bool,
) -> Response<AnswerBody> {
    let is_json = headers.get(CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json && status.is_success() {
        front.domains.learn(&body);
    }
    let body = match hides.then(|| hide::without_labels(&body)).flatten().filter(|_| is_json) {
        Some(hidden) => hidden,
        None => body,
    };
    // What a HEAD is answered says how long a GET's body is.
    for_sdk(&mut headers, !body.is_empty());
    finish(status, &mut headers, attempts);
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// Whether a body comes to its end without waiting for an answer, and is worth waiting for. A stream to a sandbox may wait for
/// an answer before it goes on; of the protocol's own operations there only one is such a stream.
fn is_sent_at_once(front: &Front, plane: Plane, operation: &Operation) -> bool {
    match plane {
        Plane::Api => true,
        Plane::Daemon => front.sandbox_retries > 0 && operation.id != operations::PROCESS_STREAM_INPUT.id,
        _ => false,
    }
}

/// Whether a request is a create, and in which version.
pub(crate) fn is_create(method: &Method, path: &str) -> Option<bool> {
    let operation = Table::control_plane().find(method, path)?;
    if operation.id == operations::CREATE_SANDBOX.id {
        Some(false)
    } else {
        (operation.id == operations::CREATE_SANDBOX_V1.id).then_some(true)
    }
}

fn options(front: &Front, plane: Plane, operation: Option<&Operation>) -> CallOptions {
    let mut options = CallOptions::new();
    if let Some(operation) = operation {
        options = options.mints(operation.mints);
        if let Some(permit) = operation.permit() {
            options = options.permit(permit);
        }
    }
    if plane == Plane::Api {
        return options;
    }
    // How long an answer may take, and a stream be silent, is for whoever asked: it hangs up.
    options = options.retries(front.sandbox_retries).request_timeout(Duration::ZERO);
    options = options.read_idle_timeout(Duration::ZERO).write_idle_timeout(Duration::ZERO);
    if plane == Plane::Daemon {
        options = front.forward.reading_answers(options);
    }
    let is_bulk = operation.is_none_or(|operation| {
        operation.id == operations::READ_FILE.id
            || operation.id == operations::WRITE_FILES.id
            || plane == Plane::Volumes
    });
    if is_bulk { options.class(TrafficClass::Bulk) } else { options }
}
