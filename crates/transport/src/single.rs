//! One attempt and nothing more, for those who keep a call's ledger themselves.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use oncebox_policy::{Attempt, Connection, Tokens};
use tokio::time::Instant;

use crate::body::{Body, BoxError};
use crate::call::{Call, Collected, Ended};
use crate::client::Client;
use crate::error::Error;
use crate::options::CallOptions;
use crate::pool::{Origin, Wanted};

/// Where an attempt stands among those of its call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// How many attempts of the call itself went before.
    pub before: usize,
    /// On which connection it is to be made.
    pub connection: Connection,
    /// The connection of the attempt before.
    pub last_connection: Option<u64>,
}

/// A single attempt that has ended.
#[derive(Debug)]
pub struct Attempted {
    /// What is known of it. It began at zero: only its maker knows when the call did.
    pub attempt: Attempt,
    /// The answer, where one came whole.
    pub response: Option<Response<Bytes>>,
    /// What went wrong, where something did.
    pub source: Option<BoxError>,
}

/// The retry budget of an origin, which all calls to it share.
#[derive(Clone)]
pub struct RetryBudget(Arc<Origin>);

impl RetryBudget {
    /// What a call that began at `began` may draw from it.
    pub fn tokens(&self, began: Instant) -> Tokens<'_> {
        Tokens { budget: &self.0.budget, call_started: began.saturating_duration_since(self.0.created) }
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget").finish_non_exhaustive()
    }
}

impl Client {
    /// Makes one attempt and reads its answer whole. Nothing is judged and nothing repeated, not even what was provably
    /// not sent: that is the business of whoever keeps the call's ledger. `request_timeout` is what is left to the call.
    ///
    /// # Errors
    ///
    /// When the request cannot be made at all.
    pub fn attempt(
        &self,
        request: Request<Body>,
        options: CallOptions,
        place: Place,
    ) -> impl Future<Output = Result<Attempted, Error>> + Send {
        let mut call = Call::new(self, request, &options, Collected { limit: self.max_response_size() });
        let wanted = Wanted {
            connection: place.connection,
            last_connection: place.last_connection,
            is_replay: place.connection != Connection::Any,
            cautious: false,
            class: options.traffic_class(),
        };
        async move {
            let Ended { attempt, answer, source } = call.once(place.before + 1, wanted).await?;
            Ok(Attempted { attempt, response: answer, source })
        }
    }

    /// The retry budget of the origin that a URI names.
    ///
    /// # Errors
    ///
    /// When it names none.
    pub fn retry_budget(&self, uri: &Uri) -> Result<RetryBudget, Error> {
        Ok(RetryBudget(self.origin(uri)?))
    }

    /// A number in [0, 1) for the jitter of waits, repeatable where the client was given a seed.
    pub fn draw(&self) -> f64 {
        self.random()
    }

    /// The deadline of calls that are given none; `None`: they have none.
    pub fn request_timeout(&self) -> Option<Duration> {
        let timeout = self.defaults().request_timeout;
        (!timeout.is_zero()).then_some(timeout)
    }

    /// How much of a streamed request body is kept to be sent again, in bytes.
    pub fn replay_buffer_limit(&self) -> usize {
        self.defaults().replay_buffer_limit
    }

    /// What decides about repeats, unless a call's options say otherwise.
    pub fn policy(&self) -> &oncebox_policy::Policy {
        &self.defaults().policy
    }
}
