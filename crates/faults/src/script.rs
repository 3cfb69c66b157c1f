//! What happens, and when: the script a [`Server`](crate::Server) or a [`Peer`](crate::Peer) follows.

mod answer;
mod check;
mod code;
mod fault;
mod json;
mod number;
mod rule;
mod text;

use serde::{Deserialize, Serialize};

pub use answer::{Answer, Body, Framing, RetryAfter};
pub use code::ErrorCode;
pub use fault::{Bytes, Fault, FrameStream, Goaway, LastId, Link, ProtocolError, RawFrame, Settings, Then, Withhold};
pub use json::ScriptError;
pub use number::Number;
pub use rule::{Moment, Probability, Rule, Version, When};
pub use text::Text;

/// Which HTTP a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// What the client begins with: by ALPN over TLS, else by whether the HTTP/2 preface comes first.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// HTTP/1.1 only.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2 only: SETTINGS are sent without waiting for the client's preface.
    #[serde(rename = "2")]
    Http2,
}

/// What a server does, in whole: how it behaves when nothing is wrong, and the rules by which things go wrong.
///
/// ```
/// use oncebox_faults::{Fault, Moment, Rule, Script};
///
/// let script = Script::new()
///     .max_concurrent_streams(100)
///     .rule(Rule::at(Moment::Request).attempt(1).share(0.5).does(Fault::Refuse))
///     .rule(Rule::at(Moment::Request).nth(20).does(Fault::goaway().debug("max_age")));
/// assert_eq!(Script::from_json(&script.to_json())?, script);
/// # Ok::<(), oncebox_faults::ScriptError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// A short name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the script is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Everything that looks random follows from it: the same seed, the same choices.
    pub seed: u64,
    /// Which HTTP is spoken.
    pub protocol: Protocol,
    /// SETTINGS of HTTP/2. `null` in JSON: none are sent.
    pub settings: Option<Settings>,
    /// What a connection's receive window is raised to, in bytes, when a connection starts.
    pub connection_window: u32,
    /// The request header that says which request this is; it stays the same over the tries of one request.
    pub request_id_header: String,
    /// Milliseconds between processing a request and answering it: a number, or `"random 5-20"`.
    pub service_time_ms: Number,
    /// The answer when no rule says otherwise.
    pub answer: Answer,
    /// What goes wrong. All rules that hold at a moment happen, in this order, up to the first that ends the request or
    /// answers it.
    pub rules: Vec<Rule>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            seed: 0,
            protocol: Protocol::Auto,
            settings: Some(Settings::default()),
            connection_window: 1 << 30,
            request_id_header: "x-request-id".to_owned(),
            service_time_ms: Number::Is(0),
            answer: Answer::default(),
            rules: Vec::new(),
        }
    }
}

impl Script {
    /// A server that does nothing wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// A server that ends every HTTP/2 connection after so many streams: GOAWAY NO_ERROR "max_age" with the exact last
    /// id, then a close once the streams up to it were answered. `retiring(20)`, or
    /// `retiring(Number::Random { from: 1, to: 40 })` for a number drawn for each connection.
    pub fn retiring(streams: impl Into<Number>) -> Self {
        Self::new().rule(Rule::at(Moment::Request).nth(streams).does(Fault::goaway().debug("max_age")))
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets which HTTP is spoken.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the SETTINGS that a connection starts with; `None`: none are ever sent.
    pub fn settings(mut self, settings: impl Into<Option<Settings>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Sets SETTINGS_MAX_CONCURRENT_STREAMS, keeping the other settings.
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.settings.get_or_insert_default().max_concurrent_streams = Some(streams);
        self
    }

    /// Sets the name of the request id header.
    pub fn request_id_header(mut self, name: &str) -> Self {
        self.request_id_header = name.to_ascii_lowercase();
        self
    }

    /// Sets the milliseconds between processing and answer.
    pub fn service_time_ms(mut self, time: impl Into<Number>) -> Self {
        self.service_time_ms = time.into();
        self
    }

    /// Sets the answer when no rule says otherwise.
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}
