//! One request and its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::state::Stream;
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::script::{Answer, ErrorCode, Moment};

/// Why an exchange ends before its answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client reset the stream.
    Cancelled,
    /// We reset it, disowned it or ended the connection.
    Over,
}

pub(super) async fn exchange(conn: Arc<Conn>, request: Request, stream: Arc<Stream>) {
    let mut status = None;
    if let Err(Gone::Cancelled) = answer_it(&conn, &request, &stream, &mut status).await {
        cancelled(&conn, &request, &stream).await;
    }
    let due = {
        let mut state = conn.h2.state.lock();
        state.streams.remove(&stream.id);
        state.due()
    };
    let rest: usize = stream.inner.lock().chunks.drain(..).map(|chunk| chunk.len()).sum();
    conn.give_back(None, rest);
    conn.h2.task_is_over(stream.id);
    conn.log.over(conn.number, stream.id, status);
    conn.request_is_over();
    if let Some(ending) = due {
        conn.out.end(ending);
    }
}

async fn answer_it(
    conn: &Arc<Conn>,
    request: &Request,
    stream: &Arc<Stream>,
    status: &mut Option<u16>,
) -> Result<(), Gone> {
    let answer = match until_answer(conn, request, stream).await? {
        Flow::Over => return Err(Gone::Over),
        Flow::Hold => return hold(stream).await,
        Flow::Answer(answer) => answer,
        Flow::On => Box::new(conn.engine.script.answer.clone()),
    };
    conn.answer(request, stream, &answer).await?;
    *status = Some(answer.status);
    if !stream.inner.lock().complete {
        // The answer is whole and the request is not: what RFC 9113, section 8.1 has a server say then.
        conn.reset_stream(stream.id, ErrorCode::NO_ERROR);
    }
    conn.happen(Moment::Answered, Some(request)).await;
    Ok(())
}

/// Reads and processes the request. `Flow::On`: with nothing special, the script's answer follows.
async fn until_answer(conn: &Arc<Conn>, request: &Request, stream: &Arc<Stream>) -> Result<Flow, Gone> {
    macro_rules! moment {
        ($moment:expr) => {
            match conn.happen($moment, Some(request)).await {
                Flow::On if stream.is_over() => return Err(Gone::Over),
                Flow::On => {}
                other => return Ok(other),
            }
        };
    }
    moment!(Moment::Request);
    let engine = &conn.engine;
    let mut marks = engine.request_body.iter().copied().peekable();
    let (mut read, mut digest) = (0, crate::digest(b""));
    while let Some(chunk) = next_chunk(conn, stream).await? {
        read += chunk.len() as u64;
        digest = crate::digest_more(digest, &chunk);
        conn.log.a_try(conn.number, stream.id, |a_try| (a_try.body_bytes, a_try.body_digest) = (read, digest));
        while let Some(mark) = marks.next_if(|mark| *mark <= read) {
            moment!(Moment::RequestBody(mark));
        }
    }
    conn.log.a_try(conn.number, stream.id, |a_try| a_try.complete = true);
    moment!(Moment::Received);
    {
        // Under the connection's lock, as GOAWAY is: a stream is processed or disowned, never both.
        let _state = conn.h2.state.lock();
        if stream.is_over() {
            return Err(Gone::Over);
        }
        stream.inner.lock().processed = true;
    }
    conn.log.processed_now(conn.number, request);
    let time = engine.script.service_time_ms.pick(|| engine.draw_for("service time", conn.number, request));
    if time > 0 {
        let cancelled = gone(stream);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(time)) => {}
            gone = cancelled => return Err(gone),
        }
    }
    moment!(Moment::Processed);
    Ok(Flow::On)
}

/// The next piece of the request's body; `None`: its end.
async fn next_chunk(conn: &Arc<Conn>, stream: &Arc<Stream>) -> Result<Option<Bytes>, Gone> {
    loop {
        let changed = stream.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if stream.is_over() {
            return Err(Gone::Over);
        }
        let chunk = {
            let mut inner = stream.inner.lock();
            let chunk = inner.chunks.pop_front();
            match &chunk {
                None if inner.cancelled => return Err(Gone::Cancelled),
                None if inner.complete => return Ok(None),
                _ => chunk,
            }
        };
        if let Some(chunk) = chunk {
            conn.give_back(Some(stream), chunk.len());
            return Ok(Some(chunk));
        }
        changed.await;
    }
}

/// Waits until the client resets the stream, or it is over.
async fn gone(stream: &Arc<Stream>) -> Gone {
    loop {
        let changed = stream.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if stream.is_over() {
            return Gone::Over;
        }
        if stream.inner.lock().cancelled {
            return Gone::Cancelled;
        }
        changed.await;
    }
}

async fn hold(stream: &Arc<Stream>) -> Result<(), Gone> {
    Err(gone(stream).await)
}

/// The client reset the stream. A script may answer it all the same.
async fn cancelled(conn: &Arc<Conn>, request: &Request, stream: &Arc<Stream>) {
    let answer = match conn.happen(Moment::Cancelled, Some(request)).await {
        Flow::Answer(answer) => answer,
        Flow::On if conn.engine.script.answer.even_if_cancelled => Box::new(conn.engine.script.answer.clone()),
        _ => return,
    };
    let answer = Answer { even_if_cancelled: true, ..*answer };
    let _ = conn.answer(request, stream, &answer).await;
}
