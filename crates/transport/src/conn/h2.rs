//! HTTP/2 connections, driven directly over the `h2` crate.
//!
//! What `h2` does not tell comes from the shim below it ([`crate::io`]): the highest stream id whose HEADERS were
//! written, and GOAWAY with its last stream id.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, SendStream};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use oncebox_policy::Cause;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Failure;
use crate::body::{AttemptBody, BoxError};
use crate::io::{Observed, Protocol, Stream, Wire};
use crate::pool::{Load, Permit};

/// Stream window: how much of one response may wait unread.
const STREAM_WINDOW: u32 = 1 << 20;

/// Connection window. As large as it can be, so that responses which nobody reads cannot starve the others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Small unread frames that may wait, in bytes. h2 would end the connection for everyone at half a window.
const DATA_FRAME_BUDGET: usize = usize::MAX >> 1;

/// Streams assumed to be allowed by a peer whose SETTINGS name no limit.
const UNLIMITED: u32 = u32::MAX;

/// A connection is retired before its stream ids run out at 2^31 - 1.
const LAST_STREAM_ID: u32 = 1 << 30;

/// How long a connection whose writes fail is still read, for what has already arrived.
const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(250);

/// How often a connection looks at its age and idleness.
const TICK: Duration = Duration::from_secs(1);

/// Who is told what happens to a connection: the pool.
pub(crate) trait Owner: Send + Sync + 'static {
    /// The peer announced how many streams it allows.
    fn announced(&self, connection: &Arc<H2Connection>, cap: u32);
    /// It ended, or lets no more streams in.
    fn lost(&self, connection: &Arc<H2Connection>);
    /// Time passed.
    fn tick(&self, connection: &Arc<H2Connection>);
    /// It is gone.
    fn ended(&self, id: u64);
}

/// When a silent connection is asked whether it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// Silence before a PING, while streams are open; zero for never.
    pub(crate) interval: Duration,
    /// How long its answer may take.
    pub(crate) timeout: Duration,
}

/// An HTTP/2 connection. It closes when the last reference to it and its last stream are gone.
pub(crate) struct H2Connection {
    sender: SendRequest<Bytes>,
    facts: Arc<Facts>,
    load: Load,
    id: u64,
    opened_at: Instant,
    /// Milliseconds after `opened_at` when the last stream ended.
    idle_since: AtomicU64,
    /// Each connection expires a little earlier or later than the others, in thousandths.
    jitter: u16,
    phase: AtomicU8,
    round: u32,
}

/// What the driver and the streams both know.
#[derive(Debug)]
struct Facts {
    wire: Arc<Wire>,
    ping_failed: AtomicBool,
}

const ACTIVE: u8 = 0;
const COLD: u8 = 1;
const DRAINING: u8 = 2;

/// A request that was sent: waits for the response's head.
///
/// It is written out, and small: of calls that wait there are many at once.
pub(crate) struct Exchange {
    response: ResponseFuture,
    upload: Option<Upload>,
    stream_id: u32,
    connection: Arc<H2Connection>,
    /// After all that holds the stream, so that it is dropped after it, wherever this is cancelled: a slot is never
    /// handed on before the stream that filled it is gone.
    guard: Option<H2Stream>,
}

type Upload = Pin<Box<dyn Future<Output = Result<(), UploadError>> + Send>>;

impl Future for Exchange {
    type Output = Result<H2Response, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Poll::Ready(response) = Pin::new(&mut this.response).poll(cx) else {
            if let Some(upload) = &mut this.upload
                && let Poll::Ready(done) = upload.as_mut().poll(cx)
            {
                this.upload = None;
                if let Err(UploadError::Source(error)) = done {
                    return Poll::Ready(Err(Failure::unknown(Cause::RequestBody, Some(this.stream_id), error)));
                }
            }
            return Poll::Pending;
        };
        match (response, this.guard.take()) {
            (Ok(response), Some(mut guard)) => {
                if let Some(upload) = this.upload.take() {
                    guard.goes_on(upload);
                }
                guard.served();
                Poll::Ready(Ok(H2Response { response, guard }))
            }
            (Err(error), guard) => {
                if let Some(guard) = &guard
                    && (error.is_go_away() || error.is_io())
                {
                    guard.lost();
                }
                let failure = this.connection.classify(error, this.stream_id);
                this.guard = guard;
                Poll::Ready(Err(failure))
            }
            // Its answer was taken already.
            (Ok(_), None) => Poll::Pending,
        }
    }
}

