//! Frames that come in.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::exchange::exchange;
use super::frame::{self, FrameHead, HEAD_LENGTH, MAX_31, PREFACE, flag, kind, setting};
use super::state::{MOST_STREAMS, Stream};
use crate::conn::Conn;
use crate::engine::Request;
use crate::head::Head;
use crate::inbound::Inbound;
use crate::log::{Direction, Happening};
use crate::out::Ending;
use crate::script::{ErrorCode, Moment, Version, Withhold};

/// The largest header block that is collected from HEADERS and CONTINUATION.
const MAX_BLOCK: usize = 256 * 1024;

/// What the client did wrong, and the code it is told.
struct Wrong(ErrorCode, String);

fn wrong<T>(code: ErrorCode, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong(code, what.into()))
}

/// Reads until the client closes, or breaks HTTP/2.
pub(crate) async fn serve(conn: &Arc<Conn>, inbound: &mut Inbound) -> io::Result<()> {
    let script = &conn.engine.script;
    if let Some(settings) = &script.settings {
        if settings.after_ms == 0 {
            conn.send_settings(settings);
        } else {
            let (later, settings) = (conn.clone(), settings.clone());
            let task = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(settings.after_ms)).await;
                later.send_settings(&settings);
            });
            conn.h2.task(0, task.abort_handle());
        }
    }
    if let Some(increment) = script.connection_window.checked_sub(frame::DEFAULT_WINDOW as u32).filter(|n| *n > 0)
        && script.settings.is_some()
        && !conn.withholds(Withhold::WindowUpdates)
    {
        conn.out.put(|out| out.extend(frame::window_update(0, increment)));
    }
    if !inbound.have(PREFACE.len()).await? {
        return Ok(());
    }
    if inbound.take(PREFACE.len())[..] != PREFACE[..] {
        return fail(conn, Wrong(ErrorCode::PROTOCOL_ERROR, "the preface is not HTTP/2's".to_owned()));
    }
    conn.happen(Moment::Preface, None).await;
    let mut block: Option<(FrameHead, BytesMut)> = None;
    while inbound.have(HEAD_LENGTH).await? {
        let mut bytes = [0; HEAD_LENGTH];
        bytes.copy_from_slice(&inbound.buffer[..HEAD_LENGTH]);
        let head = FrameHead::parse(&bytes);
        if head.length > conn.h2.state.lock().frame_size {
            return fail(conn, Wrong(ErrorCode::FRAME_SIZE_ERROR, format!("a frame of {} bytes", head.length)));
        }
        if !inbound.have(HEAD_LENGTH + head.length).await? {
            return Ok(());
        }
        let payload = inbound.take(HEAD_LENGTH + head.length).slice(HEAD_LENGTH..);
        let what = Happening::frame(Direction::Received, &head, detail(&head, &payload));
        conn.log.happened(conn.number, head.stream, what);
        if let Err(wrong) = on_frame(conn, head, payload, &mut block).await {
            return fail(conn, wrong);
        }
    }
    Ok(())
}

fn fail(conn: &Arc<Conn>, Wrong(code, what): Wrong) -> io::Result<()> {
    conn.log.violation(conn.number, 0, &what);
    let last = conn.h2.state.lock().highest_accepted;
    conn.out.put(|out| out.extend(frame::goaway(last, code, what.as_bytes())));
    conn.out.end(Ending::Close);
    Ok(())
}

/// The number in a frame that is worth remembering.
fn detail(head: &FrameHead, payload: &[u8]) -> u32 {
    let number = |bytes: Option<&[u8]>| {
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes: [u8; 4]| u32::from_be_bytes(bytes))
    };
    match head.kind {
        kind::RST_STREAM | kind::WINDOW_UPDATE | kind::GOAWAY => number(payload.get(..4)),
        _ => 0,
    }
}

