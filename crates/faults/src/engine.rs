//! Which rules hold at a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::head::Head;
use crate::script::{Moment, Number, Rule, Script, Version};

/// A request as the rules see it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The HTTP/2 stream; 1, 2, … for the requests of an HTTP/1.1 connection.
    pub(crate) stream: u32,
    /// Its place among the connection's requests, from 1.
    pub(crate) nth: u64,
    pub(crate) id: Option<Arc<str>>,
    /// Its place among the tries of its id, from 1.
    pub(crate) attempt: u64,
}

/// Where and with what a moment happens.
pub(crate) struct Occasion<'a> {
    pub(crate) connection: u64,
    pub(crate) version: Option<Version>,
    pub(crate) request: Option<&'a Request>,
}

pub(crate) struct Engine {
    pub(crate) script: Script,
    rules_at: HashMap<Moment, Vec<usize>>,
    /// How often each rule's other conditions were fulfilled.
    counts: Vec<AtomicU64>,
    pub(crate) request_body: Vec<u64>,
    pub(crate) answer_head: Vec<u64>,
    pub(crate) answer_body: Vec<u64>,
    pub(crate) answer_piece: Vec<u64>,
    pub(crate) idle: Vec<u64>,
    pub(crate) age: Vec<u64>,
    pub(crate) bytes_in: Vec<u64>,
    pub(crate) bytes_out: Vec<u64>,
}

impl Engine {
    pub(crate) fn new(script: Script) -> Self {
        let mut rules_at: HashMap<Moment, Vec<usize>> = HashMap::new();
        for (index, rule) in script.rules.iter().enumerate() {
            rules_at.entry(rule.at).or_default().push(index);
        }
        let numbers = |of: fn(Moment) -> Option<u64>| {
            let mut numbers: Vec<u64> = rules_at.keys().filter_map(|moment| of(*moment)).collect();
            numbers.sort_unstable();
            numbers
        };
        macro_rules! numbers_of {
            ($variant:ident) => {
                numbers(|moment| if let Moment::$variant(number) = moment { Some(number) } else { None })
            };
        }
        Self {
            counts: script.rules.iter().map(|_| AtomicU64::new(0)).collect(),
            request_body: numbers_of!(RequestBody),
            answer_head: numbers_of!(AnswerHead),
            answer_body: numbers_of!(AnswerBody),
            answer_piece: numbers_of!(AnswerPiece),
            idle: numbers_of!(Idle),
            age: numbers_of!(Age),
            bytes_in: numbers_of!(BytesIn),
            bytes_out: numbers_of!(BytesOut),
            rules_at,
            script,
        }
    }

    /// The rules of a moment, whether their conditions hold or not.
    pub(crate) fn at(&self, moment: Moment) -> &[usize] {
        self.rules_at.get(&moment).map_or(&[], Vec::as_slice)
    }

    /// Whether a rule's conditions hold. Counts the occasion.
    pub(crate) fn holds(&self, index: usize, occasion: &Occasion<'_>) -> bool {
        if !self.fits(index, occasion) {
            return false;
        }
        let count = self.counts[index].fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = &self.script.rules[index].when.count;
        wanted.as_ref().is_none_or(|wanted| wanted.matches(count, || self.draw(index, "count", &[])))
    }

    /// Those of a script's numbers at which a rule may hold, so that nothing is cut where none does.
    pub(crate) fn marks(&self, all: &[u64], at: fn(u64) -> Moment, occasion: &Occasion<'_>) -> Vec<u64> {
        let fits = |mark: &u64| self.at(at(*mark)).iter().any(|index| self.fits(*index, occasion));
        all.iter().copied().filter(fits).collect()
    }

    /// Whether all conditions hold but for the count.
    fn fits(&self, index: usize, occasion: &Occasion<'_>) -> bool {
        let Rule { when, .. } = &self.script.rules[index];
        let by_connection = || self.draw(index, "connection", &[occasion.connection]);
        let number = |wanted: &Option<Number>, number: u64| {
            wanted.as_ref().is_none_or(|wanted| wanted.matches(number, by_connection))
        };
        let of_request = |request: &Request| {
            let head = &request.head;
            number(&when.stream, u64::from(request.stream))
                && number(&when.nth, request.nth)
                && number(&when.attempt, request.attempt)
                && when.method.as_ref().is_none_or(|method| method.matches(head.method.as_bytes()))
                && when.path.as_ref().is_none_or(|path| path.matches(head.path.as_bytes()))
                && when.header.iter().all(|(name, text)| head.value(name).is_some_and(|value| text.matches(value)))
                && when
                    .request_id
                    .as_ref()
                    .is_none_or(|wanted| request.id.as_ref().is_some_and(|id| wanted.matches(id.as_bytes())))
                && when.share.is_none_or(|share| share.holds(self.request_draw(index, occasion.connection, request)))
        };
        number(&when.connection, occasion.connection)
            && when.version.is_none_or(|version| Some(version) == occasion.version)
            && occasion.request.is_none_or(of_request)
            && when.probability.is_none_or(|probability| probability.holds(self.occasion_draw(index, occasion)))
    }

