//! Sandboxes: made, found, described, ended.

mod create;
mod follow;
mod lifecycle;
mod list;
mod loss;
mod observe;
mod snapshots;

pub use create::CreateSandbox;
pub(crate) use create::{Scope, is_env_name, mint_intent};
pub use lifecycle::{Pause, Paused, Snapshot};
pub(crate) use list::metadata_filter;
pub use list::{ListSandboxes, Order, Pages, SandboxInfo, SandboxState};
pub use observe::{NetworkUpdate, SandboxLogEntry, SandboxMetric};
pub use snapshots::{ListSnapshots, SnapshotPages};

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use oncebox_protocol::{SecretString, api, operations};
use tokio::time::Instant;

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::commands::{Commands, Pty};
use crate::error::{Error, ErrorKind};
use crate::files::Files;
use crate::once::Fate;
use crate::options::CallOptions;
use crate::rpc::Envd;
use crate::trail::Trail;

/// The longest lifetime that can be asked for in one call. Servers have lower limits of their own.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Seconds that a sandbox lives at least after it was connected to. v1 has no default of its own (protocol fact).
const DEFAULT_CONNECT: i64 = 300;

/// A sandbox: a machine of its own in which commands run and files live. Clones are cheap and are the same sandbox.
///
/// Dropping it does not end it: [`kill`](Self::kill) does, or the end of its lifetime.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    client: Client,
    envd: Envd,
    id: String,
    template: String,
    envd_version: String,
    domain: Option<String>,
    token: Option<SecretString>,
    traffic_token: Option<SecretString>,
    intent: Option<String>,
    came: Came,
    fate: Arc<Fate>,
    /// Whether its files can be joined, once that was asked.
    composes: Arc<OnceLock<bool>>,
}

/// How a handle came to its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Came {
    /// The create was answered with it.
    Created,
    /// The create's answer was lost; the sandbox was looked up by its intent.
    Adopted,
    /// It was connected to by its id.
    Connected,
    /// It was named by its id, and nobody was asked.
    Named,
}

/// How to connect to a sandbox: see [`Sandbox::connect_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ConnectSandbox {
    lifetime: Option<Duration>,
    reboot: bool,
}

impl ConnectSandbox {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long it lives at least from now on, in whole seconds (a fraction is rounded up). Default: the server's, 300 s.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Has a paused sandbox boot anew from its files, in place of going on where it was. Default off.
    pub fn reboot(mut self, reboot: bool) -> Self {
        self.reboot = reboot;
        self
    }
}

/// What a kill found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// This call ended the sandbox.
    Now,
    /// An earlier attempt of this call, whose answer was lost, may have ended it.
    ByEarlierAttempt,
    /// There was no such running sandbox.
    Already,
}

impl Sandbox {
    /// Makes a sandbox. Set options on what this returns, and await it.
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// use std::time::Duration;
    /// use oncebox::Sandbox;
    ///
    /// let sandbox = Sandbox::create(&client)
    ///     .template("base")
    ///     .lifetime(Duration::from_secs(600))
    ///     .metadata("task", "42")
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn create(client: &Client) -> CreateSandbox {
        CreateSandbox::new(client)
    }

    /// Connects to a sandbox by its id, and resumes it where it is paused. Its lifetime becomes at least what the
    /// server gives by default, 300 s.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an id that cannot be one, before any I/O;
    /// [`NotFound`](ErrorKind::NotFound) when there is no such sandbox.
    pub async fn connect(client: &Client, id: &str) -> Result<Self, Error> {
        Self::connect_with(client, id, ConnectSandbox::new()).await
    }

