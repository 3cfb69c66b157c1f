//! One history of the calls that belong together: a stream that is attached to again, a file that is read on.

use std::sync::{Arc, Mutex, PoisonError};

use oncebox_transport::policy::{Ledger, Purpose, Record};
use tokio::time::Instant;

use crate::error::Error;

/// The most attempts that are kept; of more, the oldest are left out, and counted.
const MOST: usize = 64;

/// The attempts of several calls, in the order in which they ended, on one clock. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    gathered: Arc<Mutex<Gathered>>,
    /// What the calls that are noted are for.
    purpose: Purpose,
}

#[derive(Debug)]
struct Gathered {
    began: Instant,
    records: Vec<Record>,
    left_out: usize,
    spent: Spent,
}

/// Repeats that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) retries: u32,
    pub(crate) connection_retries: u32,
}

impl Trail {
    /// An empty one, whose clock starts at `began`.
    pub(crate) fn new(began: Instant) -> Self {
        let gathered = Gathered { began, records: Vec::new(), left_out: 0, spent: Spent::default() };
        Self { gathered: Arc::new(Mutex::new(gathered)), purpose: Purpose::Call }
    }

    /// The same, for calls that find out what became of others.
    pub(crate) fn of_look_ups(&self) -> Self {
        Self { gathered: Arc::clone(&self.gathered), purpose: Purpose::LookUp }
    }

    /// What its calls have used of their repeats; of look-ups nothing counts.
    pub(crate) fn spent(&self) -> Spent {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner).spent
    }

    /// Adds a call that began then.
    pub(crate) fn note(&self, call_began: Instant, ledger: &Ledger) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = call_began.saturating_duration_since(gathered.began);
        let moved = |record: &Record| Record {
            purpose: self.purpose,
            started: record.started + offset,
            ended: record.ended + offset,
            ..*record
        };
        gathered.records.extend(ledger.attempts().iter().map(moved));
        if self.purpose == Purpose::Call {
            let Spent { retries, connection_retries } = &mut gathered.spent;
            *retries = retries.saturating_add(ledger.retries_used());
            *connection_retries = connection_retries.saturating_add(ledger.connection_retries_used());
        }
        let surplus = gathered.records.len().saturating_sub(MOST);
        gathered.records.drain(..surplus);
        gathered.left_out += surplus;
    }

    /// Gives an error the whole history.
    pub(crate) fn tell(&self, error: Error) -> Error {
        let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        error.with_history(gathered.records.clone(), gathered.left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_transport::policy::{Attempt, CallFacts, Outcome, Policy, Response, judge};

    use super::*;
    use crate::error::ErrorKind;

    fn call(status: u16, took: Duration) -> Ledger {
        let mut ledger = Ledger::new();
        let attempt = Attempt::new(Outcome::Responded(Response::new(status)));
        judge(&Policy::default(), &CallFacts::default(), &mut ledger, None, &attempt, took, 0.5);
        ledger
    }

    #[test]
    fn the_attempts_of_all_calls_are_on_one_clock() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let trail = Trail::new(began);
        trail.note(began, &call(200, second));
        trail.note(began + second * 3, &call(404, second));
        let error = trail.tell(Error::new(ErrorKind::ConnectionLost, "follow", "cut"));
        let times: Vec<_> = error.attempts().iter().map(|record| (record.started, record.ended)).collect();
        assert_eq!(times, [(Duration::ZERO, second), (second * 3, second * 4)]);
        let text = error.to_string();
        assert!(text.contains("2 attempts:\n  1. at 0.000 s: answered 200"), "{text}");
        assert!(text.contains("  2. at 3.000 s: answered 404"), "{text}");
    }

    #[test]
    fn the_oldest_of_very_many_are_left_out_and_counted() {
        let began = Instant::now();
        let trail = Trail::new(began);
        for _ in 0..MOST + 3 {
            trail.note(began, &call(200, Duration::ZERO));
        }
        let error = trail.tell(Error::new(ErrorKind::ConnectionLost, "follow", "cut"));
        assert_eq!(error.attempts().len(), MOST);
        let text = error.to_string();
        assert!(text.contains("67 attempts, the first 3 left out:\n  4. at"), "{text}");
        assert!(text.contains("\n  67. at"), "{text}");
    }

    /// What an earlier call did says nothing of what failed: that was told when the history was given.
    #[test]
    fn a_history_changes_nothing_of_what_is_known_of_the_failure() {
        let began = Instant::now();
        let trail = Trail::new(began);
        trail.note(began, &call(502, Duration::ZERO));
        let nothing_there = Error::new(ErrorKind::NotFound, "read", "no such file");
        assert!(!trail.tell(nothing_there).may_have_been_processed());
        let lost = Error::new(ErrorKind::ConnectionLost, "follow", "cut");
        assert!(trail.tell(lost).may_have_been_processed());
        let over = Error::new(ErrorKind::Timeout, "follow", "the server's own deadline");
        assert!(trail.tell(over).may_have_been_processed());
    }
}
