//! What is done to a durable command beside following it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::spool::Spool;
use crate::error::Error;

/// How much input there is; who holds it may add some.
pub(super) type Input = Arc<Mutex<u64>>;

/// Input is passed on in pieces of this size.
const INPUT_PIECE: usize = 1 << 20;

/// Feeds and ends a durable command while somebody else follows it: see [`DurableCommand::control`](super::DurableCommand::control).
#[derive(Clone)]
pub struct DurableControl {
    spool: Arc<Spool>,
    input: Input,
}

impl DurableControl {
    pub(super) fn new(spool: &Arc<Spool>, input: &Input) -> Self {
        Self { spool: Arc::clone(spool), input: Arc::clone(input) }
    }

    /// Adds to its standard input, once, however often the connection is cut meanwhile. Returns when no more than 8 MiB wait
    /// for the command to read.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when it has ended; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) when it was
    /// started without a standard input; [`Conflict`](crate::ErrorKind::Conflict) when another client, or a call of this one that
    /// was given up, has added to it meanwhile.
    pub async fn send_stdin(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        let mut at = self.input.lock().await;
        let (mut data, mut begun) = (data.into(), false);
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(INPUT_PIECE));
            let length = piece.len() as u64;
            self.spool.feed(*at, piece, false).await.map_err(|error| error.partly_if(begun))?;
            *at += length;
            begun = true;
        }
        Ok(())
    }

    /// Ends its standard input: when it has read all of it, it reads end-of-file.
    ///
    /// # Errors
    ///
    /// As [`send_stdin`](Self::send_stdin).
    pub async fn close_stdin(&self) -> Result<(), Error> {
        let at = self.input.lock().await;
        self.spool.feed(*at, Bytes::new(), true).await
    }

    /// Kills it (SIGKILL) with all that it started and that is still in its process group. `false`: it had ended.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.spool.signal(9).await
    }

    /// Sends its process group a signal, such as 2 for SIGINT or 15 for SIGTERM. `false`: it had ended.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a number that is none of 1 to 64, before any I/O; when the sandbox
    /// cannot be asked.
    pub async fn signal(&self, number: u8) -> Result<bool, Error> {
        if !(1..=64).contains(&number) {
            return Err(Error::invalid(format!("signal: {number} is not between 1 and 64")));
        }
        self.spool.signal(number).await
    }
}

impl fmt::Debug for DurableControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableControl").field("id", &self.spool.id).finish_non_exhaustive()
    }
}
