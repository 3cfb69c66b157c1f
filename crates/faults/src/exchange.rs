//! One request and its answer, whichever version of HTTP carries them.

use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::answering::Outgoing;
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::log::Happening;
use crate::out::Ending;
use crate::script::{Answer, Moment};
use crate::upstream::{Flight, Upstream};

/// Why an exchange ends before its answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The client gave it up.
    Cancelled,
    /// We reset it, disowned it or ended the connection.
    Over,
}

/// The client's side of an exchange.
pub(crate) trait Side: Send {
    /// The next piece of the request's body; `None`: its end. Loses nothing when dropped.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, Gone>> + Send;

    /// Whether it is known that no body follows.
    fn has_no_body(&self) -> bool;

    /// Whether nothing more may happen to it.
    fn is_over(&self) -> bool;

    /// Makes the request one that is processed, unless it is over.
    fn process(&mut self) -> bool;

    /// Waits until the client gives it up, or it is over.
    fn gone(&mut self) -> impl Future<Output = Gone> + Send;

    /// The protocol that the client would change to, where it can.
    fn wish(&self, _: &Request) -> Option<String> {
        None
    }

    /// Tells the client that the protocol has changed, and carries what is said in it, until both sides have ended.
    fn tunnel(&mut self, _: &Request, _: Flight) -> impl Future<Output = Result<(), Gone>> + Send {
        std::future::ready(Err(Gone::Over))
    }

    /// Writes an answer.
    fn answer(&mut self, request: &Request, answer: Outgoing<'_>) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// What an exchange is to be answered with.
enum Reply {
    Flow(Flow),
    Upstream(Box<Flight>),
}

/// Returns the status of the answer, when it was written whole.
pub(crate) async fn exchange<S: Side>(conn: &Arc<Conn>, request: &Request, side: &mut S) -> Result<u16, Gone> {
    let reply = match &conn.upstream {
        Some(upstream) => pass_on(conn, request, side, upstream).await?,
        None => Reply::Flow(process(conn, request, side).await?),
    };
    let scripted = &conn.engine.script.answer;
    match reply {
        Reply::Flow(Flow::Over) => Err(Gone::Over),
        Reply::Flow(Flow::Hold) => Err(side.gone().await),
        Reply::Flow(Flow::On) => answer(request, side, scripted).await,
        Reply::Flow(Flow::Answer(chosen)) => answer(request, side, &chosen).await,
        Reply::Upstream(flight) if flight.status() == 101 => side.tunnel(request, *flight).await.map(|()| 101),
        Reply::Upstream(flight) => {
            let outgoing = Outgoing::of_upstream(*flight, scripted);
            let status = outgoing.status;
            side.answer(request, outgoing).await.map(|()| status)
        }
    }
}

async fn answer<S: Side>(request: &Request, side: &mut S, answer: &Answer) -> Result<u16, Gone> {
    side.answer(request, Outgoing::of_script(answer, &request.head.method)).await?;
    Ok(answer.status)
}

macro_rules! moment {
    ($conn:expr, $request:expr, $side:expr, $moment:expr, $flow:expr) => {
        match $conn.happen($moment, Some($request)).await {
            Flow::On if $side.is_over() => return Err(Gone::Over),
            Flow::On => {}
            #[allow(clippy::redundant_closure_call)] // A constructor or a closure.
            other => return Ok($flow(other)),
        }
    };
}

/// How much of a request's body came.
struct Taken<'a> {
    conn: &'a Arc<Conn>,
    stream: u32,
    bytes: u64,
    digest: u64,
    /// How many of the script's `request_body` were passed.
    passed: usize,
}

impl<'a> Taken<'a> {
    fn new(conn: &'a Arc<Conn>, request: &Request) -> Self {
        Self { conn, stream: request.stream, bytes: 0, digest: crate::digest(b""), passed: 0 }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.digest = crate::digest_more(self.digest, chunk);
        let (bytes, digest) = (self.bytes, self.digest);
        self.conn.log.a_try(self.conn.number, self.stream, |a_try| {
            (a_try.body_bytes, a_try.body_digest) = (bytes, digest);
        });
    }

    fn next_mark(&mut self) -> Option<Moment> {
        let mark = self.conn.engine.request_body.get(self.passed).filter(|mark| **mark <= self.bytes)?;
        self.passed += 1;
        Some(Moment::RequestBody(*mark))
    }

