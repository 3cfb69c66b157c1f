//! The faults, each with one line; and scripts that are ready to use.

use crate::script::{Script, ScriptError};

/// One thing that a script can make go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultInfo {
    /// Its name in a script: a fault, or a field of an answer.
    pub name: &'static str,
    /// Where it happens: `http/2`, `http/1.1`, `below` or `above` HTTP.
    pub layer: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// A rule that has it, as JSON.
    pub example: &'static str,
}

macro_rules! catalog {
    ($($layer:literal: $($name:literal $about:literal $example:literal)+;)+) => {
        &[$($(FaultInfo { name: $name, layer: $layer, about: $about, example: $example },)+)+]
    };
}

const CATALOG: &[FaultInfo] = catalog! {
    "http/2":
        "refuse" "RST_STREAM REFUSED_STREAM: not processed"
            r#"{"at": "request", "when": {"try": 1, "share": 0.1}, "do": ["refuse"]}"#
        "reset_stream" "RST_STREAM with any code, at any point"
            r#"{"at": {"answer_body": 1000}, "do": [{"reset_stream": "INTERNAL_ERROR"}]}"#
        "goaway" "GOAWAY with a chosen last id, code and debug data; then open, closed or reset"
            r#"{"at": "request", "when": {"nth": 20}, "do": [{"goaway": {"debug": "max_age"}}]}"#
        "goaway, two phases" "GOAWAY 2^31-1 first, the true last id later"
            r#"{"at": "request", "when": {"nth": 20}, "do": [{"goaway": {"last": "max"}}, {"wait": 50}, {"goaway": {}}]}"#
        "goaway, narrowing" "a later GOAWAY disowns streams that an earlier one kept"
            r#"{"at": "request", "when": {"nth": 3}, "do": [{"goaway": {"then": "stay"}}, {"goaway": {"last": {"id": 1}}}]}"#
        "goaway, lying" "streams above the last id are processed all the same"
            r#"{"at": "request", "do": [{"goaway": {"last": {"id": 0}, "lie": true, "then": "stay"}}]}"#
        "settings" "new SETTINGS at any time, such as a lower stream cap"
            r#"{"at": "request", "when": {"nth": 10}, "do": [{"settings": {"max_concurrent_streams": 1}}]}"#
        "withhold" "no WINDOW_UPDATE (uploads starve), no PING or SETTINGS acknowledgement"
            r#"{"at": "connect", "do": [{"withhold": ["window_updates", "ping_acks", "settings_acks"]}]}"#
        "ping" "a PING; the log tells what came before its answer"
            r#"{"at": "request", "do": ["ping"]}"#
        "late_frames" "frames for a stream that is closed"
            r#"{"at": "answered", "do": ["late_frames"]}"#
        "protocol_error" "fifteen violations of HTTP/2 that a client must notice"
            r#"{"at": "request", "do": [{"protocol_error": "data_on_idle_stream"}]}"#
        "frame" "any frame, made by hand"
            r#"{"at": "request", "do": [{"frame": {"kind": 250, "payload": {"hex": "00 ff"}}}]}"#
        "empty_data_every" "an empty DATA frame each so many bytes of an answer"
            r#"{"at": "processed", "do": [{"answer": {"body": {"size": 1048576}, "empty_data_every": 32768}}]}"#
        "padding" "padded DATA frames"
            r#"{"at": "processed", "do": [{"answer": {"padding": 255}}]}"#
        "ignore_windows" "DATA beyond the client's flow-control windows"
            r#"{"at": "processed", "do": [{"answer": {"body": {"size": 1048576}, "ignore_windows": true}}]}"#
        "even_if_cancelled" "an answer for a stream that the client reset"
            r#"{"at": "cancelled", "do": [{"answer": {"even_if_cancelled": true}}]}"#;
    "http/1.1":
        "close, when idle" "a kept connection is closed when idle: the next request meets a stale one"
            r#"{"at": {"idle": 1000}, "do": ["close"]}"#
        "send" "bytes out of turn, such as an unasked 408"
            r#"{"at": {"idle": 1000}, "do": [{"send": "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"}, "close"]}"#
        "answer_head" "a head that is half written"
            r#"{"at": {"answer_head": 12}, "do": ["close"]}"#
        "answer_body" "a body that is half written"
            r#"{"at": {"answer_body": 100}, "do": ["close"]}"#
        "length_lie" "a Content-Length that is too large or too small"
            r#"{"at": "processed", "do": [{"answer": {"length_lie": 3}}]}"#
        "bad_chunk" "a chunk without a length"
            r#"{"at": "processed", "do": [{"answer": {"framing": "chunked", "bad_chunk": 1}}]}"#
        "surplus" "a pipelined surprise: bytes behind the answer that belong to none"
            r#"{"at": "processed", "do": [{"answer": {"surplus": "HTTP/1.1 500 Oh\r\n\r\n"}}]}"#;
    "below":
        "silence" "accepts, and neither reads nor writes again"
            r#"{"at": "connect", "do": ["silence"]}"#
        "refuse_connects" "the port is closed for a while"
            r#"{"at": "answered", "when": {"count": 100}, "do": [{"refuse_connects": 500}]}"#
        "reset" "a TCP reset, at a moment or after exactly so many bytes"
            r#"{"at": {"bytes_out": 17}, "do": ["reset"]}"#
        "close" "FIN (over TLS close_notify first)"
            r#"{"at": "processed", "do": ["close"]}"#
        "close_unread" "FIN while what the client sent is unread"
            r#"{"at": {"bytes_in": 24}, "do": ["close_unread"]}"#
        "close_without_notify" "the end of TLS without close_notify"
            r#"{"at": "answered", "do": ["close_without_notify"]}"#
        "cut_tls" "the TLS handshake is cut after so many bytes of the server's flight"
            r#"{"at": "connect", "when": {"probability": 0.01}, "do": [{"cut_tls": 0}]}"#
        "stall" "writes nothing for a while, and goes on"
            r#"{"at": {"bytes_out": 1000}, "do": [{"stall": 5000}]}"#
        "link" "latency, bandwidth, slicing"
            r#"{"at": "connect", "do": [{"link": {"rtt_ms": 80, "bytes_per_second": 1000000, "slice": 1400}}]}"#;
    "above":
        "answer" "any status, header and body, before or after the request was processed"
            r#"{"at": "received", "do": [{"answer": {"status": 503, "headers": {"should-retry": "true"}, "body": {"text": "busy"}}}]}"#
        "answer, early" "an answer before the request's body was read"
            r#"{"at": "request", "do": [{"answer": {"status": 413}}]}"#
        "retry_after" "Retry-After in seconds, as a date in three forms, or as any text"
            r#"{"at": "received", "do": [{"answer": {"status": 429, "retry_after": {"http_date": 2}}}]}"#
        "frame_size" "answers in tiny frames or chunks"
            r#"{"at": "processed", "do": [{"answer": {"body": {"size": 1000}, "frame_size": 1}}]}"#
        "pause_ms" "pauses between the pieces of an answer"
            r#"{"at": "processed", "do": [{"answer": {"frame_size": 1, "pause_ms": 100}}]}"#
        "interim" "answers such as 103 before the answer"
            r#"{"at": "processed", "do": [{"answer": {"interim": [103]}}]}"#
        "hold" "never answers; after it was processed, the answer is lost"
            r#"{"at": "processed", "do": ["hold"]}"#
        "wait" "answers later"
            r#"{"at": "processed", "do": [{"wait": 3000}]}"#;
};

