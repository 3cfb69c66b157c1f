//! The options that decide about repeats, under the same names in every front.

use core::time::Duration;

use crate::options::{OptionError, check_retries};

/// Automatic retries of a call, after an answer or an unknown outcome.
pub const DEFAULT_RETRIES: u32 = 3;

/// Repeats of a call after failed connects and refusals.
pub const DEFAULT_CONNECTION_RETRIES: u32 = 3;

/// The deadline of a call.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a response that is being read may stay silent.
pub const DEFAULT_READ_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The mirror of a streamed request body, in bytes (64 KiB, as in linkerd2-proxy's replay body).
pub const DEFAULT_REPLAY_BUFFER_LIMIT: usize = 65_536;

/// Without a deadline, no retry starts once this much time would have passed since the call began (protocol fact: the
/// official SDK uses 60 s when its timeouts are off).
pub const RETRY_WINDOW_WITHOUT_DEADLINE: Duration = Duration::from_secs(60);

/// The first backoff before jitter (protocol fact: the official SDK's 0.1 s).
pub const BACKOFF_BASE: Duration = Duration::from_millis(100);

/// The longest backoff before jitter (protocol fact: the official SDK's 10 s).
pub const BACKOFF_CAP: Duration = Duration::from_secs(10);

/// The wait after an origin's first failed dial, before jitter (protocol fact: 0.5 s in the official SDK).
pub const DIAL_BACKOFF_BASE: Duration = Duration::from_millis(500);

/// The longest wait between dials of an origin.
pub const DIAL_BACKOFF_CAP: Duration = Duration::from_secs(10);

/// Repeats of a call that touched no socket and are not counted; further ones are.
pub const FREE_REPEATS: u32 = 8;

/// Which unknown outcomes may be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum RepeatUnknown {
    /// None.
    Never,
    /// Those of safe methods (RFC 9110 §9.2.1).
    Safe,
    /// Those with any permit to repeat.
    #[default]
    Permitted,
}

/// Single attempts that a reconciler may spend on one call: look-ups, kills, polls.
pub const DEFAULT_LOOKUPS: u32 = 16;

/// The most pages that one look-up reads. Together they count once.
pub const LOOKUP_PAGES: u32 = 20;

/// More repeats than this are taken for a mistake: with backoff they would last for hours.
pub const MAX_RETRIES: u32 = 1000;

/// Decides about repeats. All fields are options by their public names; [`Default`] gives the documented defaults.
///
/// ```
/// use oncebox_policy::Policy;
///
/// let policy = Policy { retries: 1, ..Policy::default() };
/// assert_eq!(policy.connection_retries, 3);
/// assert_eq!(policy.bound(), 5); // attempts that may reach the network, in all
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Policy {
    /// Retries after an answer or an unknown outcome. Default 3.
    pub retries: u32,
    /// Repeats after failed connects and refusals. Default 3.
    pub connection_retries: u32,
    /// 503 counts as a rejection and is retried for every operation (RFC 9110 §15.6.4). Off: like 502. Default on.
    pub trust_service_unavailable: bool,
    /// 502 is treated like 503. Off: retried with a permit only. Default off.
    pub trust_bad_gateway: bool,
    /// 504 is retried with a permit. Off: returned. Default off.
    pub retry_gateway_timeout: bool,
    /// 408 is retried with a permit (RFC 9110 §15.5.9). Off: returned. Default on.
    pub retry_request_timeout_status: bool,
    /// 421 and 425 are refusals, each replayed once (RFC 9110 §15.5.20, RFC 8470 §5.2). Off: returned. Default on.
    pub replay_misdirected_and_early: bool,
    /// 429 is retried also without a usable `Retry-After`. Default off.
    pub retry_rate_limit_without_hint: bool,
    /// `Should-Retry` is obeyed. Default on.
    pub honor_should_retry: bool,
    /// Retries cost tokens of a budget shared by all calls to an origin. Default on.
    pub retry_budget: bool,
    /// Which unknown outcomes may be repeated. Default: those with a permit.
    pub repeat_unknown: RepeatUnknown,
    /// The largest fraction of a `Retry-After` that is added at random, from 0 to 1. Default 0.
    pub retry_after_jitter: f64,
    /// Single attempts that a reconciler may spend on finding out what an unknown outcome did: look-ups, kills, polls.
    /// They count here and nowhere else. Default 16.
    pub lookups: u32,
}

impl Policy {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        retries: DEFAULT_RETRIES,
        connection_retries: DEFAULT_CONNECTION_RETRIES,
        trust_service_unavailable: true,
        trust_bad_gateway: false,
        retry_gateway_timeout: false,
        retry_request_timeout_status: true,
        replay_misdirected_and_early: true,
        retry_rate_limit_without_hint: false,
        honor_should_retry: true,
        retry_budget: true,
        repeat_unknown: RepeatUnknown::Permitted,
        retry_after_jitter: 0.0,
        lookups: DEFAULT_LOOKUPS,
    };

    /// What version 2.52.0 of the official Python SDK retries: 429 with `Retry-After`, 502 and 503 for every
    /// operation, and unknown outcomes by the operation table.
    pub const fn e2b_2_52() -> Self {
        Self {
            trust_bad_gateway: true,
            retry_request_timeout_status: false,
            replay_misdirected_and_early: false,
            honor_should_retry: false,
            retry_budget: false,
            ..Self::DEFAULT
        }
    }

    /// The statuses that version 2.63.0 of the official Python SDK retries (429, 502, 503, 504, and what
    /// `Should-Retry` says), but only with our permits where the outcome is unknown.
    pub const fn e2b_2_63() -> Self {
        Self {
            retry_gateway_timeout: true,
            retry_request_timeout_status: false,
            replay_misdirected_and_early: false,
            retry_rate_limit_without_hint: true,
            retry_budget: false,
            ..Self::DEFAULT
        }
    }

    /// Checks every value against its rule.
    ///
    /// ```
    /// use oncebox_policy::Policy;
    ///
    /// let error = Policy { retry_after_jitter: 1.5, ..Policy::default() }.validate().unwrap_err();
    /// assert_eq!(error.to_string(), "retry_after_jitter: 1.5 is not a fraction from 0 to 1");
    /// ```
    ///
    /// # Errors
    /// For the first value that breaks its rule.
    pub fn validate(&self) -> Result<(), OptionError> {
        for (name, count) in [("retries", self.retries), ("connection_retries", self.connection_retries)] {
            check_retries(name, count)?;
        }
        if !(0.0..=1.0).contains(&self.retry_after_jitter) {
            return Err(OptionError::new("retry_after_jitter", self.retry_after_jitter, "a fraction from 0 to 1"));
        }
        Ok(())
    }

    /// The most attempts of one call that may reach the network, over all layers: HEADERS sent and counted failed
    /// dials.
    pub const fn bound(&self) -> u32 {
        1_u32.saturating_add(self.retries).saturating_add(self.connection_retries)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}
