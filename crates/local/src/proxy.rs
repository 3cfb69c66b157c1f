//! Passes requests for a sandbox on to the envd inside it, or to a program that listens on one of its ports.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::idle::{Held, Moving};
use crate::lifeline::ENVD_PORT;
use crate::refusal::Refusal;
use crate::registry::{Registry, Sandbox};

/// Longest silence of a request's body. Clients that stream input send something at least every 90 seconds.
const BODY_IDLE: Duration = Duration::from_secs(120);

/// Headers that are about one connection, and what the next connection says for itself.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
];

/// Headers that say which sandbox is meant: a program in it needs no telling, and must not see the way in again.
const ROUTING: [HeaderName; 2] =
    [HeaderName::from_static("e2b-sandbox-id"), HeaderName::from_static("e2b-sandbox-port")];

/// Answers a request for a port of a sandbox.
pub(crate) async fn answer(registry: &Arc<Registry>, id: &str, port: u16, request: Request<Body>) -> Response {
    let Some(sandbox) = registry.find(id) else { return not_found(id) };
    let answered = if port == ENVD_PORT {
        to_envd(&sandbox, request).await
    } else {
        // Without a network of its own the port may be this server's own: a host that names the sandbox would lead round in circles.
        let keep_host = registry.network_is_confined();
        to_program(&sandbox, port, keep_host, request).await
    };
    match answered {
        Ok(response) => response,
        Err(refusal) if registry.find(id).is_some() => refusal.into_response(),
        Err(_) => not_found(id),
    }
}

fn failed(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(StatusCode::BAD_GATEWAY, format!("the connection into the sandbox failed: {error}"))
}

async fn to_envd(sandbox: &Sandbox, request: Request<Body>) -> Result<Response, Refusal> {
    let connection = sandbox.open(ENVD_PORT).await.map_err(|error| failed(&error))?;
    let request = inward(request, HeaderValue::from_static("localhost"))?;
    let (_, response) = exchange(connection, request, None).await?;
    Ok(response)
}

async fn to_program(
    sandbox: &Sandbox,
    port: u16,
    keep_host: bool,
    mut request: Request<Body>,
) -> Result<Response, Refusal> {
    let opened = sandbox.open_program(port).await.map_err(|error| match error.kind() {
        io::ErrorKind::QuotaExceeded => Refusal::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        _ => failed(&error),
    })?;
    let Some((connection, permit)) = opened else { return Ok(closed_port(&sandbox.id, port)) };
    let cut = sandbox.cut();
    let protocol = upgrade(&request);
    let theirs = protocol.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let host = request.headers().get(header::HOST).filter(|_| keep_host).cloned();
    let host = host.or_else(|| HeaderValue::try_from(format!("localhost:{port}")).ok());
    let mut request = inward(request, host.unwrap_or(HeaderValue::from_static("localhost")))?;
    for name in ROUTING {
        request.headers_mut().remove(name);
    }
    if let Some(protocol) = protocol {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(header::UPGRADE, protocol);
    }
    let (ours, mut response) = exchange(connection, request, Some(permit)).await?;
    if let (Some(theirs), Some((ours, permit))) = (theirs, ours)
        && response.status() == StatusCode::SWITCHING_PROTOCOLS
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        tokio::spawn(async move {
            let _permit = permit;
            let relayed = async {
                // What ends one side ends the other; whoever is interested sees that.
                if let (Ok(theirs), Ok(ours)) = tokio::join!(theirs, ours) {
                    let (mut theirs, mut ours) = (TokioIo::new(theirs), TokioIo::new(ours));
                    let _ = tokio::io::copy_bidirectional(&mut theirs, &mut ours).await;
                }
            };
            tokio::select! {
                () = relayed => {}
                // The sandbox's side stands still.
                () = cut => {}
            }
        });
    }
    Ok(response)
}

/// The protocol that the client wishes to change to, which only HTTP/1.1 can.
fn upgrade(request: &Request<Body>) -> Option<HeaderValue> {
    let asks = connection_options(request.headers()).any(|option| option.eq_ignore_ascii_case("upgrade"));
    request.headers().get(header::UPGRADE).filter(|_| asks && request.version() == Version::HTTP_11).cloned()
}

/// What becomes of a program's connection that changes its protocol.
type Upgraded = Option<(OnUpgrade, OwnedSemaphorePermit)>;

/// Sends the request and returns the answer. A permit is held as long as the answer's body.
async fn exchange(
    connection: UnixStream,
    request: Request<Moving<Body>>,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<(Upgraded, Response), Refusal> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(|error| failed(&error))?;
    // Ends with the response's body, or when that is dropped.
    tokio::spawn(connection.with_upgrades());
    let mut response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let upgraded = if switching { Some(hyper::upgrade::on(&mut response)) } else { None };
    let (mut parts, body) = response.into_parts();
    let protocol = parts.headers.get(header::UPGRADE).filter(|_| switching).cloned();
    strip(&mut parts.headers);
    if let Some(protocol) = protocol {
        parts.headers.insert(header::UPGRADE, protocol);
    }
    parts.version = Version::default();
    match (upgraded, permit) {
        (Some(upgraded), Some(permit)) => Ok((Some((upgraded, permit)), Response::from_parts(parts, Body::empty()))),
        (_, Some(permit)) => Ok((None, Response::from_parts(parts, Body::new(Held::new(body, permit))))),
        (_, None) => Ok((None, Response::from_parts(parts, Body::new(body)))),
    }
}

/// The request as the sandbox gets it.
fn inward(request: Request<Body>, host: HeaderValue) -> Result<Request<Moving<Body>>, Refusal> {
    let (mut parts, body) = request.into_parts();
    strip(&mut parts.headers);
    // The body knows how long it is, or that nobody does.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::HOST, host);
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path
        .map_or(Ok(Uri::from_static("/")), |path| Uri::builder().path_and_query(path).build())
        .map_err(|error| Refusal::bad_request(error.to_string()))?;
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    Ok(Request::from_parts(parts, Moving::new(body, BODY_IDLE)))
}

/// Removes what is about one connection, and what `Connection` says is.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_options(headers).filter_map(|name| name.parse().ok()).collect();
    for name in OF_THE_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The words that clients look for.
fn not_found(id: &str) -> Response {
    let body = serde_json::json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
    (StatusCode::BAD_GATEWAY, axum::Json(body)).into_response()
}

fn closed_port(id: &str, port: u16) -> Response {
    let message = "The sandbox is running but port is not open";
    let body = serde_json::json!({ "sandboxId": id, "message": message, "port": port, "code": 502 });
    (StatusCode::BAD_GATEWAY, axum::Json(body)).into_response()
}
