//! Making a sandbox.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oncebox_protocol::{SecretString, api};
use oncebox_transport::policy::create::Intent;
use tokio::runtime::Handle;

use super::{Killed, Pause, Sandbox, lifetime_seconds};
use crate::Client;
use crate::error::{Error, ErrorKind};
use crate::fleet::Pacer;
use crate::once::{ACTION, Asked, Order, Origin};
use oncebox_protocol::api::{AutoResume, SandboxIam, SandboxNetwork, VolumeMount};

/// Metadata of our own begins with this, and is not shown.
pub(super) const RESERVED_METADATA: &str = "oncebox.";

/// The template when none is named (protocol fact).
const DEFAULT_TEMPLATE: &str = "base";

/// Tokens of one sandbox (protocol fact).
const MAX_IAM_TOKENS: usize = 5;

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
    intent: Option<String>,
    idempotency_key: Option<String>,
    /// What is passed on as it is.
    more: api::NewSandbox,
    pacer: Option<Arc<Pacer>>,
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
            intent: None,
            idempotency_key: None,
            more: api::NewSandbox::default(),
            pacer: None,
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

    /// What the sandbox may reach, and who may reach it. Default: the server's.
    pub fn network(mut self, network: SandboxNetwork) -> Self {
        self.more.network = Some(network);
        self
    }

    /// Pauses the sandbox at the end of its lifetime, in place of killing it.
    pub fn pause_at_end(mut self, how: Pause) -> Self {
        self.more.auto_pause = Some(true);
        self.more.auto_pause_memory = how.keeps_memory_flag();
        self
    }

    /// Whether traffic wakes the paused sandbox. Excludes pausing to the filesystem alone.
    pub fn resume_on_traffic(mut self, resume: bool) -> Self {
        self.more.auto_resume = Some(AutoResume { enabled: resume });
        self
    }

    /// Mounts a volume.
    pub fn volume(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        let mount = VolumeMount { name: name.into(), path: path.into() };
        self.more.volume_mounts.get_or_insert_default().push(mount);
        self
    }

    /// Configuration of the MCP gateway inside the sandbox.
    pub fn mcp(mut self, servers: serde_json::Map<String, serde_json::Value>) -> Self {
        self.more.mcp = Some(servers.into_iter().map(|(name, value)| (name, value.into())).collect());
        self
    }

    /// Identities that the sandbox may prove to others: for whom, and which kind of token, by the name that the sandbox
    /// knows it by. At most 5.
    pub fn iam(mut self, iam: SandboxIam) -> Self {
        self.more.iam = Some(iam);
        self
    }

    /// The deadline of this call; zero means none. Default: the client's.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// Gives the create an intent of one's own: 32 lower-case hex digits. Calls with one intent make one sandbox, in one
    /// process certainly, in several where the server honours idempotency keys. A sandbox that carries it already is
    /// adopted. Default: minted for this call.
    pub fn intent(mut self, intent: impl Into<String>) -> Self {
        self.intent = Some(intent.into());
        self
    }

    /// Sends this idempotency key as it is with every attempt, and never another. 1 to 255 characters of `a-z`, `0-9` and
    /// `-`; some servers refuse hyphens. Default: keys that follow from the intent.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Makes the sandbox and does something with it. When that fails, or is dropped before its end, the sandbox is killed,
    /// in the background if need be ([`Client::close`] waits for it); when it succeeds, the sandbox lives on.
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// use oncebox::Sandbox;
    ///
    /// let ready = Sandbox::create(&client)
    ///     .scoped(|sandbox| async move {
    ///         sandbox.files().write("setup.sh", "echo ready").await?;
    ///         sandbox.commands().run("sh setup.sh").await?;
    ///         Ok::<_, oncebox::Error>(sandbox)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The create's, or what `work` fails with.
    pub async fn scoped<T, E, Fut>(self, work: impl FnOnce(Sandbox) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        let sandbox = self.send().await?;
        let scope = Scope::new(&sandbox);
        let result = work(sandbox).await;
        match &result {
            Ok(_) => scope.keep(),
            // It is killed in the background where that fails.
            Err(_) => drop(scope.kill().await),
        }
        result
    }

    /// The same at the pace of a fleet.
    pub(crate) async fn paced(mut self, pacer: &Arc<Pacer>) -> Result<Sandbox, Error> {
        let _place = pacer.place().await;
        pacer.turn(self.client.transport().draw()).await;
        self.pacer = Some(Arc::clone(pacer));
        self.send().await
    }

    async fn send(self) -> Result<Sandbox, Error> {
        let mut body = Asked::Ours(Box::new(self.body()?));
        let (intent, origin) = match &self.intent {
            None => (mint_intent()?, Origin::Minted),
            Some(given) => {
                let wrong = |error| Error::invalid(format!("intent: {given:?}: {error}"));
                (Intent::parse(given).map_err(wrong)?, Origin::Given)
            }
        };
        if let Some(key) = &self.idempotency_key {
            let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            if !(1..=255).contains(&key.len()) || !key.bytes().all(is_allowed) {
                let rule = "1 to 255 characters of a-z, 0-9 and -";
                return Err(Error::invalid(format!("idempotency_key: {key:?} does not consist of {rule}")));
            }
        }
        body.tag(&intent);
        let order = Order {
            intent,
            origin,
            body,
            idempotency_key: self.idempotency_key,
            request_timeout: self.request_timeout,
            pacer: self.pacer,
            version: None,
            scope: 0,
            leaves: false,
        };
        let made = self.client.creates().make(&self.client, order).await?;
        made.ok_or_else(|| Error::malformed(ACTION, "no sandbox came of it").with_intent(intent.as_str()))
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
        if let Some(count) = self.more.iam.as_ref().and_then(|iam| iam.tokens.as_ref()).map(BTreeMap::len)
            && count > MAX_IAM_TOKENS
        {
            return Err(Error::invalid(format!("iam: {count} tokens; a sandbox has at most {MAX_IAM_TOKENS}")));
        }
        Ok(api::NewSandbox {
            template_id: self.template.clone(),
            timeout: self.lifetime.map(lifetime_seconds).transpose()?,
            allow_internet_access: self.allow_internet_access,
            metadata: Some(self.metadata.clone()),
            env_vars: (!self.envs.is_empty()).then(|| self.envs.clone()),
            ..self.more.clone()
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

pub(crate) fn mint_intent() -> Result<Intent, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Unsupported, ACTION, format!("no randomness: {error}")))?;
    Ok(Intent::from_random(bytes))
}

