//! The life of a connection, from accept to close.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::act::ending;
use super::{Conn, Flow};
use crate::inbound::{Inbound, Reader};
use crate::out::{Ending, Step};
use crate::script::{Fault, Moment, Protocol, Version};
use crate::{h1, h2};

/// How long a connection that was closed in order goes on reading, so that the client reads what it was sent before
/// the system answers its bytes with a reset.
const LINGER: Duration = Duration::from_secs(2);

/// How long a connection that was closed with unread data stays so.
const UNREAD: Duration = Duration::from_millis(200);

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// What TLS agreed on; `None` without TLS.
pub(crate) type Agreed = Option<Version>;

/// Serves a connection after its [`Moment::Connect`].
pub(crate) async fn run(conn: Arc<Conn>, reader: Reader, writer: Writer, agreed: Agreed) {
    // However this ends, also when the server is dropped: nothing of the connection goes on.
    let _tasks = EndsTasks(conn.clone());
    let mut inbound = Inbound::new(reader, conn.clone());
    let how = {
        let reading = async {
            let _ = serve(&conn, &mut inbound, agreed).await;
            if conn.out.is_ending() {
                inbound.drain().await;
            }
        };
        let writing = write(&conn, writer);
        tokio::pin!(reading, writing);
        tokio::select! {
            how = &mut writing => {
                if how == Ending::Close.name() || how == Ending::CloseWithoutNotify.name() {
                    let _ = tokio::time::timeout(LINGER, reading).await;
                }
                how
            }
            () = &mut reading => {
                let by_us = conn.out.is_ending();
                conn.out.end(Ending::Close);
                conn.h2.end_tasks();
                let how = tokio::time::timeout(LINGER, &mut writing).await.unwrap_or("the client stopped reading");
                if by_us { how } else { "closed by the client" }
            }
            () = timers(&conn) => "timers never end",
        }
    };
    if how == Ending::CloseUnread.name() {
        tokio::time::sleep(UNREAD).await;
    }
    let (bytes_in, bytes_out) = (conn.bytes_in.load(Ordering::Relaxed), conn.bytes_out.load(Ordering::Relaxed));
    conn.log.ended(conn.number, how, bytes_in, bytes_out);
}

struct EndsTasks(Arc<Conn>);

impl Drop for EndsTasks {
    fn drop(&mut self) {
        self.0.h2.end_tasks();
        self.0.socket.lock().take();
    }
}

async fn serve(conn: &Arc<Conn>, inbound: &mut Inbound, agreed: Agreed) -> io::Result<()> {
    let version = match (conn.engine.script.protocol, agreed) {
        (Protocol::Http1, _) => Version::Http1,
        (Protocol::Http2, _) => Version::Http2,
        (Protocol::Auto, Some(version)) => version,
        (Protocol::Auto, None) => {
            // No method begins with "PRI" but the preface's own.
            inbound.have(3).await?;
            if inbound.buffer.starts_with(b"PRI") { Version::Http2 } else { Version::Http1 }
        }
    };
    conn.set_version(version);
    match version {
        Version::Http2 => h2::serve(conn, inbound).await,
        Version::Http1 => h1::serve(conn, inbound).await,
    }
}

/// Writes what is queued until the connection ends. Returns how it ended.
async fn write(conn: &Arc<Conn>, mut writer: Writer) -> &'static str {
    let mut passed = 0;
    loop {
        let end = match conn.out.next().await {
            Step::End(end) => end,
            Step::Write(bytes) => match at_most_until_reset(conn, &mut writer, &bytes, &mut passed).await {
                Ok(None) => continue,
                Ok(Some(end)) => end,
                Err(_) if conn.out.is_resetting() => Ending::Reset,
                Err(_) => {
                    conn.out.end(Ending::Close);
                    return "the client stopped reading";
                }
            },
        };
        conn.out.end(end);
        finish(conn, &mut writer, end).await;
        return end.name();
    }
}

/// Writes all of it, or, once the connection is to be reset, what the client still takes.
async fn at_most_until_reset(
    conn: &Arc<Conn>,
    writer: &mut Writer,
    bytes: &[u8],
    passed: &mut usize,
) -> io::Result<Option<Ending>> {
    let progress = || conn.bytes_out.load(Ordering::Relaxed);
    tokio::select! {
        biased;
        written = write_bytes(conn, writer, bytes, passed) => written,
        () = conn.out.reset_without(progress) => Ok(Some(Ending::Reset)),
    }
}

