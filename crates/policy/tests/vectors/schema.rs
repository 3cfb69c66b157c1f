//! A vector as it is written. Fields that nobody knows are an error.

use std::time::Duration;

use oncebox_policy::{
    CallFacts, Cause, Connection, Edge, NotSent, Outcome, Permit, Phase, Policy, RequestBody, Response, ResponseBody,
    RetryReason, Rule, ShortText, Unknown, WaitReason, retry_after, should_retry,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The local clock at the call's begin where a vector does not set it: Sun, 30 Nov 2025 00:00:00 GMT.
const CLOCK: u64 = 1_764_460_800;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(rename = "$schema")]
    _schema: String,
    #[serde(rename = "theme")]
    _theme: String,
    pub(crate) vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    pub(crate) name: String,
    #[serde(default, rename = "why")]
    _why: String,
    #[serde(default)]
    policy: Map<String, Value>,
    #[serde(default)]
    call: Call,
    #[serde(default = "clock")]
    pub(crate) clock: u64,
    pub(crate) budget: Option<u32>,
    pub(crate) steps: Vec<Step>,
}

fn clock() -> u64 {
    CLOCK
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Call {
    permit: Option<Permit>,
    mints: bool,
    reconciles: bool,
    body: RequestBody,
    deadline: Option<f64>,
    parent_deadline: Option<f64>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            permit: None,
            mints: false,
            reconciles: false,
            body: RequestBody::None,
            deadline: Some(60.0),
            parent_deadline: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) at: f64,
    #[serde(default = "half")]
    pub(crate) random: f64,
    pub(crate) attempt: Option<Ended>,
    #[serde(default)]
    pub(crate) other_connection: bool,
    #[serde(default)]
    pub(crate) failed_dials: u32,
    pub(crate) body: Option<RequestBody>,
    #[serde(default)]
    pub(crate) resend: bool,
    #[serde(default)]
    pub(crate) start_look_up: bool,
    pub(crate) look_up: Option<Ended>,
    #[serde(default)]
    pub(crate) adopted: bool,
    pub(crate) expect: Expect,
}

fn half() -> f64 {
    0.5
}

/// How an attempt ended, as a front sees it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Ended {
    Answered(Answered),
    NotSent(Unsent),
    GoAway(WentAway),
    Reset(WasReset),
    SentUnknown(Lost),
    Cancelled(Cancelled),
    TimedOut(TimedOut),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    status: u16,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: ResponseBody,
    edge: Option<Edge>,
    #[serde(default)]
    paced: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unsent {
    not_sent: Phase,
    #[serde(default)]
    touched_socket: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WentAway {
    goaway: GoAway,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WasReset {
    reset: Reset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoAway {
    stream_id: u32,
    last_stream_id: u32,
    code: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reset {
    stream_id: u32,
    code: u32,
    response_began: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lost {
    sent_unknown: Cause,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancelled {
    cancelled: When,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimedOut {
    timed_out: When,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    BeforeSent,
    AfterSent,
    Waiting,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    #[serde(rename = "return")]
    pub(crate) ended: Option<String>,
    pub(crate) retry_after: Option<f64>,
    pub(crate) retry: Option<ExpectedRetry>,
    #[serde(default)]
    pub(crate) reconcile: bool,
    #[serde(default)]
    pub(crate) go: bool,
    pub(crate) rule: Option<Rule>,
    #[serde(default)]
    pub(crate) counters: Counters,
    pub(crate) tokens: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedRetry {
    pub(crate) after_ms: f64,
    pub(crate) wait: WaitReason,
    pub(crate) connection: Connection,
    pub(crate) reason: RetryReason,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Counters {
    pub(crate) retries: u32,
    pub(crate) connection_retries: u32,
    pub(crate) free_repeats: u32,
    pub(crate) backoffs: u32,
    pub(crate) lookups: u32,
}

impl Vector {
    /// A preset with the fields that the vector sets over it.
    pub(crate) fn policy(&self) -> Policy {
        let mut fields = self.policy.clone();
        let preset = match fields.remove("preset").as_ref().map(|name| name.as_str().unwrap()) {
            None | Some("default") => Policy::default(),
            Some("e2b_2_52") => Policy::e2b_2_52(),
            Some("e2b_2_63") => Policy::e2b_2_63(),
            Some(name) => panic!("no preset {name}"),
        };
        let Value::Object(mut all) = serde_json::to_value(preset).unwrap() else { unreachable!() };
        all.extend(fields);
        let policy: Policy = serde_json::from_value(Value::Object(all)).unwrap();
        policy.validate().unwrap();
        policy
    }

    pub(crate) fn facts(&self) -> CallFacts {
        let call = &self.call;
        let own = call.deadline.map(Duration::from_secs_f64);
        let parent = CallFacts { deadline: call.parent_deadline.map(Duration::from_secs_f64), ..CallFacts::default() };
        CallFacts {
            permit: call.permit,
            mints: call.mints,
            reconciles: call.reconciles,
            body: call.body,
            deadline: parent.child_deadline(Duration::ZERO, own),
        }
    }
}

impl Ended {
    /// The outcome, by the rules for what is known. `now` is the local clock.
    pub(crate) fn outcome(&self, now: u64) -> Outcome {
        match self {
            Self::Answered(answered) => Outcome::Responded(answered.response(now)),
            Self::NotSent(unsent) => Outcome::NotSent(NotSent {
                phase: unsent.not_sent,
                touched_socket: unsent.touched_socket,
                detail: ShortText::EMPTY,
            }),
            Self::GoAway(WentAway { goaway }) => {
                Outcome::after_goaway(goaway.stream_id, goaway.last_stream_id, goaway.code, b"")
            }
            Self::Reset(WasReset { reset }) => Outcome::after_reset(reset.stream_id, reset.code, reset.response_began),
            Self::SentUnknown(lost) => {
                Outcome::SentUnknown(Unknown { cause: lost.sent_unknown, stream_id: None, detail: ShortText::EMPTY })
            }
            Self::Cancelled(Cancelled { cancelled }) => Outcome::Cancelled { sent: *cancelled == When::AfterSent },
            Self::TimedOut(TimedOut { timed_out }) => Outcome::TimedOut { sent: *timed_out == When::AfterSent },
        }
    }
}

impl Answered {
    fn response(&self, now: u64) -> Response {
        let header = |name: &str| {
            let (_, value) = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
            Some(value.as_str().unwrap().as_bytes())
        };
        for name in self.headers.keys() {
            assert!(["retry-after", "date", "should-retry"].contains(&&*name.to_ascii_lowercase()), "{name}");
        }
        Response {
            retry_after: header("retry-after").and_then(|value| retry_after(value, header("date"), now)),
            should_retry: header("should-retry").map(should_retry),
            body: self.body,
            edge: self.edge,
            paced: self.paced,
            ..Response::new(self.status)
        }
    }
}
