//! A document at work: which fault a request meets.

use std::time::{Duration, Instant};

use http::HeaderMap;
use oncebox_protocol::headers::{ONCEBOX_ATTEMPT, ONCEBOX_TEST_ID};
use parking_lot::Mutex;

use super::document::{CreateLimit, Document, Fault, Rule};

/// A document, and how far its rules have come.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) document: Document,
    rules: Mutex<Vec<Progress>>,
    bucket: Mutex<Option<Bucket>>,
}

#[derive(Debug)]
struct Progress {
    random: Random,
    matched: u64,
    fired: u64,
}

/// What a request meets.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) latency: Duration,
    pub(super) fault: Option<Fault>,
    /// A number in [0, 1) for what the fault itself draws.
    pub(super) chance: f64,
}

impl Decision {
    /// What it does, in a word.
    pub(super) fn name(&self) -> Option<&'static str> {
        match &self.fault {
            Some(Fault::Status(_)) => Some("status"),
            Some(Fault::Cut(_)) => Some("cut"),
            Some(Fault::Late(_)) => Some("late"),
            Some(Fault::CutAnswer(_)) => Some("cut_answer"),
            Some(Fault::StallAnswer(_)) => Some("stall_answer"),
            Some(Fault::HalfWrite(_)) => Some("half_write"),
            Some(Fault::Latency(_)) => Some("latency"),
            None => (!self.latency.is_zero()).then_some("latency"),
        }
    }
}

impl Plan {
    pub(super) fn new(document: Document) -> Self {
        let progress = |index: u64| Progress { random: Random::new(document.seed, index), matched: 0, fired: 0 };
        let rules = (0..document.rules.len() as u64).map(progress).collect();
        let bucket = document.create_limit.map(|limit| Bucket::new(limit, Instant::now()));
        Self { rules: Mutex::new(rules), bucket: Mutex::new(bucket), document }
    }

    /// Whether it changes nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.document == Document { seed: self.document.seed, ..Document::default() }
    }

    /// How often each rule has fired.
    pub(super) fn fired(&self) -> Vec<u64> {
        self.rules.lock().iter().map(|progress| progress.fired).collect()
    }

    pub(super) fn decide(&self, operation: Option<&str>, headers: &HeaderMap) -> Decision {
        let mut decision = Decision::default();
        let mut rules = self.rules.lock();
        for (rule, progress) in self.document.rules.iter().zip(rules.iter_mut()) {
            if !rule.concerns(operation) || !is_for(rule, headers) {
                continue;
            }
            progress.matched += 1;
            if progress.matched <= rule.skip || rule.times.is_some_and(|times| progress.fired >= times) {
                continue;
            }
            if progress.random.next() >= rule.probability {
                continue;
            }
            progress.fired += 1;
            let chance = progress.random.next();
            if let Fault::Latency(seconds) = rule.fault {
                decision.latency += seconds.draw(chance);
                continue;
            }
            decision.fault = Some(rule.fault.clone());
            decision.chance = chance;
            break;
        }
        decision
    }

    /// Asks for a create to be let through; `None` where there is no limit.
    pub(super) fn take_create(&self) -> Option<Allowance> {
        self.bucket.lock().as_mut().map(|bucket| bucket.take(Instant::now()))
    }
}

fn is_for(rule: &Rule, headers: &HeaderMap) -> bool {
    let is = |name, wanted: &str| headers.get(name).is_some_and(|value| value.as_bytes() == wanted.as_bytes());
    let test = rule.test_id.as_deref().is_none_or(|id| is(ONCEBOX_TEST_ID, id));
    let attempt = match rule.attempt {
        None => true,
        Some(1) => !headers.contains_key(ONCEBOX_ATTEMPT) || is(ONCEBOX_ATTEMPT, "1"),
        Some(n) => is(ONCEBOX_ATTEMPT, &n.to_string()),
    };
    test && attempt
}

/// What is left of a limit, after a create was counted or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) granted: bool,
    /// So many in a window of so many seconds.
    pub(super) limit: u64,
    pub(super) window: u64,
    pub(super) remaining: u64,
    /// Whole seconds until there is room again, at least 1.
    pub(super) reset: u64,
}

#[derive(Debug)]
struct Bucket {
    per_second: f64,
    size: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(limit: CreateLimit, now: Instant) -> Self {
        let size = limit.burst.map_or_else(|| limit.per_second.max(1.0), f64::from);
        Self { per_second: limit.per_second, size, tokens: size, at: now }
    }

    fn take(&mut self, now: Instant) -> Allowance {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * self.per_second).min(self.size);
        let granted = self.tokens >= 1.0;
        if granted {
            self.tokens -= 1.0;
        }
        let missing = (1.0 - self.tokens).max(0.0);
        Allowance {
            granted,
            limit: if self.per_second < 1.0 { 1 } else { self.per_second as u64 },
            window: if self.per_second < 1.0 { (1.0 / self.per_second).ceil() as u64 } else { 1 },
            remaining: self.tokens as u64,
            reset: ((missing / self.per_second).ceil() as u64).max(1),
        }
    }
}

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.bits();
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In [0, 1).
    fn next(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::misbehave::check::parse;

    fn plan(json: &str) -> Plan {
        Plan::new(parse(json.as_bytes()).unwrap())
    }

    fn faults(plan: &Plan, requests: usize) -> Vec<bool> {
        (0..requests).map(|_| plan.decide(Some("killSandbox"), &HeaderMap::new()).fault.is_some()).collect()
    }

    #[test]
    fn a_rule_skips_fires_and_is_used_up() {
        let plan = plan(r#"{"rules": [{"on": ["kill"], "skip": 1, "times": 2, "fault": {"cut": {}}}]}"#);
        assert_eq!(faults(&plan, 5), [false, true, true, false, false]);
        assert_eq!(plan.fired(), [2]);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let json = |seed| format!(r#"{{"seed": {seed}, "rules": [{{"probability": 0.3, "fault": {{"cut": {{}}}}}}]}}"#);
        let drawn = faults(&plan(&json(7)), 1000);
        assert_eq!(drawn, faults(&plan(&json(7)), 1000));
        assert_ne!(drawn, faults(&plan(&json(8)), 1000));
        let fired = drawn.iter().filter(|fired| **fired).count();
        assert!((240..360).contains(&fired), "{fired} of 1000");
    }

    #[test]
    fn a_rule_may_be_for_one_test_and_one_attempt() {
        let plan = plan(r#"{"rules": [{"test_id": "a", "attempt": 2, "fault": {"cut": {}}}]}"#);
        let decide = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())).collect();
            plan.decide(None, &headers).fault.is_some()
        };
        assert!(decide(&[("oncebox-test-id", "a"), ("oncebox-attempt", "2")]));
        assert!(!decide(&[("oncebox-test-id", "a")]));
        assert!(!decide(&[("oncebox-test-id", "b"), ("oncebox-attempt", "2")]));
    }

    #[test]
    fn a_bucket_lets_through_what_it_holds_and_what_flows_in() {
        let start = Instant::now();
        let mut bucket = Bucket::new(CreateLimit { per_second: 2.0, burst: None }, start);
        let granted = |bucket: &mut Bucket, at: u64| bucket.take(start + Duration::from_millis(at)).granted;
        assert!(granted(&mut bucket, 0) && granted(&mut bucket, 0));
        assert_eq!(bucket.take(start), Allowance { granted: false, limit: 2, window: 1, remaining: 0, reset: 1 });
        assert!(granted(&mut bucket, 500) && !granted(&mut bucket, 600));
    }
}
