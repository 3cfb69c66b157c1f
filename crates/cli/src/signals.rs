//! The signals that ask the program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Waits for SIGINT (Ctrl-C), SIGTERM or SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: whoever started the program chose to ignore it, as `nohup` does.
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on these signals no longer end the program by themselves.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::infrastructure(format!("no signals: {error}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) },
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            () = recv(&mut self.hangup) => 1,
        }
    }
}

async fn recv(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads the mask of ignored signals, in which SIGHUP is the lowest bit.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
