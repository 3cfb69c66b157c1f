//! What a list says about an intent.

use alloc::vec::Vec;

use super::input::{IntentTag, ListedSandbox, Listing};
use super::intent::Intent;

/// What a list says.
pub(super) enum Reading<'a> {
    /// These carry the intent: the first by (startedAt, id) first. Any process that looks finds the same first.
    Found(Vec<&'a ListedSandbox>),
    /// None does.
    Absent,
    /// It does not say.
    CannotTell,
}

/// Reads a list. Only a sandbox's own metadata counts, never that a filter let it through; and a sandbox without
/// metadata may be the one that is sought.
pub(super) fn read<'a>(listing: &'a Listing, intent: &Intent) -> Reading<'a> {
    let carries = |sandbox: &&ListedSandbox| match &sandbox.intent {
        IntentTag::Value(value) => value == intent.as_str(),
        _ => false,
    };
    let mut found: Vec<_> = listing.sandboxes.iter().filter(carries).collect();
    found.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    found.dedup_by(|a, b| a.id == b.id);
    if !found.is_empty() {
        Reading::Found(found)
    } else if !listing.complete || listing.sandboxes.iter().any(|sandbox| sandbox.intent == IntentTag::NoMetadata) {
        Reading::CannotTell
    } else {
        Reading::Absent
    }
}
