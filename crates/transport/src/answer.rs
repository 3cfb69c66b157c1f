//! What an answer says that its head does not.

use std::fmt;

use http::response::Parts;
use oncebox_policy::Edge;

/// Reads what an answer says in its body, before anybody judges it.
///
/// A 502 may come from a server that broke, or from a proxy that says it delivered nothing; a 200 may open a stream whose
/// first message is an error. Which is which, only who knows the protocol can tell: see
/// [`CallOptions::answer_reader`](crate::CallOptions::answer_reader).
pub trait AnswerReader: fmt::Debug + Send + Sync {
    /// Whether the body of an answer with this head may say something. Where not, nothing of it is read.
    fn looks_at(&self, head: &Parts) -> bool;

    /// What the answer says, as far as its body has come. `ended`: no more of it comes, since it is over, or is longer
    /// than is looked at (64 KiB). One that was cut says nothing, and is not asked about.
    fn read(&self, head: &Parts, begun: &[u8], ended: bool) -> Reading;
}

/// What was read of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// More of the body is needed. Once it has ended, this says nothing.
    More,
    /// Nothing but what the head says.
    Nothing,
    /// The sandbox edge answered in place of a sandbox.
    Edge(Edge),
    /// It is to be judged like an answer with this status. The caller gets the answer as it came.
    Like(u16),
}
