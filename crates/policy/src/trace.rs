//! The rules of the decision, in their order, and how a decision went through them.

/// A rule of the decision. Rules up to [`UnknownOutcome`](Rule::UnknownOutcome) propose; those after it may turn the
/// proposal into a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Rule {
    /// 1. The caller cancelled, or the deadline passed.
    CallEnded,
    /// 2. What was provably unprocessed is replayed.
    Unprocessed,
    /// 3. `Should-Retry` on an error status.
    ShouldRetry,
    /// 4. An unknown outcome that somebody can look up.
    Reconcile,
    /// 5. The status table.
    Status,
    /// 6. An unknown outcome needs a permit.
    UnknownOutcome,
    /// 7. A streamed request body is not retried.
    StreamedBody,
    /// 8. `retries` and `connection_retries`.
    Counter,
    /// 9. How long to wait. It ends no decision.
    Wait,
    /// 10. The wait must end before the deadline.
    Deadline,
    /// 11. The retry budget.
    Budget,
}

impl Rule {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::CallEnded,
        Self::Unprocessed,
        Self::ShouldRetry,
        Self::Reconcile,
        Self::Status,
        Self::UnknownOutcome,
        Self::StreamedBody,
        Self::Counter,
        Self::Wait,
        Self::Deadline,
        Self::Budget,
    ];

    /// Its number in the order of the rules.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// Sees a decision go through the rules.
pub trait Trace {
    /// The rule did not apply, or did not stop what was proposed.
    fn passed(&mut self, rule: Rule);
    /// The rule proposes to send again, or to reconcile.
    fn proposed(&mut self, rule: Rule) {
        let _ = rule;
    }
    /// The rule ends the call.
    fn decided(&mut self, rule: Rule);
}

/// Keeps the rule that a verdict comes from: the one that ended the call, else the one that proposed what happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecidedBy(
    /// The rule, once there was one.
    pub Option<Rule>,
);

impl Trace for DecidedBy {
    fn passed(&mut self, _: Rule) {}

    fn proposed(&mut self, rule: Rule) {
        self.0 = Some(rule);
    }

    fn decided(&mut self, rule: Rule) {
        self.0 = Some(rule);
    }
}
