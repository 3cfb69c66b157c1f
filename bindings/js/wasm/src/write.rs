//! What an export answers, as a message.

use core::time::Duration;

use oncebox_policy::create::{Action, ApiVersion, KeyEvidence, NotDoneReason, ServerMemory, UnknownReason};
use oncebox_policy::{
    Cause, Edge, Ledger, Outcome, Policy, Record, Refusal, RepeatUnknown, ResponseBody, Return, ReturnReason, Verdict,
};

use crate::message::Writer;

fn time(writer: &mut Writer, value: Duration) {
    writer.f64(value.as_secs_f64());
}

fn optional_time(writer: &mut Writer, value: Option<Duration>) {
    writer.f64(value.map_or(f64::NAN, |value| value.as_secs_f64()));
}

pub(crate) fn policy(writer: &mut Writer, policy: &Policy) {
    writer.u32(policy.retries);
    writer.u32(policy.connection_retries);
    for switch in [
        policy.trust_service_unavailable,
        policy.trust_bad_gateway,
        policy.retry_gateway_timeout,
        policy.retry_request_timeout_status,
        policy.replay_misdirected_and_early,
        policy.retry_rate_limit_without_hint,
        policy.honor_should_retry,
        policy.retry_budget,
    ] {
        writer.bool(switch);
    }
    writer.u8(match policy.repeat_unknown {
        RepeatUnknown::Never => 0,
        RepeatUnknown::Safe => 1,
        RepeatUnknown::Permitted => 2,
    });
    writer.f64(policy.retry_after_jitter);
    writer.u32(policy.lookups);
}

/// A verdict; 3 where nothing stops the reconciler.
pub(crate) fn verdict(writer: &mut Writer, verdict: Option<&Verdict>) {
    match verdict {
        Some(Verdict::Return(Return { reason, retry_after })) => {
            writer.u8(0);
            return_reason(writer, *reason);
            optional_time(writer, *retry_after);
        }
        Some(Verdict::Retry(retry)) => {
            writer.u8(1);
            time(writer, retry.after);
            writer.u8(retry.wait as u8);
            writer.u8(retry.connection as u8);
            writer.u8(retry.reason as u8);
        }
        Some(Verdict::Reconcile) => writer.u8(2),
        None => writer.u8(3),
    }
}

fn return_reason(writer: &mut Writer, reason: ReturnReason) {
    writer.u8(match reason {
        ReturnReason::Cancelled => 0,
        ReturnReason::DeadlinePassed => 1,
        ReturnReason::Success => 2,
        ReturnReason::StatusFinal => 3,
        ReturnReason::ServerForbids => 4,
        ReturnReason::SandboxNotRunning => 5,
        ReturnReason::NoRetryAfter => 6,
        ReturnReason::RefusedAgain => 7,
        ReturnReason::NoPermit => 8,
        ReturnReason::BodyNotReplayable { .. } => 9,
        ReturnReason::StreamedBody => 10,
        ReturnReason::RetriesUsed => 11,
        ReturnReason::ConnectionRetriesUsed => 12,
        ReturnReason::DeadlineTooClose => 13,
        ReturnReason::RetryWindowOver => 14,
        ReturnReason::BudgetEmpty => 15,
        ReturnReason::LookUpsUsed => 16,
        ReturnReason::SingleAttempt => 17,
    });
    if let ReturnReason::BodyNotReplayable { read, limit } = reason {
        writer.f64(read as f64);
        writer.f64(limit as f64);
    }
}

/// What was spent, and each attempt.
pub(crate) fn ledger(writer: &mut Writer, ledger: &Ledger) {
    writer.u32(ledger.retries_used());
    writer.u32(ledger.connection_retries_used());
    writer.u32(ledger.free_repeats_used());
    writer.u32(ledger.backoffs_taken());
    writer.u32(ledger.look_ups_used());
    writer.u32(ledger.attempts().len() as u32);
    for Record { purpose, started, ended, connection, outcome, verdict } in ledger.attempts() {
        writer.u8(*purpose as u8);
        time(writer, *started);
        time(writer, *ended);
        writer.u32(connection.unwrap_or_default() as u32);
        self::outcome(writer, outcome);
        self::verdict(writer, Some(verdict));
    }
}