async fn on_frame(
    conn: &Arc<Conn>,
    head: FrameHead,
    payload: Bytes,
    block: &mut Option<(FrameHead, BytesMut)>,
) -> Result<(), Wrong> {
    if block.is_some() != (head.kind == kind::CONTINUATION) {
        return wrong(ErrorCode::PROTOCOL_ERROR, "a header block is interrupted, or continued without a beginning");
    }
    match head.kind {
        kind::HEADERS => {
            let Some(range) = frame::unpadded(&head, &payload) else {
                return wrong(ErrorCode::PROTOCOL_ERROR, "padding longer than its frame");
            };
            if head.has(flag::END_HEADERS) {
                return on_headers(conn, head, &payload[range]).await;
            }
            *block = Some((head, BytesMut::from(&payload[range])));
        }
        kind::CONTINUATION => {
            let Some((first, mut begun)) = block.take() else { return Ok(()) };
            begun.extend_from_slice(&payload);
            if begun.len() > MAX_BLOCK || head.stream != first.stream {
                return wrong(ErrorCode::PROTOCOL_ERROR, "a header block that is too long, or of two streams");
            }
            if head.has(flag::END_HEADERS) {
                return on_headers(conn, first, &begun).await;
            }
            *block = Some((first, begun));
        }
        kind::DATA => return on_data(conn, head, payload),
        kind::RST_STREAM => on_reset(conn, head.stream, ErrorCode(detail(&head, &payload))).await,
        kind::SETTINGS => return on_settings(conn, head, &payload),
        kind::PING if head.has(flag::ACK) => {
            let mut state = conn.h2.state.lock();
            if state.pings.pop_front() == Some(true) {
                state.goaway_seen = true;
            }
        }
        kind::PING if !conn.withholds(Withhold::PingAcks) => {
            conn.out.put(|out| frame::put(out, kind::PING, flag::ACK, 0, &payload));
        }
        kind::WINDOW_UPDATE => return on_window_update(conn, head.stream, detail(&head, &payload) & MAX_31),
        kind::PUSH_PROMISE => return wrong(ErrorCode::PROTOCOL_ERROR, "a client cannot push"),
        _ => {}
    }
    Ok(())
}

async fn on_headers(conn: &Arc<Conn>, head: FrameHead, block: &[u8]) -> Result<(), Wrong> {
    let id = head.stream;
    let fields = match conn.h2.state.lock().decoder.decode(block) {
        Ok(fields) => fields,
        Err(error) => return wrong(ErrorCode::COMPRESSION_ERROR, error.to_string()),
    };
    let complete = head.has(flag::END_STREAM);
    let open = conn.h2.state.lock().streams.get(&id).cloned();
    if let Some(stream) = open {
        if !complete {
            return wrong(ErrorCode::PROTOCOL_ERROR, "trailers that do not end their stream");
        }
        stream.inner.lock().complete = true;
        conn.may_be_closed(&stream);
        stream.changed.notify_waiters();
        return Ok(());
    }
    let request = match Head::from_h2(fields) {
        Ok(request) => request,
        Err(what) => return wrong(ErrorCode::PROTOCOL_ERROR, what),
    };
    let closing = conn.out.is_ending();
    let (accepted, ignored, above_cap, after_goaway, seen, nth) = {
        let mut state = conn.h2.state.lock();
        if id.is_multiple_of(2) || id <= state.highest_seen {
            return wrong(ErrorCode::PROTOCOL_ERROR, format!("stream {id} is opened out of order"));
        }
        state.highest_seen = id;
        let ignored = closing || state.is_ignored(id);
        let above_cap = state.cap.is_some_and(|cap| state.open() >= cap as usize);
        let mut accepted = None;
        if !ignored && !above_cap && state.streams.len() < MOST_STREAMS {
            state.requests += 1;
            state.accepted_before = std::mem::replace(&mut state.highest_accepted, id);
            let stream = Arc::new(Stream::new(id, complete, state.client_window, state.receive_window()));
            state.add(stream.clone());
            accepted = Some(stream);
        }
        (accepted, ignored, above_cap, closing || state.goaway_sent, state.goaway_seen, state.requests)
    };
    let id_header = &conn.engine.script.request_id_header;
    let request_id = request.text(id_header).map(Into::into);
    let mut request = Request { head: request, stream: id, nth, id: request_id, attempt: 1 };
    conn.log.head(Version::Http2, conn.number, &mut request, accepted.is_some(), after_goaway, seen);
    if above_cap && !ignored {
        conn.log.violation(conn.number, id, "more streams are open than SETTINGS_MAX_CONCURRENT_STREAMS allows");
    }
    match accepted {
        Some(stream) => {
            conn.request_begins();
            start(conn, request, stream).await;
        }
        None if !ignored => conn.reset_stream(id, ErrorCode::REFUSED_STREAM),
        None => {}
    }
    Ok(())
}

