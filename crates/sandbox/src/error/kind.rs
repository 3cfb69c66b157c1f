//! The kinds of failures, and which one an answer is.

use connectrpc::ErrorCode;
use oncebox_protocol::ErrorBody;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or option is wrong; nothing was sent. Or the server says so (400).
    InvalidArgument,
    /// The API key or access token is missing or refused (401, 403).
    Authentication,
    /// There is no such sandbox, file, process or template (404). Where the server does not know the operation at all, it is
    /// [`Unsupported`](Self::Unsupported).
    NotFound,
    /// Something is in the way: it exists already, or changes at this moment (409).
    Conflict,
    /// Too many requests (429), after all retries.
    RateLimited,
    /// The service is busy (503), after all retries.
    Busy,
    /// The sandbox's disk is full (507).
    NotEnoughSpace,
    /// The sandbox has ended.
    SandboxNotRunning,
    /// The sandbox runs, or may run, and what was asked for does not answer.
    SandboxUnreachable,
    /// A deadline passed.
    Timeout,
    /// The request provably did nothing: it could not be sent, or was refused.
    NotDone,
    /// The request was sent, and nobody knows what it did.
    OutcomeUnknown,
    /// The connection was lost while a response was read. What it told of may go on.
    ConnectionLost,
    /// A command's output has a gap: its stream was cut, and what it wrote until it was attached to again is lost. How it
    /// ended is known: [`Error::output`](crate::Error::output).
    OutputLost,
    /// A command is gone, and nobody knows how it ended.
    CommandLost,
    /// A durable command wrote more than its spool holds, and was killed for it, as it was asked to be.
    SpoolFull,
    /// A transfer was cut, and what is left of it could not be had: the file changed meanwhile, or the server says nothing by
    /// which it could be told that it did not.
    CannotResume,
    /// A program in the sandbox, such as git, ended with another exit code than 0. What it did until then is done.
    CommandFailed,
    /// The server of a git repository wants other credentials.
    GitAuthentication,
    /// A git branch has no upstream, and nobody said where to push to or pull from.
    GitUpstream,
    /// The idempotency key or the intent stands for another request.
    IntentMismatch,
    /// The sandbox was made twice, and the other one of its intent stays.
    Superseded,
    /// A template's build failed.
    BuildFailed,
    /// The server does not offer this.
    Unsupported,
    /// The server answered with another status, or with something that makes no sense.
    Server,
}

pub(super) fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        400 => ErrorKind::InvalidArgument,
        401 | 403 => ErrorKind::Authentication,
        404 => ErrorKind::NotFound,
        405 | 501 => ErrorKind::Unsupported,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::RateLimited,
        503 => ErrorKind::Busy,
        507 => ErrorKind::NotEnoughSpace,
        _ => ErrorKind::Server,
    }
}

/// What servers' routers write where no route fits, in lower case: Go's `net/http` and gin, chi, oapi-codegen's check,
/// express, fastify, flask and starlette, nginx.
const NO_ROUTE: [&str; 8] = [
    "404 page not found",
    "no matching operation was found",
    "no matching route",
    "the requested url was not found on the server",
    "<pre>cannot get /",
    "<pre>cannot post /",
    "route get:/",
    "route post:/",
];

/// Whether a 404 is about the route rather than about the thing. A server of the protocol says of a thing that it is
/// missing in a JSON object with a number for a `code`, or a word for envd's RPCs; what says so otherwise counts only if a
/// router is known to say it so.
pub(super) fn is_missing_route(status: u16, body: &[u8], parsed: &ErrorBody) -> bool {
    if status != 404 || parsed.error_code.is_some() {
        return false;
    }
    let text = match &parsed.message {
        Some(message) => message.to_ascii_lowercase(),
        // `{"detail": "Not Found"}`, `{"error": "…"}`: an object without the protocol's message.
        None => {
            let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            let word = ["detail", "error"].iter().find_map(|name| value.get(name)?.as_str());
            word.unwrap_or_default().to_ascii_lowercase()
        }
    };
    let bare = parsed.code.is_none() && text == "not found";
    bare || NO_ROUTE.iter().any(|known| text.contains(known)) || text.contains("<title>404 not found</title>")
}

pub(super) fn kind_of_code(code: ErrorCode) -> ErrorKind {
    match code {
        ErrorCode::InvalidArgument | ErrorCode::FailedPrecondition | ErrorCode::OutOfRange => {
            ErrorKind::InvalidArgument
        }
        ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => ErrorKind::Authentication,
        ErrorCode::NotFound => ErrorKind::NotFound,
        ErrorCode::AlreadyExists | ErrorCode::Aborted => ErrorKind::Conflict,
        ErrorCode::ResourceExhausted => ErrorKind::RateLimited,
        // Somebody on the way gave the call up: no time was over.
        ErrorCode::Canceled => ErrorKind::ConnectionLost,
        ErrorCode::DeadlineExceeded => ErrorKind::Timeout,
        ErrorCode::Unavailable => ErrorKind::SandboxUnreachable,
        ErrorCode::Unimplemented => ErrorKind::Unsupported,
        _ => ErrorKind::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_route_is_told_from_a_missing_thing() {
        let is_route = |body: &str| is_missing_route(404, body.as_bytes(), &ErrorBody::parse(body.as_bytes()));
        for route in [
            "404 page not found",
            r#"{"code": 404, "message": "no matching operation was found"}"#,
            r#"{"error": "no matching operation was found"}"#,
            r#"{"detail": "Not Found"}"#,
            r#"{"message": "Route POST:/v2/sandboxes/i1/fork not found", "error": "Not Found", "statusCode": 404}"#,
            "<!DOCTYPE html><html><body><pre>Cannot POST /v2/sandboxes</pre></body></html>",
            "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body></body></html>",
        ] {
            assert!(is_route(route), "{route}");
        }
        for thing in [
            r#"{"code": 404, "message": "Sandbox \"i1\" doesn't exist or you don't have access to it"}"#,
            r#"{"code": 404, "message": "not found"}"#,
            r#"{"code": "not_found", "message": "path '/route get' does not exist"}"#,
            r#"{"message": "path 'x' does not exist"}"#,
            "no such sandbox",
            "",
            "{}",
        ] {
            assert!(!is_route(thing), "{thing}");
        }
        assert!(!is_missing_route(500, b"404 page not found", &ErrorBody::parse(b"404 page not found")));
    }
}
