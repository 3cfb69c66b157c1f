//! Frames that go out.

use std::sync::Arc;
use std::time::Duration;

use super::frame::{self, flag, kind, setting};
use super::state::{Announced, Stream};
use crate::answering::{Outgoing, Source};
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::exchange::Gone;
use crate::head::Field;
use crate::hpack;
use crate::log::{Direction, Happening};
use crate::script::{Answer, ErrorCode, Moment, Settings, Withhold};

impl Conn {
    pub(super) fn send_settings(&self, settings: &Settings) {
        let named = [
            (setting::HEADER_TABLE_SIZE, settings.header_table_size),
            (setting::ENABLE_PUSH, settings.enable_push),
            (setting::MAX_CONCURRENT_STREAMS, settings.max_concurrent_streams),
            (setting::INITIAL_WINDOW_SIZE, settings.initial_window_size),
            (setting::MAX_FRAME_SIZE, settings.max_frame_size),
            (setting::MAX_HEADER_LIST_SIZE, settings.max_header_list_size),
        ];
        let mut values: Vec<(u16, u32)> = named.iter().filter_map(|(id, value)| Some((*id, (*value)?))).collect();
        values.extend(settings.other.iter().map(|(id, value)| (*id, *value)));
        let mut state = self.h2.state.lock();
        let (cap, table) = (settings.max_concurrent_streams, settings.header_table_size);
        state.unacknowledged.push_back(Announced { cap, table });
        if let Some(size) = table {
            state.decoder.offer(size as usize);
        }
        if let Some(size) = settings.max_frame_size {
            state.frame_size = state.frame_size.max(size as usize);
        }
        if let Some(size) = settings.initial_window_size {
            let more = (i64::from(size) - state.stream_window).max(0);
            state.streams.values().for_each(|stream| stream.inner.lock().receive_window += more);
            state.stream_window = i64::from(size);
        }
        self.out.put(|out| out.extend(frame::settings(&values)));
        drop(state);
        self.log_sent(kind::SETTINGS, 0, settings.max_concurrent_streams.unwrap_or(0));
    }

    pub(super) fn log_sent(&self, kind: u8, stream: u32, detail: u32) {
        let what = Happening::Frame { direction: Direction::Sent, kind, flags: 0, length: 0, detail };
        self.log.happened(self.number, stream, what);
    }

    /// A stream that is closed now counts no longer.
    pub(super) fn may_be_closed(&self, stream: &Stream) {
        if self.h2.state.lock().closes(stream) {
            self.log.closed(self.number);
        }
    }

    /// END_STREAM is sent now. Told before, since the client may open the next stream as soon as it has come.
    fn answered(&self, stream: &Stream) {
        stream.inner.lock().answered = true;
        self.may_be_closed(stream);
    }

    /// RST_STREAM, whatever the stream's state.
    pub(super) fn reset_stream(&self, stream: u32, code: ErrorCode) {
        let known = self.h2.state.lock().streams.get(&stream).cloned();
        // Before the client can know: it may open the next one at once.
        if let Some(known) = known {
            known.end();
            self.may_be_closed(&known);
        }
        self.out.put(|out| out.extend(frame::rst_stream(stream, code)));
        self.log.reset_sent(self.number, stream, code);
        self.log_sent(kind::RST_STREAM, stream, code.0);
    }

    /// Gives the client back what it used of our windows.
    pub(super) fn give_back(&self, stream: Option<&Stream>, bytes: usize) {
        if bytes == 0 || self.withholds(Withhold::WindowUpdates) {
            return;
        }
        let bytes = bytes as u32;
        let mut state = self.h2.state.lock();
        state.credit += bytes;
        let connection = (state.credit >= state.credit_at).then(|| std::mem::take(&mut state.credit));
        let half = u32::try_from(state.stream_window / 2).unwrap_or(0).max(1);
        drop(state);
        let of_stream = stream.and_then(|stream| {
            let mut inner = stream.inner.lock();
            inner.credit += bytes;
            let due = inner.credit >= half && !inner.complete;
            due.then(|| {
                inner.receive_window += i64::from(inner.credit);
                (stream.id, std::mem::take(&mut inner.credit))
            })
        });
        for (id, credit) in connection.map(|credit| (0, credit)).into_iter().chain(of_stream) {
            self.out.put(|out| out.extend(frame::window_update(id, credit)));
        }
    }

