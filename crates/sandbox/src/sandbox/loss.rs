//! What a lost connection means: the sandbox is gone, does not answer, or is as it was.

use std::time::Duration;

use super::{Sandbox, SandboxState};
use crate::error::{Error, ErrorKind};
use crate::options::CallOptions;

/// How long the sandbox, and then the control plane, may take to answer (protocol fact: 5 s in the official SDK).
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Sandbox {
    /// Finds out, after a connection to the sandbox was lost, which of the three it was. One probe; every other error is
    /// returned as it is. What may have been begun stays so.
    pub(crate) async fn after_loss(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::SandboxNotRunning {
            return error.found(ErrorKind::SandboxNotRunning, &self.what_is_known().await);
        }
        if !error.is_loss() {
            return error;
        }
        let once = CallOptions::new().retries(0).connection_retries(0).request_timeout(PROBE_TIMEOUT);
        let probe = match self.with(once) {
            Ok(probe) => probe.looking_up().is_running().await,
            Err(wrong) => Err(wrong),
        };
        match probe {
            Ok(true) => {
                // The sandbox's daemon said that it is not there, and is: whoever carried the call lost it.
                let kind = match error.kind() {
                    ErrorKind::SandboxUnreachable => ErrorKind::ConnectionLost,
                    kind => kind,
                };
                error.found(kind, "the sandbox is healthy")
            }
            Ok(false) => error.found(ErrorKind::SandboxNotRunning, &self.what_is_known().await),
            Err(why) => {
                let kind = match error.kind() {
                    ErrorKind::OutcomeUnknown => ErrorKind::OutcomeUnknown,
                    _ => ErrorKind::SandboxUnreachable,
                };
                error.found(kind, &format!("asked whether it runs, the sandbox did not answer: {}", why.message()))
            }
        }
    }

    /// What the control plane knows of a sandbox that does not run.
    async fn what_is_known(&self) -> String {
        let once = CallOptions::new().retries(0).connection_retries(0).request_timeout(PROBE_TIMEOUT);
        let asked = match self.with(once) {
            Ok(probe) => probe.looking_up().info().await,
            Err(wrong) => Err(wrong),
        };
        match asked {
            Ok(info) if info.state == SandboxState::Paused => "the control plane says that it is paused".to_owned(),
            Ok(info) => format!("the control plane says that it is {}, until {}", info.state, info.end_at),
            Err(error) if error.is_not_found() => "the control plane knows no such sandbox any more".to_owned(),
            Err(error) => format!("the control plane was asked, too: {}", error.message()),
        }
    }
}

impl Error {
    /// Whether a connection to the sandbox was lost, or its edge could not reach it. A limit that was over is neither.
    fn is_loss(&self) -> bool {
        match self.kind() {
            ErrorKind::ConnectionLost => true,
            // With a status it is the answer of somebody who is there.
            ErrorKind::OutcomeUnknown | ErrorKind::SandboxUnreachable => self.status().is_none(),
            _ => false,
        }
    }
}
