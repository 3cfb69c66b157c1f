//! The client's side of a stream.

use std::sync::Arc;

use bytes::Bytes;

use super::state::Stream;
use crate::answering::Outgoing;
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::exchange::{self, Gone, Side};
use crate::script::{Answer, ErrorCode, Moment};

struct StreamSide {
    conn: Arc<Conn>,
    stream: Arc<Stream>,
}

pub(super) async fn exchange(conn: Arc<Conn>, request: Request, stream: Arc<Stream>) {
    let mut side = StreamSide { conn: conn.clone(), stream: stream.clone() };
    let status = match exchange::exchange(&conn, &request, &mut side).await {
        Ok(status) => {
            if !stream.inner.lock().complete {
                // The answer is whole and the request is not: what RFC 9113, section 8.1 has a server say then.
                conn.reset_stream(stream.id, ErrorCode::NO_ERROR);
            }
            conn.happen(Moment::Answered, Some(&request)).await;
            Some(status)
        }
        Err(Gone::Cancelled) => cancelled(&conn, &request, &mut side).await,
        Err(Gone::Over) => None,
    };
    let due = {
        let mut state = conn.h2.state.lock();
        if state.remove(&stream) {
            conn.log.closed(conn.number);
        }
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

/// The client reset the stream. A script may answer it all the same.
async fn cancelled(conn: &Arc<Conn>, request: &Request, side: &mut StreamSide) -> Option<u16> {
    let answer = match conn.happen(Moment::Cancelled, Some(request)).await {
        Flow::Answer(answer) => answer,
        Flow::On if conn.engine.script.answer.even_if_cancelled => Box::new(conn.engine.script.answer.clone()),
        _ => return None,
    };
    let answer = Answer { even_if_cancelled: true, ..*answer };
    side.answer(request, Outgoing::of_script(&answer, &request.head.method)).await.ok().map(|()| answer.status)
}

impl Side for StreamSide {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Gone> {
        let stream = &self.stream;
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
                self.conn.give_back(Some(stream), chunk.len());
                return Ok(Some(chunk));
            }
            changed.await;
        }
    }

    fn has_no_body(&self) -> bool {
        let inner = self.stream.inner.lock();
        inner.complete && inner.chunks.is_empty()
    }

    fn is_over(&self) -> bool {
        self.stream.is_over()
    }

    fn process(&mut self) -> bool {
        // Under the connection's lock, as GOAWAY is: a stream is processed or disowned, never both.
        let _state = self.conn.h2.state.lock();
        if self.stream.is_over() {
            return false;
        }
        self.stream.inner.lock().processed = true;
        true
    }

    async fn gone(&mut self) -> Gone {
        loop {
            let changed = self.stream.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.stream.is_over() {
                return Gone::Over;
            }
            if self.stream.inner.lock().cancelled {
                return Gone::Cancelled;
            }
            changed.await;
        }
    }

    async fn answer(&mut self, request: &Request, answer: Outgoing<'_>) -> Result<(), Gone> {
        self.conn.answer(request, &self.stream, answer).await
    }
}
