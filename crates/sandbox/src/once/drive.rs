//! Does what the create machine says, one action at a time.

mod end;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Response, Uri};
use oncebox_protocol::api;
use oncebox_transport::policy::create::{self, Action, Answer, ApiVersion, Create, Input, Intent, ServerMemory};
use oncebox_transport::policy::{Attempt, Options, Outcome, Purpose};
use oncebox_transport::{Attempted, Place, RetryBudget};
use tokio::time::{Instant, sleep_until};

use super::fate::UnderWay;
use super::flight::Flight;
use super::wire::{self, Wire};
use super::{ACTION, Ended, Leftover, Order, Origin, kill};
use crate::Client;
use crate::error::Error;
use crate::paged::next_page;

/// Lifetime in seconds when none is given: v1's default differs, so it is always sent (protocol fact: v2's default).
const DEFAULT_LIFETIME: i64 = 300;

/// Carries one create, or one `resolve`, to its very end.
pub(super) struct Driver {
    client: Client,
    machine: Create,
    order: Order,
    budget: RetryBudget,
    began: Instant,
    deadline: Option<Duration>,
    cleanup_timeout: Duration,
    /// When the call ended; from then on the cleanup's bound holds.
    ended: Option<Duration>,
    flight: Arc<Flight>,
    list_version: ApiVersion,
    sends: usize,
    last_connection: Option<u64>,
    /// The last answer to a send, or to the fetch of what was found.
    answer: Option<Arc<Response<Bytes>>>,
    /// The sandbox as it was answered last.
    made: Option<api::Sandbox>,
    /// Told when the handle's sandbox loses to another of the same intent.
    under_way: UnderWay,
    /// The sandbox that the caller gets.
    handle: Option<String>,
}

/// How a driver ended.
pub(super) struct Over {
    pub(super) flight: Arc<Flight>,
    pub(super) left: Option<Leftover>,
}

impl Driver {
    pub(super) fn new(
        client: &Client,
        mut order: Order,
        memory: ServerMemory,
        flight: Arc<Flight>,
    ) -> Result<Self, Error> {
        let transport = client.transport();
        let given = order.request_timeout.map(|timeout| (!timeout.is_zero()).then_some(timeout));
        let options = client.create_options();
        let began = Instant::now();
        let earlier = client.creates().losses.of((order.scope, order.intent), began, options.settle);
        let call = create::Call {
            options: Options {
                policy: client.policy(),
                request_timeout: given.unwrap_or_else(|| client.request_timeout()),
                idempotency_keys: options.idempotency_keys,
                settle: options.settle,
                cleanup_timeout: options.cleanup_timeout,
                ..Options::default()
            },
            idempotency_key: order.idempotency_key.clone(),
            began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            server: memory,
            earlier_loss: earlier.map(|lost| began.saturating_duration_since(lost)),
        };
        call.options.validate().map_err(|error| Error::invalid(error.to_string()))?;
        let uri: Uri =
            client.endpoint().api("/").parse().map_err(|error| Error::invalid(format!("api_url: {error}")))?;
        let budget = transport.retry_budget(&uri).map_err(|error| Error::transport(ACTION, error))?;
        order.body.lifetime_or(DEFAULT_LIFETIME);
        let (deadline, cleanup_timeout) = (call.options.request_timeout, call.options.cleanup_timeout);
        let machine = match order.origin {
            Origin::Minted => Create::new(order.intent, call),
            Origin::Given => Create::given(order.intent, call),
            Origin::Resolve => Create::resolve(order.intent, call),
        };
        let under_way = UnderWay::new(Arc::clone(flight.fate()));
        Ok(Self {
            client: client.clone(),
            machine,
            order,
            budget,
            began,
            deadline,
            cleanup_timeout,
            ended: None,
            flight,
            list_version: ApiVersion::default(),
            sends: 0,
            last_connection: None,
            answer: None,
            made: None,
            under_way,
            handle: None,
        })
    }

