//! The control plane: sandboxes are made, found, kept alive and ended here.

mod body;
mod create;
mod listing;
mod metadata;
mod sandboxes;
mod templates;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;

use crate::refusal::Refusal;
use crate::registry::Registry;

/// The version of envd that this server's comes closest to. Clients decide by it what they may ask for.
const ENVD_VERSION: &str = "0.6.13";

/// What the handlers work on.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) registry: Arc<Registry>,
    pub(crate) addr: SocketAddr,
}

impl Control {
    /// Below which name the sandboxes are found.
    fn domain(&self) -> String {
        format!("localhost:{}", self.addr.port())
    }
}

/// The control plane's routes.
pub(crate) fn routes(control: Control) -> Router {
    let keyed = Router::new()
        .route("/v2/sandboxes", get(listing::list).post(create::create))
        .route("/v2/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/sandboxes", get(listing::list_v1).post(create::create_v1))
        .route("/sandboxes/{id}", get(sandboxes::info).delete(sandboxes::kill))
        .route("/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/sandboxes/{id}/timeout", post(sandboxes::set_timeout))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(check_key))
        .with_state(control);
    Router::new().route("/health", get(|| async { StatusCode::NO_CONTENT })).fallback_service(keyed)
}

/// Any key will do: whoever reaches this port is this machine's user. A missing one is refused, so that a program that
/// forgets its key fails here as it would elsewhere.
async fn check_key(request: Request, next: Next) -> Response {
    if request.headers().get("x-api-key").is_some_and(|key| !key.is_empty()) {
        return next.run(request).await;
    }
    Refusal::new(StatusCode::UNAUTHORIZED, "X-API-KEY is missing; the local server takes any value").into_response()
}

async fn no_such_route(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::NOT_FOUND, format!("the local server has no {method} {}", path.escape_debug()))
}

async fn no_such_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not for {method}", path.escape_debug()))
}
