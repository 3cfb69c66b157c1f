//! Options of single calls.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use oncebox_protocol::SecretString;
use oncebox_transport::policy::check_duration;

use crate::config;
use crate::error::Error;
use crate::trail::Trail;

/// Options of single calls, in place of the client's: see [`Client::with`](crate::Client::with) and
/// [`Sandbox::with`](crate::Sandbox::with). What is not set is as it was.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until calls are made with them"]
pub struct CallOptions {
    retries: Option<u32>,
    connection_retries: Option<u32>,
    request_timeout: Option<Duration>,
    headers: Vec<(String, SecretString)>,
    api_headers: Vec<(String, SecretString)>,
    api_key: Option<SecretString>,
}

impl CallOptions {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Retries after an answer or an unknown outcome, at most 1000.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Repeats after failed connects and refusals, at most 1000.
    pub fn connection_retries(mut self, retries: u32) -> Self {
        self.connection_retries = Some(retries);
        self
    }

    /// The deadline of a call over all its attempts; zero means none.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// A header for every request, to the control plane, to volumes and to sandboxes. Takes the place of one of this name that the client
    /// has for all requests. What runs in a sandbox may see it: a secret of the control plane's is an
    /// [`api_header`](Self::api_header).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), SecretString::from(value.into())));
        self
    }

    /// A header for requests to the control plane alone. Takes the place of one of this name.
    pub fn api_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.api_headers.push((name.into(), SecretString::from(value.into())));
        self
    }

    /// Another API key, for requests to the control plane: a sandbox has a token of its own, and never sees API keys. A
    /// credentials hook is not asked for it, nor when it is refused.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(SecretString::from(key.into()));
        self
    }
}

/// Options of calls, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) retries: Option<u32>,
    pub(crate) connection_retries: Option<u32>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) headers: HeaderMap,
    pub(crate) api_headers: HeaderMap,
    pub(crate) api_key: Option<HeaderValue>,
    /// Where the attempts of each call are noted besides.
    pub(crate) trail: Option<Trail>,
    /// The headers of somebody else, credentials among them, on whose behalf the control plane is called.
    pub(crate) foreign: Option<Arc<HeaderMap>>,
}

impl Own {
    /// These options for calls that belong together.
    pub(crate) fn gathering(&self, trail: Trail) -> Self {
        Self { trail: Some(trail), ..self.clone() }
    }

    /// These options with others over them.
    pub(crate) fn with(&self, options: CallOptions) -> Result<Self, Error> {
        let retries = |name, given: Option<u32>| given.map(|n| config::retries(name, &n.to_string())).transpose();
        let over = |headers: &HeaderMap, option: &str, given: &[(String, SecretString)]| {
            let mut headers = headers.clone();
            for (name, value) in given {
                let (name, value) = config::header(option, name, value.expose())?;
                headers.insert(name, value);
            }
            Ok::<_, Error>(headers)
        };
        if let Some(timeout) = options.request_timeout {
            check_duration("request_timeout", timeout).map_err(config::refused)?;
        }
        let key = options.api_key.map(|key| config::api_key(Some(key.expose().to_owned()))).transpose()?;
        Ok(Self {
            retries: retries("retries", options.retries)?.or(self.retries),
            connection_retries: retries("connection_retries", options.connection_retries)?.or(self.connection_retries),
            request_timeout: options.request_timeout.or(self.request_timeout),
            headers: over(&self.headers, "header", &options.headers)?,
            api_headers: over(&self.api_headers, "api_header", &options.api_headers)?,
            api_key: key.or_else(|| self.api_key.clone()),
            trail: self.trail.clone(),
            foreign: self.foreign.clone(),
        })
    }

    /// Sets what is set here.
    pub(crate) fn apply(&self, mut options: oncebox_transport::CallOptions) -> oncebox_transport::CallOptions {
        if let Some(retries) = self.retries {
            options = options.retries(retries);
        }
        if let Some(retries) = self.connection_retries {
            options = options.connection_retries(retries);
        }
        if let Some(timeout) = self.request_timeout {
            options = options.request_timeout(timeout);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_options_win_and_wrong_ones_are_named() {
        let own = Own::default().with(CallOptions::new().retries(1).header("x-a", "1").api_key("k1")).unwrap();
        let own = own.with(CallOptions::new().connection_retries(2).header("x-a", "2")).unwrap();
        assert_eq!((own.retries, own.connection_retries), (Some(1), Some(2)));
        assert_eq!(
            (own.headers.get_all("x-a").iter().count(), &own.headers["x-a"]),
            (1, &HeaderValue::from_static("2"))
        );
        assert_eq!(own.api_key.as_ref().unwrap(), "k1");
        for (wrong, words) in [
            (CallOptions::new().retries(1001), "retries"),
            (CallOptions::new().connection_retries(1001), "connection_retries"),
            (CallOptions::new().request_timeout(Duration::MAX), "request_timeout"),
            (CallOptions::new().header("a b", "secret"), "header: \"a b\""),
            (CallOptions::new().api_key("sec\nret"), "api_key"),
        ] {
            let error = own.with(wrong).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
        assert!(!format!("{:?}", CallOptions::new().api_key("k3y").header("a", "v4lue")).contains(['3', '4']));
    }
}
