//! Spreads a burst of dials over time.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Dials that may start at once. Many servers queue 128 connections that they have not accepted yet; what comes on top
/// is dropped, and tried again by the kernel a whole second later.
const BURST: u32 = 64;

/// Between the dials after those, on average.
const INTERVAL: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the next dial would start if none were allowed ahead of time.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// Waits for this dial's turn.
    pub(super) async fn turn(&self) {
        let now = Instant::now();
        let at = self.book(now, fastrand::f64());
        if at > now {
            sleep_until(at).await;
        }
    }

    fn book(&self, now: Instant, random: f64) -> Instant {
        let mut next = self.next.lock();
        let booked = next.unwrap_or(now).max(now);
        *next = Some(booked + INTERVAL.mul_f64(0.5 + random));
        booked.checked_sub(INTERVAL * (BURST - 1)).unwrap_or(now).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_starts_at_once_and_the_rest_one_by_one() {
        let pace = Pace::default();
        let now = Instant::now();
        let starts: Vec<_> = (0..200).map(|_| pace.book(now, 0.5) - now).collect();
        assert!(starts[..64].iter().all(Duration::is_zero));
        assert_eq!(starts[64..].first(), Some(&INTERVAL));
        assert_eq!(starts.last(), Some(&Duration::from_millis(199 - 63)));
        // A pause gives the burst back.
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.book(later, 0.5), later);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_jittered() {
        let (pace, now) = (Pace::default(), Instant::now());
        for _ in 0..=BURST {
            pace.book(now, 0.5);
        }
        pace.book(now, 0.0);
        let after_short = pace.book(now, 1.0);
        let after_long = pace.book(now, 0.5);
        assert_eq!(after_long - after_short, INTERVAL.mul_f64(1.5));
    }
}
