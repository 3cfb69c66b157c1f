//! What an export takes, from a message.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use oncebox_policy::create::{
    Answer, ApiVersion, Call, Create, Failure, Input, Intent, IntentTag, KeyEvidence, ListedSandbox, Listing,
    ServerError, ServerMemory,
};
use oncebox_policy::{
    Attempt, CallFacts, Cause, Edge, IdempotencyKeys, NotSent, Options, Outcome, Permit, Phase, Policy, Purpose,
    Refusal, RepeatUnknown, RequestBody, Response, ResponseBody, ShortText, Unknown,
};

use crate::ZERO;
use crate::message::Reader;

/// The moment of a decision.
pub(crate) struct Turn {
    /// Since the call's begin.
    pub(crate) now: Duration,
    pub(crate) random: f64,
    /// On the budget's clock.
    pub(crate) call_started: Duration,
}

pub(crate) fn turn(reader: &mut Reader<'_>) -> Turn {
    Turn { now: time(reader), random: reader.f64(), call_started: time(reader) }
}

/// Seconds; what is no time is zero, and what is too long the longest.
pub(crate) fn duration(seconds: f64) -> Duration {
    if seconds > 0.0 { Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX) } else { ZERO }
}

fn time(reader: &mut Reader<'_>) -> Duration {
    duration(reader.f64())
}

fn optional_time(reader: &mut Reader<'_>) -> Option<Duration> {
    let seconds = reader.f64();
    (!seconds.is_nan()).then(|| duration(seconds))
}

pub(crate) fn policy(reader: &mut Reader<'_>) -> Policy {
    Policy {
        retries: reader.u32(),
        connection_retries: reader.u32(),
        trust_service_unavailable: reader.bool(),
        trust_bad_gateway: reader.bool(),
        retry_gateway_timeout: reader.bool(),
        retry_request_timeout_status: reader.bool(),
        replay_misdirected_and_early: reader.bool(),
        retry_rate_limit_without_hint: reader.bool(),
        honor_should_retry: reader.bool(),
        retry_budget: reader.bool(),
        repeat_unknown: match reader.u8() {
            0 => RepeatUnknown::Never,
            1 => RepeatUnknown::Safe,
            _ => RepeatUnknown::Permitted,
        },
        retry_after_jitter: reader.f64(),
        lookups: reader.u32(),
    }
}

/// The permit, whether it mints and can be reconciled, the body, the deadline, and that of a parent.
pub(crate) fn facts(reader: &mut Reader<'_>) -> CallFacts {
    let permit = match reader.u8() {
        1 => Some(Permit::SafeMethod),
        2 => Some(Permit::IdempotentMethod),
        3 => Some(Permit::OperationTable),
        4 => Some(Permit::IdempotencyKey),
        _ => None,
    };
    let (mints, reconciles, body) = (reader.bool(), reader.bool(), body(reader));
    let own = optional_time(reader);
    let parent = CallFacts { deadline: optional_time(reader), ..CallFacts::default() };
    CallFacts { permit, mints, reconciles, body, deadline: parent.child_deadline(ZERO, own) }
}

pub(crate) fn body(reader: &mut Reader<'_>) -> RequestBody {
    match reader.u8() {
        1 => RequestBody::Bytes,
        2 => RequestBody::StreamUnread,
        3 => RequestBody::StreamMirrored,
        4 => RequestBody::StreamConsumed { read: reader.f64() as u64, limit: reader.f64() as u64 },
        _ => RequestBody::None,
    }
}

pub(crate) fn purpose(reader: &mut Reader<'_>) -> Purpose {
    match reader.u8() {
        1 => Purpose::LookUp,
        2 => Purpose::Poll,
        3 => Purpose::Kill,
        _ => Purpose::Call,
    }
}

pub(crate) fn attempt(reader: &mut Reader<'_>) -> Attempt {
    Attempt {
        started: time(reader),
        connection: connection(reader),
        other_connection: reader.bool(),
        failed_dials: reader.u32(),
        outcome: outcome(reader),
    }
}

/// A connection's number. 0: there is none.
fn connection(reader: &mut Reader<'_>) -> Option<u64> {
    match reader.u32() {
        0 => None,
        number => Some(u64::from(number)),
    }
}

fn short(reader: &mut Reader<'_>) -> ShortText {
    ShortText::from_bytes(reader.bytes().unwrap_or_default())
}

