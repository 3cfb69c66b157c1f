//! What the versions of HTTP share in writing an answer.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::date;
use crate::head::Field;
use crate::script::{Answer, Body, Framing, RetryAfter};
use crate::upstream::Flight;

/// What a made-up body consists of.
static FILLING: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// An answer to be written.
pub(crate) struct Outgoing<'a> {
    pub(crate) status: u16,
    pub(crate) fields: Vec<Field>,
    pub(crate) trailers: Vec<Field>,
    /// Whether the fields tell the body's length.
    pub(crate) framing: Framing,
    pub(crate) body: Source,
    /// How it is written.
    pub(crate) style: &'a Answer,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn of_script(answer: &'a Answer, method: &str) -> Self {
        let whole = Source::new(answer);
        let bodiless = method == "HEAD" || matches!(answer.status, 204 | 304);
        Self {
            status: answer.status,
            fields: fields(answer, whole.left()),
            trailers: answer.trailers.iter().map(|(name, value)| Field::new(name, value)).collect(),
            framing: answer.framing,
            body: if bodiless { Source::Bytes(Bytes::new()) } else { whole },
            style: answer,
        }
    }

    pub(crate) fn of_upstream(mut flight: Flight, style: &'a Answer) -> Self {
        let fields = flight.take_fields();
        let told = fields.iter().any(|field| &field.name[..] == b"content-length");
        Self {
            status: flight.status(),
            fields,
            trailers: Vec::new(),
            framing: if told { Framing::Length } else { Framing::Chunked },
            body: Source::Upstream { piece: Bytes::new(), ended: flight.is_at_end(), flight: Box::new(flight) },
            style,
        }
    }
}

/// A body, piece by piece.
pub(crate) enum Source {
    Bytes(Bytes),
    Filling { left: u64 },
    Upstream { flight: Box<Flight>, piece: Bytes, ended: bool },
}

impl Source {
    fn new(answer: &Answer) -> Self {
        match &answer.body {
            Body::Text(text) => Self::Bytes(Bytes::copy_from_slice(text.as_bytes())),
            Body::Size(size) => Self::Filling { left: *size },
        }
    }

    /// Waits until there is something to take, or the end is known.
    pub(crate) async fn ready(&mut self) -> io::Result<()> {
        if let Self::Upstream { flight, piece, ended } = self
            && piece.is_empty()
            && !*ended
        {
            match flight.next_piece().await? {
                Some(next) => {
                    *piece = next;
                    *ended = flight.is_at_end();
                }
                None => *ended = true,
            }
        }
        Ok(())
    }

    /// How many bytes can be taken now.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Filling { left } => *left,
            Self::Upstream { piece, .. } => piece.len() as u64,
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.left() == 0 && !matches!(self, Self::Upstream { ended: false, .. })
    }

    /// At most so many bytes of what is left.
    pub(crate) fn take(&mut self, most: usize) -> Bytes {
        match self {
            Self::Bytes(bytes) | Self::Upstream { piece: bytes, .. } => bytes.split_to(most.min(bytes.len())),
            Self::Filling { left } => {
                let size = (*left).min(most as u64).min(FILLING.len() as u64);
                *left -= size;
                Bytes::from_static(&FILLING[..size as usize])
            }
        }
    }
}

/// The header fields of an answer, but for those that its HTTP version adds.
fn fields(answer: &Answer, length: u64) -> Vec<Field> {
    let mut fields: Vec<Field> = answer.headers.iter().map(|(name, value)| Field::new(name, value)).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    if let Some(offset) = answer.date {
        fields.push(Field::new("date", date::http_date(now.saturating_add(offset))));
    }
    if let Some(wait) = &answer.retry_after {
        let value = match wait {
            RetryAfter::Seconds(seconds) => seconds.to_string(),
            RetryAfter::HttpDate(offset) => date::http_date(now.saturating_add(*offset)),
            RetryAfter::Rfc850(offset) => date::rfc850(now.saturating_add(*offset)),
            RetryAfter::Asctime(offset) => date::asctime(now.saturating_add(*offset)),
            RetryAfter::Raw(text) => text.clone(),
        };
        fields.push(Field::new("retry-after", value));
    }
    let given = answer.headers.keys().any(|name| name.eq_ignore_ascii_case("content-length"));
    if answer.framing == Framing::Length && !given && !matches!(answer.status, 100..=199 | 204 | 304) {
        let told = i128::from(length) + i128::from(answer.length_lie);
        fields.push(Field::new("content-length", told.max(0).to_string()));
    }
    fields
}
