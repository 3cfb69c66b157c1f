//! When the call began, by the server's clock.

use core::time::Duration;

/// How far a `Date` may be from the local clock and still be believed.
const SANE_SKEW: Duration = Duration::from_secs(24 * 60 * 60);

/// How much answers may contradict each other: the servers behind one address are not set to the same second.
const SANE_SPREAD: Duration = Duration::from_secs(60);

/// `Date` counts whole seconds.
const GRANULARITY: Duration = Duration::from_secs(1);

/// Bounds of the call's begin on the server's clock, narrowed by each answer. All times count from 1970.
///
/// An answer written at a moment of the call between its request and its receipt, at a time of the server between
/// `Date` and the next second, bounds the begin from both sides.
#[derive(Clone, Debug)]
pub(super) struct ServerClock {
    began: Duration,
    bounds: Option<(Duration, Duration)>,
}

impl ServerClock {
    /// `began`: the call's begin on the local clock.
    pub(super) fn new(began: Duration) -> Self {
        Self { began, bounds: None }
    }

    /// An answer with this `Date` came at `received` to what was sent at `sent`, both counted from the call's begin.
    pub(super) fn observe(&mut self, date: Duration, sent: Duration, received: Duration) {
        if date.abs_diff(self.began.saturating_add(received)) > SANE_SKEW {
            return;
        }
        let earliest = date.saturating_sub(received);
        let latest = date.saturating_add(GRANULARITY).saturating_sub(sent);
        self.bounds = Some(match self.bounds {
            Some((low, high)) => (low.max(earliest), high.min(latest)),
            None => (earliest, latest),
        });
    }

    /// From when on a sandbox counts as started after the call began. `None`: no sane `Date`, so nothing does.
    ///
    /// A new intent has no older sandbox, so the earliest possible begin will do; a given one may have, so only what
    /// started after the latest possible begin certainly is younger.
    pub(super) fn began(&self, given: bool) -> Option<Duration> {
        let (low, high) = self.bounds?;
        if low > high.saturating_add(SANE_SPREAD) {
            return None;
        }
        Some(if given { low.max(high) } else { low.min(high) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_begin_lies_between_the_bounds_of_all_answers() {
        let mut clock = ServerClock::new(s(1_000_000));
        assert_eq!(clock.began(false), None);
        // Sent at 1 s, received at 4 s: the server's 1,000,100 was 1 to 4 s after the begin.
        clock.observe(s(1_000_100), s(1), s(4));
        assert_eq!(clock.began(false), Some(s(1_000_096)));
        assert_eq!(clock.began(true), Some(s(1_000_100)));
        clock.observe(s(1_000_108), s(10), s(10));
        assert_eq!(clock.began(false), Some(s(1_000_098)));
        assert_eq!(clock.began(true), Some(s(1_000_099)));
    }

    #[test]
    fn dates_that_are_far_off_or_contradict_each_other_are_not_believed() {
        let mut clock = ServerClock::new(s(1_000_000));
        clock.observe(s(1_000_000 + 86_401), s(0), s(0));
        clock.observe(s(0), s(0), s(0));
        assert_eq!(clock.began(false), None);
        // A day to the second is still believed.
        clock.observe(s(1_000_000 + 86_400), s(0), s(0));
        assert_eq!(clock.began(false), Some(s(1_086_400)));

        let mut clock = ServerClock::new(s(1_000_000));
        clock.observe(s(1_000_000), s(0), s(0));
        clock.observe(s(1_000_100), s(0), s(0));
        assert_eq!(clock.began(false), None);
    }
}
