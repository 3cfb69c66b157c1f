//! The limit of each step of a dial.

use std::time::Duration;

/// See the module. Zero means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timeouts {
    pub(crate) dns: Duration,
    pub(crate) connect: Duration,
    pub(crate) tls: Duration,
    pub(crate) proxy: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // As long as the system's own resolver asks two servers, once each.
            dns: Duration::from_secs(10),
            // As in the official SDK.
            connect: Duration::from_secs(30),
            tls: Duration::from_secs(10),
            // The proxy itself waits for the server's connect.
            proxy: Duration::from_secs(30),
        }
    }
}
