//! What the vectors expect at least once.

use std::collections::BTreeSet;

use oncebox_policy::{Connection, RetryReason, ReturnReason, Rule, WaitReason};

use crate::schema::Expect;

#[derive(Default)]
pub(crate) struct Coverage(BTreeSet<String>);

impl Coverage {
    pub(crate) fn note(&mut self, expect: &Expect) {
        if let Some(reason) = &expect.ended {
            self.0.insert(format!("return {reason}"));
        }
        if let Some(retry) = &expect.retry {
            self.0.insert(format!("retry {}", text(retry.reason)));
            self.0.insert(format!("wait {}", text(retry.wait)));
            self.0.insert(format!("connection {}", text(retry.connection)));
            // Rule 9 ends no decision: a wait is what shows it.
            self.0.insert(format!("rule {}", text(Rule::Wait)));
        }
        if let Some(rule) = expect.rule {
            self.0.insert(format!("rule {}", text(rule)));
        }
    }

    /// Variants that no vector expects.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(return_reasons().map(|reason| format!("return {}", text(reason))));
        all.extend(retry_reasons().map(|reason| format!("retry {}", text(reason))));
        all.extend(wait_reasons().map(|reason| format!("wait {}", text(reason))));
        all.extend(connections().map(|connection| format!("connection {}", text(connection))));
        all.extend(Rule::ALL.map(|rule| format!("rule {}", text(rule))));
        all.retain(|name| !self.0.contains(name));
        all
    }
}

fn text(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value).unwrap() {
        serde_json::Value::String(name) => name,
        other => other.as_object().unwrap().keys().next().unwrap().clone(),
    }
}

/// Walks an enum by a match without a wildcard, so that a new variant does not compile until it is in the chain.
macro_rules! all_of {
    ($name:ident, $type:ident, $start:expr; $($from:pat => $to:expr),* $(,)?) => {
        fn $name() -> impl Iterator<Item = $type> {
            std::iter::successors(Some($start), |last| match last {
                $($from => $to,)*
            })
        }
    };
}

all_of!(return_reasons, ReturnReason, ReturnReason::Cancelled;
    ReturnReason::Cancelled => Some(ReturnReason::DeadlinePassed),
    ReturnReason::DeadlinePassed => Some(ReturnReason::Success),
    ReturnReason::Success => Some(ReturnReason::StatusFinal),
    ReturnReason::StatusFinal => Some(ReturnReason::ServerForbids),
    ReturnReason::ServerForbids => Some(ReturnReason::SandboxNotRunning),
    ReturnReason::SandboxNotRunning => Some(ReturnReason::NoRetryAfter),
    ReturnReason::NoRetryAfter => Some(ReturnReason::RefusedAgain),
    ReturnReason::RefusedAgain => Some(ReturnReason::NoPermit),
    ReturnReason::NoPermit => Some(ReturnReason::BodyNotReplayable { read: 0, limit: 0 }),
    ReturnReason::BodyNotReplayable { .. } => Some(ReturnReason::StreamedBody),
    ReturnReason::StreamedBody => Some(ReturnReason::RetriesUsed),
    ReturnReason::RetriesUsed => Some(ReturnReason::ConnectionRetriesUsed),
    ReturnReason::ConnectionRetriesUsed => Some(ReturnReason::DeadlineTooClose),
    ReturnReason::DeadlineTooClose => Some(ReturnReason::RetryWindowOver),
    ReturnReason::RetryWindowOver => Some(ReturnReason::BudgetEmpty),
    ReturnReason::BudgetEmpty => Some(ReturnReason::LookUpsUsed),
    ReturnReason::LookUpsUsed => Some(ReturnReason::SingleAttempt),
    ReturnReason::SingleAttempt => None,
);

all_of!(retry_reasons, RetryReason, RetryReason::NotSent;
    RetryReason::NotSent => Some(RetryReason::Refused),
    RetryReason::Refused => Some(RetryReason::NotDelivered),
    RetryReason::NotDelivered => Some(RetryReason::Status),
    RetryReason::Status => Some(RetryReason::ServerAsks),
    RetryReason::ServerAsks => Some(RetryReason::Permitted),
    RetryReason::Permitted => Some(RetryReason::Reconciled),
    RetryReason::Reconciled => None,
);

all_of!(wait_reasons, WaitReason, WaitReason::None;
    WaitReason::None => Some(WaitReason::RetryAfter),
    WaitReason::RetryAfter => Some(WaitReason::Backoff),
    WaitReason::Backoff => Some(WaitReason::DialBackoff),
    WaitReason::DialBackoff => None,
);

all_of!(connections, Connection, Connection::Any;
    Connection::Any => Some(Connection::PreferOther),
    Connection::PreferOther => Some(Connection::Fresh),
    Connection::Fresh => None,
);
