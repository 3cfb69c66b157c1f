//! The retry budget: tokens shared by all calls to an origin, so that an outage is not answered with a storm.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Tokens in a full budget (AWS SDK retry behaviour, standard mode).
pub const BUDGET_CAPACITY: u32 = 500;

/// Cost of a retry after an unknown outcome (AWS SDK retry 2.1: a transient error).
pub const COST_UNKNOWN: u32 = 14;

/// Cost of a retry after a status (AWS SDK retry 2.1: a throttling error).
pub const COST_STATUS: u32 = 5;

/// What a success gives back beyond what its own call's retries cost.
pub const SUCCESS_REFUND: u32 = 1;

/// Tokens that come back by themselves each second: a budget that only successes refill would stay at zero.
pub const REFILL_PER_SECOND: u32 = 10;

/// Fixed-point scale: ten tokens a second are ten thousandths a millisecond, exactly.
const SCALE: u64 = 1000;
const FULL: u64 = BUDGET_CAPACITY as u64 * SCALE;
const LEVEL_BITS: u32 = 24;
const LEVEL_MASK: u64 = (1 << LEVEL_BITS) - 1;

/// A token bucket, safe to share between threads without a lock.
///
/// It has no clock: the time passed in counts from when the budget was made, and the same clock serves all calls.
#[derive(Debug)]
pub struct Budget {
    /// Milliseconds of the last refill, and below them the level in thousandths of a token.
    state: AtomicU64,
}

impl Budget {
    /// A full budget.
    pub const fn new() -> Self {
        Self { state: AtomicU64::new(FULL) }
    }

    /// A budget with this many tokens, at most its capacity.
    pub const fn with_level(tokens: u32) -> Self {
        let tokens = if tokens < BUDGET_CAPACITY { tokens } else { BUDGET_CAPACITY };
        Self { state: AtomicU64::new(tokens as u64 * SCALE) }
    }

    /// Whole tokens at this time.
    pub fn available(&self, now: Duration) -> u32 {
        (level(refilled(self.state.load(Ordering::Acquire), now)) / SCALE) as u32
    }

    /// Takes tokens, all or none.
    pub fn take(&self, tokens: u32, now: Duration) -> bool {
        self.update(now, |level| level.checked_sub(u64::from(tokens) * SCALE))
    }

    /// Gives tokens back, up to the capacity.
    pub fn refund(&self, tokens: u32, now: Duration) {
        self.update(now, |level| Some((level + u64::from(tokens) * SCALE).min(FULL)));
    }

    fn update(&self, now: Duration, change: impl Fn(u64) -> Option<u64>) -> bool {
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                let state = refilled(state, now);
                change(level(state)).map(|level| packed(state >> LEVEL_BITS, level))
            })
            .is_ok()
    }
}

/// A budget of its own, as full as the other was at that moment.
impl Clone for Budget {
    fn clone(&self) -> Self {
        Self { state: AtomicU64::new(self.state.load(Ordering::Acquire)) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

/// A call's view of its origin's budget.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// The budget.
    pub budget: &'a Budget,
    /// When the call began, on the budget's clock.
    pub call_started: Duration,
}

fn packed(millis: u64, level: u64) -> u64 {
    (millis << LEVEL_BITS) + level
}

fn level(state: u64) -> u64 {
    state & LEVEL_MASK
}

fn refilled(state: u64, now: Duration) -> u64 {
    let now = now.as_millis().min(u128::from(u64::MAX >> LEVEL_BITS)) as u64;
    let last = state >> LEVEL_BITS;
    if now <= last {
        return state;
    }
    let level = level(state).saturating_add((now - last).saturating_mul(u64::from(REFILL_PER_SECOND))).min(FULL);
    packed(now, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    #[test]
    fn a_full_budget_pays_for_a_hundred_status_retries_and_no_more() {
        let budget = Budget::new();
        assert_eq!((0..200).filter(|_| budget.take(COST_STATUS, START)).count(), 100);
        assert_eq!(budget.available(START), 0);
    }

    #[test]
    fn it_refills_by_time_up_to_its_capacity_and_time_never_runs_back() {
        let budget = Budget::new();
        assert!(budget.take(BUDGET_CAPACITY, START));
        assert!(!budget.take(1, Duration::from_millis(99)));
        assert!(budget.take(1, Duration::from_millis(100)));
        assert_eq!(budget.available(START), 0);
        assert_eq!(budget.available(Duration::from_secs(1_000_000)), BUDGET_CAPACITY);
    }

    #[test]
    fn refunds_stop_at_the_capacity() {
        let budget = Budget::new();
        budget.refund(100, START);
        assert_eq!(budget.available(START), BUDGET_CAPACITY);
        assert!(budget.take(14, START));
        budget.refund(14 + SUCCESS_REFUND, START);
        assert_eq!(budget.available(START), BUDGET_CAPACITY);
    }

    #[test]
    fn a_fresh_budget_is_not_refilled_twice_for_the_same_time() {
        let budget = Budget::new();
        assert!(budget.take(BUDGET_CAPACITY, START));
        let later = Duration::from_secs(1);
        assert_eq!(budget.available(later), 10);
        assert!(budget.take(10, later));
        assert!(!budget.take(1, later));
    }

    #[test]
    fn a_budget_starts_with_what_it_is_given_up_to_its_capacity() {
        for (given, tokens) in [(0, 0), (1, 1), (499, 499), (500, 500), (501, 500), (u32::MAX, 500)] {
            assert_eq!(Budget::with_level(given).available(START), tokens);
        }
    }

    #[test]
    fn a_refill_counts_from_the_last_one() {
        let budget = Budget::with_level(0);
        let at = Duration::from_millis;
        assert!(budget.take(5, at(1_000)));
        assert_eq!(budget.available(at(1_400)), 9);
        assert!(budget.take(9, at(1_400)));
        assert_eq!(budget.available(at(1_499)), 0);
        assert_eq!(budget.available(at(1_500)), 1);
    }

    #[test]
    fn the_end_of_time_comes_once() {
        let budget = Budget::with_level(0);
        assert!(budget.take(BUDGET_CAPACITY, Duration::MAX));
        assert!(!budget.take(1, Duration::MAX));
    }
}
