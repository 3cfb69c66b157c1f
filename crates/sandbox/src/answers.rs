//! What a sandbox's answers say that their status does not.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::response::Parts;
use oncebox_protocol::answers::{Head, Said};
use oncebox_transport::{AnswerReader, Reading};

/// Reads the answers to requests to a sandbox, never those of the control plane: see [`Head`].
#[derive(Debug)]
pub(crate) struct SandboxAnswers;

impl AnswerReader for SandboxAnswers {
    fn looks_at(&self, parts: &Parts) -> bool {
        head(parts).says_more()
    }

    fn read(&self, parts: &Parts, begun: &[u8], ended: bool) -> Reading {
        match head(parts).read(begun, ended) {
            Said::More => Reading::More,
            Said::Nothing => Reading::Nothing,
            Said::Edge(edge) => Reading::Edge(edge),
            Said::Like(status) => Reading::Like(status),
        }
    }
}

fn head(parts: &Parts) -> Head<'_> {
    Head {
        status: parts.status.as_u16(),
        content_type: parts.headers.get(CONTENT_TYPE).map_or(b"", |kind| kind.as_bytes()),
        is_encoded: parts.headers.contains_key(CONTENT_ENCODING),
    }
}
