//! When something goes wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Fault, Number, Text};

/// Faults, the moment they happen at, and the conditions that must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Unchecked")]
pub struct Rule {
    /// A name for the log and for errors.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The moment.
    pub at: Moment,
    /// The conditions. All must hold; with none the rule holds always.
    #[serde(skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// What happens, in order.
    #[serde(rename = "do")]
    pub faults: Vec<Fault>,
}

/// A rule as it stands in the file, before moment, conditions and faults were seen to fit each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    #[serde(default)]
    name: String,
    at: Moment,
    #[serde(default)]
    when: When,
    #[serde(rename = "do")]
    faults: Vec<Fault>,
}

impl TryFrom<Unchecked> for Rule {
    type Error = String;

    fn try_from(Unchecked { name, at, when, faults }: Unchecked) -> Result<Self, String> {
        let rule = Self { name, at, when, faults };
        rule.check()?;
        Ok(rule)
    }
}

/// The moment a rule is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// A connection was accepted; nothing was read.
    Connect,
    /// HTTP/2: the client's preface came, and our SETTINGS were queued.
    Preface,
    /// A request's head came.
    Request,
    /// So many bytes of a request's body came.
    RequestBody(u64),
    /// A whole request came; it is not processed yet.
    Received,
    /// A request was processed and its service time passed; nothing was answered.
    Processed,
    /// HTTP/1.1: so many bytes of the answer's head were written.
    AnswerHead(u64),
    /// So many bytes of the answer's body were written; 0: its head was.
    AnswerBody(u64),
    /// So many pieces of the answer's body (DATA frames, chunks) were written.
    AnswerPiece(u64),
    /// The last byte of an answer was written.
    Answered,
    /// HTTP/2: the client reset the stream of a request that was not answered.
    Cancelled,
    /// A connection had no request for so many milliseconds.
    Idle(u64),
    /// A connection has been open for so many milliseconds.
    Age(u64),
    /// Exactly so many bytes were read from a connection, above TLS.
    BytesIn(u64),
    /// Exactly so many bytes were written to a connection, above TLS.
    BytesOut(u64),
}

/// The HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2.
    #[serde(rename = "2")]
    Http2,
}

/// Conditions. Rows count from 1: the first connection, the first try.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Which connections, in the order they were accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Number>,
    /// Which version of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Which HTTP/2 stream ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Number>,
    /// Which requests of a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<Number>,
    /// Which request ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Text>,
    /// Which tries of one request id, over all connections. A request without an id is always the first try.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Number>,
    /// Which methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Text>,
    /// Which paths, with their query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// Which header fields must be there, with which values. Names in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Text>,
    /// This share of all *requests*: drawn from seed, rule and request id, so the same for all tries of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Probability>,
    /// This share of all *occasions*: drawn from seed, rule, and request id and try where there are such, else
    /// connection and stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<Probability>,
    /// Which of the occasions that fulfil all the other conditions, over all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Number>,
}

impl When {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Probability(f64);

impl Probability {
    /// Numbers below 0 count as 0, above 1 as 1.
    pub fn new(probability: f64) -> Self {
        Self(if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) })
    }

    /// Whether a number drawn evenly from all 64-bit ones falls within it.
    pub(crate) fn holds(self, drawn: u64) -> bool {
        // 53 bits are what an f64 holds exactly.
        (drawn >> 11) as f64 / (1_u64 << 53) as f64 <= self.0 && self.0 > 0.0
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&number) {
            return Ok(Self(number));
        }
        Err(de::Error::invalid_value(de::Unexpected::Float(number), &"a number from 0 to 1"))
    }
}

impl Rule {
    /// A rule that holds always at this moment, and does nothing yet.
    pub fn at(moment: Moment) -> Self {
        Self { name: String::new(), at: moment, when: When::default(), faults: Vec::new() }
    }

    /// Adds what happens.
    pub fn does(mut self, fault: impl Into<Fault>) -> Self {
        self.faults.push(fault.into());
        self
    }

    /// Names the rule.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Only on these connections, from 1.
    pub fn connection(mut self, number: impl Into<Number>) -> Self {
        self.when.connection = Some(number.into());
        self
    }

    /// Only over this version of HTTP.
    pub fn version(mut self, version: Version) -> Self {
        self.when.version = Some(version);
        self
    }

    /// Only on these HTTP/2 streams.
    pub fn stream(mut self, id: impl Into<Number>) -> Self {
        self.when.stream = Some(id.into());
        self
    }

    /// Only these requests of a connection, from 1.
    pub fn nth(mut self, number: impl Into<Number>) -> Self {
        self.when.nth = Some(number.into());
        self
    }

    /// Only these request ids.
    pub fn request_id(mut self, id: impl Into<Text>) -> Self {
        self.when.request_id = Some(id.into());
        self
    }

    /// Only these tries of a request id, from 1.
    pub fn attempt(mut self, number: impl Into<Number>) -> Self {
        self.when.attempt = Some(number.into());
        self
    }

    /// Only these methods.
    pub fn method(mut self, method: impl Into<Text>) -> Self {
        self.when.method = Some(method.into());
        self
    }

    /// Only these paths.
    pub fn path(mut self, path: impl Into<Text>) -> Self {
        self.when.path = Some(path.into());
        self
    }

    /// Only with this header field.
    pub fn header(mut self, name: &str, value: impl Into<Text>) -> Self {
        self.when.header.insert(name.to_ascii_lowercase(), value.into());
        self
    }

    /// Only for this share of requests.
    pub fn share(mut self, share: f64) -> Self {
        self.when.share = Some(Probability::new(share));
        self
    }

    /// Only with this probability.
    pub fn probability(mut self, probability: f64) -> Self {
        self.when.probability = Some(Probability::new(probability));
        self
    }

    /// Only these of the occasions that fulfil all the other conditions, from 1.
    pub fn count(mut self, number: impl Into<Number>) -> Self {
        self.when.count = Some(number.into());
        self
    }
}
