//! Request bodies that can be sent again, and response bodies that hold their connection until they end.

mod replay;
mod response;

pub(crate) use replay::{AttemptBody, BodyUse, Replay, Upload};
pub use response::ResponseBody;
pub(crate) use response::{Begun, Held, Rest};

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

/// Any error, as bodies report it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A request body.
///
/// What is given as bytes can be sent any number of times. A stream is read once: what was read is mirrored up to
/// the call's `replay_buffer_limit`, so that a request which the server provably did not process can still be sent
/// again; from there the untouched rest of the stream follows. When nothing will need the stream any more, it is
/// dropped.
///
/// ```
/// use oncebox_transport::Body;
///
/// let empty = Body::empty();
/// let text = Body::from("hello");
/// let stream = Body::stream(http_body_util::Full::new(bytes::Bytes::from_static(b"hello")));
/// assert_eq!(text.len(), Some(5));
/// assert!(stream.is_stream() && !empty.is_stream());
/// ```
pub struct Body(Kind);

enum Kind {
    Empty,
    Bytes(Bytes),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
    Rewindable { length: Option<u64>, open: Opener },
}

/// Gives a body from its first byte, each time it is called.
type Opener = Box<dyn Fn() -> UnsyncBoxBody<Bytes, BoxError> + Send>;

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// A body that is read as it is sent.
    pub fn stream<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Stream(body.map_err(Into::into).boxed_unsync()))
    }

    /// A body that is read as it is sent, and that can be read from its first byte again, any number of times: a file, for
    /// one. `open` is called for each attempt. For repeats it counts as bytes at hand, whatever its size; for limits as a
    /// stream. `length`, in bytes, is told to the server where it is given; what `open` gives has to keep to it.
    ///
    /// ```
    /// use oncebox_transport::Body;
    ///
    /// let open = || http_body_util::Full::new(bytes::Bytes::from_static(b"hello"));
    /// let body = Body::rewindable(Some(5), open);
    /// assert_eq!(body.len(), Some(5));
    /// assert!(body.is_stream());
    /// ```
    pub fn rewindable<B>(length: Option<u64>, open: impl Fn() -> B + Send + 'static) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Rewindable { length, open: Box::new(move || open().map_err(Into::into).boxed_unsync()) })
    }

    /// The same data, changed on its way: compressed, counted, put into a form. `change` is called for each attempt that can
    /// be made of the data. `length`, in bytes, is that of what comes out, where it is known.
    ///
    /// ```
    /// use http_body_util::BodyExt;
    /// use oncebox_transport::Body;
    ///
    /// let body = Body::from("hello").map(Some(5), |data| data.map_frame(|frame| frame));
    /// assert_eq!(body.len(), Some(5));
    /// ```
    #[must_use]
    pub fn map<B>(
        self,
        length: Option<u64>,
        change: impl Fn(UnsyncBoxBody<Bytes, BoxError>) -> B + Send + 'static,
    ) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        match self.0 {
            Kind::Stream(body) => Self::stream(change(body)),
            Kind::Rewindable { open, .. } => Self::rewindable(length, move || change(open())),
            Kind::Empty => Self::rewindable(length, move || change(whole(Bytes::new()))),
            Kind::Bytes(bytes) => Self::rewindable(length, move || change(whole(bytes.clone()))),
        }
    }

    /// Whether the body is read as it is sent.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_) | Kind::Rewindable { .. })
    }

    /// The bytes, where they are at hand; `None` for a stream.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self.0 {
            Kind::Empty => Some(Bytes::new()),
            Kind::Bytes(bytes) => Some(bytes),
            Kind::Stream(_) | Kind::Rewindable { .. } => None,
        }
    }

    /// All of it, read at once.
    ///
    /// # Errors
    ///
    /// What the stream fails with.
    pub async fn collect(self) -> Result<Bytes, BoxError> {
        let stream = match self.0 {
            Kind::Empty => return Ok(Bytes::new()),
            Kind::Bytes(bytes) => return Ok(bytes),
            Kind::Stream(stream) => stream,
            Kind::Rewindable { open, .. } => open(),
        };
        Ok(stream.collect().await?.to_bytes())
    }

    /// Its length in bytes, where it is known.
    pub fn len(&self) -> Option<u64> {
        match &self.0 {
            Kind::Empty => Some(0),
            Kind::Bytes(bytes) => Some(bytes.len() as u64),
            Kind::Stream(body) => http_body::Body::size_hint(body).exact(),
            Kind::Rewindable { length, .. } => *length,
        }
    }

    /// Whether it is known to hold no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Prepares the body for a call that may send it more than once. `limit` is in bytes.
    pub(crate) fn into_replay(self, limit: usize) -> Replay {
        match self.0 {
            Kind::Empty => Replay::bytes(None),
            Kind::Bytes(bytes) => Replay::bytes(Some(bytes)),
            Kind::Stream(body) => Replay::stream(body, limit),
            Kind::Rewindable { length, open } => Replay::rewindable(length, open),
        }
    }
}

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self(Kind::Bytes(bytes)) }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl fmt::Debug for Body {
    // The content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Empty => "Empty",
            Kind::Bytes(_) => "Bytes",
            Kind::Stream(_) => "Stream",
            Kind::Rewindable { .. } => "Rewindable",
        };
        f.debug_struct("Body").field("kind", &kind).field("len", &self.len()).finish()
    }
}
