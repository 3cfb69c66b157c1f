//! The one loop: attempts are made, the policy judges, nothing else repeats anything.

mod attempt;
mod bounded;
mod head;
mod headers;
mod peek;
mod take;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};
use oncebox_policy::{
    Attempt, CallFacts, Cause, Ledger, NotSent, Outcome, RequestBody, ShortText, Tokens, Unknown, Verdict, judge,
};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Instrument, Span};

use crate::body::{Body, BodyUse, BoxError, Replay, Upload};
use crate::client::Client;
use crate::conn::FAR;
use crate::error::Error;
use crate::limit::{Due, Expired, Step, StreamLimits};
use crate::observe::{self, TraceContext};
use crate::options::{CallOptions, Resolved};
use crate::pool::{Origin, Progress, Wanted};
use crate::response::Response;

pub(crate) use attempt::Ended;
use attempt::Making;
use bounded::{Bounded, Elapsed};
use head::Head;
use take::TooLarge;
pub(crate) use take::{Collected, Streaming, Take};

/// A call that is to be made.
pub(crate) struct Call<'a, T> {
    made_of: MadeOf<'a, T>,
    /// The headers as they were given, for the first attempt.
    headers: HeaderMap,
}

/// What a call is made of.
struct MadeOf<'a, T> {
    client: &'a Client,
    head: Head,
    body: Replay,
    options: Resolved,
    take: T,
    /// Where attempts are to name themselves as parts of a trace.
    trace: Option<Box<TraceContext>>,
}

impl<'a, T: Take> Call<'a, T> {
    pub(crate) fn new(client: &'a Client, request: Request<Body>, options: &CallOptions, take: T) -> Self {
        let (head, body) = request.into_parts();
        let options = client.defaults().resolve(options, &head.method);
        let made_of = MadeOf {
            client,
            body: body.into_replay(options.replay_buffer_limit),
            head: Head::new(head.method, head.uri, &head.headers),
            options,
            take,
            trace: client.traces().then(|| Box::new(TraceContext::of(&head.headers))),
        };
        Self { made_of, headers: head.headers }
    }

    /// Makes the call.
    ///
    /// It is the future that callers get, with none around it that would hand the answer on by another copy.
    #[allow(clippy::manual_async_fn)] // An `async fn` would have room for `self` twice.
    pub(crate) fn run(mut self) -> impl Future<Output = Result<Response<T::Body>, Error>> + Send + use<'a, T> {
        async move {
            let Self { made_of, headers } = &mut self;
            let running = Running::new(made_of)?;
            if made_of.client.observer().is_some() || observe::is_traced() {
                // In a box, so that calls which nobody looks at have no room for it.
                return Box::pin(running.watched(headers)).await;
            }
            // Pinned here, since a future that is handed on by value is copied whole.
            pin!(running.attempts(headers)).await
        }
    }

    /// Makes one attempt, which nobody judges.
    pub(crate) async fn once(&mut self, number: usize, wanted: Wanted) -> Result<Ended<T::Body>, Error> {
        let Self { made_of, headers } = self;
        let running = Running::new(made_of)?;
        let span = if observe::is_traced() { observe::single_span(&made_of.head, number) } else { Span::none() };
        let progress = Progress::default();
        let mut making = running.making(number, wanted, headers, &progress);
        running.make(&mut making, &progress).instrument(span.clone()).await;
        made_of.body.commit();
        // One that was made is over.
        let ended = making.into_ended().ok_or_else(|| Error::invalid("the attempt was not made"))?;
        observe::fill_attempt(&span, &ended.attempt, progress.stream());
        if let Some(observer) = made_of.client.observer() {
            observer.single_attempt_ended(&made_of.head.method, &made_of.head.uri, number, &ended.attempt);
        }
        Ok(ended)
    }
}

/// A call under way. What it is made of stays where it is: futures are copied and kept by the thousand.
struct Running<'a, T> {
    call: &'a MadeOf<'a, T>,
    origin: Arc<Origin>,
    started: Instant,
}

impl<'a, T: Take> Running<'a, T> {
    fn new(call: &'a MadeOf<'a, T>) -> Result<Self, Error> {
        call.head.settle_length(&call.body)?;
        Ok(Self { call, origin: call.client.origin(&call.head.uri)?, started: Instant::now() })
    }

    /// The same, told to whoever observes.
    async fn watched(&self, headers: &mut HeaderMap) -> Result<Response<T::Body>, Error> {
        let head = &self.call.head;
        let watched = self.call.client.observer().map(|observer| observer.watch(&head.method, &head.uri));
        let span = tracing::debug_span!("call", target = %head);
        let answer = self.attempts(headers).instrument(span).await;
        if let Some(watched) = watched {
            watched.ends(answer.as_ref().map(|response| response.status().as_u16()));
        }
        answer
    }

