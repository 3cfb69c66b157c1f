//! The faults that are made of frames.

use std::sync::Arc;

use super::frame::{self, MAX_31, flag, kind};
use super::state::Stream;
use crate::conn::{Conn, Flow};
use crate::engine::Request;
use crate::out::Ending;
use crate::script::{ErrorCode, Fault, FrameStream, Goaway, LastId, ProtocolError, RawFrame, Then};

impl Conn {
    pub(crate) fn act_h2(self: &Arc<Self>, fault: &Fault, request: Option<&Request>) -> Flow {
        let stream = request.map_or(0, |request| request.stream);
        match fault {
            Fault::Refuse => return self.reset_here(stream, ErrorCode::REFUSED_STREAM),
            Fault::ResetStream(code) => return self.reset_here(stream, *code),
            Fault::LateFrames => self.late_frames(stream),
            Fault::Goaway(goaway) => return self.goaway(goaway, stream),
            Fault::Settings(settings) => self.send_settings(settings),
            Fault::Ping => {
                let mut state = self.h2.state.lock();
                let after_goaway = state.goaway_sent;
                state.pings.push_back(after_goaway);
                self.out.put(|out| frame::put(out, kind::PING, 0, 0, b"oncebox!"));
                drop(state);
                self.log_sent(kind::PING, 0, 0);
            }
            Fault::Frame(raw) => self.raw_frame(raw, stream),
            Fault::ProtocolError(error) => {
                self.out.put(|out| protocol_error(out, *error, stream));
                if *error == ProtocolError::FrameTooLarge {
                    return Flow::Over;
                }
            }
            _ => {}
        }
        Flow::On
    }

    fn reset_here(&self, stream: u32, code: ErrorCode) -> Flow {
        self.reset_stream(stream, code);
        Flow::Over
    }

    fn goaway(&self, goaway: &Goaway, stream: u32) -> Flow {
        let mut state = self.h2.state.lock();
        let last = match goaway.last {
            LastId::Exact => state.highest_accepted,
            LastId::Previous if stream != 0 && stream == state.highest_accepted => state.accepted_before,
            LastId::Previous if stream != 0 => stream.saturating_sub(2),
            LastId::Previous => state.highest_accepted,
            LastId::Max => MAX_31,
            LastId::Id(id) => id,
        };
        self.out.put(|out| out.extend(frame::goaway(last, goaway.code, goaway.debug.as_bytes())));
        state.goaway_sent = true;
        let mut disowned: Vec<Arc<Stream>> = Vec::new();
        if !goaway.lie {
            let lowest = state.goaway_last.map_or(last, |before| before.min(last));
            state.goaway_last = Some(lowest);
            for stream in state.streams.values().filter(|stream| stream.id > lowest) {
                // What was processed is answered all the same: it is too late to take it back.
                if !stream.inner.lock().processed {
                    stream.end();
                    disowned.push(stream.clone());
                }
            }
            for stream in &disowned {
                if state.closes(stream) {
                    self.log.closed(self.number);
                }
            }
        }
        let then = goaway.then.unwrap_or(if last == MAX_31 { Then::Stay } else { Then::CloseWhenDone });
        match then {
            Then::Stay => {}
            Then::CloseWhenDone => state.when_done = Some(Ending::Close),
            Then::ResetWhenDone => state.when_done = Some(Ending::Reset),
            Then::Close => self.out.end(Ending::Close),
            Then::Reset => self.out.end(Ending::Reset),
        }
        if let Some(ending) = state.due() {
            self.out.end(ending);
        }
        drop(state);
        self.log_sent(kind::GOAWAY, 0, last);
        self.log.connection(self.number, |record| record.goaways.push((last, goaway.code)));
        for stream in &disowned {
            self.log.a_try(self.number, stream.id, |a_try| a_try.disowned = true);
        }
        let over = disowned.iter().any(|one| one.id == stream) || matches!(then, Then::Close | Then::Reset);
        if over { Flow::Over } else { Flow::On }
    }

    fn late_frames(&self, stream: u32) {
        self.out.put(|out| {
            out.extend(frame::window_update(stream, 1));
            frame::put(out, kind::HEADERS, flag::END_HEADERS, stream, &[0x88]);
            frame::put(out, kind::DATA, flag::END_STREAM, stream, b"late");
            out.extend(frame::rst_stream(stream, ErrorCode::CANCEL));
        });
    }

    fn raw_frame(&self, raw: &RawFrame, stream: u32) {
        let stream = match raw.stream {
            FrameStream::This => stream,
            FrameStream::Id(id) => id,
        };
        let payload = &raw.payload.0;
        let length = raw.length.map_or(payload.len(), |length| length as usize);
        self.out.put(|out| {
            frame::put_head(out, length, raw.kind, raw.flags, stream);
            out.extend_from_slice(payload);
        });
    }
}

fn protocol_error(out: &mut Vec<u8>, error: ProtocolError, stream: u32) {
    // A client opens odd streams from 1: this one is never open.
    const IDLE: u32 = MAX_31;
    match error {
        ProtocolError::DataOnIdleStream => frame::put(out, kind::DATA, 0, IDLE, b"x"),
        ProtocolError::DataOnStreamZero => frame::put(out, kind::DATA, 0, 0, b"x"),
        ProtocolError::ResetOfIdleStream => out.extend(frame::rst_stream(IDLE, ErrorCode::CANCEL)),
        ProtocolError::FrameTooLarge => frame::put_head(out, 0xff_ffff, kind::DATA, 0, stream),
        ProtocolError::PingOfWrongLength => frame::put(out, kind::PING, 0, 0, &[0; 7]),
        ProtocolError::WindowUpdateOfZero => out.extend(frame::window_update(0, 0)),
        ProtocolError::WindowOverflow => {
            out.extend(frame::window_update(0, MAX_31));
            out.extend(frame::window_update(0, MAX_31));
        }
        ProtocolError::BadHpack => {
            frame::put(out, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0xff, 0xff, 0x7f]);
        }
        ProtocolError::LoneContinuation => frame::put(out, kind::CONTINUATION, flag::END_HEADERS, stream, &[0x88]),
        ProtocolError::InterruptedHeaders => {
            frame::put(out, kind::HEADERS, 0, stream, &[0x88]);
            frame::put(out, kind::PING, 0, 0, &[0; 8]);
        }
        ProtocolError::PushPromise => {
            // The promised stream 2, and the request GET http://a/.
            let payload = [0, 0, 0, 2, 0x82, 0x86, 0x84, 0x01, 0x01, b'a'];
            frame::put(out, kind::PUSH_PROMISE, flag::END_HEADERS, stream, &payload);
        }
        ProtocolError::BadSetting => out.extend(frame::settings(&[(frame::setting::MAX_FRAME_SIZE, 1)])),
        ProtocolError::SettingsAckWithPayload => frame::put(out, kind::SETTINGS, flag::ACK, 0, &[0; 6]),
        ProtocolError::UpperCaseHeader => {
            let block = [0x88, 0x00, 0x01, b'X', 0x01, b'y'];
            frame::put(out, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block);
        }
        ProtocolError::Http1Text => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
    }
}
