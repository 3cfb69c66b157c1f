//! What a create is called with.

use alloc::string::String;
use core::time::Duration;

use super::keys::KeyEvidence;
use super::version::ApiVersion;
use crate::Options;

/// What a create is called with, besides its intent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The options: the policy, `request_timeout`, `idempotency_keys`, `settle`, `cleanup_timeout`.
    pub options: Options,
    /// The caller's own idempotency key. It is sent as it is and never replaced by another.
    pub idempotency_key: Option<String>,
    /// The call's begin on the local clock, since 1970. A server's `Date` is measured against it.
    pub began: Duration,
    /// What earlier calls learnt of the server.
    pub server: ServerMemory,
    /// How long before this call's begin an earlier send with this intent was lost whose outcome is not known; `None`:
    /// none is known of. Its effect may still come, so nothing is sent before look-ups stayed empty for `settle` after
    /// it. It counts for [`Create::given`](super::Create::given) only.
    pub earlier_loss: Option<Duration>,
}

/// What is known of a server; shared by the calls to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct ServerMemory {
    /// What it has shown about idempotency keys.
    pub keys: Option<KeyEvidence>,
    /// The path version that certainly is the one to use.
    pub version: Option<ApiVersion>,
}
