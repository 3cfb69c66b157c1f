//! How connections end, and what that tells.

use std::sync::Arc;

use oncebox_policy::Phase;

use super::{Http2Pool, Slow, Unavailable};
use crate::conn::H2Connection;

/// A connection that takes no more streams and is not over yet.
pub(super) struct Draining {
    pub(super) id: u64,
    /// Whether its end may still tell how long connections live: the peer retired it while streams were open, and has
    /// not named the last one yet.
    tells_lifetime: bool,
    /// Whether its end may still be a failed dial: the peer ended it, and has answered nothing yet.
    may_fail: bool,
}

/// What is known of an end, and was not before.
struct News {
    /// How long connections live: the last stream id.
    lifetime: Option<u32>,
    /// It was of no use, and counts as a failed dial.
    failed: bool,
}

impl Draining {
    fn news(&mut self, connection: &H2Connection) -> News {
        let lifetime = connection.retired_at().filter(|_| self.tells_lifetime);
        let failed = self.may_fail && connection.served_nothing();
        self.tells_lifetime &= lifetime.is_none();
        self.may_fail &= !failed;
        News { lifetime, failed }
    }
}

impl Http2Pool {
    /// The peer ended the connection, or lets no more streams in. Said again when more is known of its end.
    pub(in crate::pool) fn lost(&self, connection: &Arc<H2Connection>) {
        let mut slow = self.line.lock();
        let first = self.drain(&mut slow, connection);
        let Some(draining) = slow.draining.iter_mut().find(|draining| draining.id == connection.id()) else { return };
        if first {
            // A GOAWAY on an idle connection tells nothing of how long connections live.
            draining.tells_lifetime = connection.load().active() > 0;
            draining.may_fail = true;
        }
        let News { lifetime, failed } = draining.news(connection);
        if let Some(last) = lifetime {
            slow.learned.retired_at(last);
            let lifetime = slow.learned.lifetime();
            for open in self.connections.load().iter() {
                open.load().set_lifetime(lifetime);
            }
        }
        if failed {
            let why = Unavailable::new(Phase::Connect, connection.ended_unused());
            self.dial_failed(&mut slow, connection.round(), why);
        }
        if first || failed {
            // What a GOAWAY refuses comes back at once.
            self.settle(&mut slow, connection.refused_streams() as usize);
        }
    }

    /// The connection takes no more streams. `false`: that was so before.
    pub(super) fn drain(&self, slow: &mut Slow<'_>, connection: &Arc<H2Connection>) -> bool {
        if !connection.drain() {
            return false;
        }
        self.give_place_back();
        let id = connection.id();
        self.connections.change(|list| list.iter().filter(|open| open.id() != id).cloned().collect());
        slow.draining.push(Draining { id, tells_lifetime: false, may_fail: false });
        true
    }
}