/// A response whose body is still to come.
pub(crate) struct H2Response {
    pub(crate) response: Response<h2::RecvStream>,
    pub(crate) guard: H2Stream,
}

/// What a response body holds: the stream's permit. It is given up when the stream is over in both directions.
pub(crate) struct H2Stream {
    permit: Option<Permit>,
    /// Whoever still sends the request's body stops when the permit comes, and gives it up.
    upload: Option<oneshot::Sender<Permit>>,
}

impl H2Stream {
    fn new(permit: Permit) -> Self {
        Self { permit: Some(permit), upload: None }
    }

    fn lost(&self) {
        self.permit.iter().for_each(Permit::lost);
    }

    fn served(&self) {
        self.permit.iter().for_each(Permit::served);
    }

    /// The response has begun, and the request's body goes on.
    fn goes_on(&mut self, mut upload: Upload) {
        let (sender, over) = oneshot::channel();
        self.upload = Some(sender);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                permit = over => {
                    drop(upload);
                    drop(permit);
                }
                _ = &mut upload => {}
            }
        });
    }
}

impl Drop for H2Stream {
    fn drop(&mut self) {
        if let (Some(upload), Some(permit)) = (self.upload.take(), self.permit.take()) {
            // An upload that is over needs it no more.
            let _ = upload.send(permit);
        }
    }
}

impl H2Connection {
    /// Takes over a new socket. `load` says how many streams may be open before the peer's first SETTINGS, `round` how
    /// many rounds of dials had failed.
    pub(crate) async fn open(
        socket: Stream,
        id: u64,
        round: u32,
        load: Load,
        liveness: Liveness,
        owner: Weak<impl Owner>,
    ) -> Result<Arc<Self>, h2::Error> {
        let (io, wire) = Observed::new(socket, Protocol::Http2);
        let (sender, mut driver) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(DATA_FRAME_BUDGET)
            // Late answers to cancelled streams must not end the connection for everyone else.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(1024)
            .handshake::<_, Bytes>(io)
            .await?;
        let facts = Arc::new(Facts { wire, ping_failed: AtomicBool::new(false) });
        let connection = Arc::new(Self {
            sender,
            facts: facts.clone(),
            load,
            id,
            opened_at: Instant::now(),
            idle_since: AtomicU64::new(0),
            jitter: fastrand::u16(900..=1100),
            phase: AtomicU8::new(ACTIVE),
            round,
        });
        let pinger = driver.ping_pong().map(|ping_pong| Pinger::new(ping_pong, liveness));
        let driver = Driver {
            driver,
            facts,
            connection: Arc::downgrade(&connection),
            owner,
            id,
            cap: None,
            told: false,
            pinger,
            ticks: ticks(),
            grace: None,
        };
        tokio::spawn(driver.run());
        Ok(connection)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// How many streams the peer allows at once, once its SETTINGS have come.
    pub(crate) fn announced_cap(&self) -> Option<u32> {
        self.facts.wire.max_concurrent_streams().map(|cap| cap.unwrap_or(UNLIMITED))
    }

    /// The peer's GOAWAY, if one came: its last stream id.
    pub(crate) fn goaway_last_stream_id(&self) -> Option<u32> {
        self.facts.wire.goaway().map(|goaway| goaway.last_stream_id)
    }

    /// How many open streams a GOAWAY refuses, at most.
    pub(crate) fn refused_streams(&self) -> u32 {
        let Some(last) = self.goaway_last_stream_id() else { return 0 };
        let above = (self.facts.wire.highest_headers().saturating_sub(last)) / 2;
        above.min(self.load.active())
    }

    /// Whether it is over and was of no use: no request was answered, and no GOAWAY promises that any will be.
    pub(crate) fn served_nothing(&self) -> bool {
        !self.facts.wire.answered() && self.goaway_last_stream_id().is_none_or(|last| last == 0)
    }

    /// How many rounds of dials had failed when it was dialled.
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// Takes no more streams from here on. `false`: that was so before.
    pub(crate) fn drain(&self) -> bool {
        let first = self.phase.swap(DRAINING, Ordering::AcqRel) != DRAINING;
        self.load.set_cap(0);
        first
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) == DRAINING
    }