    fn complete(&self) {
        self.conn.log.a_try(self.conn.number, self.stream, |a_try| a_try.complete = true);
    }
}

/// Reads and processes the request. `Flow::On`: with nothing special, the script's answer follows.
async fn process<S: Side>(conn: &Arc<Conn>, request: &Request, side: &mut S) -> Result<Flow, Gone> {
    let same = |flow| flow;
    moment!(conn, request, side, Moment::Request, same);
    let mut taken = Taken::new(conn, request);
    while let Some(chunk) = side.next_chunk().await? {
        taken.take(&chunk);
        while let Some(mark) = taken.next_mark() {
            moment!(conn, request, side, mark, same);
        }
    }
    taken.complete();
    moment!(conn, request, side, Moment::Received, same);
    if !side.process() {
        return Err(Gone::Over);
    }
    conn.log.processed_now(conn.number, request);
    let engine = &conn.engine;
    let time = engine.script.service_time_ms.pick(|| engine.draw_for("service time", conn.number, request));
    if time > 0 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(time)) => {}
            gone = side.gone() => return Err(gone),
        }
    }
    moment!(conn, request, side, Moment::Processed, same);
    Ok(Flow::On)
}

/// Passes the request on to the upstream, piece by piece as it comes, and waits for the head of its answer. The request
/// counts as processed from when it is sent: nobody here knows better.
async fn pass_on<S: Side>(
    conn: &Arc<Conn>,
    request: &Request,
    side: &mut S,
    upstream: &Arc<Upstream>,
) -> Result<Reply, Gone> {
    moment!(conn, request, side, Moment::Request, Reply::Flow);
    let failed = |conn: &Conn, error: &std::io::Error| {
        conn.log.happened(conn.number, request.stream, Happening::Upstream(error.to_string()));
        Reply::Flow(Flow::Answer(Box::new(Answer::status(502).text(&format!("oncebox-faults: {error}\n")))))
    };
    let mut taken = Taken::new(conn, request);
    let mut held = Vec::new();
    // Where a rule looks at the whole request, a short one is not sent before it is whole.
    let waits = !conn.engine.at(Moment::Received).is_empty();
    let mut whole = side.has_no_body();
    while waits && !whole {
        let Some(chunk) = side.next_chunk().await? else {
            whole = true;
            break;
        };
        taken.take(&chunk);
        held.push(chunk);
        while let Some(mark) = taken.next_mark() {
            moment!(conn, request, side, mark, Reply::Flow);
        }
        if taken.bytes > MOST_HELD {
            break;
        }
    }
    if whole {
        taken.complete();
        moment!(conn, request, side, Moment::Received, Reply::Flow);
    }
    if !side.process() {
        return Err(Gone::Over);
    }
    conn.log.processed_now(conn.number, request);
    let length = whole.then_some(taken.bytes);
    let wish = side.wish(request);
    let mut flight = match upstream.open(&request.head, length, wish.as_deref()).await {
        Ok(flight) => flight,
        Err(error) => return Ok(failed(conn, &error)),
    };
    let mut uploads = true;
    for chunk in held {
        uploads = uploads && flight.write(&chunk).await.is_ok();
    }
    if whole {
        let _ = flight.finish().await;
        uploads = false;
    }
    loop {
        tokio::select! {
            head = flight.head() => match head {
                Ok(()) => break,
                // The client sees what we saw: a connection that ends without an answer.
                Err(error) if is_lost(&error) => {
                    conn.log.happened(conn.number, request.stream, Happening::Upstream(error.to_string()));
                    let reset = error.kind() == ErrorKind::ConnectionReset;
                    conn.out.end(if reset { Ending::Reset } else { Ending::Close });
                    return Err(Gone::Over);
                }
                Err(error) => return Ok(failed(conn, &error)),
            },
            chunk = more(side, uploads) => match chunk? {
                Some(chunk) => {
                    taken.take(&chunk);
                    while let Some(mark) = taken.next_mark() {
                        moment!(conn, request, side, mark, Reply::Flow);
                    }
                    // An upstream that reads no further may have answered: its head is waited for all the same.
                    uploads = flight.write(&chunk).await.is_ok();
                }
                None => {
                    uploads = false;
                    taken.complete();
                    moment!(conn, request, side, Moment::Received, Reply::Flow);
                    let _ = flight.finish().await;
                }
            },
        }
    }
    moment!(conn, request, side, Moment::Processed, Reply::Flow);
    Ok(Reply::Upstream(Box::new(flight)))
}

/// Whether a connection ended, rather than that what came on it made no sense.
fn is_lost(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// The next piece of an upload, or the end of the client's patience.
async fn more<S: Side>(side: &mut S, uploads: bool) -> Result<Option<Bytes>, Gone> {
    if uploads { side.next_chunk().await } else { Err(side.gone().await) }
}

/// How much of a body is held back until it is whole.
const MOST_HELD: u64 = 64 * 1024;
