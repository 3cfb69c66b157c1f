//! What an origin's connections have taught about it.

/// Streams assumed to be allowed at once by a peer whose SETTINGS have not come (RFC 9113 §6.5.2 recommends no less).
pub(super) const ASSUMED_CAP: u32 = 100;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// The stream cap that the peer announced last.
    cap: Option<u32>,
    /// How many streams a connection lives, smoothed.
    lifetime: Option<u32>,
}

impl Learned {
    /// The peer's SETTINGS came.
    pub(super) fn announced(&mut self, cap: u32) {
        self.cap = Some(cap);
    }

    /// A connection on which streams were open was retired, and this was the last that it served.
    pub(super) fn retired_at(&mut self, last_stream_id: u32) {
        // Clients use odd ids: 1 is the first stream, 3 the second. A connection that served none says nothing of how
        // long they live.
        let served = last_stream_id.div_ceil(2);
        if served > 0 {
            self.lifetime = Some(self.lifetime.map_or(served, |old| smooth(old, served)));
        }
    }

    /// A connection lived longer than was thought.
    pub(super) fn outlived(&mut self, served: u32) {
        if let Some(lifetime) = &mut self.lifetime
            && served > *lifetime
        {
            *lifetime = smooth(*lifetime, served).max(lifetime.saturating_add(1));
        }
    }

    /// Whether the peer's SETTINGS ever came.
    pub(super) fn is_announced(&self) -> bool {
        self.cap.is_some()
    }

    /// Streams at once on a connection, as far as is known.
    pub(super) fn cap(&self) -> u32 {
        self.cap.unwrap_or(ASSUMED_CAP)
    }

    /// Streams that a connection lives; `u32::MAX` when none was ever retired.
    pub(super) fn lifetime(&self) -> u32 {
        self.lifetime.unwrap_or(u32::MAX)
    }

    /// Streams that a new connection can be counted on for.
    pub(super) fn per_connection(&self) -> u32 {
        self.cap().min(self.lifetime())
    }
}

/// A quarter of the way from the old value to the new.
fn smooth(old: u32, new: u32) -> u32 {
    let mixed = (u64::from(old) * 3 + u64::from(new)).div_ceil(4);
    u32::try_from(mixed).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_retirement_sets_the_lifetime_and_later_ones_smooth_it() {
        let mut learned = Learned::default();
        assert_eq!(learned.lifetime(), u32::MAX);
        learned.retired_at(39);
        assert_eq!(learned.lifetime(), 20);
        learned.retired_at(2 * 40 - 1);
        assert_eq!(learned.lifetime(), 25);
        learned.outlived(20);
        assert_eq!(learned.lifetime(), 25);
        learned.outlived(26);
        assert_eq!(learned.lifetime(), 26);
    }

    #[test]
    fn an_unused_connection_says_nothing() {
        let mut learned = Learned::default();
        learned.retired_at(0);
        assert_eq!(learned.lifetime(), u32::MAX);
    }

    #[test]
    fn before_settings_a_hundred_streams_are_assumed_and_a_cap_of_zero_is_a_cap() {
        let mut learned = Learned::default();
        assert_eq!((learned.per_connection(), learned.is_announced()), (100, false));
        learned.announced(0);
        assert_eq!((learned.per_connection(), learned.is_announced()), (0, true));
    }
}
