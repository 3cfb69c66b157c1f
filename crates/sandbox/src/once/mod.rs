//! Creates that happen once: what a client remembers of its server, the creates under way, and the janitor.
//!
//! Each create runs in a task of its own, which asks the policy's create machine what to do. The caller only waits for it:
//! when the caller goes away, the task becomes the janitor of what it has sent.

mod asked;
mod drive;
mod fate;
mod flight;
mod losses;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use oncebox_protocol::operations;
use oncebox_transport::policy::create::{ApiVersion, Intent, ServerMemory};
use oncebox_transport::policy::{DEFAULT_CLEANUP_TIMEOUT, DEFAULT_SETTLE, IdempotencyKeys};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::Client;
use crate::client::ApiCall;
use crate::error::{Error, ErrorKind};
use crate::fleet::Pacer;
use crate::sandbox::Sandbox;
pub(crate) use asked::Asked;
use drive::Driver;
pub(crate) use fate::Fate;
use flight::{Flight, Waiter};
use losses::Losses;
pub(crate) use wire::{date as server_date, http_date};

/// How creates are made, as the client's options say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateOptions {
    pub(crate) idempotency_keys: IdempotencyKeys,
    pub(crate) settle: Duration,
    pub(crate) cleanup_timeout: Duration,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            idempotency_keys: IdempotencyKeys::Auto,
            settle: DEFAULT_SETTLE,
            cleanup_timeout: DEFAULT_CLEANUP_TIMEOUT,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) intent: Intent,
    pub(crate) origin: Origin,
    /// The create's body, for those that may send one; its metadata carries the intent already.
    pub(crate) body: Asked,
    pub(crate) idempotency_key: Option<String>,
    /// Of this call alone; `None`: the client's. Zero: none.
    pub(crate) request_timeout: Option<Duration>,
    /// A fleet's, whose first turn has been taken.
    pub(crate) pacer: Option<Arc<Pacer>>,
    /// The version of the API that it is asked for in, where that is somebody else's choice.
    pub(crate) version: Option<ApiVersion>,
    /// For whom it is: the same intent of somebody else is another one.
    pub(crate) scope: u64,
    /// Dropped, it is not given up: what is under way ends, and what comes of it stays, for whoever has the intent and looks
    /// for it. Nothing more is sent.
    pub(crate) leaves: bool,
}

/// Where the intent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Minted,
    Given,
    Resolve,
}

/// What a call ends with; `None` only where `resolve` finds that none was made.
pub(crate) type Ending = Result<Option<Sandbox>, Error>;

/// What a call ends with, and what it rests on.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    /// The answer that made or fetched the sandbox, or that ended the call, as it came.
    pub(crate) answer: Option<Arc<Response<Bytes>>>,
    /// Attempts so far, look-ups included.
    pub(crate) attempts: usize,
}

impl Ended {
    /// An end without an answer.
    fn without_answer(ending: Ending) -> Self {
        Self { ending, answer: None, attempts: 0 }
    }
}

/// The creates of a client.
#[derive(Default)]
pub(crate) struct Creates {
    memory: Mutex<ServerMemory>,
    /// By intent. Minted ones, too, which nobody else has before the create has ended.
    flights: Mutex<HashMap<(u64, Intent), Arc<Flight>>>,
    /// Of intents that were minted, too: the error of a call that ended unknown names its own.
    losses: Losses,
    tasks: TaskTracker,
    left: Mutex<Vec<Leftover>>,
}

/// What may live on although nobody wants it. [`Client::close`] tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The create's intent: the sandbox's metadata `oncebox.intent`. `None` where only the sandbox is known.
    pub intent: Option<String>,
    /// Sandboxes that were seen and may live on.
    pub sandboxes: Vec<String>,
    /// Whether there may be more than those.
    pub maybe_more: bool,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sandboxes.as_slice(), self.maybe_more) {
            ([], _) => f.write_str("a sandbox may live on")?,
            (ids, false) => write!(f, "may live on: {}", ids.join(", "))?,
            (ids, true) => write!(f, "may live on: {}, and perhaps more", ids.join(", "))?,
        }
        match &self.intent {
            Some(intent) => write!(f, " (intent {intent})"),
            None => Ok(()),
        }
    }
}

