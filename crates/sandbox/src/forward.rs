//! Calls of other SDKs, carried as this SDK carries its own: for proxies.
//!
//! A [`Forward`] knows where servers are, has the transport, and makes the creates of others once. What it is given is sent
//! as it is: credentials and headers are those of whoever asked, and no key of this client's goes with them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use oncebox_protocol::answers;
use oncebox_transport::CallOptions;
use oncebox_transport::policy::create::{ApiVersion, Intent};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use crate::client::Client;
use crate::error::Error;
use crate::once::{Asked, Order, Origin};
use crate::options::Own;
use crate::sandbox::{Sandbox, mint_intent};

/// The lifetime in seconds of a create that names none, in the API's first version (protocol fact).
const V1_LIFETIME: i64 = 15;

/// A client, seen by a proxy.
#[derive(Clone, Debug)]
pub struct Forward {
    client: Client,
}

/// Another SDK's create.
#[derive(Clone)]
pub struct ForwardedCreate {
    /// What it asks for, as it came.
    pub body: Map<String, Value>,
    /// Its headers, credentials among them, for every request that the create makes. Without those that describe a
    /// connection or a body.
    pub headers: HeaderMap,
    /// Whether it came in the API's first version, `POST /sandboxes`.
    pub is_v1: bool,
    /// The name of the create, 32 lower-case hex digits, where it may have been made already: then it is looked for first.
    /// `None`: a new one.
    pub intent: Option<String>,
    /// Sent as it is with every attempt. `None`: keys that follow from the intent.
    pub idempotency_key: Option<String>,
    /// For whom it is: the same intent of somebody else is another one.
    pub scope: u64,
    /// Whether whoever asked has the intent, and looks for what was sent when it goes away. Then a create that is dropped is not
    /// given up: what is under way ends, what comes of it stays, and nothing more is sent.
    pub leaves: bool,
}

/// What a forwarded create ended with.
#[derive(Clone, Debug)]
#[must_use = "a sandbox that nobody takes has to be abandoned"]
pub struct ForwardedAnswer {
    /// The sandbox, or why there is none.
    pub result: Result<Sandbox, Error>,
    /// The answer of the server that made or fetched the sandbox, or that ended the create, as it came.
    pub answer: Option<Arc<Response<Bytes>>>,
    /// Attempts at the server, look-ups included.
    pub attempts: usize,
}

impl ForwardedAnswer {
    /// Nobody wants the sandbox: it is killed in the background. [`Client::close`] waits for it.
    pub fn abandon(&self) {
        if let (Ok(sandbox), Ok(runtime)) = (&self.result, Handle::try_current()) {
            sandbox.unwant();
            let client = sandbox.client();
            client.creates().kill_later(client, sandbox.id().to_owned(), &runtime);
        }
    }
}

impl Forward {
    /// The same options, pool and creates as the client's.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// What makes calls, with the client's policy.
    pub fn transport(&self) -> &oncebox_transport::Client {
        self.client.transport()
    }

    /// The same options, for a call to a daemon in a sandbox: what its answer, or that of an edge before it, says in its body is
    /// read before it is judged, so that what was not delivered is sent again.
    pub fn reading_answers(&self, options: CallOptions) -> CallOptions {
        options.answer_reader(answers::read)
    }

    /// How long a create that failed may still be taken up by another one like it.
    pub fn settle(&self) -> Duration {
        self.client.create_options().settle
    }

    /// A URL of the control plane, and the host to name where it is another than the URL's. `path` may have a query.
    pub fn api(&self, path: &str) -> (String, Option<HeaderValue>) {
        let endpoint = self.client.endpoint();
        (endpoint.api(path), endpoint.host_of_api().cloned())
    }

    /// A URL of the content of volumes. `path` may have a query.
    pub fn volumes(&self, path: &str) -> String {
        self.client.endpoint().volume(None, path)
    }

    /// A URL of a port of a sandbox, and the headers that lead to it. `domain` is what the control plane answered for the
    /// sandbox, if it did; `path` may have a query.
    ///
    /// # Errors
    ///
    /// For what is no id.
    pub fn sandbox(&self, id: &str, port: u16, domain: Option<&str>, path: &str) -> Result<(String, HeaderMap), Error> {
        let (base, headers) = self.client.endpoint().sandbox(id, port, domain)?;
        Ok((format!("{}{path}", base.trim_end_matches('/')), headers))
    }

    /// A URL for files whose signature alone says whose they are; `None` where sandboxes have no address in common.
    pub fn signed_files(&self, path: &str) -> Option<String> {
        self.client.endpoint().shared(path)
    }

    /// Makes a create happen once, and adopts what is there where its intent was given. Dropped, it is given up: what was
    /// sent is looked for and killed in the background, unless it is [left](ForwardedCreate::leaves) to whoever asked.
    pub async fn create(&self, create: ForwardedCreate) -> ForwardedAnswer {
        match self.order(&create) {
            Ok(order) => {
                let own = Own { foreign: Some(Arc::new(create.headers)), ..self.client.own().clone() };
                let client = self.client.with_own(own);
                let ended = client.creates().make_told(&client, order).await;
                let result = ended.ending.and_then(|made| {
                    made.ok_or_else(|| Error::malformed(crate::once::ACTION, "no sandbox came of it"))
                });
                ForwardedAnswer { result, answer: ended.answer, attempts: ended.attempts }
            }
            Err(error) => ForwardedAnswer { result: Err(error), answer: None, attempts: 0 },
        }
    }

    fn order(&self, create: &ForwardedCreate) -> Result<Order, Error> {
        let (intent, origin) = match &create.intent {
            Some(given) => {
                let wrong = |error| Error::invalid(format!("intent: {given:?}: {error}"));
                (Intent::parse(given).map_err(wrong)?, Origin::Given)
            }
            None => (mint_intent()?, Origin::Minted),
        };
        let mut body = create.body.clone();
        if create.is_v1 && body.get("timeout").is_none_or(Value::is_null) {
            body.insert("timeout".to_owned(), V1_LIFETIME.into());
        }
        let mut body = Asked::Theirs(body);
        if !body.tag(&intent) {
            return Err(Error::invalid("metadata: it is no object"));
        }
        Ok(Order {
            intent,
            origin,
            body,
            idempotency_key: create.idempotency_key.clone(),
            request_timeout: None,
            pacer: None,
            version: create.is_v1.then_some(ApiVersion::V1),
            scope: create.scope,
            leaves: create.leaves,
        })
    }
}