    /// Writes an answer, as far as the client and the script let it.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: &Request,
        stream: &Arc<Stream>,
        answer: Outgoing<'_>,
    ) -> Result<(), Gone> {
        let Outgoing { status, fields, trailers, style, mut body, .. } = answer;
        for status in &style.interim {
            let block = hpack::encode(&[Field::new(":status", status.to_string())]);
            self.out.put(|out| frame::headers(out, stream.id, &block, false, frame::DEFAULT_FRAME_SIZE));
        }
        let mut all = vec![Field::new(":status", status.to_string())];
        all.extend(fields);
        let block = hpack::encode(&all);
        let bodiless = body.is_at_end() && trailers.is_empty();
        self.look(stream, style)?;
        if bodiless {
            self.answered(stream);
        }
        self.out.put(|out| frame::headers(out, stream.id, &block, bodiless, frame::DEFAULT_FRAME_SIZE));
        self.log.a_try(self.number, stream.id, |a_try| a_try.status = Some(status));
        self.body_moment(Moment::AnswerBody(0), request, stream).await?;
        if bodiless {
            return Ok(());
        }
        let engine = self.engine.clone();
        let marks = self.marks(&engine.answer_body, Moment::AnswerBody, request);
        let mut marks = marks.into_iter().filter(|mark| *mark > 0).peekable();
        let (mut written, mut pieces, mut ended) = (0_u64, 0_u64, false);
        loop {
            self.body_ready(stream, &mut body).await?;
            if body.is_at_end() {
                break;
            }
            let next_empty = style.empty_data_every.map(|every| every - written % every.max(1));
            let most = [marks.peek().map(|mark| mark - written), next_empty, style.frame_size.map(|size| size as u64)];
            let most = most.into_iter().flatten().fold(body.left(), u64::min).max(1);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let padding = style.padding.map_or(0, |padding| usize::from(padding) + 1);
            let room = self.window(stream, style, most.saturating_add(padding)).await?;
            // A window too small for the padding gets none.
            let padding = style.padding.filter(|_| room > padding);
            let piece = body.take(room - padding.map_or(0, |padding| usize::from(padding) + 1));
            ended = body.is_at_end() && trailers.is_empty();
            if ended {
                self.answered(stream);
            }
            self.out.put(|out| put_data(out, stream.id, &piece, ended, padding));
            written += piece.len() as u64;
            pieces += 1;
            if style.empty_data_every.is_some_and(|every| written.is_multiple_of(every.max(1))) && !ended {
                self.out.put(|out| frame::put(out, kind::DATA, 0, stream.id, &[]));
            }
            while let Some(mark) = marks.next_if(|mark| *mark <= written) {
                self.body_moment(Moment::AnswerBody(mark), request, stream).await?;
            }
            if engine.answer_piece.contains(&pieces) {
                self.body_moment(Moment::AnswerPiece(pieces), request, stream).await?;
            }
            if style.pause_ms > 0 && !ended {
                tokio::time::sleep(Duration::from_millis(style.pause_ms)).await;
            }
        }
        if !ended {
            self.answered(stream);
        }
        if !trailers.is_empty() {
            let block = hpack::encode(&trailers);
            self.out.put(|out| frame::headers(out, stream.id, &block, true, frame::DEFAULT_FRAME_SIZE));
        } else if !ended {
            self.out.put(|out| frame::put(out, kind::DATA, flag::END_STREAM, stream.id, &[]));
        }
        Ok(())
    }

    /// Waits for more of the body. A body that breaks at its source breaks here too.
    async fn body_ready(&self, stream: &Stream, body: &mut Source) -> Result<(), Gone> {
        let changed = stream.changed.notified();
        tokio::pin!(changed);
        loop {
            changed.as_mut().enable();
            if stream.is_over() {
                return Err(Gone::Over);
            }
            if stream.inner.lock().cancelled && matches!(body, Source::Upstream { .. }) {
                return Err(Gone::Cancelled);
            }
            tokio::select! {
                ready = body.ready() => return ready.map_err(|error| {
                    self.log.happened(self.number, stream.id, Happening::Upstream(error.to_string()));
                    self.reset_stream(stream.id, ErrorCode::INTERNAL_ERROR);
                    Gone::Over
                }),
                () = changed.as_mut() => changed.set(stream.changed.notified()),
            }
        }
    }

    async fn body_moment(self: &Arc<Self>, at: Moment, request: &Request, stream: &Stream) -> Result<(), Gone> {
        match self.happen(at, Some(request)).await {
            Flow::On if !stream.is_over() => Ok(()),
            _ => Err(Gone::Over),
        }
    }

    /// Whether an answer may go on.
    fn look(&self, stream: &Stream, answer: &Answer) -> Result<(), Gone> {
        if stream.is_over() {
            return Err(Gone::Over);
        }
        if stream.inner.lock().cancelled && !answer.even_if_cancelled {
            return Err(Gone::Cancelled);
        }
        Ok(())
    }

    /// Waits until some DATA may be sent, and takes it from the windows: at most `most` bytes.
    async fn window(&self, stream: &Arc<Stream>, answer: &Answer, most: usize) -> Result<usize, Gone> {
        loop {
            let changed = stream.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.out.room().await {
                return Err(Gone::Over);
            }
            self.look(stream, answer)?;
            {
                let mut state = self.h2.state.lock();
                let mut inner = stream.inner.lock();
                let frame = state.client_frame_size.min(most) as i64;
                let free = answer.ignore_windows || inner.cancelled;
                let room = if free { frame } else { frame.min(state.send_window).min(inner.send_window) };
                if room > 0 {
                    state.send_window -= room;
                    inner.send_window -= room;
                    return Ok(room as usize);
                }
            }
            changed.await;
        }
    }
}

fn put_data(out: &mut Vec<u8>, stream: u32, data: &[u8], end: bool, padding: Option<u8>) {
    let end = if end { flag::END_STREAM } else { 0 };
    let Some(padding) = padding else { return frame::put(out, kind::DATA, end, stream, data) };
    let length = data.len() + 1 + usize::from(padding);
    frame::put_head(out, length, kind::DATA, end | flag::PADDED, stream);
    out.push(padding);
    out.extend_from_slice(data);
    out.resize(out.len() + usize::from(padding), 0);
}