impl Creates {
    /// Makes a sandbox, or finds it. Dropped, it is given up: what was sent is looked for and killed in the background.
    pub(crate) async fn make(&self, client: &Client, order: Order) -> Ending {
        match self.make_with_key(client, order.clone()).await?.ending {
            // Nothing was done: with another key it is another request.
            Err(error) if error.status() == Some(401) && client.can_ask_for_a_key() => {
                client.new_key(ACTION, None).await?;
                self.make_with_key(client, order).await?.ending
            }
            ending => ending,
        }
    }

    /// The same with what the end rests on.
    pub(crate) async fn make_told(&self, client: &Client, order: Order) -> Ended {
        self.make_with_key(client, order).await.unwrap_or_else(|error| Ended::without_answer(Err(error)))
    }

    async fn make_with_key(&self, client: &Client, order: Order) -> Result<Ended, Error> {
        if order.origin != Origin::Given {
            let flight = Arc::new(Flight::new(&order));
            let waiter = flight.wait_for(&order);
            if order.origin == Origin::Resolve {
                self.launch(client, order, flight)?;
            } else {
                // Its error names the intent: whoever asks again with that waits until this one is over, sweep included.
                let mut flights = lock(&self.flights);
                let of = (order.scope, order.intent);
                self.launch(client, order, Arc::clone(&flight))?;
                flights.insert(of, flight);
            }
            return Ok(waiter.result().await);
        }
        let limit =
            order.request_timeout.map_or_else(|| client.request_timeout(), |own| (!own.is_zero()).then_some(own));
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            // What is waited for counts. Zero would be no limit.
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).max(SHORTEST));
            let order = Order { request_timeout: Some(left.unwrap_or_default()), ..order.clone() };
            let late = |kind, message| Error::new(kind, ACTION, message).with_intent(order.intent.as_str());
            match self.flight(client, order.clone())? {
                // It has this deadline itself, and says more of what became of it.
                Part::First(waiter) => return Ok(waiter.result().await),
                Part::Joined(waiter) => {
                    let message = "another call with this intent is still making it (request_timeout)";
                    let ending = within(deadline, waiter.result()).await;
                    return ending.ok_or_else(|| late(ErrorKind::OutcomeUnknown, message));
                }
                // It was given up or killed, and is being cleared away: what this call finds must not be what that one kills.
                Part::After(flight) if within(deadline, flight.over()).await.is_none() => {
                    let message = "waited until an earlier call with this intent is cleared away; nothing was sent \
                                   (request_timeout)";
                    return Err(late(ErrorKind::Timeout, message).nothing_done(None));
                }
                Part::After(_) => {}
            }
        }
    }

    /// The create with a given intent that is under way, or a new one.
    fn flight(&self, client: &Client, order: Order) -> Result<Part, Error> {
        let mut flights = lock(&self.flights);
        let of = (order.scope, order.intent);
        let Some(flight) = flights.get(&of).cloned() else {
            let flight = Arc::new(Flight::new(&order));
            let waiter = flight.wait_for(&order);
            self.launch(client, order, Arc::clone(&flight))?;
            flights.insert(of, flight);
            return Ok(Part::First(waiter));
        };
        if !flight.is_of(&order) {
            let message = "another create with the same intent and other options is under way";
            return Err(Error::new(ErrorKind::IntentMismatch, ACTION, message).with_intent(order.intent.as_str()));
        }
        Ok(match flight.join(&order) {
            Some(waiter) => Part::Joined(waiter),
            None => Part::After(flight),
        })
    }

    /// Whether the server is known to have v1 only.
    pub(crate) fn speaks_v1(&self) -> bool {
        lock(&self.memory).version == Some(ApiVersion::V1)
    }

    fn launch(&self, client: &Client, order: Order, flight: Arc<Flight>) -> Result<(), Error> {
        let mut memory = *lock(&self.memory);
        let asked_in = order.version;
        memory.version = asked_in.or(memory.version);
        let of = (order.scope, order.intent);
        let driver = Driver::new(client, order, memory, flight)?;
        let client = client.clone();
        self.tasks.spawn(async move {
            let mut before = memory;
            let remember = |learnt: ServerMemory| {
                let mut memory = lock(&client.creates().memory);
                let known = learn(*memory, before, learnt);
                // The version that somebody else chose says nothing of the one to choose.
                let version = if asked_in.is_some() { memory.version } else { known.version };
                *memory = ServerMemory { version, ..known };
                before = learnt;
            };
            let ended = driver.run(remember).await;
            let creates = client.creates();
            {
                // A `resolve` has none there, and whose it is may have changed.
                let mut flights = lock(&creates.flights);
                if flights.get(&of).is_some_and(|flight| Arc::ptr_eq(flight, &ended.flight)) {
                    flights.remove(&of);
                }
            }
            ended.flight.finish();
            if let Some(left) = ended.left {
                creates.leave(left);
            }
        });
        Ok(())
    }

    /// Kills a sandbox in the background. From anywhere, also where there is no runtime any more: then it is left.
    pub(crate) fn kill_later(&self, client: &Client, id: String, runtime: &Handle) {
        let client = client.clone();
        self.tasks.spawn_on(
            async move {
                if let Err(error) = kill(&client, &id).await {
                    tracing::warn!(%error, sandbox = id, "a sandbox that nobody wants could not be killed");
                    client.creates().leave(Leftover { intent: None, sandboxes: vec![id], maybe_more: false });
                }
            },
            runtime,
        );
    }

    fn leave(&self, left: Leftover) {
        lock(&self.left).push(left);
    }

    /// Waits for all that goes on in the background, which has its own bounds, and says what it left.
    pub(crate) async fn close(&self, cleanup_timeout: Duration) -> Vec<Leftover> {
        self.tasks.close();
        // A create that somebody still waits for has its own deadline; it is not waited for beyond the janitor's.
        if tokio::time::timeout(cleanup_timeout.saturating_mul(2), self.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.tasks.len(), "creates are still under way");
        }
        self.tasks.reopen();
        std::mem::take(&mut *lock(&self.left))
    }
}

