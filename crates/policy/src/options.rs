//! The options around the decision, and how any option's value is checked.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use crate::policy::{
    DEFAULT_READ_IDLE_TIMEOUT, DEFAULT_REPLAY_BUFFER_LIMIT, DEFAULT_REQUEST_TIMEOUT, MAX_RETRIES, Policy,
};

/// How long look-ups must stay empty, counted from the loss, before they are believed.
pub const DEFAULT_SETTLE: Duration = Duration::from_secs(10);

/// The bound of what goes on after a call has ended: sweeping doubles, giving up an abandoned create.
pub const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Look-ups and kills that may be spent after a call has ended.
pub const CLEANUP_LOOKUPS: u32 = 16;

/// The longest time an option may name: what fits 32 bits of seconds, as a server's `Retry-After` does.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(i32::MAX as u64);

/// The options of a call by their public names. Those that only a connection pool reads (`initial_streams`,
/// `max_connections`, `keepalive_expiry`, `http_version`) are the transport's.
///
/// A front resolves each as: given explicitly, else from the environment, else the default.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::Options;
///
/// let options = Options { attempt_timeout: Some(Duration::ZERO), ..Options::default() };
/// let error = options.validate().unwrap_err();
/// assert_eq!(error.to_string(), "attempt_timeout: 0ns is not more than zero and at most 2147483647 s, or off");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What decides about repeats.
    pub policy: Policy,
    /// The call's deadline, counted from its begin. It ends at the commit point of a streaming response and does not
    /// bound a streamed request body. `None`: no deadline; publicly 0. Default 60 s.
    pub request_timeout: Option<Duration>,
    /// The longest that one attempt may take. What it ends after the head was written has an unknown outcome. Default:
    /// as long as the call.
    pub attempt_timeout: Option<Duration>,
    /// How long a response that is being read may stay silent. `None`: for ever. Default 60 s.
    pub read_idle_timeout: Option<Duration>,
    /// What is kept of a streamed request body so that it can be sent again, in bytes. Default 65,536.
    pub replay_buffer_limit: usize,
    /// Whether the server is taken to honour idempotency keys. Default [`IdempotencyKeys::Auto`].
    pub idempotency_keys: IdempotencyKeys,
    /// How long look-ups must stay empty, counted from the loss, before they are believed. Default 10 s.
    pub settle: Duration,
    /// The bound of what goes on after a call has ended. Default 30 s.
    pub cleanup_timeout: Duration,
}

impl Options {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        policy: Policy::DEFAULT,
        request_timeout: Some(DEFAULT_REQUEST_TIMEOUT),
        attempt_timeout: None,
        read_idle_timeout: Some(DEFAULT_READ_IDLE_TIMEOUT),
        replay_buffer_limit: DEFAULT_REPLAY_BUFFER_LIMIT,
        idempotency_keys: IdempotencyKeys::Auto,
        settle: DEFAULT_SETTLE,
        cleanup_timeout: DEFAULT_CLEANUP_TIMEOUT,
    };

    /// Checks every value against its rule.
    ///
    /// # Errors
    /// For the first value that breaks its rule.
    pub fn validate(&self) -> Result<(), OptionError> {
        self.policy.validate()?;
        for (name, timeout) in [
            ("request_timeout", self.request_timeout),
            ("attempt_timeout", self.attempt_timeout),
            ("read_idle_timeout", self.read_idle_timeout),
        ] {
            if let Some(timeout) = timeout
                && (timeout.is_zero() || timeout > MAX_TIMEOUT)
            {
                let rule = "more than zero and at most 2147483647 s, or off";
                return Err(OptionError { name, value: debug(timeout), rule });
            }
        }
        check_duration("settle", self.settle)?;
        check_duration("cleanup_timeout", self.cleanup_timeout)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether a server is taken to honour idempotency keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum IdempotencyKeys {
    /// Not before it has shown that it does.
    #[default]
    Auto,
    /// It does.
    Honoured,
    /// It does not.
    Ignored,
}

/// What a call talks to, as far as defaults depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The control plane.
    #[default]
    ControlPlane,
    /// Inside a sandbox or a volume: envd, `/files`, volume content. A caller there holds state that a layer below
    /// cannot see, so answers and unknown outcomes come back at once; only what was provably unprocessed is replayed.
    Sandbox,
}

