//! A control plane with faults, as a create sees it. All its times count from the call's begin.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use oncebox_policy::create::{
    Answer, ApiVersion, Failure, Input, Intent, IntentTag, ListedSandbox, Listing, ServerError,
};
use oncebox_policy::{Cause, NotSent, Outcome, Phase, Refusal, Response, ResponseBody, Unknown};

/// The local clock at the call's begin.
pub(crate) const BEGAN: Duration = Duration::from_secs(1_800_000_000);

/// What goes wrong with one send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendFault {
    None,
    NotSent,
    Refused,
    RateLimited(u64),
    /// The request reaches the server, or does not; and something else than its answer comes back.
    Wire {
        reaches: bool,
        back: Back,
    },
    /// A 500 of E2B's shape, recorded under the key; with an effect or without.
    Recorded {
        effect: bool,
    },
    /// A 503 of E2B's shape, recorded under the key; without an effect, unless it lies.
    Busy {
        lie: bool,
        retry_after: Option<u64>,
    },
    /// The store of keys is down.
    StoreDown,
    /// Carried out, and the record of it is lost; so is the answer.
    Forgotten,
}

/// What comes back in place of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Back {
    Nothing,
    Html(u16),
    Cut,
}

#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) honours_keys: bool,
    pub(crate) filters: bool,
    pub(crate) metadata: bool,
    pub(crate) dates: bool,
    pub(crate) has_v2: bool,
    /// 404 or 405 where v2 is missing.
    pub(crate) missing: u16,
    /// How late a sandbox shows in lists.
    pub(crate) lag: Duration,
    /// How far the server's clock is ahead (or behind).
    pub(crate) skew: i64,
    /// How long each create takes, one after the other, again and again.
    pub(crate) delays: Vec<Duration>,
    pub(crate) sends: VecDeque<SendFault>,
    /// Failures of lists, fetches and kills.
    pub(crate) lists: VecDeque<bool>,
    pub(crate) adopts: VecDeque<bool>,
    pub(crate) kills: VecDeque<bool>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            honours_keys: false,
            filters: true,
            metadata: true,
            dates: true,
            has_v2: true,
            missing: 404,
            lag: Duration::ZERO,
            skew: 0,
            delays: vec![Duration::ZERO],
            sends: VecDeque::new(),
            lists: VecDeque::new(),
            adopts: VecDeque::new(),
            kills: VecDeque::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) started: f64,
    pub(crate) tag: IntentTag,
    pub(crate) ours: bool,
    pub(crate) killed: bool,
    paused: bool,
}

#[derive(Clone, Debug)]
enum Record {
    /// Made, or to be made then.
    Made {
        id: String,
        at: Duration,
    },
    Failed(u16),
    Forgotten,
}

pub(crate) struct Server {
    pub(crate) behaviour: Behaviour,
    pub(crate) sandboxes: Vec<Sandbox>,
    records: HashMap<String, Record>,
    creates: usize,
    seed: u64,
}

impl Server {
    pub(crate) fn new(behaviour: Behaviour, seed: u64) -> Self {
        Self { behaviour, sandboxes: Vec::new(), records: HashMap::new(), creates: 0, seed }
    }

    /// A sandbox that this call did not make.
    pub(crate) fn add_foreign(&mut self, started: f64, tag: IntentTag) -> String {
        self.add(started, tag, false)
    }

    /// An older sandbox of the same intent; a server that honours keys knows it by its key.
    pub(crate) fn add_older(&mut self, started: f64, intent: &Intent) {
        let id = self.add(started, IntentTag::Value(intent.to_string()), false);
        if self.behaviour.honours_keys {
            self.records.entry(intent.key(0)).or_insert(Record::Made { id, at: Duration::ZERO });
        }
    }

    /// What the lost send of an earlier call makes, then. From the call's begin on nobody can tell it from a double; a server
    /// that honours keys knows it by its key.
    pub(crate) fn add_earlier(&mut self, started: f64, intent: &Intent) {
        let id = self.add(started, IntentTag::Value(intent.to_string()), started >= 0.0);
        if self.behaviour.honours_keys {
            let at = Duration::try_from_secs_f64(started).unwrap_or_default();
            // On the way to v1 it took the next key.
            let key = intent.key(u32::from(!self.behaviour.has_v2));
            self.records.entry(key).or_insert(Record::Made { id, at });
        }
    }