/// Stops at each `bytes_out` of the script, exactly.
async fn write_bytes(
    conn: &Arc<Conn>,
    writer: &mut Writer,
    mut bytes: &[u8],
    passed: &mut usize,
) -> io::Result<Option<Ending>> {
    let engine = conn.engine.clone();
    while !bytes.is_empty() {
        let before = conn.bytes_out.load(Ordering::Relaxed);
        let next = engine.bytes_out.get(*passed).copied();
        let room = next.map_or(bytes.len(), |next| usize::try_from(next - before).unwrap_or(usize::MAX));
        let written = match writer.write(&bytes[..room.min(bytes.len())]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => written,
        };
        writer.flush().await?;
        bytes = &bytes[written..];
        let total = before + written as u64;
        conn.bytes_out.store(total, Ordering::Relaxed);
        if next == Some(total) {
            *passed += 1;
            if let Some(end) = at_bytes_out(conn, writer, total).await? {
                return Ok(Some(end));
            }
        }
    }
    Ok(None)
}

/// The faults after so many bytes. They happen here and not through the queue, since the bytes behind them must wait.
async fn at_bytes_out(conn: &Arc<Conn>, writer: &mut Writer, total: u64) -> io::Result<Option<Ending>> {
    let engine = conn.engine.clone();
    for index in engine.at(Moment::BytesOut(total)) {
        let occasion = crate::engine::Occasion { connection: conn.number, version: conn.version(), request: None };
        if !engine.holds(*index, &occasion) {
            continue;
        }
        for fault in &engine.script.rules[*index].faults {
            conn.log_fault(*index, fault, None);
            match fault {
                Fault::Wait(ms) | Fault::Stall(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Fault::Silence => {
                    conn.out.silence();
                    std::future::pending::<()>().await;
                }
                Fault::Send(bytes) => {
                    writer.write_all(&bytes.0).await?;
                    writer.flush().await?;
                }
                fault => match ending(fault) {
                    Some(end) => return Ok(Some(end)),
                    None => drop(conn.act(fault, None)),
                },
            }
        }
    }
    Ok(None)
}

async fn finish(conn: &Arc<Conn>, writer: &mut Writer, end: Ending) {
    let socket = conn.socket.lock().clone();
    match (end, socket) {
        (Ending::Close | Ending::CloseUnread, _) => drop(writer.shutdown().await),
        (Ending::CloseWithoutNotify, Some(socket)) => drop(SockRef::from(&*socket).shutdown(std::net::Shutdown::Write)),
        (Ending::Reset, Some(socket)) => drop(SockRef::from(&*socket).set_linger(Some(Duration::ZERO))),
        (_, None) => {}
    }
}

/// The moments that come with time. Never ends.
async fn timers(conn: &Arc<Conn>) {
    let ages = async {
        let start = Instant::now();
        for ms in &conn.engine.age {
            tokio::time::sleep_until(start + Duration::from_millis(*ms)).await;
            drop::<Flow>(conn.happen(Moment::Age(*ms), None).await);
        }
    };
    let idles = async {
        let Some(first) = conn.engine.idle.first() else { return };
        loop {
            // One round for each time the connection falls idle.
            let since = idle(conn).await;
            tokio::time::sleep_until(since + Duration::from_millis(*first)).await;
            for ms in &conn.engine.idle {
                tokio::time::sleep_until(since + Duration::from_millis(*ms)).await;
                if conn.idle_since() != Some(since) {
                    break;
                }
                drop::<Flow>(conn.happen(Moment::Idle(*ms), None).await);
            }
            busy_since(conn, since).await;
        }
    };
    tokio::join!(ages, idles);
    std::future::pending().await
}

/// Waits until no request is open; since when.
async fn idle(conn: &Arc<Conn>) -> Instant {
    loop {
        let changed = conn.busy_changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if let Some(since) = conn.idle_since() {
            return since;
        }
        changed.await;
    }
}

/// Waits until the time in which no request is open since then is over.
async fn busy_since(conn: &Arc<Conn>, since: Instant) {
    loop {
        let changed = conn.busy_changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if conn.idle_since() != Some(since) {
            return;
        }
        changed.await;
    }
}
