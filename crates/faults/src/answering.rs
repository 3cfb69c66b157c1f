//! What the versions of HTTP share in writing an answer.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::date;
use crate::head::Field;
use crate::script::{Answer, Body, Framing, RetryAfter};

/// What a made-up body consists of.
static FILLING: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A body, piece by piece.
pub(crate) enum Source {
    Bytes(Bytes),
    Filling { whole: u64, left: u64 },
}

impl Source {
    pub(crate) fn new(answer: &Answer, method: &str) -> Self {
        if method == "HEAD" || matches!(answer.status, 204 | 304) {
            return Self::Bytes(Bytes::new());
        }
        match &answer.body {
            Body::Text(text) => Self::Bytes(Bytes::copy_from_slice(text.as_bytes())),
            Body::Size(size) => Self::Filling { whole: *size, left: *size },
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Filling { whole, .. } => *whole,
        }
    }

    /// How many bytes are left to take.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Filling { left, .. } => *left,
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.left() == 0
    }

    /// At most so many bytes of what is left.
    pub(crate) fn take(&mut self, most: usize) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.split_to(most.min(bytes.len())),
            Self::Filling { left, .. } => {
                let size = (*left).min(most as u64).min(FILLING.len() as u64);
                *left -= size;
                Bytes::from_static(&FILLING[..size as usize])
            }
        }
    }
}

/// The header fields of an answer, but for those that its HTTP version adds.
pub(crate) fn fields(answer: &Answer, length: u64) -> Vec<Field> {
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
