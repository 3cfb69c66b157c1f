//! One call that makes something, and its repeats: the turn that it waits for, and one ledger over all of it. Sends draw on
//! `retries` and `connection_retries`, look-ups on `lookups`; the deadline and the history are one.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, Uri};
use oncebox_transport::policy::{CallFacts, Ledger, Policy, ReturnReason, Verdict, backoff, judge_reconciled};
use serde::de::DeserializeOwned;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::options::Own;
use crate::trail::Trail;

/// Look-ups before `settle` is over come at these parts of it, after one at once, as with creates of sandboxes.
const PARTS: [u32; 3] = [8, 4, 2];

/// The last look-ups are kept for the end of `settle`, when the answer is final: one that settles it, one that fetches what it
/// finds.
const RESERVE: u32 = 2;

/// The turn of a call that makes something which is found again by its name.
pub(crate) struct Turn<'a> {
    pub(super) client: &'a Client,
    pub(super) action: &'static str,
    began: Instant,
    deadline: Option<Instant>,
    trail: Trail,
    /// Makes single attempts, which find out.
    looking: Client,
    /// Sends that followed look-ups.
    resends: u32,
    look_ups: u32,
    question: Question,
    /// One at a time: of two, each would take what the other has made for its own.
    _turn: MutexGuard<'a, ()>,
}

/// Whether what was lost was made.
struct Question {
    /// From when `settle` counts.
    since: Instant,
    /// When it was looked for last.
    last: Option<Instant>,
}

impl<'a> Turn<'a> {
    pub(crate) async fn begin(client: &'a Client, action: &'static str) -> Result<Self, Error> {
        let began = Instant::now();
        let deadline = client.request_timeout().and_then(|timeout| began.checked_add(timeout));
        let turn = match deadline {
            None => client.minting().lock().await,
            Some(deadline) => timeout_at(deadline, client.minting().lock()).await.map_err(|_| {
                let message = "waited for others that this client makes; nothing was sent (request_timeout)";
                Error::new(ErrorKind::Timeout, action, message).nothing_done(None)
            })?,
        };
        let trail = Trail::new(began);
        let single = Own {
            retries: Some(0),
            connection_retries: Some(0),
            trail: Some(trail.of_look_ups()),
            ..client.own().clone()
        };
        let looking = client.with_own(single);
        let question = Question { since: began, last: None };
        Ok(Self { client, action, began, deadline, trail, looking, resends: 0, look_ups: 0, question, _turn: turn })
    }

