//! Requests that come in.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::parse::{self, Decoder, RawHead, Step};
use super::tunnel;
use crate::answering::Outgoing;
use crate::conn::Conn;
use crate::engine::Request;
use crate::exchange::{self, Gone, Side};
use crate::head::Head;
use crate::inbound::Inbound;
use crate::out::Ending;
use crate::script::{Moment, Version};
use crate::upstream::Flight;

/// What may come in beyond the request that is being answered.
const MOST_AHEAD: usize = 64 * 1024;

/// One request after the other, until the connection ends.
pub(crate) async fn serve(conn: &Arc<Conn>, inbound: &mut Inbound) -> io::Result<()> {
    let mut nth = 0;
    loop {
        let raw = loop {
            match parse::head(&mut inbound.buffer) {
                Ok(Some(raw)) => break raw,
                Ok(None) if !inbound.fill().await? => return Ok(()),
                Ok(None) => {}
                Err(what) => return fail(conn, &what),
            }
        };
        nth += 1;
        let (head, body) = match request(&raw) {
            Ok(request) => request,
            Err(what) => return fail(conn, &what),
        };
        let keeps = if raw.first.ends_with("1.0") {
            raw.lists("connection", "keep-alive")
        } else {
            !raw.lists("connection", "close")
        };
        let id = head.text(&conn.engine.script.request_id_header).map(Into::into);
        let mut request = Request { head, stream: nth, nth: u64::from(nth), id, attempt: 1 };
        let closing = conn.out.is_ending();
        conn.log.head(Version::Http1, conn.number, &mut request, !closing, closing, false);
        if closing {
            return Ok(());
        }
        conn.request_begins();
        let expects = raw.lists("expect", "100-continue");
        let mut side = RequestSide { conn, inbound, body, expects, keeps };
        let done = exchange::exchange(conn, &request, &mut side).await;
        let keeps = side.keeps;
        if done.is_ok() {
            conn.happen(Moment::Answered, Some(&request)).await;
            // The rest of a body that was answered early is not the next request.
            while let Ok(Some(_)) = side.next_chunk().await {}
        }
        conn.log.closed(conn.number);
        conn.log.over(conn.number, nth, done.ok());
        conn.request_is_over();
        if done.is_err() || !keeps {
            conn.out.end(Ending::Close);
            return Ok(());
        }
    }
}

fn fail(conn: &Arc<Conn>, what: &str) -> io::Result<()> {
    conn.log.violation(conn.number, 0, what);
    conn.out.put(|out| {
        out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    conn.out.end(Ending::Close);
    Ok(())
}

fn request(raw: &RawHead) -> Result<(Head, Decoder), String> {
    let mut words = raw.first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("the request line {:?}", raw.first));
    };
    let host = raw.value("host").map(|host| String::from_utf8_lossy(host).into_owned());
    // An absolute target, as sent to proxies, is a path to us.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let head = Head {
        method: method.to_owned(),
        path: path.to_owned(),
        authority: host.unwrap_or_default(),
        fields: raw.fields.clone(),
    };
    Ok((head, raw.framing(Decoder::Done)?))
}

pub(super) struct RequestSide<'a> {
    pub(super) conn: &'a Arc<Conn>,
    pub(super) inbound: &'a mut Inbound,
    body: Decoder,
    /// The client waits for `100 Continue`.
    expects: bool,
    /// Whether another request may follow.
    pub(super) keeps: bool,
}

impl Side for RequestSide<'_> {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Gone> {
        loop {
            match self.body.next(&mut self.inbound.buffer) {
                Ok(Step::Piece(piece)) => return Ok(Some(piece)),
                Ok(Step::End) => return Ok(None),
                Ok(Step::More) => {}
                Err(what) => {
                    let _ = fail(self.conn, &what);
                    return Err(Gone::Over);
                }
            }
            if std::mem::take(&mut self.expects) {
                self.conn.out.put(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
            }
            if !matches!(self.inbound.fill().await, Ok(true)) {
                return Err(Gone::Cancelled);
            }
        }
    }

    fn has_no_body(&self) -> bool {
        self.body == Decoder::Done
    }

    fn is_over(&self) -> bool {
        self.conn.out.is_ending()
    }

    fn process(&mut self) -> bool {
        !self.is_over()
    }

    async fn gone(&mut self) -> Gone {
        while self.inbound.buffer.len() < MOST_AHEAD {
            if self.is_over() {
                return Gone::Over;
            }
            if !matches!(self.inbound.fill().await, Ok(true)) {
                return Gone::Cancelled;
            }
        }
        std::future::pending().await
    }

    fn wish(&self, request: &Request) -> Option<String> {
        tunnel::wish(&request.head)
    }

    async fn tunnel(&mut self, request: &Request, flight: Flight) -> Result<(), Gone> {
        self.carry(request, flight).await
    }

    async fn answer(&mut self, request: &Request, answer: Outgoing<'_>) -> Result<(), Gone> {
        self.write(request, answer).await
    }
}