    /// Runs to the end, which is after the caller has the result: doubles are swept, and what nobody wants is killed.
    pub(super) async fn run(mut self, mut remember: impl FnMut(ServerMemory)) -> Over {
        let mut input = Input::Continue;
        let (mut abandoned, mut stopped) = (false, false);
        loop {
            let (now, random) = (self.began.elapsed(), self.client.transport().draw());
            let step = self.machine.step(input, Some(self.budget.tokens(self.began)), now, random);
            tracing::debug!(intent = %self.order.intent, action = ?step.action, rule = ?step.rule, "create");
            remember(self.machine.server());
            let ending = match &step.action {
                Action::Done(done) => Some((self.done(done).map(Some), self.answer.clone())),
                Action::NotDone(end) => Some((self.not_done(end), self.last_answer().cloned())),
                Action::Unknown(end) => Some((Err(self.unknown(end)), None)),
                _ => None,
            };
            if let Some((ending, answer)) = ending {
                self.ended.get_or_insert(now);
                // First: whoever has the result may ask again at once.
                match step.action {
                    Action::Unknown(_) => self.keep_loss(now),
                    _ => self.client.creates().losses.forget(self.of(), self.began),
                }
                self.flight.publish(Ended { ending, answer, attempts: self.machine.ledger().attempts().len() });
            }
            input = match step.action {
                // Whoever knows the intent looks for what was sent, and clears it away or takes it.
                Action::Done(_) | Action::NotDone(_) | Action::Unknown(_) if stopped => {
                    return Over { flight: self.flight, left: None };
                }
                Action::Send(_) if self.flight.stops() => {
                    stopped = true;
                    Input::Abandoned { sent: false }
                }
                Action::Done(_) | Action::NotDone(_) | Action::Unknown(_) => Input::Continue,
                Action::Superseded { lost, by } => {
                    tracing::warn!(intent = %self.order.intent, lost, by, "a sandbox lost to another of its intent");
                    self.under_way.fate().lost_to(by);
                    Input::Continue
                }
                Action::Finished { left, certain } => return self.finished(left, certain, abandoned).await,
                action => match self.carry_out(action, &mut abandoned).await {
                    Ok(input) => input,
                    Err(error) => {
                        let error = error.with_intent(self.order.intent.as_str());
                        self.keep_loss(self.began.elapsed());
                        self.flight.publish(Ended::without_answer(Err(error)));
                        return Over { flight: self.flight, left: None };
                    }
                },
            };
        }
    }

    /// For later calls with the intent: what was lost now may still have its effect.
    fn keep_loss(&self, now: Duration) {
        let Some(lost_for) = self.machine.lost_for(now) else { return };
        let now = self.began + now;
        // Where the clock does not reach back so far, the wait for `settle` is longer than it need be.
        let lost = now.checked_sub(lost_for).unwrap_or(now);
        self.client.creates().losses.keep(self.of(), lost, now, self.client.create_options().settle);
    }

    fn of(&self) -> (u64, Intent) {
        (self.order.scope, self.order.intent)
    }

    /// One action, or the caller going away.
    async fn carry_out(&mut self, action: Action, abandoned: &mut bool) -> Result<Input, Error> {
        let flight = Arc::clone(&self.flight);
        let is_over = self.ended.is_some();
        let is_send = matches!(action, Action::Send(_));
        // What the sweep has asked for is waited for: it has to know what it killed.
        if *abandoned || (is_over && !matches!(action, Action::Wait { .. })) {
            return self.execute(action).await;
        }
        let fate = Arc::clone(self.under_way.fate());
        tokio::select! {
            biased;
            input = self.execute(action) => input,
            // Its handle killed it: a double that was made before it must not stay in its place.
            () = fate.unwanted() => {
                *abandoned = true;
                self.handle = None;
                Ok(Input::Abandoned { sent: is_send })
            }
            () = flight.given_up() => {
                *abandoned = true;
                if let Some(id) = self.handle.take() {
                    self.kill_handle(&id).await;
                }
                Ok(Input::Abandoned { sent: is_send })
            }
        }
    }

    async fn kill_handle(&self, id: &str) {
        if let Err(error) = kill(&self.client, id).await {
            tracing::warn!(%error, sandbox = id, "a sandbox that nobody wants could not be killed");
        }
    }

    async fn finished(mut self, mut left: Vec<String>, certain: bool, abandoned: bool) -> Over {
        // The result lies there until somebody takes it, or nobody can any more.
        if let Some(id) = self.handle.take()
            && !abandoned
            && !self.flight.is_taken().await
            && kill(&self.client, &id).await.is_err()
        {
            left.push(id);
        }
        let nothing = left.is_empty() && certain;
        let left = Leftover { intent: Some(self.order.intent.to_string()), sandboxes: left, maybe_more: !certain };
        Over { flight: self.flight, left: (!nothing).then_some(left) }
    }

    async fn execute(&mut self, action: Action) -> Result<Input, Error> {
        match action {
            Action::Send(send) => {
                let place =
                    Place { before: self.sends, connection: send.connection, last_connection: self.last_connection };
                let pacer = self.order.pacer.clone();
                if let Some(pacer) = pacer.as_ref().filter(|_| self.sends > 0) {
                    pacer.turn(self.client.transport().draw()).await;
                }
                let mut attempted = self.wire().send(&send, &self.order.body, place).await?;
                if let Some(pacer) = &pacer {
                    let headers = attempted.response.as_ref().map(Response::headers);
                    let outcome = &mut attempted.attempt.outcome;
                    let obeyed = pacer.learn(outcome.status(), headers, outcome.retry_after());
                    if let Outcome::Responded(response) = outcome {
                        response.paced = obeyed;
                    }
                }
                Ok(Input::Answered(self.answered(attempted)))
            }
            Action::Wait { until } => {
                match self.began.checked_add(until) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
                Ok(Input::Continue)
            }
            Action::Probe => {
                let (attempted, _) = self.record(Purpose::LookUp, |wire| async move { wire.probe().await }).await?;
                let failure = wire::failure(&attempted);
                Ok(Input::Probed { status: failure.status, date: failure.date })
            }
            Action::LookUp { version } => {
                self.list_version = version;
                self.look_up(version).await
            }
            Action::Adopt { id, .. } => self.adopt(&id).await,
            Action::Kill { ids } => self.kill(ids).await,
            // Ends are not for here.
            _ => Ok(Input::Continue),
        }
    }

