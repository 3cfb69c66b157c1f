//! Making a sandbox.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use oncebox_protocol::headers::IDEMPOTENCY_KEY;
use oncebox_protocol::{SecretString, api, operations};

use super::{Sandbox, lifetime_seconds};
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::rpc::header;

/// Metadata of our own begins with this, and is not shown.
pub(super) const RESERVED_METADATA: &str = "oncebox.";

/// The metadata under which a sandbox keeps the intent that made it.
const INTENT_METADATA: &str = "oncebox.intent";

/// The template when none is named (protocol fact).
const DEFAULT_TEMPLATE: &str = "base";

/// A sandbox about to be made: see [`Sandbox::create`]. Await it.
///
/// Each create carries an *intent*, a random name that is minted once and sent with every attempt, as idempotency key
/// and as metadata. When nobody knows whether a sandbox was made, the error is
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) and names the intent by which it can be found.
#[derive(Clone, Debug)]
#[must_use = "a create does nothing until it is awaited"]
pub struct CreateSandbox {
    client: Client,
    template: String,
    lifetime: Option<Duration>,
    metadata: BTreeMap<String, String>,
    envs: BTreeMap<String, SecretString>,
    allow_internet_access: Option<bool>,
    request_timeout: Option<Duration>,
}

impl CreateSandbox {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            template: DEFAULT_TEMPLATE.to_owned(),
            lifetime: None,
            metadata: BTreeMap::new(),
            envs: BTreeMap::new(),
            allow_internet_access: None,
            request_timeout: None,
        }
    }

    /// What to start from: a template's name, `name:tag`, id, or a snapshot's id. Default `base`.
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.template = template.into();
        self
    }

    /// How long the sandbox lives, in whole seconds (a fraction is rounded up). Default: the server's, 300 s.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Adds a label. Names that begin with `oncebox.` are ours.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Adds an environment variable for all commands.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.envs.insert(name.into(), SecretString::from(value.into()));
        self
    }

    /// Whether the sandbox may reach the internet. Default: the server's.
    pub fn allow_internet_access(mut self, allow: bool) -> Self {
        self.allow_internet_access = Some(allow);
        self
    }

    /// The deadline of this call; zero means none. Default: the client's.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    async fn send(self) -> Result<Sandbox, Error> {
        const ACTION: &str = "create a sandbox";
        let body = self.body()?;
        let intent = mint_intent()?;
        let body = with_intent(body, &intent);
        let mut call = ApiCall::new(&operations::CREATE_SANDBOX, ACTION, []).json(&body)?;
        call.headers = header(IDEMPOTENCY_KEY, &intent)?;
        call.request_timeout = self.request_timeout;
        let client = self.client;
        let response = client.call(call).await.map_err(|error| unknown(error, &intent))?;
        let answer = parse(ACTION, &response).map_err(|error| error.with_intent(&intent))?;
        Sandbox::from_answer(&client, answer, Some(intent.clone())).map_err(|error| error.with_intent(&intent))
    }

    fn body(&self) -> Result<api::NewSandbox, Error> {
        if self.template.trim().is_empty() {
            return Err(Error::invalid("template: the name is empty"));
        }
        if let Some(name) = self.metadata.keys().find(|name| name.starts_with(RESERVED_METADATA)) {
            return Err(Error::invalid(format!(
                "metadata: {name:?} begins with {RESERVED_METADATA:?}, which is reserved"
            )));
        }
        if let Some(name) = self.envs.keys().find(|name| !is_env_name(name)) {
            return Err(Error::invalid(format!("env: {name:?} is no name for an environment variable")));
        }
        Ok(api::NewSandbox {
            template_id: self.template.clone(),
            timeout: self.lifetime.map(lifetime_seconds).transpose()?,
            allow_internet_access: self.allow_internet_access,
            metadata: Some(self.metadata.clone()),
            env_vars: (!self.envs.is_empty()).then(|| self.envs.clone()),
            ..Default::default()
        })
    }
}

impl IntoFuture for CreateSandbox {
    type Output = Result<Sandbox, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

fn with_intent(mut body: api::NewSandbox, intent: &str) -> api::NewSandbox {
    body.metadata.get_or_insert_default().insert(INTENT_METADATA.to_owned(), intent.to_owned());
    body
}

/// A create that was answered with something that proves nothing says so, and how to find out.
fn unknown(error: Error, intent: &str) -> Error {
    let known = matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotDone);
    if known { error } else { error.with_intent(intent) }
}

/// 32 lower-case hex digits: keys with hyphens are refused by some servers (protocol fact).
fn mint_intent() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Unsupported, "create a sandbox", format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// POSIX allows more than this, shells do not.
pub(crate) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create() -> CreateSandbox {
        let client = Client::builder().api_key("k").api_url("http://127.0.0.1:1").build().unwrap();
        Sandbox::create(&client)
    }

    #[tokio::test]
    async fn what_cannot_be_right_is_refused_before_any_io() {
        for (create, rule) in [
            (create().template(" "), "template: the name is empty"),
            (create().metadata("oncebox.intent", "x"), "metadata: \"oncebox.intent\" begins with \"oncebox.\""),
            (create().env("A=B", "x"), "env: \"A=B\" is no name"),
            (create().lifetime(Duration::ZERO), "must be longer than zero"),
        ] {
            let error = create.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(rule), "{error}");
            assert!(error.attempts().is_empty());
        }
    }

    #[test]
    fn every_intent_is_new_and_fits_every_server() {
        let (a, b) = (mint_intent().unwrap(), mint_intent().unwrap());
        assert_ne!(a, b);
        assert!(a.len() == 32 && a.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{a}");
    }
}
