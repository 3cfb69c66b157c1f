//! Sends whose outcome stayed unknown, for later calls with their intents.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use oncebox_transport::policy::create::Intent;
use tokio::time::Instant;

use super::lock;

/// For whom, and with which intent.
type Of = (u64, Intent);

/// When creates that ended unknown lost their last send. The effect of such a send may come for `settle`: a call that asks
/// again meanwhile must not take one empty look-up for the answer.
#[derive(Default)]
pub(super) struct Losses(Mutex<HashMap<Of, Instant>>);

impl Losses {
    /// A call ended unknown now, with its last loss at this time.
    pub(super) fn keep(&self, of: Of, lost: Instant, now: Instant, settle: Duration) {
        let mut losses = lock(&self.0);
        let entry = losses.entry(of).or_insert(lost);
        *entry = lost.max(*entry);
        losses.retain(|_, lost| now.saturating_duration_since(*lost) < settle);
    }

    /// A call that began then found out what became of the intent. What was lost after that it may not have seen.
    pub(super) fn forget(&self, of: Of, began: Instant) {
        let mut losses = lock(&self.0);
        if losses.get(&of).is_some_and(|lost| *lost <= began) {
            losses.remove(&of);
        }
    }

    /// When the last send with this intent was lost, where its effect may still come.
    pub(super) fn of(&self, of: Of, now: Instant, settle: Duration) -> Option<Instant> {
        lock(&self.0).get(&of).copied().filter(|lost| now.saturating_duration_since(*lost) < settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(10);

    fn intent(number: u8) -> Of {
        (0, Intent::from_random([number; 16]))
    }

    #[test]
    fn a_loss_is_kept_for_settle_and_the_newest_counts() {
        let (losses, begin) = (Losses::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        losses.keep(intent(1), at(3), at(4), SETTLE);
        losses.keep(intent(1), at(1), at(5), SETTLE);
        assert_eq!(losses.of(intent(1), at(12), SETTLE), Some(at(3)));
        assert_eq!(losses.of(intent(1), at(13), SETTLE), None);
        assert_eq!(losses.of(intent(2), at(4), SETTLE), None);
        assert_eq!(losses.of((1, intent(1).1), at(4), SETTLE), None, "somebody else's");
    }

    #[test]
    fn what_is_settled_is_not_kept_for_ever() {
        let (losses, begin) = (Losses::default(), Instant::now());
        for number in 0..100 {
            let now = begin + Duration::from_secs(number);
            losses.keep(intent(number as u8), now, now, SETTLE);
            assert!(lock(&losses.0).len() <= 10);
        }
        // One that is settled already is not taken up.
        losses.keep(intent(200), begin, begin + SETTLE, SETTLE);
        assert!(!lock(&losses.0).contains_key(&intent(200)));
    }

    #[test]
    fn a_call_that_knows_forgets_what_was_lost_before_it_only() {
        let (losses, begin) = (Losses::default(), Instant::now());
        let second = Duration::from_secs(1);
        losses.keep(intent(1), begin + second, begin + second, SETTLE);
        losses.forget(intent(1), begin);
        assert!(losses.of(intent(1), begin + second, SETTLE).is_some());
        losses.forget(intent(1), begin + second);
        assert!(losses.of(intent(1), begin + second, SETTLE).is_none());
    }
}
