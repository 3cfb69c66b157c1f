//! What the proxy in front of sandboxes answers in place of a sandbox.
//!
//! A 502 from it is not the 502 of a server that broke: it says that the request went nowhere. Only answers to requests to
//! a sandbox may be read this way, those to envd, to the code interpreter and to other ports, never those of the control plane.
//!
//! ```
//! use oncebox_protocol::{ErrorBody, edge};
//!
//! let body = ErrorBody::parse(br#"{"sandboxId": "i1", "message": "The sandbox was not found", "code": 502}"#);
//! let answer = edge::classify(502, body.message.as_deref().unwrap_or_default());
//! assert_eq!(answer.map(|answer| answer.name), Some("not_running"));
//! ```

use oncebox_policy::Edge;

#[path = "generated/edge.rs"]
mod answers;

pub use answers::ANSWERS;

/// One answer of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// Its name, such as `port_closed`.
    pub name: &'static str,
    /// Its status.
    pub status: u16,
    /// What its message contains.
    pub message: &'static str,
    /// What it is to the policy.
    pub edge: Edge,
    /// What it means, for people.
    pub meaning: &'static str,
}

/// Recognises an answer of the proxy by its status and the message of its body, which [`ErrorBody::parse`] reads from
/// JSON and other bodies alike.
///
/// [`ErrorBody::parse`]: crate::ErrorBody::parse
pub fn classify(status: u16, message: &str) -> Option<&'static Answer> {
    ANSWERS.iter().find(|answer| answer.status == status && message.contains(answer.message))
}

/// Recognises an answer of the proxy by the text of an RPC's error, where its status was lost.
pub fn classify_rpc(message: &str) -> Option<&'static Answer> {
    ANSWERS.iter().find(|answer| message.contains(answer.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_message_must_both_fit() {
        let cases = [
            (502, "The sandbox was not found", Some("not_running")),
            (502, "The sandbox is running but port is not open", Some("port_closed")),
            (409, "The sandbox is still transitioning", Some("transitioning")),
            (404, "The sandbox was not found", None),
            (502, "still transitioning", None),
            (502, "bad gateway", None),
            (502, "", None),
        ];
        for (status, message, name) in cases {
            assert_eq!(classify(status, message).map(|answer| answer.name), name, "{status} {message}");
        }
    }

    #[test]
    fn what_was_not_delivered_is_told_from_what_is_gone() {
        for answer in &ANSWERS {
            let gone = answer.name == "not_running";
            assert_eq!(answer.edge == Edge::NotRunning, gone, "{}", answer.name);
        }
    }

    #[test]
    fn an_rpc_error_is_read_by_its_text() {
        let name = |message| classify_rpc(message).map(|answer| answer.name);
        assert_eq!(name("unavailable: The sandbox is running but port is not open"), Some("port_closed"));
        assert_eq!(name("unavailable: try later"), None);
    }
}
