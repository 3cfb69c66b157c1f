//! Connect RPCs, carried by our transport.

use std::time::Duration;

use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use oncebox_protocol::Table;
use oncebox_transport::{Body, BoxError, CallOptions, History};
use tokio::time::Instant;

use super::watch::{CutWatch, Watched};
use super::{read_error, sandbox_options};
use crate::{Client, Error};

/// Carries Connect RPCs over [`oncebox_transport`].
#[derive(Clone, Debug)]
pub(crate) struct RpcTransport {
    pub(super) client: Client,
    pub(super) headers: HeaderMap,
    pub(super) stream: Option<CutWatch>,
    pub(super) uploads: bool,
}

impl ClientTransport for RpcTransport {
    type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
    type Error = Error;

    fn send(&self, request: Request<ClientBody>) -> BoxFuture<'static, Result<Response<Self::ResponseBody>, Error>> {
        let this = self.clone();
        Box::pin(async move { this.carry(request).await })
    }
}

impl RpcTransport {
    async fn carry(self, request: Request<ClientBody>) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, Error> {
        let (mut head, body) = request.into_parts();
        let action = "call the sandbox";
        let body = if self.uploads {
            Body::stream(body)
        } else {
            // Unary and server-streaming calls have their one message at hand.
            Body::from(body.collect().await.map_err(|error| Error::rpc(action, error))?.to_bytes())
        };
        let mut headers = self.client.headers();
        headers.extend(std::mem::take(&mut head.headers));
        headers.extend(self.headers);
        head.headers = headers;
        let table = Table::envd();
        let options = match table.find(&head.method, head.uri.path()) {
            Some(operation) => self.client.own().apply(sandbox_options(operation)),
            None => CallOptions::new().retries(0),
        };
        // How fast a stream is taken is up to the command that reads it.
        let options = if self.uploads { options.write_idle_timeout(Duration::ZERO) } else { options };
        let request = Request::from_parts(head, body);
        let transport = self.client.transport();
        let failed = |error| Error::transport(action, error);
        let began = Instant::now();

        if let Some(watch) = self.stream {
            // A silent command is not a dead connection: keepalives tell the two apart.
            let options = options.read_idle_timeout(watch.silence);
            let ended = transport.send(request, options).await;
            self.client.note(began, &ended);
            let response = ended.map_err(failed)?;
            watch.remember(response.history().clone());
            let response = response.into_http();
            if response.status().is_success() {
                return Ok(response.map(|body| Watched { body, watch }.map_err(BoxError::from).boxed_unsync()));
            }
            let (head, body) = response.into_parts();
            let body = read_error(body).await;
            return connect_error_or_ours(action, Response::from_parts(head, body));
        }
        let ended = transport.send_collected(request, options).await;
        self.client.note(began, &ended);
        let response = ended.map_err(failed)?.into_http();
        if response.status().is_success() {
            return Ok(response.map(whole));
        }
        connect_error_or_ours(action, response)
    }
}

/// An answer that is no success is either a Connect error, whose `code` is a word, or comes from something in
/// between, such as the sandbox edge.
fn connect_error_or_ours(
    action: &str,
    response: Response<Bytes>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, Error> {
    let is_connect = serde_json::from_slice::<serde_json::Value>(response.body())
        .is_ok_and(|body| body.get("code").is_some_and(serde_json::Value::is_string));
    let is_stream =
        response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/connect"));
    if is_connect && !is_stream {
        return Ok(response.map(whole));
    }
    let history = response.extensions().get::<History>();
    Err(Error::sandbox_answer(action, response.status().as_u16(), response.body(), history))
}

fn whole(body: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}
