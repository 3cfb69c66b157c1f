//! Answers that go out.

use std::sync::Arc;
use std::time::Duration;

use super::read::RequestSide;
use crate::answering::Outgoing;
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::exchange::Gone;
use crate::log::Happening;
use crate::out::Ending;
use crate::script::{Framing, Moment};

impl RequestSide<'_> {
    pub(super) async fn write(&mut self, request: &Request, answer: Outgoing<'_>) -> Result<(), Gone> {
        let Outgoing { status, fields, trailers, framing, mut body, style } = answer;
        let conn = self.conn.clone();
        let engine = conn.engine.clone();
        let bodiless = request.head.method == "HEAD" || matches!(status, 204 | 304);
        let mut head = Vec::with_capacity(256);
        for interim in &style.interim {
            head.extend(format!("HTTP/1.1 {interim} {}\r\n\r\n", reason(*interim)).bytes());
        }
        head.extend(format!("HTTP/1.1 {status} {}\r\n", reason(status)).bytes());
        for field in &fields {
            head.extend_from_slice(&field.name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(&field.value);
            head.extend_from_slice(b"\r\n");
        }
        let framing = if bodiless { Framing::Length } else { framing };
        if framing == Framing::Chunked {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        if framing == Framing::Close || !self.keeps {
            self.keeps = false;
            head.extend_from_slice(b"connection: close\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let mut at = 0;
        for mark in conn.marks(&engine.answer_head, Moment::AnswerHead, request) {
            let mark = usize::try_from(mark).unwrap_or(usize::MAX);
            if (at..head.len()).contains(&mark) {
                conn.out.put(|out| out.extend_from_slice(&head[at..mark]));
                at = mark;
                moment(&conn, Moment::AnswerHead(mark as u64), request).await?;
            }
        }
        conn.out.put(|out| out.extend_from_slice(&head[at..]));
        conn.log.a_try(conn.number, request.stream, |a_try| a_try.status = Some(status));
        moment(&conn, Moment::AnswerBody(0), request).await?;
        let marks = conn.marks(&engine.answer_body, Moment::AnswerBody, request);
        let mut marks = marks.into_iter().filter(|mark| *mark > 0).peekable();
        let (mut written, mut pieces) = (0_u64, 0_u64);
        loop {
            if let Err(error) = body.ready().await {
                conn.log.happened(conn.number, request.stream, Happening::Upstream(error.to_string()));
                // A body cut short must not look whole.
                conn.out.end(Ending::CloseWithoutNotify);
                return Err(Gone::Over);
            }
            if body.is_at_end() {
                break;
            }
            if !conn.out.room().await {
                return Err(Gone::Over);
            }
            let most = [marks.peek().map(|mark| mark - written), style.frame_size.map(|size| size as u64)];
            let most = most.into_iter().flatten().fold(body.left(), u64::min).max(1);
            let piece = body.take(usize::try_from(most).unwrap_or(usize::MAX));
            written += piece.len() as u64;
            pieces += 1;
            if framing == Framing::Chunked {
                let bad = if style.bad_chunk == Some(pieces) { "zz" } else { "" };
                conn.out.put(|out| {
                    out.extend(format!("{bad}{:x}\r\n", piece.len()).bytes());
                    out.extend_from_slice(&piece);
                    out.extend_from_slice(b"\r\n");
                });
            } else {
                conn.out.put(|out| out.extend_from_slice(&piece));
            }
            while let Some(mark) = marks.next_if(|mark| *mark <= written) {
                moment(&conn, Moment::AnswerBody(mark), request).await?;
            }
            if engine.answer_piece.contains(&pieces) {
                moment(&conn, Moment::AnswerPiece(pieces), request).await?;
            }
            if style.pause_ms > 0 && !body.is_at_end() {
                tokio::time::sleep(Duration::from_millis(style.pause_ms)).await;
            }
        }
        conn.out.put(|out| {
            if framing == Framing::Chunked {
                out.extend_from_slice(b"0\r\n");
                for field in &trailers {
                    out.extend(format!("{field}\r\n").bytes());
                }
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(style.surplus.as_bytes());
        });
        Ok(())
    }
}

async fn moment(conn: &Arc<Conn>, at: Moment, request: &Request) -> Result<(), Gone> {
    match conn.happen(at, Some(request)).await {
        Flow::On if !conn.out.is_ending() => Ok(()),
        _ => Err(Gone::Over),
    }
}

/// The reason phrase, for those who read along.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}
