//! The rules of a create, by name.

use core::fmt;

macro_rules! rules {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// Why a create asks for an action. Displayed as what it is documented as.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
        pub enum Rule {
            $($(#[doc = $text])+ $name,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($text),+),)+
                }
            }
        }
    };
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().trim_ascii())
    }
}

rules! {
    // The begin.
    /// A new intent is sent with key 0.
    FirstSend,
    /// A given intent may have been carried out already: look first.
    GivenIntentFirst,
    /// `resolve` only looks.
    Resolve,

    // Sends.
    /// What was provably not processed is replayed with the same key.
    Replay,
    /// A status that is retried, with the same key.
    RetryStatus,
    /// A trusted 503 of E2B's shape may be recorded under its key: the next key, at the ordinary wait.
    NextKeyAfterBusy,
    /// A 503 whose text asks for the same key.
    SameKeyAsked,
    /// While keys are honoured, an unknown outcome is asked for with the same key.
    SameKeyWhileHonoured,
    /// The server still works on it (409): ask for its answer with the same key.
    InProgress,
    /// Nothing was made, so it may be sent again with the same key.
    SameKeyAfterAbsent,
    /// Nothing was made, and the key's recorded failure would be replayed: the next key.
    NextKeyAfterAbsent,
    /// Another key would be due; the caller's own is sent as it is.
    CallersKeyStays,
    /// v2 is not there: v1, with the next key.
    FallBack,

    // Finding out.
    /// The outcome is unknown and keys are not honoured: look before anything is sent.
    LookBeforeResend,
    /// The key's failure is recorded (422, a 500 of E2B's shape, a 5xx answered twice): look before the next key.
    LookBeforeNextKey,
    /// It is not sent again: look before the call ends.
    LookBeforeEnd,
    /// Nothing was found yet, and `settle` is not over.
    NotSettled,
    /// A list failed, was cut off, or was without metadata: that says nothing.
    CannotTell,
    /// v2's list is not there: v1's.
    ListFallBack,
    /// A 404 may mean that v2 is not there: ask.
    ProbeVersion,
    /// A sandbox carries the intent: the first by (startedAt, id).
    AdoptSmallest,
    /// The fetch failed.
    AdoptAgain,
    /// The sandbox was gone when it was fetched.
    Vanished,

    // Ends.
    /// A send was answered with a sandbox.
    Acknowledged,
    /// A look-up's sandbox was fetched.
    AdoptionConfirmed,
    /// An answer or a limit ends the call, and nothing was made.
    Refused,
    /// The key was used for another request.
    IntentMismatch,
    /// Look-ups stayed empty for `settle`.
    SettledAbsent,
    /// The deadline has come, or comes before the next step.
    Deadline,
    /// `lookups` are used up.
    LookUpsUsed,
    /// The caller gave it up.
    Abandoned,

    // After the end.
    /// Sent at most once, or only looked: nothing to sweep.
    NothingToSweep,
    /// Sent twice, or given up: look at once.
    SweepAtOnce,
    /// Look again when late effects have shown themselves.
    SweepAfterSettle,
    /// The sweep could not tell, or a kill failed: look again.
    SweepAgain,
    /// Later doubles are killed.
    KillDouble,
    /// Nobody wants it: all that this call made is killed.
    KillUnwanted,
    /// The handle's own sandbox is one of the later doubles.
    HandleLost,
    /// Without a sane `Date` of the server nothing is killed.
    NoSaneDate,
    /// Doubles that this call did not make stay.
    OthersStay,
    /// Both looks are done.
    Swept,
    /// `cleanup_timeout` or its requests are used up.
    SweepBound,

    // None of these.
    /// The result of the last action is still awaited.
    Awaited,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_rule_is_told_as_it_is_documented() {
        assert_eq!(Rule::SettledAbsent.to_string(), "Look-ups stayed empty for `settle`.");
    }
}
