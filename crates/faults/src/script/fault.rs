//! What can go wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, ErrorCode};

/// One thing that a peer does wrong, or merely at an unlucky moment. In JSON `"refuse"`, or `{"wait": 50}`.
///
/// Faults of one rule follow one another; [`Wait`](Self::Wait) holds up those after it and the stream they belong to,
/// but nothing else. A fault of HTTP/2 on an HTTP/1.1 connection does nothing, and the log says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// Waits so many milliseconds.
    Wait(u64),

    /// RST_STREAM with REFUSED_STREAM: the request is not processed, unless it already was.
    Refuse,
    /// RST_STREAM with a code of choice.
    ResetStream(ErrorCode),
    /// Never answers this request.
    Hold,
    /// Answers this instead. At the moments before [`Processed`](crate::Moment::Processed) the request is not
    /// processed, and its body need not have been read.
    Answer(Box<Answer>),
    /// HEADERS, DATA, WINDOW_UPDATE and RST_STREAM for this stream, whatever its state.
    LateFrames,

    /// GOAWAY.
    Goaway(Goaway),
    /// New SETTINGS.
    Settings(Settings),
    /// A PING that asks for an answer; the log has the answer's place among what else came.
    Ping,
    /// From now on does not send what is listed, however long the client waits for it.
    Withhold(Vec<Withhold>),
    /// A frame made by hand.
    Frame(RawFrame),
    /// A violation of HTTP/2.
    ProtocolError(ProtocolError),

    /// These bytes, unframed, on the connection.
    Send(Bytes),
    /// Writes nothing on the connection for so many milliseconds. It goes on reading.
    Stall(u64),
    /// From now on writes nothing and reads nothing. The connection stays open.
    Silence,
    /// Ends the connection in order: what is queued, TLS close_notify, FIN. Then reads on, for a while.
    Close,
    /// FIN while what the client sent is not read, and then the reset that the system sends for it.
    CloseUnread,
    /// FIN without TLS's close_notify: the client cannot tell the end from a cut.
    CloseWithoutNotify,
    /// A TCP reset. What is queued goes before it as long as the client reads; one that takes nothing for 100 ms loses it.
    Reset,

    /// The quality of the line, from here on. Only at [`Connect`](crate::Moment::Connect).
    Link(Link),
    /// Ends the connection after the ClientHello and so many bytes of the server's flight. Only at
    /// [`Connect`](crate::Moment::Connect), over TLS.
    CutTls(u64),
    /// Refuses new connections (the port is closed) for so many milliseconds.
    RefuseConnects(u64),
}

impl Fault {
    /// GOAWAY NO_ERROR with the exact last id; the connection is closed when the streams up to it were answered.
    pub fn goaway() -> Goaway {
        Goaway::default()
    }

    /// A wait.
    pub fn wait(time: Duration) -> Self {
        Self::Wait(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// An answer instead.
    pub fn answer(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }

    /// The name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wait(_) => "wait",
            Self::Refuse => "refuse",
            Self::ResetStream(_) => "reset_stream",
            Self::Hold => "hold",
            Self::Answer(_) => "answer",
            Self::LateFrames => "late_frames",
            Self::Goaway(_) => "goaway",
            Self::Settings(_) => "settings",
            Self::Ping => "ping",
            Self::Withhold(_) => "withhold",
            Self::Frame(_) => "frame",
            Self::ProtocolError(_) => "protocol_error",
            Self::Send(_) => "send",
            Self::Stall(_) => "stall",
            Self::Silence => "silence",
            Self::Close => "close",
            Self::CloseUnread => "close_unread",
            Self::CloseWithoutNotify => "close_without_notify",
            Self::Reset => "reset",
            Self::Link(_) => "link",
            Self::CutTls(_) => "cut_tls",
            Self::RefuseConnects(_) => "refuse_connects",
        }
    }
}

impl From<Goaway> for Fault {
    fn from(goaway: Goaway) -> Self {
        Self::Goaway(goaway)
    }
}

impl From<Settings> for Fault {
    fn from(settings: Settings) -> Self {
        Self::Settings(settings)
    }
}

/// A GOAWAY frame, and what becomes of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Goaway {
    /// The last stream id.
    pub last: LastId,
    /// The error code.
    pub code: ErrorCode,
    /// Additional debug data.
    pub debug: String,
    /// Whether streams above the last id are processed all the same, which the frame says they are not.
    pub lie: bool,
    /// What becomes of the connection. Absent: `close_when_done`, and with the last id `max`: `stay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

impl Default for Goaway {
    fn default() -> Self {
        Self { last: LastId::Exact, code: ErrorCode::NO_ERROR, debug: String::new(), lie: false, then: None }
    }
}

impl Goaway {
    /// Sets the last id.
    pub fn last(mut self, last: LastId) -> Self {
        self.last = last;
        self
    }

    /// Sets the error code.
    pub fn code(mut self, code: ErrorCode) -> Self {
        self.code = code;
        self
    }

    /// Sets the debug data.
    pub fn debug(mut self, text: &str) -> Self {
        self.debug = text.to_owned();
        self
    }

    /// Sets what becomes of the connection.
    pub fn then(mut self, then: Then) -> Self {
        self.then = Some(then);
        self
    }

    /// Processes streams above the last id all the same.
    pub fn lying(mut self) -> Self {
        self.lie = true;
        self
    }
}

