//! The right to one stream.

use std::fmt;
use std::sync::Arc;

use super::http2::Http2Pool;
use crate::conn::H2Connection;

/// The right to one stream of one connection. Dropping it hands the stream to who waits longest.
pub(crate) struct Permit {
    connection: Arc<H2Connection>,
    pool: Option<Arc<Http2Pool>>,
}

impl Permit {
    pub(super) fn new(connection: Arc<H2Connection>, pool: Arc<Http2Pool>) -> Self {
        Self { connection, pool: Some(pool) }
    }

    pub(crate) fn connection(&self) -> &Arc<H2Connection> {
        &self.connection
    }

    /// The connection turned out to take no more streams.
    pub(crate) fn lost(&self) {
        if let Some(pool) = &self.pool {
            pool.lost(&self.connection);
        }
    }

    /// The stream was answered.
    pub(crate) fn served(&self) {
        if let Some(pool) = &self.pool {
            pool.served();
        }
    }

    /// Takes the connection back, with its stream still taken.
    pub(super) fn disarm(mut self) -> Arc<H2Connection> {
        self.pool = None;
        self.connection.clone()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.release(&self.connection);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("connection", &self.connection.id()).finish()
    }
}