    /// What is left to the call, or to what goes on after it.
    fn wire(&self) -> Wire<'_> {
        let until = match self.ended {
            Some(ended) => Some(ended.saturating_add(self.cleanup_timeout)),
            None => self.deadline,
        };
        Wire { client: &self.client, left: until.map(|until| until.saturating_sub(self.began.elapsed())) }
    }

    fn answered(&mut self, attempted: Attempted) -> Answer {
        self.sends += 1;
        self.last_connection = attempted.attempt.connection.or(self.last_connection);
        let Attempt { connection, outcome, other_connection, failed_dials, .. } = attempted.attempt;
        let mut answer = Answer { connection, other_connection, failed_dials, ..Answer::new(outcome) };
        self.answer = attempted.response.map(Arc::new);
        if let Some(response) = &self.answer {
            answer.date = wire::date(response.headers());
            answer.error = wire::server_error(response);
            if response.status().is_success() {
                self.made = serde_json::from_slice(response.body()).ok();
                answer.sandbox = self.made.as_ref().map(|made| made.sandbox_id.clone());
            }
        }
        answer
    }

    /// Makes one attempt that is no send, and writes it into the history.
    async fn record<'a, F, Fut>(&'a mut self, purpose: Purpose, make: F) -> Result<(Attempted, Duration), Error>
    where
        F: FnOnce(Wire<'a>) -> Fut,
        Fut: Future<Output = Result<Attempted, Error>> + 'a,
    {
        let Self { client, machine, began, deadline, ended, cleanup_timeout, .. } = self;
        let started = began.elapsed();
        let until = ended.map(|ended| ended.saturating_add(*cleanup_timeout)).or(*deadline);
        let left = until.map(|until| until.saturating_sub(started));
        let attempted = make(Wire { client, left }).await?;
        let now = began.elapsed();
        machine.record(purpose, &Attempt { started, ..attempted.attempt }, now);
        Ok((attempted, now))
    }

    async fn look_up(&mut self, version: ApiVersion) -> Result<Input, Error> {
        let intent = self.order.intent;
        let mut listing = create::Listing { complete: false, sandboxes: Vec::new(), date: None };
        let mut token = String::new();
        for number in 0..wire::MAX_PAGES {
            let (attempted, _) =
                self.record(Purpose::LookUp, |wire| page(wire, version, intent, token.clone())).await?;
            let failure = wire::failure(&attempted);
            let page = attempted.response.filter(|response| response.status().is_success());
            let Some((page, listed)) = page.and_then(|page| wire::listed(page.body()).map(|listed| (page, listed)))
            else {
                // What earlier pages held still counts.
                if number == 0 {
                    return Ok(Input::ListFailed(failure));
                }
                break;
            };
            listing.date = failure.date;
            listing.sandboxes.extend(listed);
            match next_page(&page) {
                Some(next) => token = next,
                None => {
                    listing.complete = true;
                    break;
                }
            }
        }
        Ok(Input::Listed(listing))
    }

    async fn adopt(&mut self, id: &str) -> Result<Input, Error> {
        let version = self.list_version;
        let lifetime = self.order.body.lifetime().unwrap_or(DEFAULT_LIFETIME);
        let of = id.to_owned();
        let (attempted, _) =
            self.record(Purpose::LookUp, |wire| async move { wire.adopt(version, &of, lifetime).await }).await?;
        let failure = wire::failure(&attempted);
        let fetched = attempted.response.filter(|response| response.status().is_success());
        if let Some(fetched) = fetched {
            self.made = serde_json::from_slice(fetched.body()).ok();
            self.answer = Some(Arc::new(fetched));
        } else {
            self.made = None;
        }
        Ok(match &self.made {
            Some(_) => Input::Adopted,
            None if failure.status == Some(404) => Input::AdoptGone,
            None => Input::AdoptFailed(failure),
        })
    }

    async fn kill(&mut self, ids: Vec<String>) -> Result<Input, Error> {
        let (mut left, mut retry_after) = (Vec::new(), None);
        for id in ids {
            let of = id.clone();
            let (attempted, _) = self.record(Purpose::Kill, |wire| async move { wire.kill(&of).await }).await?;
            let failure = wire::failure(&attempted);
            if !matches!(failure.status, Some(200..300 | 404)) {
                left.push(id);
            }
            retry_after = retry_after.max(failure.retry_after);
        }
        Ok(Input::Killed { left, retry_after })
    }
}

async fn page(wire: Wire<'_>, version: ApiVersion, intent: Intent, token: String) -> Result<Attempted, Error> {
    wire.page(version, &intent, &token).await
}
