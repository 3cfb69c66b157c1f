//! Whether a rule's moment, conditions and faults fit each other.

use super::{Fault, Moment, Rule};

impl Moment {
    /// The name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Preface => "preface",
            Self::Request => "request",
            Self::RequestBody(_) => "request_body",
            Self::Received => "received",
            Self::Processed => "processed",
            Self::AnswerHead(_) => "answer_head",
            Self::AnswerBody(_) => "answer_body",
            Self::AnswerPiece(_) => "answer_piece",
            Self::Answered => "answered",
            Self::Cancelled => "cancelled",
            Self::Idle(_) => "idle",
            Self::Age(_) => "age",
            Self::BytesIn(_) => "bytes_in",
            Self::BytesOut(_) => "bytes_out",
        }
    }

    /// Whether there is a request at this moment.
    pub(crate) fn has_request(self) -> bool {
        !matches!(
            self,
            Self::Connect | Self::Preface | Self::Idle(_) | Self::Age(_) | Self::BytesIn(_) | Self::BytesOut(_)
        )
    }

    /// Whether an answer can still be chosen.
    fn before_answer(self) -> bool {
        matches!(self, Self::Request | Self::RequestBody(_) | Self::Received | Self::Processed)
    }
}

impl Rule {
    /// The error says what does not fit.
    pub(crate) fn check(&self) -> Result<(), String> {
        let at = self.at.name();
        if !self.at.has_request() {
            let when = &self.when;
            let conditions = [
                ("stream", when.stream.is_some()),
                ("nth", when.nth.is_some()),
                ("request_id", when.request_id.is_some()),
                ("try", when.attempt.is_some()),
                ("method", when.method.is_some()),
                ("path", when.path.is_some()),
                ("header", !when.header.is_empty()),
                ("share", when.share.is_some()),
            ];
            if let Some((name, _)) = conditions.iter().find(|(_, given)| *given) {
                return Err(format!("the condition `{name}` needs a request, and at `{at}` there is none"));
            }
        }
        if self.at == Moment::Connect && self.when.version.is_some() {
            return Err("the condition `version` is not known yet at `connect`".to_owned());
        }
        if matches!(self.at, Moment::BytesIn(0) | Moment::BytesOut(0)) {
            return Err(format!("`{at}` counts from 1; for the very start there is `connect`"));
        }
        if self.faults.is_empty() {
            return Err("`do` is empty: a rule must do something".to_owned());
        }
        let chosen = self.faults.iter().position(|fault| matches!(fault, Fault::Answer(_) | Fault::Hold));
        if let Some(place) = chosen.filter(|place| place + 1 < self.faults.len()) {
            let name = self.faults[place].name();
            return Err(format!("nothing may follow the fault `{name}`; what comes after an answer is `answered`"));
        }
        self.faults.iter().try_for_each(|fault| self.check_fault(fault))
    }

    fn check_fault(&self, fault: &Fault) -> Result<(), String> {
        let (at, name) = (self.at.name(), fault.name());
        let fits = match fault {
            Fault::Answer(_) | Fault::Hold => {
                self.at.before_answer() || matches!((self.at, fault), (Moment::Cancelled, Fault::Answer(_)))
            }
            Fault::Refuse | Fault::ResetStream(_) | Fault::LateFrames => self.at.has_request(),
            Fault::Link(_) | Fault::CutTls(_) => self.at == Moment::Connect,
            Fault::Goaway(_) | Fault::Settings(_) | Fault::Ping | Fault::Frame(_) | Fault::ProtocolError(_) => {
                !matches!(self.at, Moment::Connect | Moment::BytesOut(_))
            }
            Fault::Withhold(_) => !matches!(self.at, Moment::BytesOut(_)),
            _ => true,
        };
        if fits { Ok(()) } else { Err(format!("the fault `{name}` cannot happen at `{at}`")) }
    }
}