fn outcome(writer: &mut Writer, outcome: &Outcome) {
    match outcome {
        Outcome::NotSent(not_sent) => {
            writer.u8(0);
            writer.u8(not_sent.phase as u8);
            writer.bool(not_sent.touched_socket);
            writer.text(Some(not_sent.detail.as_str()));
        }
        Outcome::Refused(Refusal::GoAway { stream_id, last_stream_id, code, debug_data }) => {
            writer.u8(1);
            writer.u32(*stream_id);
            writer.u32(*last_stream_id);
            writer.u32(*code);
            writer.text(Some(debug_data.as_str()));
        }
        Outcome::Refused(Refusal::RefusedStream { stream_id }) => {
            writer.u8(2);
            writer.u32(*stream_id);
        }
        Outcome::Responded(response) => {
            writer.u8(3);
            writer.u32(u32::from(response.status));
            optional_time(writer, response.retry_after);
            writer.optional_bool(response.should_retry);
            writer.bool(response.body == ResponseBody::Broken);
            writer.u8(match response.edge {
                None => 0,
                Some(Edge::NotRunning) => 1,
                Some(Edge::NotDelivered) => 2,
            });
            writer.bool(response.paced);
        }
        Outcome::SentUnknown(unknown) => {
            writer.u8(4);
            let cause = match unknown.cause {
                Cause::ConnectionLost => 0,
                Cause::Reset { .. } => 1,
                Cause::AttemptTimeout => 2,
                Cause::PingTimeout => 3,
                Cause::Protocol => 4,
                Cause::RequestBody => 5,
                Cause::Opaque => 6,
            };
            writer.u8(cause);
            if let Cause::Reset { code } = unknown.cause {
                writer.u32(code);
            }
            writer.u32(unknown.stream_id.unwrap_or_default());
            writer.text(Some(unknown.detail.as_str()));
        }
        Outcome::Cancelled { sent } => {
            writer.u8(5);
            writer.bool(*sent);
        }
        Outcome::TimedOut { sent } => {
            writer.u8(6);
            writer.bool(*sent);
        }
    }
}

pub(crate) fn server(writer: &mut Writer, server: ServerMemory) {
    writer.u8(match server.keys {
        None => 0,
        Some(KeyEvidence::Honoured) => 1,
        Some(KeyEvidence::Ignored) => 2,
    });
    writer.u8(server.version.map_or(0, version));
}

fn version(version: ApiVersion) -> u8 {
    match version {
        ApiVersion::V1 => 1,
        ApiVersion::V2 => 2,
    }
}

pub(crate) fn action(writer: &mut Writer, action: &Action) {
    match action {
        Action::Send(send) => {
            writer.u8(0);
            writer.u32(send.number);
            writer.text(Some(&send.key));
            writer.u8(version(send.version));
            writer.u8(send.connection as u8);
        }
        Action::Wait { until } => {
            writer.u8(1);
            time(writer, *until);
        }
        Action::Probe => writer.u8(2),
        Action::LookUp { version } => {
            writer.u8(3);
            writer.u8(self::version(*version));
        }
        Action::Adopt { id, paused } => {
            writer.u8(4);
            writer.text(Some(id));
            writer.bool(*paused);
        }
        Action::Done(done) => {
            writer.u8(5);
            writer.text(Some(&done.id));
            writer.u8(done.how as u8);
        }
        Action::NotDone(not_done) => {
            writer.u8(6);
            match not_done.reason {
                NotDoneReason::Returned(reason) => {
                    writer.u8(0);
                    return_reason(writer, reason);
                }
                NotDoneReason::IntentMismatch => writer.u8(1),
                NotDoneReason::UnreadableAnswer => writer.u8(2),
                NotDoneReason::KeyIsTheCallers => writer.u8(3),
                NotDoneReason::Vanished => writer.u8(4),
                NotDoneReason::Absent => writer.u8(5),
            }
            writer.u32(u32::from(not_done.status.unwrap_or_default()));
            optional_time(writer, not_done.retry_after);
        }
        Action::Unknown(unknown) => {
            writer.u8(7);
            writer.text(Some(unknown.intent.as_str()));
            writer.u8(match unknown.reason {
                UnknownReason::Deadline => 0,
                UnknownReason::LookUpsUsed => 1,
                UnknownReason::CannotTell => 2,
                UnknownReason::Abandoned => 3,
            });
            writer.text(unknown.candidate.as_deref());
        }
        Action::Superseded { lost, by } => {
            writer.u8(8);
            writer.text(Some(lost));
            writer.text(Some(by));
        }
        Action::Kill { ids } => {
            writer.u8(9);
            writer.texts(ids);
        }
        Action::Finished { left, certain } => {
            writer.u8(10);
            writer.texts(left);
            writer.bool(*certain);
        }
    }
}
