//! What really happened: the count by which anyone can check that a thing was done once.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

use super::document::is_of;

/// Most different effects that are told apart; more are only counted.
const MAX_EFFECTS: usize = 200_000;

/// Every effect since the server began, or since the last `DELETE /oncebox/effects`.
#[derive(Debug, Default)]
pub(super) struct Effects(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    counted: HashMap<What, Seen>,
    /// Sandboxes whose making was counted: an answer that is given again, by its key, is no second one.
    made: HashSet<String>,
    counts: BTreeMap<String, u64>,
    not_told_apart: u64,
}

/// What was done, for which request, to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(super) struct What {
    /// The operation's id.
    pub(super) operation: String,
    /// `Idempotency-Key`
    pub(super) key: Option<String>,
    /// `oncebox.intent`
    pub(super) intent: Option<String>,
    /// `Oncebox-Test-Id`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) test: Option<String>,
    /// The sandbox that was made, ended or changed.
    pub(super) sandbox: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// `GET /oncebox/effects`
#[derive(Debug, Serialize)]
pub(super) struct Report {
    effects: Vec<Effect>,
    /// How often each operation had an effect.
    counts: BTreeMap<String, u64>,
    /// Intents, or where there is none keys, that made more than one sandbox, and those.
    doubled: BTreeMap<String, Vec<String>>,
    /// Effects that are in `counts` alone, since there were too many.
    not_told_apart: u64,
}

#[derive(Debug, Serialize)]
struct Effect {
    #[serde(flatten)]
    what: What,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Effects {
    pub(super) fn add(&self, what: What, mints_sandbox: bool) {
        let now = Timestamp::now();
        let mut book = self.0.lock();
        if mints_sandbox
            && book.made.len() < MAX_EFFECTS
            && let Some(id) = &what.sandbox
            && !book.made.insert(id.clone())
        {
            return;
        }
        *book.counts.entry(what.operation.clone()).or_default() += 1;
        if book.counted.len() >= MAX_EFFECTS && !book.counted.contains_key(&what) {
            book.not_told_apart += 1;
            return;
        }
        let seen = book.counted.entry(what).or_insert(Seen { count: 0, first: now, last: now });
        seen.count += 1;
        seen.last = now;
    }

    /// Oldest first; those of one test, or all.
    pub(super) fn report(&self, test: Option<&str>) -> Report {
        let book = self.0.lock();
        let effect = |(what, seen): (&What, &Seen)| Effect {
            what: what.clone(),
            count: seen.count,
            first: seen.first,
            last: seen.last,
        };
        let wanted = |(what, _): &(&What, &Seen)| test.is_none() || what.test.as_deref() == test;
        let mut effects: Vec<_> = book.counted.iter().filter(wanted).map(effect).collect();
        effects.sort_by(|a, b| (a.first, &a.what.sandbox).cmp(&(b.first, &b.what.sandbox)));
        let counts = match test {
            None => book.counts.clone(),
            Some(_) => sums(effects.iter().map(|effect| (&effect.what, effect.count))),
        };
        let doubled = doubled(&effects);
        Report { effects, counts, doubled, not_told_apart: book.not_told_apart }
    }

    /// Begins anew, for one test or for all. What was made before stays known, so that its answers given again still count
    /// as none.
    pub(super) fn clear(&self, test: Option<&str>) {
        let mut book = self.0.lock();
        let Some(test) = test else {
            book.counted.clear();
            book.counts.clear();
            book.not_told_apart = 0;
            return;
        };
        book.counted.retain(|what, _| what.test.as_deref() != Some(test));
        book.counts = sums(book.counted.iter().map(|(what, seen)| (what, seen.count)));
    }
}

fn doubled(effects: &[Effect]) -> BTreeMap<String, Vec<String>> {
    let mut made = BTreeMap::<String, Vec<String>>::new();
    for What { operation, key, intent, sandbox, .. } in effects.iter().map(|effect| &effect.what) {
        if let (true, Some(name), Some(id)) = (is_of("create", operation), intent.as_ref().or(key.as_ref()), sandbox) {
            made.entry(name.clone()).or_default().push(id.clone());
        }
    }
    made.retain(|_, made| made.len() > 1);
    made
}

/// How often each operation had an effect.
fn sums<'e>(effects: impl Iterator<Item = (&'e What, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (what, count) in effects {
        *sums.entry(what.operation.clone()).or_default() += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(operation: &str, sandbox: &str) -> What {
        What { operation: operation.to_owned(), sandbox: Some(sandbox.to_owned()), ..What::default() }
    }

    #[test]
    fn an_answer_given_again_is_no_second_effect_and_a_second_start_is() {
        let effects = Effects::default();
        effects.add(what("createSandbox", "i1"), true);
        effects.add(what("createSandbox", "i1"), true);
        effects.add(what("createSandbox", "i2"), true);
        effects.add(what("processStart", "i1"), false);
        effects.add(what("processStart", "i1"), false);
        let report = effects.report(None);
        assert_eq!(report.counts["createSandbox"], 2);
        assert_eq!(report.counts["processStart"], 2);
        assert_eq!(report.effects.iter().map(|effect| effect.count).sum::<u64>(), 4);
        effects.clear(None);
        effects.add(what("createSandbox", "i1"), true);
        assert!(effects.report(None).effects.is_empty());
    }

    #[test]
    fn what_one_name_made_twice_is_doubled_and_what_has_no_name_is_not() {
        let effects = Effects::default();
        let create = |intent: Option<&str>, key: Option<&str>, sandbox| What {
            intent: intent.map(str::to_owned),
            key: key.map(str::to_owned),
            ..what("createSandbox", sandbox)
        };
        for (intent, key, sandbox) in [
            (Some("a"), Some("k1"), "i1"),
            (Some("a"), Some("k2"), "i2"),
            (Some("b"), None, "i3"),
            (None, Some("c"), "i4"),
            (None, Some("c"), "i5"),
            (None, None, "i6"),
            (None, None, "i7"),
        ] {
            effects.add(create(intent, key, sandbox), true);
        }
        effects.add(What { intent: Some("b".to_owned()), ..what("killSandbox", "i3") }, false);
        let doubled = effects.report(None).doubled;
        let expected = [("a", ["i1", "i2"]), ("c", ["i4", "i5"])];
        assert_eq!(doubled, expected.map(|(name, made)| (name.to_owned(), made.map(str::to_owned).to_vec())).into());
    }

    #[test]
    fn tests_do_not_disturb_each_other() {
        let effects = Effects::default();
        let of = |test: &str| What { test: Some(test.to_owned()), ..what("killSandbox", "i1") };
        for (test, times) in [("a", 2), ("b", 1)] {
            (0..times).for_each(|_| effects.add(of(test), false));
        }
        assert_eq!(effects.report(Some("a")).counts["killSandbox"], 2);
        effects.clear(Some("a"));
        assert!(effects.report(Some("a")).effects.is_empty());
        assert_eq!((effects.report(Some("b")).effects.len(), effects.report(None).counts["killSandbox"]), (1, 1));
    }
}
