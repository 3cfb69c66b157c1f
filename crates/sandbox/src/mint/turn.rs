//! One call that makes something, and its repeats: the deadline over all of them, and the turn that it waits for.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use serde::de::DeserializeOwned;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use super::LOOKS_PER_SETTLE;
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};

/// The turn of a call that makes something which is found again by its name.
pub(crate) struct Turn<'a> {
    pub(super) client: &'a Client,
    pub(super) action: &'static str,
    deadline: Option<Instant>,
    sends: u32,
    /// One at a time: of two, each would take what the other has made for its own.
    _turn: MutexGuard<'a, ()>,
}

impl<'a> Turn<'a> {
    pub(crate) async fn begin(client: &'a Client, action: &'static str) -> Result<Self, Error> {
        let deadline = client.request_timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let turn = match deadline {
            None => client.minting().lock().await,
            Some(deadline) => timeout_at(deadline, client.minting().lock()).await.map_err(|_| {
                let message = "waited for others that this client makes; nothing was sent (request_timeout)";
                Error::new(ErrorKind::Timeout, action, message).nothing_done(None)
            })?,
        };
        Ok(Self { client, action, deadline, sends: 0, _turn: turn })
    }

    /// Sends it. `Err(Ok(error))`: nobody knows whether it was made.
    pub(crate) async fn send<T: DeserializeOwned>(&mut self, call: ApiCall<'_>) -> Result<T, Result<Error, Error>> {
        self.sends += 1;
        let answer = self.call(call).await;
        match answer.and_then(|response| parse(self.action, &response)) {
            Ok(made) => Ok(made),
            Err(error) if error.may_have_been_processed() => Err(Ok(error)),
            Err(error) => Err(Err(error)),
        }
    }

    /// Whether it may be sent once more.
    ///
    /// # Errors
    ///
    /// That nothing was made, and nothing is sent again.
    pub(crate) fn again(&self, lost: &Error) -> Result<(), Error> {
        if self.sends <= self.client.policy().retries {
            return Ok(());
        }
        let message = format!("{}; nothing is left of it; retries used up (retries)", lost.message());
        Err(Error::new(ErrorKind::NotDone, self.action, message).nothing_done(None))
    }

    /// Within the deadline that is left.
    pub(crate) async fn call(&self, mut call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        if let Some(deadline) = self.deadline {
            // Zero would be no limit.
            call.request_timeout = Some(deadline.duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
        self.client.call(call).await
    }

    /// When what was lost now has certainly shown itself; `None`: the deadline comes first.
    pub(super) fn settled(&self) -> Option<Instant> {
        let settled = Instant::now() + self.client.create_options().settle;
        self.deadline.is_none_or(|deadline| settled < deadline).then_some(settled)
    }

    /// The look-ups after an answer was lost.
    pub(crate) fn looks(&self) -> Looks {
        Looks {
            settle: self.client.create_options().settle,
            lost_at: Instant::now(),
            deadline: self.deadline,
            left: self.client.policy().lookups,
            looked: false,
        }
    }
}

/// Look-ups, evenly apart, within the deadline.
pub(crate) struct Looks {
    settle: Duration,
    lost_at: Instant,
    deadline: Option<Instant>,
    left: u32,
    looked: bool,
}

impl Looks {
    /// Waits until it is time for the next one. `false`: there is none any more.
    pub(crate) async fn next(&mut self) -> bool {
        let wait = if self.looked { self.settle / LOOKS_PER_SETTLE } else { Duration::ZERO };
        if self.left == 0 || self.deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
            return false;
        }
        self.left -= 1;
        self.looked = true;
        sleep(wait).await;
        true
    }

    /// Whether what was not found by now was not made.
    pub(crate) fn are_settled(&self) -> bool {
        self.lost_at.elapsed() >= self.settle
    }
}