    fn add(&mut self, started: f64, tag: IntentTag, ours: bool) -> String {
        // Ids are in no order: the smallest of two is not the first.
        let id = format!("i{:08x}", (self.next() as u32) ^ self.sandboxes.len() as u32);
        let paused = self.next().is_multiple_of(5);
        self.sandboxes.push(Sandbox { id: id.clone(), started, tag, ours, killed: false, paused });
        id
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 24
    }

    pub(crate) fn random(&mut self) -> f64 {
        (self.next() & 0xffff_ffff) as f64 / 4_294_967_296.0
    }

    /// How long a request is under way.
    pub(crate) fn trip(&mut self) -> Duration {
        Duration::from_millis(5 + self.next() % 95)
    }

    /// Carries a create out. Returns when its result is known, and the result.
    pub(crate) fn create(
        &mut self,
        intent: &Intent,
        key: &str,
        version: ApiVersion,
        now: Duration,
    ) -> (Duration, Answer) {
        let arrival = now + self.trip();
        let fault = self.behaviour.sends.pop_front().unwrap_or(SendFault::None);
        match fault {
            SendFault::NotSent => {
                let phase = Phase::Connect;
                let not_sent = NotSent { phase, touched_socket: true, detail: "".into() };
                return (arrival, Answer { failed_dials: 1, ..Answer::new(Outcome::NotSent(not_sent)) });
            }
            SendFault::Refused => {
                let refused = Outcome::Refused(Refusal::RefusedStream { stream_id: 1 });
                return (arrival, Answer { other_connection: true, ..Answer::new(refused) });
            }
            _ => {}
        }
        if version == ApiVersion::V2 && !self.behaviour.has_v2 {
            return (arrival, self.answer(arrival, self.behaviour.missing, None, None));
        }
        let (answered, answer) = match fault {
            SendFault::RateLimited(wait) => (arrival, self.error(arrival, 429, "", "slow down", Some(wait))),
            SendFault::Wire { reaches: false, .. } => (arrival, Answer::new(lost())),
            SendFault::StoreDown => (arrival, self.error(arrival, 503, "", "retry with the same key", None)),
            _ => self.execute(intent, key, fault, arrival),
        };
        let back = match fault {
            SendFault::Wire { back, .. } => back,
            SendFault::Forgotten => Back::Nothing,
            _ => return (answered + self.trip(), answer),
        };
        // What cuts the answer does not wait for the effect.
        let cut = arrival + self.trip();
        match back {
            Back::Nothing => (cut, Answer::new(lost())),
            Back::Html(status) => (cut, self.answer(cut, status, None, None)),
            Back::Cut => {
                let response = Response { body: ResponseBody::Broken, ..Response::new(201) };
                (cut, Answer { date: self.date(cut), ..Answer::new(Outcome::Responded(response)) })
            }
        }
    }

    fn execute(&mut self, intent: &Intent, key: &str, fault: SendFault, arrival: Duration) -> (Duration, Answer) {
        if self.behaviour.honours_keys {
            match self.records.get(key).cloned() {
                Some(Record::Made { at, .. }) if at > arrival => {
                    return (arrival, self.error(arrival, 409, "idempotency_in_progress", "", None));
                }
                Some(Record::Made { id, .. }) => return (arrival, self.answer(arrival, 201, Some(id), None)),
                Some(Record::Failed(status)) => return (arrival, self.error(arrival, status, "", "recorded", None)),
                Some(Record::Forgotten) => {
                    return (arrival, self.error(arrival, 422, "idempotency_outcome_unknown", "", None));
                }
                None => {}
            }
        }
        let delay = self.behaviour.delays[self.creates % self.behaviour.delays.len()];
        self.creates += 1;
        let at = arrival + delay;
        let (effect, record, status) = match fault {
            SendFault::Recorded { effect } => (effect, Some(Record::Failed(500)), 500),
            SendFault::Busy { lie, .. } => (lie, Some(Record::Failed(503)), 503),
            SendFault::Forgotten => (true, Some(Record::Forgotten), 201),
            _ => (true, None, 201),
        };
        let id = effect.then(|| self.add(at.as_secs_f64(), IntentTag::Value(intent.to_string()), true));
        let record = record.or_else(|| id.clone().map(|id| Record::Made { id, at }));
        if let Some(record) = record {
            self.records.insert(key.to_owned(), record);
        }
        match (status, fault) {
            (201, _) => (at, self.answer(at, 201, id, None)),
            (status, SendFault::Busy { retry_after, .. }) => {
                (arrival, self.error(arrival, status, "", "busy", retry_after))
            }
            (status, _) => (arrival, self.error(arrival, status, "", "failed", None)),
        }
    }