    /// Takes no streams until it is [warmed](Self::warm). `false`: it is draining.
    pub(crate) fn cool(&self) -> bool {
        let cooled = self.phase.compare_exchange(ACTIVE, COLD, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if cooled {
            self.load.set_cap(0);
        }
        cooled
    }

    /// Takes streams again. `false`: it was not cold.
    pub(crate) fn warm(&self, cap: u32) -> bool {
        let warmed = self.phase.compare_exchange(COLD, ACTIVE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if warmed {
            self.load.set_cap(cap);
            // It may have begun to drain in between, and then the cap is 0 for good.
            if self.is_draining() {
                self.load.set_cap(0);
            }
        }
        warmed
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase.load(Ordering::Acquire) == ACTIVE
    }

    /// The cap that holds: the peer's.
    pub(crate) fn set_cap(&self, cap: u32) {
        if self.is_active() {
            self.load.set_cap(cap);
            if !self.is_active() {
                self.load.set_cap(0);
            }
        }
    }

    /// The last stream ended just now.
    pub(crate) fn mark_idle(&self) {
        let since = u64::try_from(self.opened_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.idle_since.store(since, Ordering::Release);
    }

    /// How long no stream was open.
    pub(crate) fn idle_for(&self) -> Duration {
        if self.load.active() > 0 {
            return Duration::ZERO;
        }
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        self.opened_at.elapsed().saturating_sub(since)
    }

    /// Whether it is older than this, give or take a tenth.
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        self.opened_at.elapsed() >= age.mul_f64(f64::from(self.jitter) / 1000.0)
    }

    /// Sends a request on the permit's connection. A body that is at hand is sent at once.
    pub(crate) fn send(permit: Permit, request: Request<AttemptBody>) -> Result<Exchange, Failure> {
        let connection = permit.connection().clone();
        let guard = H2Stream::new(permit);
        let (head, body) = request.into_parts();
        let head = Request::from_parts(head, ());
        // A clone has no request of its own pending, so that it is always ready; the stream is within the peer's cap.
        let (response, mut stream) = match connection.sender.clone().send_request(head, body.is_end_stream()) {
            Ok(sent) => sent,
            Err(error) => {
                guard.lost();
                return Err(Failure::not_sent(error));
            }
        };
        let stream_id = response.stream_id().as_u32();
        if stream_id >= LAST_STREAM_ID {
            guard.lost();
        }
        let upload: Option<Upload> = match body.into_whole() {
            Ok(None) => None,
            Ok(Some(bytes)) => {
                if let Err(error) = stream.send_data(bytes, true) {
                    // The response tells more: a refusal, a reset, or an answer that came before the body.
                    tracing::debug!(connection = connection.id, stream = stream_id, %error, "upload stopped");
                }
                None
            }
            Err(body) => Some(Box::pin(upload(body, stream))),
        };
        Ok(Exchange { response, upload, stream_id, connection, guard: Some(guard) })
    }

    /// What is known of a request whose stream ended in an error.
    fn classify(&self, error: h2::Error, stream_id: u32) -> Failure {
        let wire = &self.facts.wire;
        if wire.highest_headers() < stream_id {
            return Failure::not_sent(error);
        }
        if error.is_reset() && error.is_remote() {
            let code = error.reason().map_or(0, u32::from);
            if error.reason() == Some(Reason::REFUSED_STREAM) {
                return Failure::refused_stream(stream_id, error);
            }
            return Failure::unknown(Cause::Reset { code }, Some(stream_id), error);
        }
        match wire.goaway() {
            Some(goaway) if stream_id > goaway.last_stream_id => Failure::goaway(stream_id, &goaway, error),
            _ if self.facts.ping_failed.load(Ordering::Acquire) => {
                Failure::unknown(Cause::PingTimeout, Some(stream_id), error)
            }
            _ if error.is_library() => Failure::unknown(Cause::Protocol, Some(stream_id), error),
            _ => Failure::unknown(Cause::ConnectionLost, Some(stream_id), error),
        }
    }
}

/// Runs one connection: keeps the cap current, drains it on GOAWAY, asks whether a silent peer lives.
struct Driver<O> {
    driver: h2::client::Connection<Observed<Stream>, Bytes>,
    facts: Arc<Facts>,
    connection: Weak<H2Connection>,
    owner: Weak<O>,
    id: u64,
    cap: Option<u32>,
    /// Whether the owner knows that the connection drains.
    told: bool,
    pinger: Option<Pinger>,
    ticks: Interval,
    grace: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<O: Owner> Driver<O> {
    async fn run(mut self) {
        let ended = poll_fn(|cx| self.poll(cx)).await;
        if let Err(error) = ended {
            tracing::debug!(connection = self.id, %error, "HTTP/2 connection ended with an error");
        }
        self.lost();
        let (owner, id) = (self.owner.clone(), self.id);
        // The socket is closed before the owner hears that there is room for another.
        drop(self);
        if let Some(owner) = owner.upgrade() {
            owner.ended(id);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let polled = Pin::new(&mut self.driver).poll(cx);
        self.report();
        if polled.is_ready() {
            return polled;
        }
        if self.facts.wire.write_failed() {
            self.lost();
            let grace = self
                .grace
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + READ_AFTER_WRITE_ERROR)));
            return grace.as_mut().poll(cx).map(|()| Ok(()));
        }
        while self.ticks.poll_tick(cx).is_ready() {
            if let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade()) {
                let read = self.facts.wire.bytes_read();
                if let Some(pinger) = &mut self.pinger {
                    pinger.tick(read, connection.load.active() > 0, connection.load.opened());
                }
                owner.tick(&connection);
            }
        }
        if let Some(pinger) = &mut self.pinger
            && pinger.poll_overdue(cx)
        {
            self.facts.ping_failed.store(true, Ordering::Release);
            // Dropping the connection ends its streams, which then find the reason.
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Tells the owner what the bytes just read have said.
    fn report(&mut self) {
        let cap = self.facts.wire.max_concurrent_streams();
        if let Some(cap) = cap.map(|cap| cap.unwrap_or(UNLIMITED))
            && self.cap != Some(cap)
        {
            self.cap = Some(cap);
            if let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade()) {
                owner.announced(&connection, cap);
            }
        }
        if self.facts.wire.is_going_away() {
            self.lost();
        }
    }

    fn lost(&mut self) {
        if !std::mem::replace(&mut self.told, true)
            && let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade())
        {
            owner.lost(&connection);
        }
    }
}