    /// As [`connect`](Self::connect), with options.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(client: &Client, id: &str, options: ConnectSandbox) -> Result<Self, Error> {
        const ACTION: &str = "connect to the sandbox";
        let id = check_id(id)?;
        let timeout = options.lifetime.map(lifetime_seconds).transpose()?;
        let memory = options.reboot.then_some(false);
        let v1 = async || {
            let body = api::ConnectSandboxV1 { timeout: timeout.unwrap_or(DEFAULT_CONNECT), memory };
            client.call(ApiCall::new(&operations::CONNECT_SANDBOX_V1, ACTION, [id]).json(&body)?).await
        };
        let response = if client.creates().speaks_v1() {
            v1().await?
        } else {
            let call = ApiCall::new(&operations::CONNECT_SANDBOX, ACTION, [id]);
            match client.call(call.json(&api::ConnectSandbox { timeout, memory })?).await {
                Err(error) if error.status() == Some(405) => v1().await?,
                response => response?,
            }
        };
        Self::build(client, parse(ACTION, &response)?, None, Came::Connected, Arc::default())
    }

    /// A handle on a sandbox by its id alone; nobody is asked. It is for what the control plane does: describe, kill, pause,
    /// fork, set its timeout or its network. What is inside wants a token that only [`create`](Self::create) and
    /// [`connect`](Self::connect) bring.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an id that cannot be one.
    pub fn by_id(client: &Client, id: &str) -> Result<Self, Error> {
        let answer = api::Sandbox { sandbox_id: check_id(id)?.to_owned(), ..Default::default() };
        Self::build(client, answer, None, Came::Named, Arc::default())
    }

    /// Lists sandboxes. Set filters on what this returns, and await it.
    pub fn list(client: &Client) -> ListSandboxes {
        ListSandboxes::new(client)
    }

    /// The sandbox of a create.
    pub(crate) fn made(
        client: &Client,
        answer: api::Sandbox,
        intent: String,
        came: Came,
        fate: Arc<Fate>,
    ) -> Result<Self, Error> {
        Self::build(client, answer, Some(intent), came, fate)
    }

    fn build(
        client: &Client,
        answer: api::Sandbox,
        intent: Option<String>,
        came: Came,
        fate: Arc<Fate>,
    ) -> Result<Self, Error> {
        check_id(&answer.sandbox_id)
            .map_err(|_| Error::malformed("make the sandbox", format!("its id is {:?}", answer.sandbox_id)))?;
        let envd = Envd::new(client, &answer.sandbox_id, answer.domain.as_deref(), answer.envd_access_token.as_ref())?
            .shares(Arc::clone(&fate));
        Ok(Self {
            inner: Arc::new(Inner {
                client: client.clone(),
                envd,
                id: answer.sandbox_id,
                template: answer.template_id,
                envd_version: answer.envd_version,
                domain: answer.domain,
                token: answer.envd_access_token,
                traffic_token: answer.traffic_access_token,
                intent,
                came,
                fate,
                composes: Arc::default(),
            }),
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The template it was made from.
    pub fn template(&self) -> &str {
        &self.inner.template
    }

    /// The version of the daemon inside, such as "0.6.13".
    pub fn envd_version(&self) -> &str {
        &self.inner.envd_version
    }

    /// The intent of the create that made it, where this process made it: 32 lower-case hex digits.
    pub fn intent(&self) -> Option<&str> {
        self.inner.intent.as_deref()
    }

    /// How this handle came to it.
    pub fn came(&self) -> Came {
        self.inner.came
    }

    /// Where two sandboxes were made for one intent, and this is the one that does not stay: the id of the other.
    /// [`connect`](Self::connect) to that one.
    pub fn superseded_by(&self) -> Option<&str> {
        self.inner.fate.successor()
    }

    /// The same sandbox, whose calls have these options in place of the client's, those to the sandbox itself included; they
    /// carry [headers](CallOptions::header) for every request, and no key.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// use std::time::Duration;
    /// use oncebox::CallOptions;
    ///
    /// let patient = CallOptions::new().retries(10).request_timeout(Duration::from_secs(300));
    /// sandbox.with(patient)?.pause(oncebox::Pause::full()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::with`].
    pub fn with(&self, options: CallOptions) -> Result<Self, Error> {
        let client = self.inner.client.with(options)?;
        let envd = self.inner.envd.of(&client);
        Ok(Self { inner: Arc::new(Inner { client, envd, ..Inner::clone(&self.inner) }) })
    }

    /// The same handle, whose calls have one history from now on.
    pub(crate) fn gathering(&self) -> Self {
        self.gathering_in(Trail::new(Instant::now()))
    }

    /// As [`gathering`](Self::gathering), unless it is part of a call that has a history.
    pub(crate) fn gathering_once(&self) -> Self {
        if self.client().own().trail.is_some() { self.clone() } else { self.gathering() }
    }

    /// The same handle, whose calls only find out what became of another.
    pub(crate) fn looking_up(&self) -> Self {
        match &self.client().own().trail {
            Some(trail) => self.gathering_in(trail.of_look_ups()),
            None => self.clone(),
        }
    }

    pub(crate) fn gathering_in(&self, trail: Trail) -> Self {
        let client = self.inner.client.gathering(trail);
        let envd = self.inner.envd.of(&client);
        Self { inner: Arc::new(Inner { client, envd, ..Inner::clone(&self.inner) }) }
    }

    /// Gives an error the history of all calls that belong together, where they are gathered.
    pub(crate) fn tell(&self, error: Error) -> Error {
        match &self.client().own().trail {
            Some(trail) => trail.tell(error),
            None => error,
        }
    }

    /// Makes a control-plane call about it.
    pub(crate) async fn call(&self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        check_fate(&self.inner.fate, call.action)?;
        self.inner.client.call(call).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The domain below which it is reached, where the control plane told one of its own.
    pub fn domain(&self) -> Option<&str> {
        self.inner.domain.as_deref()
    }

    /// What its ports want as `E2B-Traffic-Access-Token`, where its traffic is not public.
    pub fn traffic_access_token(&self) -> Option<&SecretString> {
        self.inner.traffic_token.as_ref()
    }

    /// The base URL of one of its ports. It may be one for all sandboxes, which are then told apart by headers.
    ///
    /// # Errors
    ///
    /// When no URL can be made of the client's endpoint.
    pub fn port_url(&self, port: u16) -> Result<String, Error> {
        Ok(self.at_port(port)?.0)
    }

    /// As [`port_url`](Self::port_url), without headers where that can be: a URL for others.
    ///
    /// # Errors
    ///
    /// As [`port_url`](Self::port_url).
    pub fn direct_url(&self, port: u16) -> Result<String, Error> {
        self.inner.client.endpoint().direct(self.id(), port, self.inner.domain.as_deref())
    }

    /// The host name under which a port of the sandbox is reached from outside.
    pub fn host(&self, port: u16) -> String {
        self.inner.client.endpoint().host(self.id(), port, self.inner.domain.as_deref())
    }

    /// Where a browser finds one of its ports.
    pub(crate) fn page_url(&self, port: u16) -> String {
        self.inner.client.endpoint().page(self.id(), port, self.inner.domain.as_deref())
    }

    /// Its commands.
    pub fn commands(&self) -> Commands<'_> {
        Commands::new(self)
    }

    /// Its pseudo-terminals.
    pub fn pty(&self) -> Pty<'_> {
        Pty::new(self)
    }

    /// Its files.
    pub fn files(&self) -> Files<'_> {
        Files::new(self)
    }

    /// What the control plane knows of it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it has ended.
    pub async fn info(&self) -> Result<SandboxInfo, Error> {
        const ACTION: &str = "describe the sandbox";
        let response = self.call(ApiCall::new(&operations::GET_SANDBOX, ACTION, [self.id()])).await?;
        let detail: api::SandboxDetail = parse(ACTION, &response)?;
        Ok(detail.into())
    }

    /// Sets the time that is left of its lifetime, from now: longer or shorter than it was. Whole seconds; a fraction
    /// is rounded up.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for zero or more than a year, before any I/O;
    /// [`NotFound`](ErrorKind::NotFound) when it has ended.
    pub async fn set_timeout(&self, lifetime: Duration) -> Result<(), Error> {
        let body = api::SetTimeout { timeout: lifetime_seconds(lifetime)? };
        let call =
            ApiCall::new(&operations::SET_SANDBOX_TIMEOUT, "set the sandbox's timeout", [self.inner.id.as_str()]);
        self.call(call.json(&body)?).await.map(drop)
    }

    /// Ends it, with all that runs in it. Its files are gone.
    ///
    /// # Errors
    ///
    /// When the control plane could not be asked. That it has already ended is no error.
    pub async fn kill(&self) -> Result<Killed, Error> {
        let call = ApiCall::new(&operations::KILL_SANDBOX, "kill the sandbox", [self.inner.id.as_str()]);
        let killed = match self.inner.client.call(call).await {
            Ok(_) => Killed::Now,
            Err(error) if error.kind() == ErrorKind::NotFound => found_gone(&error),
            Err(error) => return Err(error),
        };
        self.unwant();
        Ok(killed)
    }

    /// Has a sweep that still goes on leave no double of it either.
    pub(crate) fn unwant(&self) {
        self.inner.fate.unwant();
    }

    /// The base URL of one of its ports, and the headers that route to it.
    pub(crate) fn at_port(&self, port: u16) -> Result<(String, HeaderMap), Error> {
        self.inner.client.endpoint().sandbox(self.id(), port, self.inner.domain.as_deref())
    }

    /// What its daemons want.
    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.inner.token.as_ref()
    }

    /// What ports other than envd's want, where the sandbox's traffic is not public.
    pub(crate) fn traffic_token(&self) -> Option<&SecretString> {
        self.inner.traffic_token.as_ref()
    }

    pub(crate) fn fate(&self) -> &Fate {
        &self.inner.fate
    }

    pub(crate) fn known_to_compose(&self) -> &OnceLock<bool> {
        &self.inner.composes
    }

    pub(crate) fn envd(&self) -> &Envd {
        &self.inner.envd
    }

    /// Whether the daemon inside is at least this version. A version that cannot be read counts as new.
    pub(crate) fn envd_at_least(&self, wanted: [u64; 3]) -> bool {
        version(self.envd_version()).is_none_or(|version| version >= wanted)
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("id", &self.inner.id)
            .field("template", &self.inner.template)
            .finish_non_exhaustive()
    }
}

