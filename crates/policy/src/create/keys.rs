//! Which idempotency key a send carries, and whether the server honours keys.

use alloc::string::{String, ToString};

use super::intent::Intent;
use crate::IdempotencyKeys;

/// What a server has shown about idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum KeyEvidence {
    /// It answered an `idempotency_*` error, or a repeated key gave the same sandbox.
    Honoured,
    /// A repeated key gave another sandbox.
    Ignored,
}

impl KeyEvidence {
    /// What two sandboxes say that one key was answered with, within one call or over several.
    pub fn of_repeat(first: &str, again: &str) -> Self {
        if first == again { Self::Honoured } else { Self::Ignored }
    }
}

/// The keys of one create.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    option: IdempotencyKeys,
    /// The caller's own: sent as it is, whatever happens.
    caller: Option<String>,
    pub(super) evidence: Option<KeyEvidence>,
    /// The number of the key in use.
    pub(super) number: u32,
    /// How often the key in use was answered with a failure that the server may replay.
    pub(super) failures: u32,
    /// A sandbox that the key in use was answered with, in an answer that was cut.
    seen: Option<String>,
}

impl Keys {
    pub(super) fn new(option: IdempotencyKeys, caller: Option<String>, evidence: Option<KeyEvidence>) -> Self {
        Self { option, caller, evidence, number: 0, failures: 0, seen: None }
    }

    pub(super) fn honoured(&self) -> bool {
        match self.option {
            IdempotencyKeys::Honoured => true,
            IdempotencyKeys::Ignored => false,
            IdempotencyKeys::Auto => self.evidence == Some(KeyEvidence::Honoured),
        }
    }

    pub(super) fn can_rotate(&self) -> bool {
        self.caller.is_none()
    }

    /// Takes the next key; a caller's key stays.
    pub(super) fn rotate(&mut self) {
        if self.can_rotate() {
            self.number += 1;
            self.seen = None;
        }
        self.failures = 0;
    }

    pub(super) fn current(&self, intent: &Intent) -> String {
        self.caller.clone().unwrap_or_else(|| intent.key(self.number))
    }

    /// Learns from an error code of the server.
    pub(super) fn learn_from_code(&mut self, code: &str) {
        if code.starts_with("idempotency_") {
            self.evidence = Some(KeyEvidence::Honoured);
        }
    }

    /// Learns from a sandbox that the key in use was answered with.
    pub(super) fn learn_from_sandbox(&mut self, id: &str) {
        match &self.seen {
            Some(first) => self.evidence = Some(KeyEvidence::of_repeat(first, id)),
            None => self.seen = Some(id.to_string()),
        }
    }
}
