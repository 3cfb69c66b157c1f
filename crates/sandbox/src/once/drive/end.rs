//! What a create's caller gets in the end.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use oncebox_transport::policy::create::{self, Done, How, NotDone, NotDoneReason};
use oncebox_transport::policy::{Outcome, Purpose, ReturnReason};

use super::Driver;
use crate::error::{Error, ErrorKind};
use crate::once::{ACTION, Ending, Origin};
use crate::sandbox::{Came, Sandbox};

impl Driver {
    pub(super) fn done(&mut self, done: &Done) -> Result<Sandbox, Error> {
        let came = match (self.order.origin, done.how) {
            (_, How::Acknowledged) => Came::Created,
            (_, How::Adopted) => Came::Adopted,
        };
        let intent = self.order.intent.to_string();
        let Some(made) = self.made.take().filter(|made| made.sandbox_id == done.id) else {
            return Err(Error::malformed(ACTION, format!("sandbox {} was not described", done.id)).with_intent(&intent));
        };
        self.handle = (self.order.origin != Origin::Resolve).then(|| done.id.clone());
        let fate = Arc::clone(self.under_way.fate());
        Sandbox::made(&self.client, made, intent.clone(), came, fate).map_err(|error| error.with_intent(&intent))
    }

    pub(super) fn not_done(&self, end: &NotDone) -> Ending {
        if end.reason == NotDoneReason::Absent {
            return Ok(None);
        }
        let kind = match end.reason {
            NotDoneReason::IntentMismatch => ErrorKind::IntentMismatch,
            NotDoneReason::Vanished => ErrorKind::NotFound,
            NotDoneReason::Returned(ReturnReason::DeadlinePassed | ReturnReason::DeadlineTooClose)
                if end.status.is_none() =>
            {
                ErrorKind::Timeout
            }
            _ => ErrorKind::NotDone,
        };
        // It speaks for itself.
        let error = match (end.reason, self.last_answer()) {
            (NotDoneReason::Returned(reason), Some(answer)) => {
                let error = Error::answer(ACTION, answer.status().as_u16(), answer.body(), None);
                let error =
                    self.client.without_key(error).without_values(self.order.body.secrets().iter().map(String::as_str));
                error.because(reason)
            }
            (reason, _) => Error::new(kind, ACTION, reason.to_string()),
        };
        Err(error
            .with_ledger(self.machine.ledger())
            .nothing_done(end.retry_after)
            .with_intent(self.order.intent.as_str()))
    }

    /// The last answer, where it is what ended the call.
    pub(super) fn last_answer(&self) -> Option<&Arc<Response<Bytes>>> {
        let last = self.machine.ledger().attempts().iter().rfind(|record| record.purpose == Purpose::Call);
        let is_last = last.is_some_and(|record| matches!(record.outcome, Outcome::Responded(_)));
        self.answer.as_ref().filter(|answer| is_last && !answer.status().is_success())
    }

    pub(super) fn unknown(&self, end: &create::Unknown) -> Error {
        let mut message = end.reason.to_string();
        if let Some(candidate) = &end.candidate {
            message.push_str(&format!("; sandbox {candidate} carries the intent and could not be fetched"));
        }
        message.push_str("; `client.resolve(intent)` finds out, from any process");
        Error::new(ErrorKind::OutcomeUnknown, ACTION, message)
            .with_ledger(self.machine.ledger())
            .with_intent(self.order.intent.as_str())
    }
}