/// The last stream id of a GOAWAY: in JSON `"exact"`, `"previous"`, `"max"`, or `{"id": 41}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastId {
    /// The highest stream that was accepted so far: with a request at hand at least that one.
    Exact,
    /// The one accepted before the request at hand, so that this one is refused; without one, as `exact`.
    Previous,
    /// 2^31 − 1: the first phase of a graceful end. Streams go on being processed.
    Max,
    /// This one.
    Id(u32),
}

/// What becomes of a connection after GOAWAY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It stays open.
    Stay,
    /// It is closed when the streams up to the last id were answered.
    CloseWhenDone,
    /// It is reset when the streams up to the last id were answered.
    ResetWhenDone,
    /// It is closed at once.
    Close,
    /// It is reset as soon as the frame was handed to the system.
    Reset,
}

/// SETTINGS of HTTP/2. Absent fields are not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default = "Settings::none")]
pub struct Settings {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_streams: Option<u32>,
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_size: Option<u32>,
    /// SETTINGS_MAX_FRAME_SIZE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_frame_size: Option<u32>,
    /// SETTINGS_HEADER_TABLE_SIZE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_table_size: Option<u32>,
    /// SETTINGS_MAX_HEADER_LIST_SIZE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_header_list_size: Option<u32>,
    /// SETTINGS_ENABLE_PUSH, which a server must not send as 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_push: Option<u32>,
    /// Others, by number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub other: BTreeMap<u16, u32>,
    /// Milliseconds to wait before sending them; only at the start of a connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub after_ms: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_concurrent_streams: Some(100), initial_window_size: Some(1 << 20), ..Self::none() }
    }
}

impl Settings {
    /// An empty SETTINGS frame.
    pub fn none() -> Self {
        Self {
            max_concurrent_streams: None,
            initial_window_size: None,
            max_frame_size: None,
            header_table_size: None,
            max_header_list_size: None,
            enable_push: None,
            other: BTreeMap::new(),
            after_ms: 0,
        }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS and nothing else.
    pub fn streams(streams: u32) -> Self {
        Self { max_concurrent_streams: Some(streams), ..Self::none() }
    }
}

/// What a peer can fail to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withhold {
    /// The acknowledgement of the client's SETTINGS.
    SettingsAcks,
    /// WINDOW_UPDATE, for connection and streams: uploads starve.
    WindowUpdates,
    /// The acknowledgement of PING.
    PingAcks,
}

/// The stream of a frame made by hand: in JSON `"this"`, or `{"id": 99}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameStream {
    /// That of the request at hand; 0 without one.
    This,
    /// This one.
    Id(u32),
}

/// A frame made by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFrame {
    /// The frame's type: 0 is DATA, 1 HEADERS, …
    pub kind: u8,
    /// Its flags.
    #[serde(default)]
    pub flags: u8,
    /// Its stream.
    #[serde(default = "this")]
    pub stream: FrameStream,
    /// Its payload.
    #[serde(default)]
    pub payload: Bytes,
    /// What its length field says, when not the truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
}

fn this() -> FrameStream {
    FrameStream::This
}

/// Bytes: in JSON a text, or `{"hex": "88 00"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Hex { hex: self.0.iter().map(|byte| format!("{byte:02x}")).collect() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::{self, MapAccess, Visitor};

        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or {\"hex\": \"88 00\"} with an even number of digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                Ok(text.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Bytes, A::Error> {
                let Hex { hex } = Hex::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let wrong = || de::Error::invalid_value(de::Unexpected::Str(&hex), &self);
                let digits: Option<Vec<u8>> = hex
                    .chars()
                    .filter(|digit| !digit.is_ascii_whitespace())
                    .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
                    .collect();
                let digits = digits.filter(|digits| digits.len().is_multiple_of(2)).ok_or_else(wrong)?;
                Ok(Bytes(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Violations of HTTP/2 that a client must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolError {
    /// DATA on stream 2^31 − 1, which nobody opened.
    DataOnIdleStream,
    /// DATA on stream 0.
    DataOnStreamZero,
    /// RST_STREAM on stream 2^31 − 1, which nobody opened.
    ResetOfIdleStream,
    /// A frame of 2^24 − 1 bytes is announced.
    FrameTooLarge,
    /// A PING of 7 bytes.
    PingOfWrongLength,
    /// A window grows by 0.
    WindowUpdateOfZero,
    /// The connection's window grows beyond 2^31 − 1.
    WindowOverflow,
    /// A header block whose index is in no table.
    BadHpack,
    /// CONTINUATION without HEADERS.
    LoneContinuation,
    /// HEADERS without END_HEADERS, and then a PING.
    InterruptedHeaders,
    /// PUSH_PROMISE, although the client forbade it.
    PushPromise,
    /// SETTINGS_MAX_FRAME_SIZE of 1.
    BadSetting,
    /// An acknowledgement of SETTINGS with a payload.
    SettingsAckWithPayload,
    /// A header field name in upper case.
    UpperCaseHeader,
    /// An HTTP/1.1 answer on an HTTP/2 connection.
    Http1Text,
}

/// The quality of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// A round-trip time in milliseconds. All of it delays what is sent to the client.
    pub rtt_ms: u64,
    /// The bandwidth towards the client, in bytes a second; 0 is unlimited.
    pub bytes_per_second: u64,
    /// The largest piece written at once, in bytes; 0 is unlimited.
    pub slice: usize,
    /// Milliseconds between two pieces.
    pub slice_pause_ms: u64,
}