/// Begins to answer a request: what is due at once is done before the next frame is looked at, so that what a script
/// says of the twentieth stream happens before the twenty-first.
async fn start(conn: &Arc<Conn>, request: Request, stream: Arc<Stream>) {
    let id = stream.id;
    let owner = conn.clone();
    let mut task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(exchange(owner, request, stream));
    let begun = std::future::poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx))).await;
    if begun.is_pending() {
        let task = tokio::spawn(task);
        conn.h2.task(id, task.abort_handle());
    }
}

fn on_data(conn: &Arc<Conn>, head: FrameHead, payload: Bytes) -> Result<(), Wrong> {
    let Some(range) = frame::unpadded(&head, &payload) else {
        return wrong(ErrorCode::PROTOCOL_ERROR, "padding longer than its frame");
    };
    let data = payload.slice(range);
    let padding = payload.len() - data.len();
    let stream = {
        let state = conn.h2.state.lock();
        if head.stream == 0 || head.stream > state.highest_seen {
            return wrong(ErrorCode::PROTOCOL_ERROR, format!("DATA on stream {}, which is not open", head.stream));
        }
        state.streams.get(&head.stream).cloned()
    };
    let Some(stream) = stream.filter(|stream| !stream.is_over()) else {
        // Of a stream that was reset or ignored: forgotten, but the connection's window counts it.
        conn.give_back(None, payload.len());
        return Ok(());
    };
    let mut inner = stream.inner.lock();
    inner.receive_window -= payload.len() as i64;
    if inner.receive_window < 0 {
        return wrong(ErrorCode::FLOW_CONTROL_ERROR, format!("DATA beyond the window of stream {}", head.stream));
    }
    if !data.is_empty() {
        inner.chunks.push_back(data);
    }
    inner.complete |= head.has(flag::END_STREAM);
    drop(inner);
    conn.may_be_closed(&stream);
    // Padding is used at once; data when the exchange takes it.
    conn.give_back(Some(&stream), padding);
    stream.changed.notify_waiters();
    Ok(())
}

async fn on_reset(conn: &Arc<Conn>, id: u32, code: ErrorCode) {
    conn.log.a_try(conn.number, id, |a_try| a_try.reset_received = Some(code));
    let stream = conn.h2.state.lock().streams.get(&id).cloned();
    if let Some(stream) = stream {
        stream.inner.lock().cancelled = true;
        conn.may_be_closed(&stream);
        stream.changed.notify_waiters();
    }
}

fn on_settings(conn: &Arc<Conn>, head: FrameHead, payload: &[u8]) -> Result<(), Wrong> {
    let mut state = conn.h2.state.lock();
    if head.has(flag::ACK) {
        state.acknowledged();
        return Ok(());
    }
    for row in payload.chunks_exact(6) {
        let id = u16::from_be_bytes([row[0], row[1]]);
        let value = u32::from_be_bytes([row[2], row[3], row[4], row[5]]);
        match id {
            setting::INITIAL_WINDOW_SIZE if value > MAX_31 => {
                return wrong(ErrorCode::FLOW_CONTROL_ERROR, format!("an initial window of {value}"));
            }
            setting::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - state.client_window;
                state.client_window = i64::from(value);
                for stream in state.streams.values() {
                    stream.inner.lock().send_window += change;
                    stream.changed.notify_waiters();
                }
            }
            setting::MAX_FRAME_SIZE => state.client_frame_size = value as usize,
            _ => {}
        }
    }
    drop(state);
    if !conn.withholds(Withhold::SettingsAcks) {
        conn.out.put(|out| frame::put(out, kind::SETTINGS, flag::ACK, 0, &[]));
    }
    Ok(())
}

fn on_window_update(conn: &Arc<Conn>, id: u32, increment: u32) -> Result<(), Wrong> {
    if increment == 0 {
        return wrong(ErrorCode::PROTOCOL_ERROR, "a window grows by 0");
    }
    let mut state = conn.h2.state.lock();
    if id == 0 {
        state.send_window += i64::from(increment);
        if state.send_window > i64::from(MAX_31) {
            return wrong(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window is above 2^31-1");
        }
        state.streams.values().for_each(|stream| stream.changed.notify_waiters());
    } else if let Some(stream) = state.streams.get(&id) {
        stream.inner.lock().send_window += i64::from(increment);
        stream.changed.notify_waiters();
    }
    Ok(())
}
