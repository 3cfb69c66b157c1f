//! The last requests, for who wants to see what clients do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use jiff::Timestamp;
use oncebox_protocol::headers::{IDEMPOTENCY_KEY, ONCEBOX_ATTEMPT, ONCEBOX_TEST_ID};
use parking_lot::Mutex;

/// So many are kept.
const KEPT: usize = 500;

/// The last requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// How many there have been before the first that is kept.
    gone: u64,
    kept: VecDeque<Attempt>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) at: Timestamp,
    began: Instant,
    /// The operation's id.
    pub(crate) operation: &'static str,
    pub(crate) sandbox: Option<String>,
    /// Its intent, else its idempotency key.
    pub(crate) name: Option<String>,
    pub(crate) test: Option<String>,
    /// Which attempt of a call it is, from 1.
    pub(crate) number: u32,
    /// The fault that it met.
    pub(crate) fault: Option<&'static str>,
    /// How it ended, and after how long; nothing yet.
    pub(crate) end: Option<(End, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The head of an answer was sent.
    Answered(u16),
    /// The connection was ended on purpose.
    Cut,
    /// The client went away.
    Left,
}

impl Attempt {
    /// How long it has taken, so far or in all.
    pub(crate) fn took(&self) -> Duration {
        self.end.map_or_else(|| self.began.elapsed(), |(_, took)| took)
    }
}

impl Calls {
    /// Notes that a request came. What is returned is told how it ended.
    pub(super) fn begin(
        self: &Arc<Self>,
        operation: &'static str,
        sandbox: Option<String>,
        headers: &HeaderMap,
    ) -> Running {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let attempt = Attempt {
            at: Timestamp::now(),
            began: Instant::now(),
            operation,
            sandbox,
            name: text(IDEMPOTENCY_KEY).map(str::to_owned),
            test: text(ONCEBOX_TEST_ID).map(str::to_owned),
            number: text(ONCEBOX_ATTEMPT).and_then(|number| number.parse().ok()).unwrap_or(1),
            fault: None,
            end: None,
        };
        let mut book = self.0.lock();
        if book.kept.len() >= KEPT {
            book.kept.pop_front();
            book.gone += 1;
        }
        book.kept.push_back(attempt);
        Running { calls: Arc::clone(self), number: book.gone + book.kept.len() as u64 - 1, ended: false }
    }

    pub(super) fn last(&self) -> Vec<Attempt> {
        self.0.lock().kept.iter().cloned().collect()
    }

    fn edit(&self, number: u64, change: impl FnOnce(&mut Attempt)) {
        let mut book = self.0.lock();
        let index = number.checked_sub(book.gone).and_then(|index| usize::try_from(index).ok());
        // Those that are kept no longer are of no interest.
        if let Some(attempt) = index.and_then(|index| book.kept.get_mut(index)) {
            change(attempt);
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Running {
    calls: Arc<Calls>,
    number: u64,
    ended: bool,
}

impl Running {
    pub(super) fn met(&self, fault: &'static str) {
        self.calls.edit(self.number, |attempt| attempt.fault = Some(fault));
    }

    pub(super) fn named(&self, intent: &str) {
        self.calls.edit(self.number, |attempt| attempt.name = Some(intent.to_owned()));
    }

    pub(super) fn end(mut self, end: End) {
        self.ended = true;
        self.note(end);
    }

    fn note(&self, end: End) {
        self.calls.edit(self.number, |attempt| attempt.end = Some((end, attempt.began.elapsed())));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.note(End::Left);
        }
    }
}

/// Attempts of one call, oldest first: a first one, and those after it with the same name, or without one of the same
/// operation on the same thing, whose numbers follow.
pub(crate) fn joined(attempts: Vec<Attempt>) -> Vec<Vec<Attempt>> {
    let mut calls: Vec<Vec<Attempt>> = Vec::new();
    for attempt in attempts {
        let is_next = |call: &&mut Vec<Attempt>| {
            let Some(last) = call.last() else { return false };
            let alike = last.operation == attempt.operation && last.test == attempt.test;
            // An official SDK sends the key again and does not count.
            let same_name = attempt.name.is_some() && last.name == attempt.name;
            let follows = last.sandbox == attempt.sandbox && last.number + 1 == attempt.number && last.end.is_some();
            alike && (same_name || attempt.name.is_none() && last.name.is_none() && follows)
        };
        match calls.iter_mut().rev().find(is_next) {
            Some(call) => call.push(attempt),
            None => calls.push(vec![attempt]),
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn attempts_are_joined_by_name_or_number() {
        let calls = Arc::new(Calls::default());
        let run = |operation, pairs: &[_]| calls.begin(operation, None, &headers(pairs)).end(End::Answered(503));
        run("killSandbox", &[]);
        run("createSandbox", &[("idempotency-key", "a")]);
        run("createSandbox", &[("idempotency-key", "b")]);
        run("killSandbox", &[("oncebox-attempt", "2")]);
        run("killSandbox", &[]);
        run("createSandbox", &[("idempotency-key", "a"), ("oncebox-attempt", "2")]);
        let sizes: Vec<usize> = joined(calls.last()).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1, 1]);
    }

    #[test]
    fn the_last_ones_are_kept_and_a_client_that_left_is_noted() {
        let calls = Arc::new(Calls::default());
        let first = calls.begin("first", None, &HeaderMap::new());
        for _ in 0..KEPT {
            drop(calls.begin("later", None, &HeaderMap::new()));
        }
        // It is no longer there, and nothing else is changed in its place.
        first.end(End::Cut);
        let last = calls.last();
        assert_eq!(last.len(), KEPT);
        assert!(last.iter().all(|attempt| attempt.operation == "later" && attempt.end.unwrap().0 == End::Left));
    }
}
