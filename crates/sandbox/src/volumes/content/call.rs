//! Calls about a volume's content, which no sandbox answers.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::Operation;
use oncebox_transport::{Body, CallOptions, ResponseBody, TrafficClass};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Volume;
use super::change::Attributes;
use crate::client::AGENT;
use crate::error::{Error, ErrorKind};
use crate::files::check_path;
use crate::rpc::{data_options, query, secret, successful};

/// How long the transfer of a file may take (protocol fact: what the official SDK allows).
const FILE_TIMEOUT: Duration = Duration::from_secs(3600);

/// The longest description of entries that is read.
const MAX_ANSWER: usize = 256 << 20;

/// A call about content.
pub(super) struct Content<'a> {
    operation: &'static Operation,
    action: &'static str,
    path: &'a str,
    query: Vec<(&'static str, String)>,
    content_type: Option<&'static str>,
    pub(super) options: CallOptions,
}

impl<'a> Content<'a> {
    pub(super) fn new(operation: &'static Operation, action: &'static str, path: &'a str) -> Self {
        let options = data_options(operation);
        Self { operation, action, path, query: Vec::new(), content_type: None, options }
    }

    pub(super) fn query(mut self, name: &'static str, value: Option<String>) -> Self {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    pub(super) fn attributes(self, Attributes { uid, gid, mode }: Attributes) -> Self {
        let text = |number: Option<u32>| number.map(|number| number.to_string());
        self.query("uid", text(uid)).query("gid", text(gid)).query("mode", text(mode))
    }

    pub(super) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// The content of a file: off the connections of short calls, and with the time that it takes.
    pub(super) fn bulk(mut self) -> Self {
        self.options = self.options.class(TrafficClass::Bulk).request_timeout(FILE_TIMEOUT);
        self
    }

    pub(super) async fn send(self, volume: &Volume, body: Body) -> Result<Response<ResponseBody>, Error> {
        check_path(self.path)?;
        let action = self.action;
        let wrong = |error: &dyn std::fmt::Display| Error::invalid(format!("{action}: {error}"));
        let path = self.operation.path_for(&[&volume.id]).map_err(|e| wrong(&e))?;
        let pairs = self.query.iter().map(|(name, value)| (*name, value.as_str()));
        let query = query([("path", self.path)].into_iter().chain(pairs));
        let uri = volume.client.endpoint().volume(volume.domain.as_deref(), &format!("{path}{query}"));
        let mut request =
            Request::builder().method(self.operation.method.clone()).uri(uri).body(body).map_err(|e| wrong(&e))?;
        let headers = request.headers_mut();
        *headers = volume.client.headers();
        headers.insert(USER_AGENT, AGENT.clone());
        // What is compressed on the way has no length that could be checked.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
            .insert(AUTHORIZATION, secret(&format!("Bearer {}", volume.token.expose()), "the volume's access token")?);
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let options = volume.client.own().apply(self.options);
        let began = Instant::now();
        let response = volume.client.transport().send(request, options).await;
        volume.client.note(began, &response);
        let response = response.map_err(|error| Error::transport(action, error))?;
        successful(action, response.into_http(), Error::answer).await
    }

    pub(super) async fn parsed<T: DeserializeOwned>(self, volume: &Volume) -> Result<T, Error> {
        let action = self.action;
        read(action, self.send(volume, Body::empty()).await?).await
    }
}

pub(super) async fn read<T: DeserializeOwned>(action: &str, response: Response<ResponseBody>) -> Result<T, Error> {
    let cut = if response.status() == 201 { ErrorKind::OutcomeUnknown } else { ErrorKind::ConnectionLost };
    let body = collected(action, response.into_body(), MAX_ANSWER, cut).await?;
    serde_json::from_slice(&body).map_err(|error| Error::malformed(action, error))
}

pub(super) async fn collected(action: &str, body: ResponseBody, limit: usize, cut: ErrorKind) -> Result<Bytes, Error> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("it is longer than {limit} bytes; read it as a stream");
            Err(Error::new(ErrorKind::Unsupported, action, message))
        }
        Err(error) => Err(Error::new(cut, action, error.to_string())),
    }
}
