//! Requests to the interpreter's port.

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::headers::{E2B_TRAFFIC_ACCESS_TOKEN, X_ACCESS_TOKEN};
use oncebox_protocol::{Operation, SecretString};
use oncebox_transport::{Body, CallOptions, ResponseBody};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::AGENT;
use crate::error::{Error, ErrorKind};
use crate::rpc::{sandbox_options, secret, successful};
use crate::sandbox::{Sandbox, check_fate};

/// The code interpreter's port (protocol fact).
const INTERPRETER_PORT: u16 = 49999;

/// The longest answer other than of code that is read.
const MAX_ANSWER: usize = 16 << 20;

/// A port of a sandbox.
pub(super) struct Port {
    sandbox: Sandbox,
    base: String,
    headers: HeaderMap,
}

impl Port {
    pub(super) fn interpreter(sandbox: &Sandbox) -> Result<Self, Error> {
        let (base, routing) = sandbox.at_port(INTERPRETER_PORT)?;
        let mut headers = sandbox.client().headers();
        headers.extend(routing);
        headers.insert(USER_AGENT, AGENT.clone());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut add = |name, token: Option<&SecretString>, what| -> Result<(), Error> {
            if let Some(token) = token {
                headers.insert(name, secret(token.expose(), what)?);
            }
            Ok(())
        };
        add(X_ACCESS_TOKEN, sandbox.token(), "the sandbox's access token")?;
        add(E2B_TRAFFIC_ACCESS_TOKEN, sandbox.traffic_token(), "the sandbox's traffic token")?;
        Ok(Self { sandbox: sandbox.clone(), base, headers })
    }

    /// What the sandbox's options make of an operation's.
    pub(super) fn options(&self, operation: &Operation) -> CallOptions {
        self.sandbox.client().own().apply(sandbox_options(operation))
    }

    /// Makes a request; an answer that is no success is an error.
    pub(super) async fn send(
        &self,
        operation: &'static Operation,
        action: &'static str,
        parameters: &[&str],
        body: Option<Vec<u8>>,
        options: CallOptions,
    ) -> Result<Response<ResponseBody>, Error> {
        check_fate(self.sandbox.fate(), action)?;
        let wrong = |error: &dyn std::fmt::Display| Error::invalid(format!("{action}: {error}"));
        let path = operation.path_for(parameters).map_err(|e| wrong(&e))?;
        let mut request = Request::builder()
            .method(operation.method.clone())
            .uri(format!("{}{path}", self.base))
            .body(Body::empty())
            .map_err(|e| wrong(&e))?;
        *request.headers_mut() = self.headers.clone();
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Body::from(body);
        }
        let response = self.sandbox.client().transport().send(request, options).await;
        let response = response.map_err(|error| Error::transport(action, error))?;
        successful(action, response.into_http(), Error::answer).await
    }

    /// Makes a request and reads its answer's JSON.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        operation: &'static Operation,
        action: &'static str,
        body: Option<Vec<u8>>,
    ) -> Result<T, Error> {
        let response = self.send(operation, action, &[], body, self.options(operation)).await?;
        // An answer that is cut says that it was done, and not what.
        let cut = if operation.mints { ErrorKind::OutcomeUnknown } else { ErrorKind::ConnectionLost };
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| Error::new(cut, action, error.to_string()))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| Error::malformed(action, error))
    }
}

pub(super) fn json(action: &str, body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| Error::invalid(format!("{action}: {error}")))
}
