//! What can be learnt of a sandbox, and who may reach it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use futures_util::Stream;
use http::HeaderMap;
use jiff::Timestamp;
use oncebox_protocol::{api, operations};
use oncebox_transport::Body;
use sha2::{Digest, Sha256};

use super::Sandbox;
use crate::client::{ApiCall, parse};
use crate::endpoint::ENVD_PORT;
use crate::error::{Error, ErrorKind, values};
use crate::rpc::query;

pub use oncebox_protocol::api::{NetworkUpdate, SandboxLogEntry, SandboxMetric};

/// Entries of a log that one call brings at most (protocol fact).
pub(super) const MAX_LOG_PAGE: &str = "1000";

/// What a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    Read,
    Write,
}

impl Sandbox {
    /// What it used over time. Without bounds, all that the server keeps.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it has ended.
    pub async fn metrics(&self, start: Option<Timestamp>, end: Option<Timestamp>) -> Result<Vec<SandboxMetric>, Error> {
        const ACTION: &str = "read the sandbox's metrics";
        let seconds = |at: Option<Timestamp>| at.map(|at| at.as_second().to_string()).unwrap_or_default();
        let (start, end) = (seconds(start), seconds(end));
        let mut call = ApiCall::new(&operations::GET_SANDBOX_METRICS, ACTION, [self.id()]);
        call.query = query([("start", &*start), ("end", &*end)].into_iter().filter(|(_, value)| !value.is_empty()));
        parse(ACTION, &self.call(call).await?)
    }