/// An outcome, or what proves one: 7 a GOAWAY, 8 a reset.
fn outcome(reader: &mut Reader<'_>) -> Outcome {
    match reader.u8() {
        0 => Outcome::NotSent(NotSent {
            phase: match reader.u8() {
                0 => Phase::Dns,
                1 => Phase::Connect,
                2 => Phase::Proxy,
                3 => Phase::Tls,
                4 => Phase::Slot,
                _ => Phase::Queue,
            },
            touched_socket: reader.bool(),
            detail: short(reader),
        }),
        1 => Outcome::Refused(Refusal::GoAway {
            stream_id: reader.u32(),
            last_stream_id: reader.u32(),
            code: reader.u32(),
            debug_data: short(reader),
        }),
        2 => Outcome::Refused(Refusal::RefusedStream { stream_id: reader.u32() }),
        3 => Outcome::Responded(Response {
            status: reader.u32() as u16,
            retry_after: optional_time(reader),
            should_retry: reader.optional_bool(),
            body: if reader.bool() { ResponseBody::Broken } else { ResponseBody::Complete },
            edge: match reader.u8() {
                1 => Some(Edge::NotRunning),
                2 => Some(Edge::NotDelivered),
                _ => None,
            },
            paced: reader.bool(),
        }),
        5 => Outcome::Cancelled { sent: reader.bool() },
        6 => Outcome::TimedOut { sent: reader.bool() },
        7 => {
            let (stream_id, last, code) = (reader.u32(), reader.u32(), reader.u32());
            Outcome::after_goaway(stream_id, last, code, reader.bytes().unwrap_or_default())
        }
        8 => Outcome::after_reset(reader.u32(), reader.u32(), reader.bool()),
        _ => Outcome::SentUnknown(Unknown {
            cause: match reader.u8() {
                0 => Cause::ConnectionLost,
                1 => Cause::Reset { code: reader.u32() },
                2 => Cause::AttemptTimeout,
                3 => Cause::PingTimeout,
                4 => Cause::Protocol,
                5 => Cause::RequestBody,
                _ => Cause::Opaque,
            },
            stream_id: match reader.u32() {
                0 => None,
                id => Some(id),
            },
            detail: short(reader),
        }),
    }
}

pub(crate) fn create(reader: &mut Reader<'_>) -> Option<Create> {
    let begin = match reader.u8() {
        0 => Create::new,
        1 => Create::given,
        _ => Create::resolve,
    };
    let intent = Intent::parse(&reader.text()?).ok()?;
    let options = Options {
        policy: policy(reader),
        request_timeout: optional_time(reader),
        idempotency_keys: match reader.u8() {
            1 => IdempotencyKeys::Honoured,
            2 => IdempotencyKeys::Ignored,
            _ => IdempotencyKeys::Auto,
        },
        settle: time(reader),
        cleanup_timeout: time(reader),
        ..Options::DEFAULT
    };
    let (idempotency_key, began) = (reader.text(), time(reader));
    let server = ServerMemory {
        keys: match reader.u8() {
            1 => Some(KeyEvidence::Honoured),
            2 => Some(KeyEvidence::Ignored),
            _ => None,
        },
        version: match reader.u8() {
            1 => Some(ApiVersion::V1),
            2 => Some(ApiVersion::V2),
            _ => None,
        },
    };
    let earlier_loss = optional_time(reader);
    Some(begin(intent, Call { options, idempotency_key, began, server, earlier_loss }))
}

pub(crate) fn input(reader: &mut Reader<'_>) -> Input {
    match reader.u8() {
        1 => Input::Answered(answer(reader)),
        2 => Input::Probed { status: status(reader), date: optional_time(reader) },
        3 => Input::Listed(listing(reader)),
        4 => Input::ListFailed(failure(reader)),
        5 => Input::Adopted,
        6 => Input::AdoptGone,
        7 => Input::AdoptFailed(failure(reader)),
        8 => Input::Killed { left: texts(reader), retry_after: optional_time(reader) },
        9 => Input::Abandoned { sent: reader.bool() },
        _ => Input::Continue,
    }
}

fn answer(reader: &mut Reader<'_>) -> Answer {
    Answer {
        connection: connection(reader),
        other_connection: reader.bool(),
        failed_dials: reader.u32(),
        outcome: outcome(reader),
        error: reader
            .bool()
            .then(|| ServerError { error_code: reader.text(), message: reader.text().unwrap_or_default() }),
        sandbox: reader.text(),
        date: optional_time(reader),
    }
}

/// A status. 0: there is none.
fn status(reader: &mut Reader<'_>) -> Option<u16> {
    match reader.u32() {
        0 => None,
        status => Some(status as u16),
    }
}

fn failure(reader: &mut Reader<'_>) -> Failure {
    Failure { status: status(reader), retry_after: optional_time(reader), date: optional_time(reader) }
}

fn listing(reader: &mut Reader<'_>) -> Listing {
    let complete = reader.bool();
    let mut sandboxes = Vec::new();
    for _ in 0..reader.u32() {
        sandboxes.push(ListedSandbox {
            id: reader.text().unwrap_or_default(),
            started_at: time(reader),
            paused: reader.bool(),
            intent: match reader.u8() {
                0 => IntentTag::NoMetadata,
                1 => IntentTag::None,
                _ => IntentTag::Value(reader.text().unwrap_or_default()),
            },
        });
    }
    Listing { complete, sandboxes, date: optional_time(reader) }
}

fn texts(reader: &mut Reader<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..reader.u32() {
        texts.extend(reader.text());
    }
    texts
}