    /// A number that looks random and follows from the seed, what it is for, and whom it concerns.
    pub(crate) fn draw_for(&self, what: &str, connection: u64, request: &Request) -> u64 {
        match request.id.as_deref() {
            Some(id) => self.draw(usize::MAX, id, &[fold(what), request.attempt]),
            None => self.draw(usize::MAX, what, &[connection, u64::from(request.stream)]),
        }
    }

    fn occasion_draw(&self, index: usize, occasion: &Occasion<'_>) -> u64 {
        match occasion.request {
            Some(Request { id: Some(id), attempt, .. }) => self.draw(index, id, &[*attempt]),
            Some(request) => self.draw(index, "stream", &[occasion.connection, u64::from(request.stream)]),
            None => self.draw(index, "occasion", &[occasion.connection]),
        }
    }

    /// The same for all tries of a request. One without an id is a request of its own.
    fn request_draw(&self, index: usize, connection: u64, request: &Request) -> u64 {
        match &request.id {
            Some(id) => self.draw(index, id, &[]),
            None => self.draw(index, "request", &[connection, u64::from(request.stream)]),
        }
    }

    fn draw(&self, index: usize, name: &str, numbers: &[u64]) -> u64 {
        let start = mix(self.script.seed ^ mix(index as u64) ^ fold(name));
        numbers.iter().fold(start, |state, number| mix(state ^ number))
    }
}

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn fold(text: &str) -> u64 {
    crate::digest(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Fault, Script};

    fn request(id: &str, attempt: u64) -> Request {
        let id = (!id.is_empty()).then(|| id.into());
        Request { head: Head::default(), stream: 1, nth: 1, id, attempt }
    }

    fn holds(engine: &Engine, connection: u64, request: &Request) -> bool {
        engine.holds(0, &Occasion { connection, version: None, request: Some(request) })
    }

    #[test]
    fn a_share_is_the_same_for_all_tries_and_connections() {
        let rule = Rule::at(Moment::Request).share(0.5).does(Fault::Refuse);
        let engine = Engine::new(Script::new().seed(9).rule(rule));
        let mut chosen = 0;
        for n in 0..2000 {
            let id = format!("r{n}");
            let first = holds(&engine, 1, &request(&id, 1));
            assert_eq!(first, holds(&engine, 7, &request(&id, 2)));
            chosen += u32::from(first);
        }
        assert!((900..=1100).contains(&chosen), "{chosen}");
    }

    #[test]
    fn a_probability_is_drawn_anew_for_each_try_and_follows_the_seed() {
        let script = |seed| {
            Engine::new(Script::new().seed(seed).rule(Rule::at(Moment::Request).probability(0.1).does(Fault::Refuse)))
        };
        let run = |engine: &Engine| -> Vec<bool> {
            (0..2000).map(|n| holds(engine, 1, &request(&format!("r{}", n / 4), n % 4 + 1))).collect()
        };
        let first = run(&script(1));
        assert_eq!(first, run(&script(1)));
        assert_ne!(first, run(&script(2)));
        let chosen = first.iter().filter(|hit| **hit).count();
        assert!((140..=260).contains(&chosen), "{chosen}");
    }

    #[test]
    fn a_count_counts_what_fulfils_the_rest() {
        let rule = Rule::at(Moment::Request).attempt(2).count(1..=2).does(Fault::Refuse);
        let engine = Engine::new(Script::new().rule(rule));
        let row: Vec<bool> = [1, 2, 1, 2, 2].map(|attempt| holds(&engine, 1, &request("a", attempt))).to_vec();
        assert_eq!(row, [false, true, false, true, false]);
    }

    #[test]
    fn a_random_number_is_drawn_for_each_connection() {
        let rule = Rule::at(Moment::Request).nth(Number::Random { from: 1, to: 40 }).does(Fault::Refuse);
        let engine = Engine::new(Script::new().rule(rule));
        let drawn: Vec<u64> = (1..=200)
            .map(|connection| {
                let matching: Vec<u64> = (1..=60)
                    .filter(|nth| holds(&engine, connection, &Request { nth: *nth, ..request("", 1) }))
                    .collect();
                assert_eq!(matching.len(), 1);
                matching[0]
            })
            .collect();
        assert!(drawn.iter().min() < Some(&5) && drawn.iter().max() > Some(&36));
        assert!(drawn.iter().all(|number| (1..=40).contains(number)));
    }
}