    /// Its log from a moment on, oldest first, up to 1000 entries. [`follow_logs`](Self::follow_logs) goes on.
    /// A server that has only the older log is asked for that.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such sandbox.
    pub async fn logs(&self, from: Option<Timestamp>) -> Result<Vec<SandboxLogEntry>, Error> {
        const ACTION: &str = "read the sandbox's log";
        let cursor = from.map(|from| from.as_millisecond().to_string()).unwrap_or_default();
        let mut call = ApiCall::new(&operations::GET_SANDBOX_LOGS, ACTION, [self.id()]);
        let pairs = [("cursor", &*cursor), ("limit", MAX_LOG_PAGE), ("direction", "forward")];
        call.query = query(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        match self.call(call).await {
            Ok(response) => Ok(parse::<api::SandboxLogs>(ACTION, &response)?.logs),
            Err(error) if matches!(error.status(), Some(404 | 405)) => {
                let mut call = ApiCall::new(&operations::GET_SANDBOX_LOGS_V1, ACTION, [self.id()]);
                let pairs = [("start", &*cursor), ("limit", MAX_LOG_PAGE)];
                call.query = query(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
                Ok(parse::<api::SandboxLogsV1>(ACTION, &self.call(call).await?)?.log_entries)
            }
            Err(error) => Err(error),
        }
    }

    /// Its log from a moment on, oldest first, and what is added to it: asked for `every` so often (at least 10 ms apart). Ends
    /// when there is no such sandbox any more, or with the first error.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// use std::time::Duration;
    /// use futures_util::TryStreamExt;
    ///
    /// let mut log = std::pin::pin!(sandbox.follow_logs(None, Duration::from_secs(1)));
    /// while let Some(entry) = log.try_next().await? {
    ///     println!("{} {}", entry.timestamp, entry.message);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn follow_logs(
        &self,
        from: Option<Timestamp>,
        every: Duration,
    ) -> impl Stream<Item = Result<SandboxLogEntry, Error>> + Send + use<> {
        super::follow::follow(self.clone(), from, every)
    }

    /// Sets what it may reach, in place of all that was set before.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it has ended.
    pub async fn update_network(&self, network: &NetworkUpdate) -> Result<(), Error> {
        let call = ApiCall::new(&operations::UPDATE_SANDBOX_NETWORK, "update the sandbox's network", [self.id()]);
        let secrets = values::secrets(network);
        let set = self.call(call.json(network)?).await;
        set.map(drop).map_err(|error| error.without_values(secrets.iter().map(String::as_str)))
    }

    /// Whether the daemon inside answers. `false`: the sandbox has ended, or is paused.
    ///
    /// # Errors
    ///
    /// When it could not be asked.
    pub async fn is_running(&self) -> Result<bool, Error> {
        let health = &operations::GET_ENVD_HEALTH;
        let asked = self.envd().send("ask the sandbox", health, "", HeaderMap::new(), Body::empty()).await;
        match asked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::SandboxNotRunning || error.status() == Some(502) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A URL from which anybody can read one file, for `valid` from now; `None`: as long as the sandbox lives.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) when it shall end and the sandbox has no access token to sign with.
    pub fn download_url(&self, path: &str, valid: Option<Duration>) -> Result<String, Error> {
        self.signed_url(Signed::Read, path, "", valid)
    }

    /// As [`download_url`](Self::download_url), as another user of the sandbox.
    ///
    /// # Errors
    ///
    /// As [`download_url`](Self::download_url).
    pub fn download_url_as(&self, user: &str, path: &str, valid: Option<Duration>) -> Result<String, Error> {
        self.signed_url(Signed::Read, path, user, valid)
    }

    /// A URL to which anybody can write one file, by POST.
    ///
    /// # Errors
    ///
    /// As [`download_url`](Self::download_url).
    pub fn upload_url(&self, path: &str, valid: Option<Duration>) -> Result<String, Error> {
        self.signed_url(Signed::Write, path, "", valid)
    }

    /// As [`upload_url`](Self::upload_url), as another user of the sandbox.
    ///
    /// # Errors
    ///
    /// As [`download_url`](Self::download_url).
    pub fn upload_url_as(&self, user: &str, path: &str, valid: Option<Duration>) -> Result<String, Error> {
        self.signed_url(Signed::Write, path, user, valid)
    }

    fn signed_url(&self, what: Signed, path: &str, user: &str, valid: Option<Duration>) -> Result<String, Error> {
        let base = self.client().endpoint().direct(self.id(), ENVD_PORT, self.inner.domain.as_deref())?;
        let until = valid.map(|valid| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            now.saturating_add(valid).as_secs().to_string()
        });
        let Some(token) = &self.inner.token else {
            if until.is_some() {
                let why = "the sandbox has no access token, so that its URLs need no signature and cannot end";
                return Err(Error::new(ErrorKind::Unsupported, "sign a URL", why));
            }
            return Ok(format!("{base}/files{}", query(given([("path", path), ("username", user)]))));
        };
        let signature = sign(what, path, user, token.expose(), until.as_deref());
        let until = until.as_deref().unwrap_or_default();
        let pairs = [("path", path), ("username", user), ("signature", &*signature), ("signature_expiration", until)];
        Ok(format!("{base}/files{}", query(given(pairs))))
    }
}

fn given<'a, const N: usize>(pairs: [(&'a str, &'a str); N]) -> impl Iterator<Item = (&'a str, &'a str)> {
    pairs.into_iter().filter(|(name, value)| *name == "path" || !value.is_empty())
}

/// Protocol fact: SHA-256 of the parts, joined by colons, in unpadded base64. The default user is the empty text.
fn sign(what: Signed, path: &str, user: &str, token: &str, until: Option<&str>) -> String {
    let operation = match what {
        Signed::Read => "read",
        Signed::Write => "write",
    };
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(until) = until {
        text.push(':');
        text.push_str(until);
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_digest_of_its_parts() {
        // printf '%s' '/a b:read::t0ken:1700000000' | openssl dgst -sha256 -binary | base64 | tr -d =
        let signed = sign(Signed::Read, "/a b", "", "t0ken", Some("1700000000"));
        assert_eq!(signed, "v1_8x0XNcJWHoJv8ZHrqrepeb8GrQmoWLrem0RrbaFUTtI");
        assert_ne!(signed, sign(Signed::Write, "/a b", "", "t0ken", Some("1700000000")));
    }
}