    /// Sends it. `Err(Ok(error))`: nobody knows whether it was made.
    pub(crate) async fn send<T: DeserializeOwned>(&mut self, call: ApiCall<'_>) -> Result<T, Result<Error, Error>> {
        // A look-up may have taken all the time there was.
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let message = "the deadline passed before it was sent; nothing was sent (request_timeout)";
            return Err(Err(Error::new(ErrorKind::Timeout, self.action, message).nothing_done(None)));
        }
        let policy = self.left();
        let own = Own {
            retries: Some(policy.retries),
            connection_retries: Some(policy.connection_retries),
            trail: Some(self.trail.clone()),
            ..self.client.own().clone()
        };
        let answer = self.within_deadline(&self.client.with_own(own), call).await;
        match answer.and_then(|response| parse(self.action, &response)) {
            Ok(made) => Ok(made),
            Err(error) if error.may_have_been_processed() => Err(Ok(error)),
            Err(error) => Err(Err(error)),
        }
    }

    /// Waits until it may be sent once more.
    ///
    /// # Errors
    ///
    /// That nothing was made, and nothing is sent again.
    pub(crate) async fn again(&mut self, lost: &Error) -> Result<(), Error> {
        let deadline = self.deadline.map(|deadline| deadline - self.began);
        let facts = CallFacts { mints: true, reconciles: true, deadline, ..CallFacts::default() };
        let transport = self.client.transport();
        let uri: Uri = self.client.endpoint().api("/").parse().map_err(|e| Error::invalid(format!("api_url: {e}")))?;
        let budget = transport.retry_budget(&uri).map_err(|error| Error::transport(self.action, error))?;
        let tokens = Some(budget.tokens(self.began));
        let (policy, now) = (self.left(), self.began.elapsed());
        let verdict = judge_reconciled(&policy, &facts, &mut Ledger::new(), tokens, now, transport.draw());
        let why = match verdict {
            Verdict::Retry(retry) => {
                let asked = lost.retry_after().unwrap_or_default();
                let at = self.question.since.checked_add(asked).map(|at| at.max(Instant::now() + retry.after));
                match at.filter(|at| self.deadline.is_none_or(|deadline| *at < deadline)) {
                    Some(at) => {
                        sleep_until(at).await;
                        self.resends += 1;
                        return Ok(());
                    }
                    None => ReturnReason::DeadlineTooClose,
                }
            }
            Verdict::Return(end) => end.reason,
            Verdict::Reconcile => ReturnReason::NoPermit,
        };
        let message = format!("{}; nothing is left of it; {why}", lost.message());
        Err(Error::new(ErrorKind::NotDone, self.action, message).nothing_done(None))
    }

    /// Gives an error the history of the whole call.
    pub(crate) fn tell(&self, error: Error) -> Error {
        self.trail.tell(error)
    }

    /// Waits until what is there before the first send is to be asked for: once, and again after a failure that may pass.
    /// `false`: it has been asked for often enough.
    pub(crate) async fn ask_before(&mut self, failure: Option<&Error>) -> bool {
        if let Some(failure) = failure {
            let is_enough = self.look_ups > self.client.policy().retries || self.look_ups_left() <= RESERVE;
            if is_enough || !may_pass(failure) || !self.pause(failure).await {
                return false;
            }
        }
        self.spend()
    }

    /// Something was lost: from now on it is looked for.
    pub(crate) fn lost(&mut self) {
        self.question = Question { since: Instant::now(), last: None };
    }

    /// Waits until it is time for the next look-up, and says when that is, as it begins; `None`: there is none any more.
    pub(crate) async fn next_look(&mut self) -> Option<Instant> {
        let at = self.question.next(self.settle(), self.look_ups_left());
        if self.deadline.is_some_and(|deadline| at >= deadline) || !self.spend() {
            return None;
        }
        sleep_until(at).await;
        let began = Instant::now();
        self.question.last = Some(began);
        Some(began)
    }

    /// Whether what was not found by a look-up that began then was not made.
    pub(crate) fn is_settled(&self, began: Instant) -> bool {
        began >= self.question.since + self.settle()
    }

    /// When what was lost has certainly shown itself; `None`: the deadline comes first.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        let settled = self.question.since + self.settle();
        self.deadline.is_none_or(|deadline| settled < deadline).then_some(settled)
    }

    /// A single attempt of a look-up that has been spent.
    pub(crate) async fn attempt(&self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        self.within_deadline(&self.looking, call).await
    }

    /// Makes a call about what was found, which may be repeated, as long as its failures may pass. Each attempt is a look-up.
    pub(crate) async fn fetch(&mut self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        if !self.spend() {
            return Err(Error::new(ErrorKind::NotDone, self.action, ReturnReason::LookUpsUsed.to_string()));
        }
        loop {
            let error = match self.attempt(call.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !may_pass(&error) || !self.pause(&error).await || !self.spend() {
                return Err(error);
            }
        }
    }

    /// Finds out with a client whose calls are single attempts, noted as look-ups, of which this spends so many; `None`: as many
    /// are not left, or the deadline came.
    pub(crate) async fn find_out<T, F: Future<Output = T>>(
        &mut self,
        look_ups: u32,
        ask: impl FnOnce(Client) -> F,
    ) -> Option<T> {
        if self.look_ups_left() < look_ups {
            return None;
        }
        self.look_ups += look_ups;
        let asked = ask(self.looking.clone());
        match self.deadline {
            Some(deadline) => timeout_at(deadline, asked).await.ok(),
            None => Some(asked.await),
        }
    }

    /// Spends a look-up, where one is left.
    fn spend(&mut self) -> bool {
        let is_left = self.look_ups_left() > 0;
        self.look_ups += u32::from(is_left);
        is_left
    }

    fn look_ups_left(&self) -> u32 {
        self.client.policy().lookups.saturating_sub(self.look_ups)
    }

    /// The policy with what is left of its counts.
    fn left(&self) -> Policy {
        let (mut policy, spent) = (self.client.policy(), self.trail.spent());
        policy.retries = policy.retries.saturating_sub(spent.retries.saturating_add(self.resends));
        policy.connection_retries = policy.connection_retries.saturating_sub(spent.connection_retries);
        policy
    }

    fn settle(&self) -> Duration {
        self.client.create_options().settle
    }

    /// Waits after a failed look-up, as long as the server asks; `false`: the deadline comes first.
    async fn pause(&self, failure: &Error) -> bool {
        let wait = failure.retry_after().unwrap_or_else(|| backoff(self.look_ups, self.client.transport().draw()));
        let is_late = self.deadline.is_some_and(|deadline| wait >= deadline.saturating_duration_since(Instant::now()));
        if !is_late {
            sleep(wait).await;
        }
        !is_late
    }

    async fn within_deadline(&self, client: &Client, mut call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        if let Some(deadline) = self.deadline {
            // Zero would be no limit.
            call.request_timeout = Some(deadline.duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
        client.call(call).await
    }
}

impl Question {
    fn next(&self, settle: Duration, left: u32) -> Instant {
        let (now, end) = (Instant::now(), self.since + settle);
        if now >= end {
            let is_first = self.last.is_none_or(|last| last < end);
            return if is_first { now } else { now + (settle / PARTS[0]).max(SHORTEST) };
        }
        if left <= RESERVE {
            return end;
        }
        if self.last.is_none() {
            return now;
        }
        PARTS.iter().map(|part| self.since + settle / *part).find(|at| *at > now).unwrap_or(end)
    }
}

/// The least time between look-ups.
const SHORTEST: Duration = Duration::from_millis(500);

/// Whether a look-up that failed so may be answered later.
fn may_pass(error: &Error) -> bool {
    match error.status() {
        Some(status) => status == 429 || status >= 500,
        None => !matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Timeout),
    }
}