impl Scope {
    /// The `retries` of a call: the number that was given for it, else this scope's default. `configured` is the
    /// client's own number.
    ///
    /// ```
    /// use oncebox_policy::Scope;
    ///
    /// assert_eq!(Scope::ControlPlane.retries(None, 3), 3);
    /// assert_eq!(Scope::Sandbox.retries(None, 3), 0);
    /// assert_eq!(Scope::Sandbox.retries(Some(2), 3), 2);
    /// ```
    pub fn retries(self, given: Option<u32>, configured: u32) -> u32 {
        given.unwrap_or(match self {
            Self::ControlPlane => configured,
            Self::Sandbox => 0,
        })
    }
}

/// An option's value that its rule forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option, or the environment variable.
    pub name: &'static str,
    /// The value that was given.
    pub value: String,
    /// What it has to be.
    pub rule: &'static str,
}

impl OptionError {
    pub(crate) fn new(name: &'static str, value: impl ToString, rule: &'static str) -> Self {
        Self { name, value: value.to_string(), rule }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is not {}", self.name, self.value, self.rule)
    }
}

impl core::error::Error for OptionError {}

/// A timeout given in seconds, as every front's users give it: 0 turns it off.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::timeout_option;
///
/// assert_eq!(timeout_option("request_timeout", 2.5), Ok(Some(Duration::from_millis(2500))));
/// assert_eq!(timeout_option("request_timeout", 0.0), Ok(None));
/// let error = timeout_option("request_timeout", -1.0).unwrap_err();
/// assert_eq!(error.to_string(), "request_timeout: -1 is not a number of seconds from 0 (off) to 2147483647");
/// ```
///
/// # Errors
/// When it is negative, not finite, or more than [`MAX_TIMEOUT`].
pub fn timeout_option(name: &'static str, seconds: f64) -> Result<Option<Duration>, OptionError> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if timeout.is_zero() => Ok(None),
        Ok(timeout) if timeout <= MAX_TIMEOUT => Ok(Some(timeout)),
        _ => Err(OptionError::new(name, seconds, "a number of seconds from 0 (off) to 2147483647")),
    }
}

/// Checks a time that was given as a [`Duration`].
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::check_duration;
///
/// let error = check_duration("settle", Duration::MAX).unwrap_err();
/// assert_eq!(error.to_string(), "settle: 18446744073709551615.999999999s is not at most 2147483647 s");
/// ```
///
/// # Errors
/// When it is more than [`MAX_TIMEOUT`].
pub fn check_duration(name: &'static str, time: Duration) -> Result<(), OptionError> {
    if time > MAX_TIMEOUT {
        return Err(OptionError { name, value: debug(time), rule: "at most 2147483647 s" });
    }
    Ok(())
}

/// Checks a number of which there has to be at least one, such as of connections.
///
/// # Errors
/// When it is 0, or more than 32 bits hold.
pub fn check_at_least_one(name: &'static str, count: usize) -> Result<(), OptionError> {
    match u32::try_from(count) {
        Ok(1..) => Ok(()),
        _ => Err(OptionError::new(name, count, "a whole number from 1 to 4294967295")),
    }
}

/// `retries` or `connection_retries` written as text, as in `E2B_CONNECTION_RETRIES`.
///
/// ```
/// use oncebox_policy::retries_option;
///
/// assert_eq!(retries_option("E2B_CONNECTION_RETRIES", "5"), Ok(5));
/// let error = retries_option("E2B_CONNECTION_RETRIES", "many").unwrap_err();
/// assert_eq!(error.to_string(), "E2B_CONNECTION_RETRIES: many is not a whole number from 0 to 1000");
/// ```
///
/// # Errors
/// When it is no whole number, or more than [`MAX_RETRIES`].
pub fn retries_option(name: &'static str, text: &str) -> Result<u32, OptionError> {
    match text.trim_ascii().parse() {
        Ok(count) => check_retries(name, count).map(|()| count),
        Err(_) => Err(OptionError::new(name, text, RETRIES_RULE)),
    }
}

const RETRIES_RULE: &str = "a whole number from 0 to 1000";

pub(crate) fn check_retries(name: &'static str, count: u32) -> Result<(), OptionError> {
    if count > MAX_RETRIES { Err(OptionError::new(name, count, RETRIES_RULE)) } else { Ok(()) }
}