/// The faults, each with one line and an example.
pub fn catalog() -> &'static [FaultInfo] {
    CATALOG
}

/// A script that comes with this crate, named after the symptom that users report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadyScript {
    /// Its name.
    pub name: &'static str,
    /// The script as JSON.
    pub json: &'static str,
}

macro_rules! ready {
    ($($name:literal)+) => {
        &[$(ReadyScript { name: $name, json: include_str!(concat!("../scripts/", $name, ".json")) },)+]
    };
}

const READY: &[ReadyScript] = ready! {
    "requests-lost-when-connections-retire"
    "refused-under-load"
    "created-twice-after-504"
    "server-disconnected"
    "first-request-after-a-pause-fails"
    "request-hangs"
    "retries-too-soon"
    "download-breaks-off"
    "handshake-fails-now-and-then"
    "errors-during-deploys"
};

/// The scripts that come with this crate.
pub fn ready_scripts() -> &'static [ReadyScript] {
    READY
}

impl ReadyScript {
    /// Reads the script.
    pub fn script(&self) -> Result<Script, ScriptError> {
        Script::from_json(self.json)
    }
}

impl Script {
    /// The script of this name that comes with this crate.
    pub fn ready(name: &str) -> Option<Self> {
        READY.iter().find(|ready| ready.name == name)?.script().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_rule() {
        for info in catalog() {
            let script = format!("{{\"rules\": [{}]}}", info.example);
            Script::from_json(&script).unwrap_or_else(|error| panic!("{}: {error}", info.name));
        }
    }

    #[test]
    fn every_fault_of_the_script_is_listed() {
        let text = include_str!("script/fault.rs");
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split("=> \"").nth(1));
        let names: Vec<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(catalog().iter().any(|info| info.name == name), "{name} is not in the catalog");
        }
    }

    #[test]
    fn ready_scripts_are_scripts_with_a_name_and_a_purpose() {
        assert_eq!(ready_scripts().len(), 10);
        for ready in ready_scripts() {
            let script = ready.script().unwrap_or_else(|error| panic!("{}: {error}", ready.name));
            assert_eq!(script.name, ready.name);
            assert!(!script.about.is_empty() && !script.rules.is_empty(), "{}", ready.name);
            assert_eq!(Script::ready(ready.name), Some(script));
        }
        assert_eq!(Script::ready("no-such"), None);
    }
}
