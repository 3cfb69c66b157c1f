//! Faults, as they are done.

use std::sync::Arc;
use std::time::Duration;

use super::{Conn, Flow};
use crate::engine::Request;
use crate::log::Happening;
use crate::out::Ending;
use crate::script::{Fault, Version};

impl Conn {
    /// Does what takes no time.
    pub(crate) fn act(self: &Arc<Self>, fault: &Fault, request: Option<&Request>) -> Flow {
        if needs_h2(fault) && self.version() != Some(Version::Http2) {
            let stream = request.map_or(0, |request| request.stream);
            self.log.happened(self.number, stream, Happening::NotApplicable { fault: fault.name() });
            return Flow::On;
        }
        match fault {
            Fault::Hold => return Flow::Hold,
            Fault::Answer(answer) => return Flow::Answer(answer.clone()),
            Fault::Refuse
            | Fault::ResetStream(_)
            | Fault::LateFrames
            | Fault::Goaway(_)
            | Fault::Settings(_)
            | Fault::Ping
            | Fault::Frame(_)
            | Fault::ProtocolError(_) => return self.act_h2(fault, request),
            Fault::Withhold(what) => what.iter().for_each(|what| self.withhold(*what)),
            Fault::Send(bytes) => self.out.put(|out| out.extend_from_slice(&bytes.0)),
            Fault::Stall(ms) => self.out.stall(Duration::from_millis(*ms)),
            Fault::Silence => self.out.silence(),
            Fault::RefuseConnects(ms) => self.gate.refuse_for(Duration::from_millis(*ms)),
            Fault::Link(link) => self.line.lock().link = Some(link.clone()),
            Fault::CutTls(bytes) => self.line.lock().cut_tls = Some(*bytes),
            Fault::Wait(_) => {}
            Fault::Close | Fault::CloseUnread | Fault::CloseWithoutNotify | Fault::Reset => {
                if let Some(ending) = ending(fault) {
                    self.out.end(ending);
                }
                return Flow::Over;
            }
        }
        Flow::On
    }
}

pub(crate) fn ending(fault: &Fault) -> Option<Ending> {
    match fault {
        Fault::Close => Some(Ending::Close),
        Fault::CloseUnread => Some(Ending::CloseUnread),
        Fault::CloseWithoutNotify => Some(Ending::CloseWithoutNotify),
        Fault::Reset => Some(Ending::Reset),
        _ => None,
    }
}

/// Whether a fault is made of HTTP/2 frames.
fn needs_h2(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Refuse
            | Fault::ResetStream(_)
            | Fault::LateFrames
            | Fault::Goaway(_)
            | Fault::Settings(_)
            | Fault::Ping
            | Fault::Frame(_)
            | Fault::ProtocolError(_)
    )
}