fn debug(timeout: Duration) -> String {
    alloc::format!("{timeout:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_documented_numbers() {
        let options = Options::default();
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(options.request_timeout, Some(Duration::from_secs(60)));
        assert_eq!(options.read_idle_timeout, Some(Duration::from_secs(60)));
        assert_eq!(options.attempt_timeout, None);
        assert_eq!(options.replay_buffer_limit, 65_536);
        assert_eq!(options.settle, Duration::from_secs(10));
        assert_eq!(options.cleanup_timeout, Duration::from_secs(30));
        assert_eq!((options.policy.retries, options.policy.connection_retries, options.policy.lookups), (3, 3, 16));
    }

    #[test]
    fn an_error_names_option_value_and_rule() {
        let too_many = Policy { connection_retries: 1001, ..Policy::default() };
        assert_eq!(
            too_many.validate().unwrap_err().to_string(),
            "connection_retries: 1001 is not a whole number from 0 to 1000"
        );
        assert_eq!(Policy { retries: 1000, ..Policy::default() }.validate(), Ok(()));
        for jitter in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Policy { retry_after_jitter: jitter, ..Policy::default() }.validate().is_err(), "{jitter}");
        }
        assert_eq!(Policy { retry_after_jitter: 1.0, ..Policy::default() }.validate(), Ok(()));
        let settle = Options { settle: MAX_TIMEOUT + Duration::from_secs(1), ..Options::default() };
        assert_eq!(settle.validate().unwrap_err().to_string(), "settle: 2147483648s is not at most 2147483647 s");
    }

    #[test]
    fn a_call_in_a_sandbox_has_no_retries_unless_it_is_given_some() {
        assert_eq!(Scope::ControlPlane.retries(None, 3), 3);
        assert_eq!(Scope::ControlPlane.retries(Some(5), 3), 5);
        assert_eq!(Scope::Sandbox.retries(None, 3), 0);
        assert_eq!(Scope::Sandbox.retries(Some(5), 3), 5);
    }

    #[test]
    fn attempts_add_up_and_do_not_run_over() {
        assert_eq!(Policy { retries: 2, connection_retries: 3, ..Policy::default() }.bound(), 6);
        assert_eq!(Policy { retries: 0, connection_retries: 0, ..Policy::default() }.bound(), 1);
        assert_eq!(Policy { retries: u32::MAX, connection_retries: u32::MAX, ..Policy::default() }.bound(), u32::MAX);
    }

    #[test]
    fn timeouts_have_a_lower_and_an_upper_bound() {
        let beyond = MAX_TIMEOUT + Duration::from_nanos(1);
        for bad in [Duration::ZERO, beyond] {
            assert!(Options { request_timeout: Some(bad), ..Options::default() }.validate().is_err());
            assert!(Options { attempt_timeout: Some(bad), ..Options::default() }.validate().is_err());
            assert!(Options { read_idle_timeout: Some(bad), ..Options::default() }.validate().is_err());
        }
        assert_eq!(Options { request_timeout: Some(MAX_TIMEOUT), ..Options::default() }.validate(), Ok(()));
        assert_eq!(Options { settle: Duration::ZERO, ..Options::default() }.validate(), Ok(()));
        assert!(Options { settle: beyond, ..Options::default() }.validate().is_err());
        assert_eq!(Options { cleanup_timeout: MAX_TIMEOUT, ..Options::default() }.validate(), Ok(()));
        for seconds in [f64::NAN, f64::INFINITY, 1e300, -0.001, 2_147_483_648.0] {
            assert!(timeout_option("request_timeout", seconds).is_err(), "{seconds}");
        }
        assert_eq!(timeout_option("request_timeout", 2_147_483_647.0), Ok(Some(MAX_TIMEOUT)));
        assert_eq!(timeout_option("request_timeout", 0.0), Ok(None));
    }

    #[test]
    fn a_count_in_the_environment_is_a_whole_number() {
        assert_eq!(retries_option("E2B_CONNECTION_RETRIES", " 0 "), Ok(0));
        assert_eq!(retries_option("E2B_CONNECTION_RETRIES", "1000"), Ok(1000));
        for text in ["", "-1", "1.5", "1001", "3 3"] {
            assert!(retries_option("E2B_CONNECTION_RETRIES", text).is_err(), "{text}");
        }
    }
}
