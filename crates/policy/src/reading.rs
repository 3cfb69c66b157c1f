//! What an answer says in its body.

use crate::outcome::Edge;

/// What was read of an answer's body before anybody judges it.
///
/// A 502 may come from a server that broke, or from a proxy that says it delivered nothing; a 200 may open a stream whose
/// first message is an error. Which is which, only who knows the protocol can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// More of the body is needed. Once it has ended, this says nothing.
    More,
    /// Nothing but what the head says.
    Nothing,
    /// The proxy in front of sandboxes answered in place of a sandbox: [`Response::edge`](crate::Response::edge).
    Edge(Edge),
    /// It is to be judged like an answer with this status. The caller gets the answer as it came.
    Like(u16),
}
