//! Answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An answer: `200` with the text `ok` unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Header fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The Retry-After field, in any form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// A Date field: the machine's time plus so many seconds. Absent: no Date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
    /// The body.
    pub body: Body,
    /// Trailer fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trailers: BTreeMap<String, String>,
    /// Interim answers such as `103` sent before this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interim: Vec<u16>,
    /// How the end of the body is told.
    pub framing: Framing,
    /// What is added to a true Content-Length, to make it a lie.
    #[serde(skip_serializing_if = "is_default")]
    pub length_lie: i64,
    /// The largest DATA frame or chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_size: Option<usize>,
    /// HTTP/2: an empty DATA frame each so many bytes of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_data_every: Option<u64>,
    /// HTTP/2: padding of each DATA frame, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<u8>,
    /// Milliseconds between DATA frames or chunks.
    #[serde(skip_serializing_if = "is_default")]
    pub pause_ms: u64,
    /// HTTP/1.1: the n-th chunk, from 1, begins with `zz` where its length should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_chunk: Option<u64>,
    /// HTTP/1.1: text that follows the answer and belongs to none: a pipelined surprise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub surplus: String,
    /// HTTP/2: the answer is sent even if the client reset the stream meanwhile: late frames for a closed stream.
    #[serde(skip_serializing_if = "is_default")]
    pub even_if_cancelled: bool,
    /// HTTP/2: the client's flow-control windows are ignored.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_windows: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: 200,
            headers: BTreeMap::new(),
            retry_after: None,
            date: None,
            body: Body::Text("ok".to_owned()),
            trailers: BTreeMap::new(),
            interim: Vec::new(),
            framing: Framing::Length,
            length_lie: 0,
            frame_size: None,
            empty_data_every: None,
            padding: None,
            pause_ms: 0,
            bad_chunk: None,
            surplus: String::new(),
            even_if_cancelled: false,
            ignore_windows: false,
        }
    }
}

impl Answer {
    /// An answer with this status and no body.
    pub fn status(status: u16) -> Self {
        Self { status, body: Body::Text(String::new()), ..Self::default() }
    }

    /// Sets a text body.
    pub fn text(mut self, text: &str) -> Self {
        self.body = Body::Text(text.to_owned());
        self
    }

    /// Sets a body of so many bytes.
    pub fn size(mut self, bytes: u64) -> Self {
        self.body = Body::Size(bytes);
        self
    }

    /// Adds a header field.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets the Retry-After field.
    pub fn retry_after(mut self, wait: RetryAfter) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

/// What is in a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    /// This text.
    Text(String),
    /// So many bytes `x`, made as they are sent.
    Size(u64),
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// By Content-Length.
    #[default]
    Length,
    /// HTTP/1.1 by chunks; HTTP/2 without Content-Length.
    Chunked,
    /// HTTP/1.1 by the end of the connection; HTTP/2 without Content-Length.
    Close,
}

/// The Retry-After field. Dates count in seconds from the machine's time when the answer is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RetryAfter {
    /// `Retry-After: 120`.
    Seconds(u64),
    /// `Retry-After: Fri, 31 Dec 1999 23:59:59 GMT`.
    HttpDate(i64),
    /// `Retry-After: Friday, 31-Dec-99 23:59:59 GMT`, the obsolete form of RFC 850.
    Rfc850(i64),
    /// `Retry-After: Fri Dec 31 23:59:59 1999`, the obsolete form of C's asctime.
    Asctime(i64),
    /// These bytes, right or wrong.
    Raw(String),
}