    fn answer(&self, at: Duration, status: u16, sandbox: Option<String>, wait: Option<u64>) -> Answer {
        let response = Response { retry_after: wait.map(Duration::from_secs), ..Response::new(status) };
        Answer { sandbox, date: self.date(at), ..Answer::new(Outcome::Responded(response)) }
    }

    fn error(&self, at: Duration, status: u16, code: &str, message: &str, wait: Option<u64>) -> Answer {
        let error_code = (!code.is_empty()).then(|| code.to_owned());
        let error = Some(ServerError { error_code, message: message.to_owned() });
        Answer { error, ..self.answer(at, status, None, wait) }
    }

    fn date(&self, at: Duration) -> Option<Duration> {
        let clock = (BEGAN + at).as_secs() as i64 + self.behaviour.skew;
        self.behaviour.dates.then(|| Duration::from_secs(clock as u64))
    }

    /// Answers a look-up that is answered now.
    pub(crate) fn list(&mut self, intent: &Intent, version: ApiVersion, now: Duration) -> Input {
        if version == ApiVersion::V2 && !self.behaviour.has_v2 {
            let status = Some(self.behaviour.missing);
            return Input::ListFailed(Failure { status, ..Failure::default() });
        }
        if self.behaviour.lists.pop_front().unwrap_or(false) {
            return Input::ListFailed(Failure { status: Some(500), date: self.date(now), ..Failure::default() });
        }
        let horizon = now.saturating_sub(self.behaviour.lag).as_secs_f64();
        let visible = |sandbox: &&Sandbox| !sandbox.killed && sandbox.started <= horizon;
        let wanted = IntentTag::Value(intent.to_string());
        let sandboxes = self
            .sandboxes
            .iter()
            .filter(visible)
            .filter(|sandbox| !self.behaviour.filters || sandbox.tag == wanted)
            .map(|sandbox| ListedSandbox {
                id: sandbox.id.clone(),
                started_at: Duration::from_secs_f64(BEGAN.as_secs_f64() + self.behaviour.skew as f64 + sandbox.started),
                intent: if self.behaviour.metadata { sandbox.tag.clone() } else { IntentTag::NoMetadata },
                paused: sandbox.paused,
            })
            .collect();
        Input::Listed(Listing { complete: true, sandboxes, date: self.date(now) })
    }

    pub(crate) fn probe(&self) -> Input {
        let status = if self.behaviour.has_v2 { 200 } else { self.behaviour.missing };
        Input::Probed { status: Some(status), date: None }
    }

    pub(crate) fn adopt(&mut self, id: &str) -> Input {
        if self.behaviour.adopts.pop_front().unwrap_or(false) {
            return Input::AdoptFailed(Failure::default());
        }
        if self.is_alive(id) { Input::Adopted } else { Input::AdoptGone }
    }

    /// Kills, or does not; the answer may be lost either way.
    pub(crate) fn kill(&mut self, ids: &[String]) -> Input {
        let mut left = Vec::new();
        for id in ids {
            if self.behaviour.kills.pop_front().unwrap_or(false) {
                left.push(id.clone());
                if self.next().is_multiple_of(2) {
                    continue;
                }
            }
            for sandbox in self.sandboxes.iter_mut().filter(|sandbox| sandbox.id == *id) {
                sandbox.killed = true;
            }
        }
        Input::Killed { left, retry_after: None }
    }

    pub(crate) fn is_alive(&self, id: &str) -> bool {
        self.sandboxes.iter().any(|sandbox| sandbox.id == id && !sandbox.killed)
    }

    pub(crate) fn ours_alive(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| sandbox.ours && !sandbox.killed).count()
    }

    /// Those that carry the intent, whoever made them.
    pub(crate) fn carried_alive(&self, intent: &Intent) -> usize {
        let carries = |sandbox: &&Sandbox| sandbox.tag == IntentTag::Value(intent.to_string());
        self.sandboxes.iter().filter(carries).filter(|sandbox| !sandbox.killed).count()
    }

    pub(crate) fn carried_made(&self, intent: &Intent) -> usize {
        let wanted = IntentTag::Value(intent.to_string());
        self.sandboxes.iter().filter(|sandbox| sandbox.tag == wanted).count()
    }

    pub(crate) fn ours_made(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| sandbox.ours).count()
    }
}

fn lost() -> Outcome {
    Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, stream_id: None, detail: "".into() })
}