/// Which part a call has in the create with its intent.
enum Part {
    First(Waiter),
    Joined(Waiter),
    /// It is being cleared away.
    After(Arc<Flight>),
}

/// The least that a deadline leaves.
const SHORTEST: Duration = Duration::from_millis(1);

/// Waits no longer than a call may.
async fn within<T>(deadline: Option<Instant>, wait: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, wait).await.ok(),
        None => Some(wait.await),
    }
}

/// What is known of a server once a create has learnt something more. What it has not learnt now others may have, since it
/// began.
fn learn(known: ServerMemory, before: ServerMemory, learnt: ServerMemory) -> ServerMemory {
    ServerMemory {
        keys: if learnt.keys == before.keys { known.keys } else { learnt.keys },
        version: if learnt.version == before.version { known.version } else { learnt.version },
    }
}

pub(crate) const ACTION: &str = "create a sandbox";

/// Ends a sandbox, with the client's retries. That it is gone already is as good.
pub(crate) async fn kill(client: &Client, id: &str) -> Result<(), Error> {
    let call = ApiCall::new(&operations::KILL_SANDBOX, "kill the sandbox", [id]);
    match client.call(call).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// A lock that a panic elsewhere has not spoilt.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use oncebox_transport::policy::create::KeyEvidence;

    use super::*;

    #[test]
    fn a_create_that_began_earlier_does_not_unlearn_what_others_learnt_since() {
        let nothing = ServerMemory::default();
        let keys = ServerMemory { keys: Some(KeyEvidence::Ignored), ..nothing };
        let version = ServerMemory { version: Some(ApiVersion::V1), ..nothing };
        let both = ServerMemory { version: version.version, ..keys };
        // It knew nothing when it began, and has learnt nothing, or the other thing.
        assert_eq!(learn(keys, nothing, nothing), keys);
        assert_eq!(learn(keys, nothing, version), both);
        assert_eq!(learn(version, nothing, keys), both);
        // What it has learnt itself counts.
        assert_eq!(learn(nothing, nothing, both), both);
        let honoured = ServerMemory { keys: Some(KeyEvidence::Honoured), ..nothing };
        assert_eq!(learn(honoured, honoured, keys), keys);
    }
}