/// A handle whose sandbox lost to another of its intent is of no use, and says so.
pub(crate) fn check_fate(fate: &Fate, action: &str) -> Result<(), Error> {
    match fate.successor() {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Superseded,
            action,
            format!("it was made twice, and the other one stays: connect to sandbox {other}"),
        )),
    }
}

fn found_gone(error: &Error) -> Killed {
    if error.had_unknown_attempt() { Killed::ByEarlierAttempt } else { Killed::Already }
}

/// A sandbox id: lower-case letters and digits (protocol fact). A legacy suffix after a hyphen is cut.
pub(crate) fn check_id(id: &str) -> Result<&str, Error> {
    let own = id.split_once('-').map_or(id, |(own, _)| own);
    if own.is_empty() || !own.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return Err(Error::invalid(format!("{id:?} is no sandbox id: it must consist of a-z and 0-9")));
    }
    Ok(own)
}

/// Whole seconds, rounded up.
pub(crate) fn lifetime_seconds(lifetime: Duration) -> Result<i64, Error> {
    if lifetime.is_zero() {
        return Err(Error::invalid("a sandbox's lifetime must be longer than zero"));
    }
    if lifetime > MAX_LIFETIME {
        return Err(Error::invalid(format!("a sandbox's lifetime of {lifetime:?} is longer than a year")));
    }
    let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
    Ok(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn version(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.trim_start_matches('v').split(['.', '-', '+']);
    let mut number = || parts.next()?.parse().ok();
    Some([number()?, number()?, number()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_and_a_legacy_suffix_is_cut() {
        assert_eq!(check_id("i1abc-client").unwrap(), "i1abc");
        for bad in ["", "-x", "I1", "a b", "../x", "i1/..", "ä"] {
            assert!(check_id(bad).unwrap_err().to_string().contains(&format!("{bad:?}")), "{bad}");
        }
    }

    #[test]
    fn lifetimes_are_rounded_up_to_seconds() {
        assert_eq!(lifetime_seconds(Duration::from_millis(1)).unwrap(), 1);
        assert_eq!(lifetime_seconds(Duration::from_secs(300)).unwrap(), 300);
        assert!(lifetime_seconds(Duration::ZERO).is_err());
        assert!(lifetime_seconds(Duration::MAX).is_err());
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("0.6.13"), Some([0, 6, 13]));
        assert_eq!(version("v1.2.3-rc.1"), Some([1, 2, 3]));
        assert_eq!(version("latest"), None);
        assert!([0, 6, 13] > [0, 5, 7]);
    }
}
