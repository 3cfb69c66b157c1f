//! The signals that ask the program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Waits for SIGINT (Ctrl-C), SIGTERM or SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on these signals no longer end the program by themselves.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::infrastructure(format!("no signals: {error}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}