    async fn attempts(&self, headers: &mut HeaderMap) -> Result<Response<T::Body>, Error> {
        let mut wanted = Wanted {
            cautious: self.call.options.policy.connection_retries == 0,
            class: self.call.options.class,
            ..Wanted::default()
        };
        // A ledger is large, and many calls wait at once. It is kept over a wait only where an attempt went before.
        let mut kept: Option<Box<Ledger>> = None;
        loop {
            let number = kept.as_ref().map_or(0, |ledger| ledger.attempts().len()) + 1;
            let started = if number == 1 { Duration::ZERO } else { self.started.elapsed() };
            // In a block, so that a response which will be asked for again is given up before the wait.
            let after = {
                let progress = Progress::default();
                let mut making = self.making(number, wanted, headers, &progress);
                let span = if observe::is_traced() {
                    Some(self.traced(&mut making, &progress, number).await)
                } else {
                    self.make(&mut making, &progress).await;
                    None
                };
                let Some(ended) = making.ended() else { continue };
                ended.attempt.started = started;
                let mut first = Ledger::new();
                let ledger = kept.as_deref_mut().unwrap_or(&mut first);
                let Verdict::Retry(retry) = self.judge(ledger, &ended.attempt, span.as_deref()) else {
                    return self.end(ended, ledger);
                };
                if kept.is_none() {
                    kept = Some(Box::new(first));
                }
                wanted.last_connection = ended.attempt.connection;
                wanted.connection = retry.connection;
                wanted.is_replay = retry.reason.is_replay();
                retry.after
            };
            if !after.is_zero() {
                sleep(after).await;
            }
        }
    }

