//! Passes requests for a sandbox on to the envd inside it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;

use crate::idle::Moving;
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

/// Answers a request for a port of a sandbox.
pub(crate) async fn answer(registry: &Arc<Registry>, id: &str, port: u16, request: Request<Body>) -> Response {
    let Some(sandbox) = registry.find(id) else { return not_found(id) };
    if port != ENVD_PORT {
        return closed_port(id, port);
    }
    match pass_on(&sandbox, port, request).await {
        Ok(response) => response,
        Err(refusal) if registry.find(id).is_some() => refusal.into_response(),
        Err(_) => not_found(id),
    }
}

async fn pass_on(sandbox: &Sandbox, port: u16, request: Request<Body>) -> Result<Response, Refusal> {
    let failed = |error: &dyn std::fmt::Display| {
        Refusal::new(StatusCode::BAD_GATEWAY, format!("the connection into the sandbox failed: {error}"))
    };
    let connection = sandbox.open(port).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(|error| failed(&error))?;
    // Ends with the response's body, or when that is dropped.
    tokio::spawn(connection);
    let response = sender.send_request(inward(request)?).await.map_err(|error| failed(&error))?;
    let (mut parts, body) = response.into_parts();
    strip(&mut parts.headers);
    parts.version = Version::default();
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// The request as envd gets it.
fn inward(request: Request<Body>) -> Result<Request<Moving<Body>>, Refusal> {
    let (mut parts, body) = request.into_parts();
    strip(&mut parts.headers);
    // The body knows how long it is, or that nobody does.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
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
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_THE_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
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
