//! One operation of the protocol, and what is known of repeating it.

use http::Method;
use oncebox_policy::Permit;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;
use std::fmt;

/// One operation: a method on a path, and what happens when it is done twice.
///
/// The operations of the protocol are statics in [`operations`](crate::operations); those of another specification come
/// with a [`Table`](crate::Table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its id, such as `createSandbox`.
    pub id: Cow<'static, str>,
    /// The kind of server that offers it.
    pub plane: Plane,
    /// Its method.
    pub method: Method,
    /// Its path template, such as `/sandboxes/{sandboxID}`.
    pub path: Cow<'static, str>,
    /// Whether it may be repeated once its outcome is unknown.
    pub repeat: Repeat,
    /// Whether each call may leave one more thing behind, which has to be looked for when the outcome is unknown. Then an
    /// answer of 500 is no proof that nothing was made.
    pub mints: bool,
    /// Whether a server may honour an `Idempotency-Key` here.
    pub accepts_idempotency_key: bool,
    /// Whether a newer operation supersedes it.
    pub deprecated: bool,
}

/// Whether an operation may be repeated once its outcome is unknown, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// It has no effect.
    Safe,
    /// By the meaning of its method, doing it twice is doing it once.
    Idempotent,
    /// Its specification says that doing it twice is doing it once; holds the reason.
    ByTable(Cow<'static, str>),
    /// It must not be repeated; holds the reason.
    No(Cow<'static, str>),
}

impl Repeat {
    /// The reason given in the specification; nothing where the method is the reason.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Safe | Self::Idempotent => None,
            Self::ByTable(reason) | Self::No(reason) => Some(reason),
        }
    }
}

/// A kind of server. Each has a base URL and credentials of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plane {
    /// The API that creates and lists sandboxes.
    ControlPlane,
    /// The API that reads and writes files of volumes.
    VolumeContent,
    /// The daemon inside a sandbox, on port 49983.
    Envd,
    /// The code interpreter inside a sandbox, on port 49999.
    CodeInterpreter,
    /// A server that a specification of the user's own describes.
    Other,
}

impl Operation {
    /// Why it may be repeated once its outcome is unknown; nothing, if it may not.
    pub fn permit(&self) -> Option<Permit> {
        match self.repeat {
            Repeat::Safe => Some(Permit::SafeMethod),
            Repeat::Idempotent => Some(Permit::IdempotentMethod),
            Repeat::ByTable(_) => Some(Permit::OperationTable),
            Repeat::No(_) => None,
        }
    }

    /// The path for these parameters, in the order of the template, each percent-encoded so that it stays one segment.
    ///
    /// ```
    /// use oncebox_protocol::operations;
    ///
    /// let path = operations::DELETE_TEMPLATE.path_for(&["team/base:v1"])?;
    /// assert_eq!(path, "/templates/team%2Fbase%3Av1");
    /// # Ok::<(), oncebox_protocol::PathError>(())
    /// ```
    ///
    /// # Errors
    /// When the number of parameters is wrong, or one could not stay a segment: empty, `.` or `..`.
    pub fn path_for(&self, parameters: &[&str]) -> Result<String, PathError> {
        let mut given = parameters.iter();
        let mut path = String::with_capacity(self.path.len() + 24);
        for segment in self.path.split('/').skip(1) {
            path.push('/');
            let Some(name) = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else {
                path.push_str(segment);
                continue;
            };
            let value = given.next().ok_or_else(|| self.wrong_count(parameters.len()))?;
            // URL parsers drop dot segments, even percent-encoded, and then the path means something else.
            if matches!(*value, "" | "." | "..") {
                return Err(PathError::NotASegment {
                    operation: self.id.clone().into_owned(),
                    parameter: name.to_owned(),
                    value: (*value).to_owned(),
                });
            }
            path.extend(utf8_percent_encode(value, ENCODED));
        }
        match given.next() {
            Some(_) => Err(self.wrong_count(parameters.len())),
            None => Ok(path),
        }
    }

    /// The names of the template's parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    fn wrong_count(&self, given: usize) -> PathError {
        PathError::WrongCount { operation: self.id.clone().into_owned(), wanted: self.parameters().count(), given }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.id, self.method, self.path)
    }
}

/// What is encoded in a segment: everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Why a path could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// Too many or too few parameters.
    #[error("{operation} takes {wanted} path parameters, {given} given")]
    WrongCount {
        /// The operation's id.
        operation: String,
        /// How many the template has.
        wanted: usize,
        /// How many were given.
        given: usize,
    },
    /// A parameter that could not stay one segment of a path.
    #[error("{operation}: {value:?} cannot be a {parameter}: it would not stay in its place in the path")]
    NotASegment {
        /// The operation's id.
        operation: String,
        /// The parameter's name.
        parameter: String,
        /// What was given for it.
        value: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations;

    #[test]
    fn parameters_take_their_places() {
        assert_eq!(operations::CREATE_SANDBOX.path_for(&[]).unwrap(), "/v2/sandboxes");
        assert_eq!(operations::START_BUILD.path_for(&["t", "b"]).unwrap(), "/v2/templates/t/builds/b");
        assert_eq!(operations::START_BUILD.parameters().collect::<Vec<_>>(), ["templateID", "buildID"]);
    }

    #[test]
    fn a_parameter_stays_one_segment() {
        for (id, encoded) in [("a/b", "a%2Fb"), ("a b?c#d", "a%20b%3Fc%23d"), ("ü%", "%C3%BC%25"), ("...", "...")] {
            assert_eq!(operations::GET_SANDBOX.path_for(&[id]).unwrap(), format!("/sandboxes/{encoded}"));
        }
        for id in ["", ".", ".."] {
            let error = operations::GET_SANDBOX.path_for(&[id]).unwrap_err();
            assert!(matches!(error, PathError::NotASegment { .. }), "{error}");
        }
    }

    #[test]
    fn the_number_of_parameters_is_checked() {
        for parameters in [&[][..], &["a", "b"]] {
            assert_eq!(
                operations::GET_SANDBOX.path_for(parameters).unwrap_err().to_string(),
                format!("getSandbox takes 1 path parameters, {} given", parameters.len())
            );
        }
    }
}