    /// Makes an attempt in a span of its own. In a box, so that calls which nobody looks at have no room for it.
    #[cold]
    fn traced<'b>(
        &'b self,
        making: &'b mut Making<'_, T>,
        progress: &'b Progress,
        number: usize,
    ) -> Pin<Box<dyn Future<Output = Box<Span>> + Send + 'b>> {
        let span = observe::attempt_span(number);
        Box::pin(async move {
            self.make(making, progress).instrument(span.clone()).await;
            if let Some(ended) = making.ended() {
                observe::fill_attempt(&span, &ended.attempt, progress.stream());
            }
            Box::new(span)
        })
    }

    fn judge(&self, ledger: &mut Ledger, attempt: &Attempt, span: Option<&Span>) -> Verdict {
        let verdict = judge(
            &self.call.options.policy,
            &self.facts(),
            ledger,
            Some(Tokens {
                budget: &self.origin.budget,
                call_started: self.started.saturating_duration_since(self.origin.created),
            }),
            attempt,
            self.started.elapsed(),
            self.call.client.random(),
        );
        if span.is_some() || self.call.client.observer().is_some() {
            self.tell(span, ledger);
        }
        verdict
    }

    /// Tells whoever observes what came of an attempt.
    #[cold]
    fn tell(&self, span: Option<&Span>, ledger: &Ledger) {
        if let Some((span, record)) = span.zip(ledger.attempts().last()) {
            observe::fill(span, record);
        }
        if let Some(observer) = self.call.client.observer() {
            observer.attempt_ended(&self.call.head.method, &self.call.head.uri, ledger);
        }
    }

    fn end(&self, ended: &mut Ended<T::Body>, ledger: &Ledger) -> Result<Response<T::Body>, Error> {
        self.call.body.commit();
        if observe::is_traced() {
            self.trace(ledger);
        }
        if let Some(response) = ended.answer.take() {
            return Ok(Response::new(response, ledger));
        }
        Err(self.error(ended, ledger))
    }

    #[cold]
    fn trace(&self, ledger: &Ledger) {
        tracing::debug!("{}, {} attempts\n{ledger}", self.call.head, ledger.attempts().len());
    }

    #[cold]
    fn error(&self, ended: &mut Ended<T::Body>, ledger: &Ledger) -> Error {
        match ended.source.take() {
            Some(source) if source.is::<TooLarge>() => {
                Error::too_large(self.call.head.to_string(), self.call.take.limit(), ledger.clone())
            }
            source => Error::failed(self.call.head.to_string(), ledger.clone(), source),
        }
    }

    /// Makes an attempt, bounded by the call's deadline and `attempt_timeout`.
    async fn make(&self, making: &mut Making<'_, T>, progress: &Progress) {
        let made = if self.call.body.is_stream() {
            // In a box: few calls have such a body, and all have room for it otherwise.
            Box::pin(self.watch_stream(making, progress)).await
        } else {
            match self.bound() {
                Some((at, bound)) => {
                    let is_far = self.is_far(at, making.is_first());
                    Bounded::new(making, at, is_far).await.map_err(|Elapsed| self.limit(bound))
                }
                None => {
                    (&mut *making).await;
                    Ok(())
                }
            }
        };
        if let Err(limit) = made {
            self.cut_off(making, limit, progress);
        }
    }

    #[cold]
    fn cut_off(&self, making: &mut Making<'_, T>, limit: Limit, progress: &Progress) {
        let (outcome, source) = self.expired(limit, progress);
        making.cut_off(outcome, source);
    }

    fn making<'b>(
        &'b self,
        number: usize,
        wanted: Wanted,
        headers: &'b mut HeaderMap,
        progress: &'b Progress,
    ) -> Making<'b, T> {
        Making::new(self, number, wanted, headers, progress)
    }

    /// What is known of an attempt that was given up at a limit.
    fn expired(&self, limit: Limit, progress: &Progress) -> (Outcome, Option<BoxError>) {
        let sent = progress.is_sent();
        let step = if progress.reads() {
            Step::Body
        } else if !sent {
            self.origin.waits_for(progress, self.call.options.class).into()
        } else if matches!(self.call.body.upload(), Upload::Source | Upload::Peer(_)) {
            Step::Upload
        } else {
            Step::Head
        };
        match limit {
            Limit::Call { limit, option } => (Outcome::TimedOut { sent }, Some(Expired { step, limit, option }.into())),
            Limit::Attempt if sent => {
                let detail = ShortText::new(&format!("waited for {step}"));
                let cause = Cause::AttemptTimeout;
                (Outcome::SentUnknown(Unknown { cause, stream_id: progress.stream(), detail }), None)
            }
            Limit::Attempt => {
                let phase = self.origin.waits_for(progress, self.call.options.class);
                let touched_socket = phase.is_dial();
                (Outcome::NotSent(NotSent { phase, touched_socket, detail: "attempt_timeout passed".into() }), None)
            }
        }
    }

    /// Runs an attempt whose request's body is read as it is sent, within the limits of such.
    async fn watch_stream(&self, making: &mut Making<'_, T>, progress: &Progress) -> Result<(), Limit> {
        let options = &self.call.options;
        let began = Instant::now();
        let limits = StreamLimits { began, request: options.request_timeout, write_idle: options.write_idle_timeout };
        let own = options.attempt_timeout.map(|limit| began + limit);
        let due = || limits.due(self.call.body.upload(), progress.reads());
        loop {
            let look_again = limits.look_again(Instant::now());
            let at = due().map(|due| due.at).into_iter().chain(look_again).chain(own).min();
            let Some(at) = at else {
                making.await;
                return Ok(());
            };
            if timeout_at(at, &mut *making).await.is_ok() {
                return Ok(());
            }
            let now = Instant::now();
            if own.is_some_and(|own| own <= now) {
                return Err(Limit::Attempt);
            }
            if let Some(Due { limit, option, .. }) = due().filter(|due| due.at <= now) {
                return Err(Limit::Call { limit, option });
            }
        }
    }

    /// When the attempt that begins now must be over, and what bounds it.
    fn bound(&self) -> Option<(Instant, Bound)> {
        let call = self.deadline().map(|deadline| (self.started + deadline, Bound::Call));
        let own = self.call.options.attempt_timeout.map(|limit| (Instant::now() + limit, Bound::Attempt));
        match (call, own) {
            (Some(call), Some(own)) if own.0 < call.0 => Some(own),
            (call, own) => call.or(own),
        }
    }

    /// Whether it is long until then, as seen from the begin of an attempt: now.
    fn is_far(&self, at: Instant, is_first: bool) -> bool {
        let now = if is_first { self.started } else { Instant::now() };
        at >= now + FAR
    }

    fn limit(&self, bound: Bound) -> Limit {
        match (bound, self.deadline()) {
            (Bound::Call, Some(limit)) => Limit::Call { limit, option: "request_timeout" },
            _ => Limit::Attempt,
        }
    }

    /// `request_timeout`, which does not bound a streamed request body: that has [limits of its own](StreamLimits).
    fn deadline(&self) -> Option<Duration> {
        self.call.options.request_timeout.filter(|_| !self.call.body.is_stream())
    }

    fn facts(&self) -> CallFacts {
        CallFacts {
            permit: self.call.options.permit,
            mints: self.call.options.mints,
            reconciles: self.call.options.reconciles,
            body: match self.call.body.usage() {
                BodyUse::None => RequestBody::None,
                BodyUse::Bytes => RequestBody::Bytes,
                BodyUse::Unread => RequestBody::StreamUnread,
                BodyUse::Mirrored(_) => RequestBody::StreamMirrored,
                BodyUse::Consumed(read) => {
                    RequestBody::StreamConsumed { read, limit: self.call.options.replay_buffer_limit as u64 }
                }
            },
            deadline: self.deadline(),
        }
    }
}

/// What bounds an attempt: it is kept by all that wait, and small.
#[derive(Clone, Copy)]
enum Bound {
    Call,
    Attempt,
}

enum Limit {
    Call { limit: Duration, option: &'static str },
    Attempt,
}
