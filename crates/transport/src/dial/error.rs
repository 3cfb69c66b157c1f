//! What a dial tried.

use std::error::Error as StdError;
use std::fmt;

/// Why there is no connection: what was tried, each with what came of it.
///
/// Outcomes keep the beginning of this text; an [`Error`](crate::Error) shows it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialError(Box<str>);

impl DialError {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for DialError {}
