//! How far a fleet is, and what it came to.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How far a fleet is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FleetProgress {
    /// Sandboxes in all.
    pub total: usize,
    /// Not begun.
    pub waiting: usize,
    /// Being created.
    pub creating: usize,
    /// At work.
    pub running: usize,
    /// Done.
    pub done: usize,
    /// The create or the work failed.
    pub failed: usize,
    /// Nobody knows whether their sandbox was made.
    pub unknown: usize,
    /// Creates a second that the server allows, as far as that is known.
    pub rate: Option<f64>,
    began: Instant,
}

impl FleetProgress {
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            waiting: total,
            creating: 0,
            running: 0,
            done: 0,
            failed: 0,
            unknown: 0,
            rate: None,
            began: Instant::now(),
        }
    }

    /// Those that have come to their end, whichever.
    pub fn ended(&self) -> usize {
        self.done + self.failed + self.unknown
    }

    /// Since the fleet began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How long it will take still, at the pace so far; `None` before anything has ended.
    pub fn eta(&self) -> Option<Duration> {
        let ended = u32::try_from(self.ended()).ok().filter(|ended| *ended > 0)?;
        let left = u32::try_from(self.total - self.ended()).ok()?;
        Some((self.elapsed() / ended).saturating_mul(left))
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) created: u64,
    pub(super) adopted: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) unknown: Vec<String>,
    pub(super) left: Vec<String>,
}

/// What a fleet came to.
#[derive(Debug)]
pub struct FleetReport<T, E> {
    results: Vec<(usize, Result<T, E>)>,
    tally: Tally,
    limited: u64,
    elapsed: Duration,
}

impl<T, E> FleetReport<T, E> {
    pub(super) fn new(results: Vec<(usize, Result<T, E>)>, tally: Tally, limited: u64, elapsed: Duration) -> Self {
        Self { results, tally, limited, elapsed }
    }

    /// What became of each number, in order.
    pub fn results(&self) -> &[(usize, Result<T, E>)] {
        &self.results
    }

    /// The same, to be taken.
    pub fn into_results(self) -> Vec<(usize, Result<T, E>)> {
        self.results
    }

    /// Those whose work succeeded.
    pub fn succeeded(&self) -> usize {
        self.results.iter().filter(|(_, result)| result.is_ok()).count()
    }

    /// Sandboxes whose create was answered.
    pub fn created(&self) -> u64 {
        self.tally.created
    }

    /// Sandboxes whose create's answer was lost, and which were found again.
    pub fn adopted(&self) -> u64 {
        self.tally.adopted
    }

    /// Sandboxes that had ended before their work had.
    pub fn lost(&self) -> u64 {
        self.tally.lost
    }

    /// Sandboxes that were made twice, and whose handle was not the one that stayed.
    pub fn doubled(&self) -> u64 {
        self.tally.doubled
    }

    /// Intents of creates whose outcome nobody knows: [`resolve`](crate::Client::resolve) finds out.
    pub fn unknown(&self) -> &[String] {
        &self.tally.unknown
    }

    /// Sandboxes that could not be killed and may live on.
    pub fn left(&self) -> &[String] {
        &self.tally.left
    }

    /// How often a create was answered 429.
    pub fn limited(&self) -> u64 {
        self.limited
    }

    /// How long it took.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl<T, E> fmt::Display for FleetReport<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, succeeded) = (self.results.len(), self.succeeded());
        write!(f, "{succeeded} of {total} succeeded in {:.1} s; ", self.elapsed.as_secs_f64())?;
        let Tally { created, adopted, lost, doubled, unknown, left } = &self.tally;
        write!(f, "sandboxes: {created} created, {adopted} adopted, {lost} lost, {doubled} doubled, ")?;
        write!(f, "{} unknown, {} left", unknown.len(), left.len())?;
        if self.limited > 0 {
            write!(f, "; {} creates were answered 429", self.limited)?;
        }
        for intent in unknown {
            write!(f, "\n  unknown: intent {intent}")?;
        }
        for id in left {
            write!(f, "\n  may live on: sandbox {id}")?;
        }
        Ok(())
    }
}
