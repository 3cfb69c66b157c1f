//! Who may speak to this sandbox: whoever has its access token, or a URL signed with it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Query, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::answer::Refusal;
use crate::signature::{FilesQuery, Operation, same};

/// Lets a request through if it may pass.
pub(super) async fn check(token: Arc<str>, request: Request, next: Next) -> Response {
    match allowed(&token, &request) {
        Ok(()) => next.run(request).await,
        Err(why) => Refusal::new(StatusCode::UNAUTHORIZED, why).into_response(),
    }
}

fn allowed(token: &str, request: &Request) -> Result<(), &'static str> {
    if request.uri().path() == "/health" {
        return Ok(());
    }
    // A wrong header is refused even beside a right signature, as envd does.
    if let Some(header) = request.headers().get("x-access-token") {
        return if same(header.as_bytes(), token.as_bytes()) {
            Ok(())
        } else {
            Err("X-Access-Token is not this sandbox's")
        };
    }
    let missing = Err("X-Access-Token is missing");
    if request.uri().path() != "/files" {
        return missing;
    }
    let Some(operation) = Operation::of(request.method()) else { return missing };
    let Ok(Query(query)) = Query::<FilesQuery>::try_from_uri(request.uri()) else { return missing };
    if query.signature.is_none() {
        return Err("neither X-Access-Token nor a signature is present");
    }
    if !query.signed_with(token, operation) {
        return Err("the signature is not valid for this path, operation and user");
    }
    if query.expired(now()) {
        return Err("the signature has expired");
    }
    Ok(())
}

fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}