/// Asks a silent peer whether it lives (RFC 9113 §6.7). Any byte counts as life.
struct Pinger {
    ping_pong: PingPong,
    liveness: Liveness,
    read: u64,
    /// Streams opened until the last tick.
    opened: u32,
    /// A stream was open, or was opened and given up, since anything was read: the peer owes an answer.
    owed: bool,
    silent_since: Instant,
    sent: Option<Instant>,
}

impl Pinger {
    fn new(ping_pong: PingPong, liveness: Liveness) -> Self {
        Self { ping_pong, liveness, read: 0, opened: 0, owed: false, silent_since: Instant::now(), sent: None }
    }

    fn tick(&mut self, read: u64, busy: bool, opened: u32) {
        let news = read != self.read;
        // Streams that ran into a timeout count: a dead connection would else look idle between two of them, and time
        // out whoever comes next, for ever.
        self.owed = busy || (!news && (self.owed || opened != self.opened));
        (self.read, self.opened) = (read, opened);
        if news || !self.owed {
            self.silent_since = Instant::now();
            self.sent = None;
        } else if self.sent.is_none()
            && !self.liveness.interval.is_zero()
            && self.silent_since.elapsed() >= self.liveness.interval
            && self.ping_pong.send_ping(Ping::opaque()).is_ok()
        {
            self.sent = Some(Instant::now());
        }
    }

    /// Whether a PING was not answered in time.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        // The answer itself was a byte that was read; this only clears it for the next PING.
        let _ = self.ping_pong.poll_pong(cx);
        self.sent.is_some_and(|sent| sent.elapsed() >= self.liveness.timeout)
    }
}

fn ticks() -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

enum UploadError {
    /// The caller's body failed.
    Source(BoxError),
    /// The peer or the connection ended the stream; the response tells why.
    Stream,
}

/// Sends a body as the peer's window allows.
async fn upload(mut body: AttemptBody, mut stream: SendStream<Bytes>) -> Result<(), UploadError> {
    loop {
        let frame = tokio::select! {
            biased;
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Err(UploadError::Stream),
            frame = body.frame() => frame,
        };
        match frame {
            None => {
                return stream.send_data(Bytes::new(), true).map_err(|_| UploadError::Stream);
            }
            Some(Err(error)) => {
                stream.send_reset(Reason::CANCEL);
                return Err(UploadError::Source(error));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => send_data(&mut stream, data).await?,
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return stream.send_trailers(trailers).map_err(|_| UploadError::Stream);
                    }
                }
            },
        }
    }
}

async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), UploadError> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let granted = match poll_fn(|cx| stream.poll_capacity(cx)).await {
            // A change that left no room. An empty frame in its stead would be one that some peers count.
            Some(Ok(0)) => continue,
            Some(Ok(granted)) => granted.min(data.len()),
            Some(Err(_)) | None => return Err(UploadError::Stream),
        };
        stream.send_data(data.split_to(granted), false).map_err(|_| UploadError::Stream)?;
    }
    Ok(())
}