/// Kills its sandbox unless it is kept.
pub(crate) struct Scope {
    sandbox: Option<Sandbox>,
    runtime: Handle,
}

impl Scope {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        Self { sandbox: Some(sandbox.clone()), runtime: Handle::current() }
    }

    fn keep(mut self) {
        self.sandbox = None;
    }

    /// Kills it now. Dropped meanwhile, or where that fails, it is killed in the background.
    pub(crate) async fn kill(mut self) -> Result<Killed, Error> {
        let Some(sandbox) = self.sandbox.clone() else { return Ok(Killed::Already) };
        let killed = sandbox.kill().await;
        if killed.is_ok() {
            self.sandbox = None;
        }
        killed
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.unwant();
            let client = sandbox.client();
            client.creates().kill_later(client, sandbox.id().to_owned(), &self.runtime);
        }
    }
}

/// POSIX allows more than this, shells do not.
pub(crate) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use oncebox_protocol::api::SandboxIamToken;

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
            (
                create().iam(SandboxIam {
                    tokens: Some((0..6).map(|n| (n.to_string(), SandboxIamToken::default())).collect()),
                }),
                "iam: 6 tokens",
            ),
            (create().intent("ABC"), "intent: \"ABC\": an intent is 32 lower-case hex digits"),
            (create().idempotency_key("A"), "idempotency_key: \"A\" does not consist of"),
        ] {
            let error = create.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(rule), "{error}");
            assert!(error.attempts().is_empty());
        }
    }

    #[test]
    fn every_intent_is_new() {
        assert_ne!(mint_intent().unwrap(), mint_intent().unwrap());
    }
}
