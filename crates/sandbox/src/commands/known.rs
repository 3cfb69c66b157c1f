//! What is known of a command that is followed, however often its stream is cut.

use std::time::Duration;

use connectrpc::ErrorCode;
use oncebox_protocol::envd::process::process_event::EndEvent;
use tokio::time::Instant;

use super::dispatch::Marker;
use super::exit::Exit;
use super::stream::StreamOptions;
use crate::error::{Error, ErrorKind};
use crate::sandbox::Sandbox;

/// What does not change while it is followed.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) sandbox: Sandbox,
    pub(super) pid: u32,
    pub(super) marker: Option<Marker>,
    pub(super) options: StreamOptions,
    /// When the sandbox kills it, counted from a moment after `started`.
    pub(super) timeout: Option<Duration>,
    pub(super) started: Instant,
    pub(super) has_terminal: bool,
}

impl Known {
    pub(super) fn exit(&self, end: EndEvent) -> Exit {
        let mut exit =
            Exit { code: end.exit_code, exited: end.exited, status: end.status, error: end.error, ..Exit::default() };
        let killed = exit.signal() == Some(9);
        exit.timed_out = killed && self.timeout.is_some_and(|timeout| self.started.elapsed() >= timeout);
        exit
    }

    /// An error that the sandbox itself ended the stream with.
    pub(super) fn failed(&self, error: connectrpc::ConnectError) -> Error {
        const ACTION: &str = "follow the command";
        match (error.code, self.timeout) {
            (ErrorCode::DeadlineExceeded, Some(timeout)) => {
                let message = format!(
                    "process {} ran for longer than its timeout of {timeout:?} (Command::timeout; zero is none), by \
                     which the sandbox kills it; its exit was not told",
                    self.pid
                );
                Error::new(ErrorKind::Timeout, ACTION, message).begun()
            }
            _ => Error::rpc(ACTION, error).begun(),
        }
    }
}

/// Whether an error that ended a stream says nothing of the process: somebody on the way gave up, or was too busy.
pub(super) fn is_passing_code(code: ErrorCode) -> bool {
    use ErrorCode::{Aborted, Canceled, Internal, ResourceExhausted, Unavailable, Unknown};
    matches!(code, Unavailable | Canceled | Internal | Unknown | Aborted | ResourceExhausted)
}
