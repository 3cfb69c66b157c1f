//! Many connections to one origin, used as one.
//!
//! An [`Origin`] is a scheme, a host and a port, on one runtime. It is shared by all clients of the process. What it
//! does, in the order in which a request meets it:
//!
//! 1. **Pick** ([`pick`], [`load`]): the least loaded connection with a free stream, over a snapshot, without a lock.
//! 2. **Wait** ([`line`], [`queue`]): first come, first served, and a free stream is handed to who waits longest. A
//!    replayed request goes to the head.
//! 3. **Grow** ([`growth`]): connections are dialled, several at once and bounded, when the streams run out.
//! 4. **Learn** ([`learned`]): how many streams the peer allows at once, and how many its connections live. A
//!    connection at the end of its life gets no more streams while another can take them, and its successor is dialled
//!    before it is missed.
//!
//! Calls of different [traffic classes](crate::TrafficClass) use different HTTP/2 connections, which are counted
//! together ([`bound`]). Over HTTP/1.1 a connection carries one exchange anyway, and the classes share them.
//!
//! Whoever observes is told of what there is ([`Shown`](crate::observe)) where that may have changed: at the end of
//! each step under the line's lock.
//!
//! A connection only ever moves forward: connecting, active (or cold: not needed now), draining, closed. Whoever sees
//! first that it takes no more streams drains it, before anyone picks again.

mod bound;
mod counted;
mod growth;
mod http1;
mod http2;
mod learned;
mod line;
mod load;
mod origin;
mod permit;
mod pick;
mod progress;
mod queue;
mod registry;
mod snapshot;
mod sync;

pub(crate) use counted::Counted;
pub(crate) use load::Load;
pub(crate) use origin::{Answer, Authority, Began, Failed, Origin, Redacted, Wanted};
pub(crate) use permit::Permit;
pub(crate) use progress::Progress;
pub(crate) use registry::origin;
