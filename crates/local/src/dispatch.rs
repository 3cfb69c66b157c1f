//! What a request is, by the protocol's name for it, known before anything handles it.
//!
//! The front finds the operation once and hands it on with the request. Whatever wants to act on operations by name (to
//! refuse one, to delay its answer, to count its effects) does so in [`around`], which every request passes.

use axum::body::Body;
use axum::response::Response;
use http::{Method, Request};
use oncebox_protocol::{Operation, Table};

use crate::gate::Target;
use crate::lifeline::ENVD_PORT;

/// A request's operation. It is also an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Nothing where the protocol lists no such operation.
    pub(crate) operation: Option<&'static Operation>,
}

impl Call {
    /// What a request with this method and path, for this target, is.
    pub(crate) fn of(target: &Target, method: &Method, path: &str) -> Self {
        let table = match target {
            Target::Sandbox { port: ENVD_PORT, .. } => Table::envd(),
            Target::Sandbox { port: INTERPRETER_PORT, .. } => Table::code_interpreter(),
            // A program's own port: nobody knows what it serves.
            Target::Sandbox { .. } => return Self { operation: None },
            Target::Server if path == "/files" => Table::envd(),
            Target::Server if path.starts_with("/volumecontent/") => Table::volume_content(),
            Target::Server => Table::control_plane(),
        };
        Self { operation: table.find(method, path) }
    }

    /// The operation's id, such as `createSandbox`.
    pub(crate) fn id(&self) -> &'static str {
        self.operation.map_or("unlisted", |operation| operation.id.as_ref())
    }
}

/// The code interpreter's port.
const INTERPRETER_PORT: u16 = 49999;

/// Handles a request, with whatever is to happen before and after it.
pub(crate) async fn around<F: Future<Output = Response>>(
    call: Call,
    mut request: Request<Body>,
    handle: impl FnOnce(Request<Body>) -> F,
) -> Response {
    tracing::trace!(operation = call.id(), "a request");
    request.extensions_mut().insert(call);
    handle(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_target_method_and_path() {
        let id = |target: &Target, method: Method, path: &str| Call::of(target, &method, path).id();
        let sandbox = |port| Target::Sandbox { id: "i1".to_owned(), port };
        assert_eq!(id(&Target::Server, Method::POST, "/v2/sandboxes"), "createSandbox");
        assert_eq!(id(&Target::Server, Method::GET, "/volumecontent/v/dir"), "listVolumeDir");
        assert_eq!(id(&Target::Server, Method::GET, "/files"), "readFile");
        assert_eq!(id(&sandbox(ENVD_PORT), Method::POST, "/process.Process/Start"), "processStart");
        assert_eq!(id(&sandbox(INTERPRETER_PORT), Method::POST, "/execute"), "executeCode");
        assert_eq!(id(&sandbox(3000), Method::POST, "/v2/sandboxes"), "unlisted");
        assert_eq!(id(&Target::Server, Method::POST, "/nowhere"), "unlisted");
    }
}
