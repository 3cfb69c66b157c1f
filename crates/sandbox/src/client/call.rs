//! Control-plane calls: what a request carries, and what its answer means.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use oncebox_protocol::Operation;
use oncebox_protocol::headers::X_API_KEY;
use oncebox_transport::{Body, History};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Client;
use crate::config::api_key;
use crate::error::{Error, ErrorKind};
use crate::once::lock;

pub(crate) static AGENT: HeaderValue = HeaderValue::from_static(concat!("oncebox-rust/", env!("CARGO_PKG_VERSION")));

/// One control-plane call.
#[derive(Clone)]
pub(crate) struct ApiCall<'a> {
    pub(crate) operation: &'static Operation,
    pub(crate) action: &'a str,
    pub(crate) parameters: Vec<&'a str>,
    /// With its question mark.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) request_timeout: Option<Duration>,
}

impl<'a> ApiCall<'a> {
    pub(crate) fn new<const N: usize>(
        operation: &'static Operation,
        action: &'a str,
        parameters: [&'a str; N],
    ) -> Self {
        Self {
            operation,
            action,
            parameters: parameters.to_vec(),
            query: String::new(),
            headers: HeaderMap::new(),
            body: None,
            request_timeout: None,
        }
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        self.body = Some(serde_json::to_vec(body).map_err(|e| Error::invalid(format!("{}: {e}", self.action)))?);
        Ok(self)
    }
}

/// Reads an answer's JSON.
pub(crate) fn parse<T: DeserializeOwned>(action: &str, response: &Response<Bytes>) -> Result<T, Error> {
    serde_json::from_slice(response.body()).map_err(|error| Error::malformed(action, error))
}

impl Client {
    /// A control-plane request.
    pub(crate) async fn request(&self, call: ApiCall<'_>) -> Result<Request<Body>, Error> {
        let key = match self.key() {
            _ if self.own.foreign.is_some() => None,
            Some(key) => Some(key),
            None => Some(self.new_key(call.action, None).await?),
        };
        let path = call
            .operation
            .path_for(&call.parameters)
            .map_err(|e| Error::invalid(format!("{}: {e}", call.operation.id)))?;
        let mut request = Request::builder()
            .method(call.operation.method.clone())
            .uri(self.endpoint().api(&format!("{path}{}", call.query)))
            .body(Body::from(call.body.unwrap_or_default()))
            .map_err(|e| Error::invalid(format!("{}: {e}", call.operation.id)))?;
        let headers = request.headers_mut();
        *headers = self.headers();
        headers.extend(self.inner.config.api_headers.clone());
        headers.extend(self.own.api_headers.clone());
        // They come with credentials of their own.
        headers.extend(self.own.foreign.as_deref().cloned().unwrap_or_default());
        headers.extend(call.headers);
        if let Some(key) = key {
            headers.insert(X_API_KEY, key);
            headers.insert(USER_AGENT, AGENT.clone());
        }
        if let Some(host) = self.endpoint().host_of_api() {
            headers.insert(HOST, host.clone());
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !matches!(request.method(), &http::Method::GET | &http::Method::DELETE) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    /// What the caller wants in every request. What a request needs takes the place of it.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = self.inner.config.headers.clone();
        headers.extend(self.own.headers.clone());
        headers
    }

    fn key(&self) -> Option<HeaderValue> {
        if self.own.api_key.is_some() {
            return self.own.api_key.clone();
        }
        lock(&self.inner.config.api_key).clone()
    }

    /// Whether another key can be had than the one that was refused.
    pub(crate) fn can_ask_for_a_key(&self) -> bool {
        self.inner.config.credentials.is_some() && self.own.api_key.is_none() && self.own.foreign.is_none()
    }

    /// Asks for a key, unless somebody else has replaced the refused one already.
    pub(crate) async fn new_key(&self, action: &str, refused: Option<HeaderValue>) -> Result<HeaderValue, Error> {
        if let Some(key) = self.key().filter(|_| refused.is_some() && self.key() != refused) {
            return Ok(key);
        }
        let Some(credentials) = &self.inner.config.credentials else {
            return Err(Error::new(ErrorKind::Authentication, action, "there is no API key"));
        };
        let asked = (credentials.0)().await;
        let key = asked.map_err(|e| Error::new(ErrorKind::Authentication, action, format!("no new API key: {e}")))?;
        let key = api_key(Some(key))?;
        *lock(&self.inner.config.api_key) = Some(key.clone());
        Ok(key)
    }

    /// Makes a control-plane call about something; `false`: there is no such thing (any more).
    pub(crate) async fn call_unless_missing(&self, call: ApiCall<'_>) -> Result<bool, Error> {
        match self.call(call).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send_noted(
        &self,
        request: Request<Body>,
        options: oncebox_transport::CallOptions,
    ) -> Result<oncebox_transport::Response<Bytes>, oncebox_transport::Error> {
        let began = Instant::now();
        let ended = self.transport().send_collected(request, options).await;
        self.note(began, &ended);
        ended
    }

    /// Makes a control-plane call and reads its answer.
    pub(crate) async fn call(&self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        let key = self.key();
        let answer = self.call_with_keys(call).await;
        // Which one it was sent with depends on whether another was asked for.
        answer.map_err(|error| without_key(without_key(error, key.as_ref()), self.key().as_ref()))
    }

    /// The error of a call by which a server may have repeated the key.
    pub(crate) fn without_key(&self, error: Error) -> Error {
        without_key(error, self.key().as_ref())
    }

    async fn call_with_keys(&self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        let (operation, action) = (call.operation, call.action);
        let mut options = self.own.apply(oncebox_transport::CallOptions::new().mints(operation.mints));
        if let Some(permit) = operation.permit() {
            options = options.permit(permit);
        }
        if let Some(timeout) = call.request_timeout {
            options = options.request_timeout(timeout);
        }
        let again = self.can_ask_for_a_key().then(|| call.clone());
        let request = self.request(call).await?;
        let refused = request.headers().get(X_API_KEY).cloned();
        let failed = |error| Error::transport(action, error);
        let mut response = self.send_noted(request, options.clone()).await.map_err(failed)?;
        // A key that has run out: with the next one it is another request.
        if response.status() == http::StatusCode::UNAUTHORIZED
            && let Some(call) = again
        {
            self.new_key(action, refused).await?;
            let request = self.request(call).await?;
            response = self.send_noted(request, options).await.map_err(failed)?;
        }
        let response = response.into_http();
        if response.status().is_success() {
            return Ok(response);
        }
        Err(Error::answer(action, response.status().as_u16(), response.body(), response.extensions().get::<History>()))
    }
}

/// What is shorter is no key, but a word such as "test", which is part of many others.
const SHORTEST_KEY: usize = 8;

fn without_key(error: Error, key: Option<&HeaderValue>) -> Error {
    match key.and_then(|key| key.to_str().ok()) {
        Some(key) if key.len() >= SHORTEST_KEY => error.without(key),
        _ => error,
    }
}
