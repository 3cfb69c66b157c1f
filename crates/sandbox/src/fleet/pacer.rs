//! How fast creates may go: learnt from what the server says of its limits, shared by all creates of a fleet.

use std::sync::Mutex;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::once::lock;

/// Creates that are under way at a time before the first answer tells anything.
const FIRST: u32 = 10;

/// How close to the server's rate this goes: its clock and ours differ, and others may use the same key.
const SHARE: f64 = 0.95;

/// What a rate becomes on a 429 of a server that does not say its limit, and with each success after that.
const SLOWER: f64 = 0.7;
const FASTER: f64 = 1.01;

/// The longest that one answer can hold all creates up.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// The slowest rate that is kept, one a day: what a server names may be anything, also what no clock can count.
const SLOWEST: f64 = 1.0 / 86_400.0;

/// The one limiter of a fleet.
#[derive(Debug)]
pub(crate) struct Pacer {
    state: Mutex<State>,
    /// A create was answered, or ended.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Creates a second; `None`: no limit is known.
    rate: Option<f64>,
    /// The server named its limit.
    is_named: bool,
    /// When the next create may go.
    next: Instant,
    /// Answers so far.
    answers: u64,
    /// Creates under way.
    places: u32,
    /// Answers in the running second, from which a rate is guessed.
    second: (Instant, u32),
    limited: u64,
}

impl Pacer {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(State {
                rate: None,
                is_named: false,
                next: now,
                answers: 0,
                places: 0,
                second: (now, 0),
                limited: 0,
            }),
            changed: Notify::new(),
        }
    }

    /// Waits until a create may begin: a few until the first answer, and then all.
    pub(crate) async fn place(&self) -> Place<'_> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = lock(&self.state);
                if state.answers > 0 || state.places < FIRST {
                    state.places += 1;
                    return Place(self);
                }
            }
            changed.await;
        }
    }

    /// Waits until a create may be sent. Each that is sent takes its own turn, `random` in [0, 1) apart from the others.
    pub(crate) async fn turn(&self, random: f64) {
        // What was learnt while this waited holds for it, too.
        loop {
            let at = {
                let mut state = lock(&self.state);
                let now = Instant::now();
                if state.next <= now {
                    let apart = state.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
                    state.next = state.next.max(now.checked_sub(apart).unwrap_or(now)) + apart;
                    return;
                }
                state.next + state.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(random / rate))
            };
            sleep_until(at).await;
        }
    }

    /// Learns from an answer; `None`: there was none. Whether a 429 will be obeyed here, so that its wait costs nothing.
    pub(crate) fn learn(
        &self,
        status: Option<u16>,
        headers: Option<&HeaderMap>,
        retry_after: Option<Duration>,
    ) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        state.answers += 1;
        self.changed.notify_waiters();
        if let Some(rate) = headers.and_then(rate_of) {
            state.rate = Some((rate * SHARE).max(SLOWEST));
            state.is_named = true;
        }
        let Some(status) = status else { return false };
        if status == 429 {
            state.limited += 1;
            if !state.is_named {
                let seen = f64::from(state.second.1.max(1));
                state.rate = Some((state.rate.unwrap_or(seen) * SLOWER).max(0.1));
            }
            let hold = retry_after.unwrap_or(Duration::from_secs(1)).min(LONGEST_HOLD);
            // Where the rate is named, going on at that rate is what the server asks for.
            let hold = if state.is_named { hold.min(Duration::from_secs(1)) } else { hold };
            state.next = state.next.max(now + hold);
            return true;
        }
        if now.saturating_duration_since(state.second.0) >= Duration::from_secs(1) {
            state.second = (now, 0);
        }
        state.second.1 += 1;
        if !state.is_named {
            state.rate = state.rate.map(|rate| rate * FASTER);
        }
        false
    }

    /// Answers of 429 so far.
    pub(crate) fn limited(&self) -> u64 {
        lock(&self.state).limited
    }

    /// The rate that is kept, in creates a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        lock(&self.state).rate
    }
}

/// A create's place among those under way, until it ends: not each is sent, and what is not sent has no answer.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Pacer);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).places -= 1;
        self.0.changed.notify_waiters();
    }
}

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");

/// Requests a second, as either form of the RateLimit fields names them: `"name";q=50;w=1`, or `50;w=1`, or `50, 50;w=60`.
/// A limit without its window says no rate.
fn rate_of(headers: &HeaderMap) -> Option<f64> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let policies = text(&POLICY).into_iter().chain(text(&LIMIT)).flat_map(|text| text.split(','));
    // Of several policies the strictest holds.
    policies.filter_map(rate_of_policy).reduce(f64::min)
}

fn rate_of_policy(policy: &str) -> Option<f64> {
    let mut parts = policy.split(';').map(str::trim);
    let first = parts.next()?;
    let (mut quota, mut window): (Option<f64>, Option<f64>) = (first.parse().ok(), None);
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => quota = value.trim().parse().ok(),
            Some(("w", value)) => window = value.trim().parse().ok(),
            _ => {}
        }
    }
    let rate: f64 = quota? / window?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pairs: &[(&'static str, &'static str)]) -> Option<f64> {
        rate_of(&pairs.iter().map(|(n, v)| (HeaderName::from_static(n), v.parse().unwrap())).collect())
    }

    #[test]
    fn both_forms_name_a_rate() {
        assert_eq!(rate(&[("ratelimit-policy", "\"create\";q=50;w=1")]), Some(50.0));
        assert_eq!(rate(&[("ratelimit-policy", "\"a\";q=100;w=1, \"b\";q=600;w=60")]), Some(10.0));
        assert_eq!(rate(&[("ratelimit-limit", "50, 3000;w=60")]), Some(50.0));
        for nothing in ["50", "\"create\";q=50", "x;w=1", "0;w=1", "5;w=0", ""] {
            assert_eq!(rate(&[("ratelimit-policy", nothing)]), None, "{nothing}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn creates_keep_the_rate_that_the_server_names() {
        let pacer = Pacer::new();
        pacer.turn(0.0).await;
        let headers = HeaderMap::from_iter([(POLICY.clone(), "\"create\";q=20;w=1".parse().unwrap())]);
        assert!(!pacer.learn(Some(201), Some(&headers), None));
        let began = Instant::now();
        for _ in 0..38 {
            pacer.turn(0.0).await;
        }
        let took = began.elapsed().as_secs_f64();
        assert!((1.8..2.2).contains(&took), "{took} s for 38 creates at 19 a second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_no_clock_can_count_ends_no_create_with_a_panic() {
        for limit in ["1;w=1e300", "1e-300;w=1", "\"create\";q=1;w=99999999999999999999"] {
            let pacer = Pacer::new();
            pacer.turn(0.0).await;
            pacer.learn(Some(201), Some(&HeaderMap::from_iter([(POLICY.clone(), limit.parse().unwrap())])), None);
            let began = Instant::now();
            for _ in 0..2 {
                pacer.turn(0.9).await;
            }
            assert!(began.elapsed() <= Duration::from_secs(4 * 86_400), "{limit}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_429_without_a_limit_holds_all_up_and_slows_down() {
        let pacer = Pacer::new();
        for _ in 0..10 {
            pacer.turn(0.0).await;
            pacer.learn(Some(201), None, None);
        }
        assert_eq!(pacer.rate(), None);
        assert!(pacer.learn(Some(429), None, Some(Duration::from_secs(3))));
        let began = Instant::now();
        pacer.turn(0.0).await;
        assert!(began.elapsed() >= Duration::from_secs(3));
        assert!(pacer.rate().is_some() && pacer.limited() == 1);
    }
}
