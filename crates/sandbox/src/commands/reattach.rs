//! A stream that was cut is attached to again, by process id.

use std::time::Duration;

use tokio::time::sleep;

use super::known::Known;
use super::stream::Attached;
use crate::error::{Error, ErrorKind};

const ACTION: &str = "follow the command";

/// The first wait between two reattachments, doubled each time; the first one is made at once.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What became of a stream that was cut.
pub(super) enum Again {
    Attached {
        attached: Attached,
        /// Reattachments in a row, this one included, of which nothing came yet.
        in_vain: u32,
        /// How the stream was cut.
        how: String,
    },
    Failed(Error),
}

/// How long to wait before reattachment number `count`, from 0.
pub(super) fn wait_before(count: u32) -> Duration {
    match count {
        0 => Duration::ZERO,
        n => (FIRST_WAIT * 2_u32.saturating_pow(n - 1)).min(LONGEST_WAIT),
    }
}

/// Whether a call to a running command failed in a way that passes, so that it is worth another.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionLost
            | ErrorKind::OutcomeUnknown
            | ErrorKind::NotDone
            | ErrorKind::Timeout
            | ErrorKind::Busy
            | ErrorKind::RateLimited
            | ErrorKind::Server
            | ErrorKind::SandboxUnreachable
    )
}

/// Attaches to the process again, at most as often as the options say.
pub(super) async fn again(known: Known, how: String, mut in_vain: u32) -> Again {
    let mut last: Option<Error> = None;
    while in_vain < known.options.reattachments {
        sleep(wait_before(in_vain)).await;
        in_vain += 1;
        match attach(&known).await {
            Ok(attached) => return Again::Attached { attached, in_vain, how },
            Err(error) => match error.kind() {
                _ if is_passing(&error) => last = Some(error),
                ErrorKind::NotFound => {
                    let message = format!(
                        "{how}; process {} has ended since, and how was told while nobody was attached",
                        known.pid
                    );
                    return Again::Failed(Error::new(ErrorKind::CommandLost, ACTION, message));
                }
                // It is gone, or something is wrong that does not pass.
                _ => {
                    let why = format!("{how}; {}; {}", error.message(), how_it_is(&known));
                    return Again::Failed(known.sandbox.after_loss(error.told(ACTION, why).begun()).await);
                }
            },
        }
    }
    let mut message = how_it_is(&known);
    if let Some(last) = &last {
        message = format!("{message}; the last of {in_vain} reattachments in a row: {}", last.message());
    } else if in_vain > 0 {
        message = format!("{message}; nothing came of {in_vain} reattachments in a row (reattachments)");
    }
    let error = Error::new(ErrorKind::ConnectionLost, ACTION, format!("{how}; {message}")).begun();
    Again::Failed(known.sandbox.after_loss(error).await)
}

fn how_it_is(known: &Known) -> String {
    format!("how process {} did was not told; it may go on running", known.pid)
}

async fn attach(known: &Known) -> Result<Attached, Error> {
    let attached = Attached::connect(&known.sandbox, ACTION, known.pid, known.options.watch()).await?;
    let Some(marker) = &known.marker else { return Ok(attached) };
    // A process id can be another process's by now. One that is not listed has ended, and the stream tells how.
    let processes = known.sandbox.commands().list_raw().await?;
    match processes.iter().find(|process| process.pid == known.pid) {
        Some(other) if !marker.is_of(other) => Err(Error::new(
            ErrorKind::NotFound,
            ACTION,
            format!("process {} is another one now: {:?}", known.pid, other.program),
        )),
        _ => Ok(attached),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reattachment_is_made_at_once_and_the_others_ever_later() {
        let waits: Vec<_> = (0..9).map(|count| wait_before(count).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(wait_before(u32::MAX), LONGEST_WAIT);
    }
}
