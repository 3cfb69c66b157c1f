//! A command is started at most once, also when nobody can tell whether it was.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::handle::CommandHandle;
use super::stream::Attached;
use super::{Command, ProcessInfo};
use crate::error::{Error, ErrorKind};
use crate::rpc::RpcCall;
use crate::sandbox::Sandbox;

const ACTION: &str = "start the command";

/// The variable by which a process is told apart whose tag is the caller's.
const VARIABLE: &str = "ONCEBOX_COMMAND";

/// What tags of ours begin with.
const TAG: &str = "oncebox-";

/// A start whose answer was lost is looked for in the process list after each of these waits.
const LOOK_AFTER: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(400)];

/// By what one start's process is told from all others: its tag, or a variable beside the tag that the caller chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    name: String,
    is_tag: bool,
}

impl Marker {
    pub(super) fn new(command: &Command) -> Result<Self, Error> {
        Ok(Self { name: format!("{TAG}{}", random_hex()?), is_tag: command.tag_name().is_none() })
    }

    /// The tag of a process that has none of its caller's.
    pub(super) fn tag(&self) -> Option<&str> {
        self.is_tag.then_some(self.name.as_str())
    }

    pub(super) fn variable(&self) -> Option<(&str, &str)> {
        (!self.is_tag).then_some((VARIABLE, self.name.as_str()))
    }

    /// Whether the process is the one that was started with this. Servers look tags up wrongly, so they are compared here
    /// (protocol fact: with two tagged processes, envd 0.6.13 may not find either by its tag).
    pub(super) fn is_of(&self, process: &ProcessInfo) -> bool {
        let is = |envs: &BTreeMap<String, String>| envs.get(VARIABLE) == Some(&self.name);
        if self.is_tag { process.tag.as_deref() == Some(&self.name) } else { is(&process.envs) }
    }
}

/// 16 random hex digits.
pub(super) fn random_hex() -> Result<String, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| Error::new(ErrorKind::Unsupported, ACTION, format!("no randomness: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Starts a command. Only what provably did not arrive is sent again, by the transport; where that is not known, the
/// process is looked for, and attached to.
pub(super) async fn start(sandbox: &Sandbox, command: Command) -> Result<CommandHandle, Error> {
    command.validate()?;
    let marker = Marker::new(&command)?;
    let watch = command.stream_options().watch();
    let call = RpcCall {
        user: command.user_name(),
        remote_timeout: command.remote_timeout(),
        stream: Some(watch),
        ..RpcCall::default()
    };
    let asked = Instant::now();
    let limit = sandbox.client().request_timeout();
    let deadline = limit.map(|limit| asked + limit);
    let starting = Attached::start(sandbox, ACTION, command.request(&marker), call);
    let started = match deadline {
        Some(deadline) => timeout_at(deadline, starting).await,
        None => Ok(starting.await),
    };
    let error = match started {
        Ok(Ok(attached)) => return Ok(CommandHandle::started(sandbox, attached, &command, marker, asked)),
        Ok(Err(error)) if is_unknown(&error) => error,
        Ok(Err(error)) => return Err(sandbox.after_loss(error).await),
        Err(_) => {
            let message = format!(
                "the process was not named within {:?} (request_timeout); nobody knows whether it was started; it would \
                 have {}",
                limit.unwrap_or_default(),
                marker.shown()
            );
            return Err(Error::new(ErrorKind::Timeout, ACTION, message).begun());
        }
    };
    let looking = find(sandbox, &command, &marker, &error, asked);
    let found = match deadline {
        Some(deadline) => timeout_at(deadline, looking).await.unwrap_or(Ok(None)),
        None => looking.await,
    };
    match found {
        Ok(Some(handle)) => Ok(handle),
        Ok(None) => {
            let what = format!("no process of the sandbox has {}", marker.shown());
            Err(sandbox.after_loss(error).await.also(&what))
        }
        Err(looked) => Err(sandbox.after_loss(error).await.also(&format!("it was looked for: {}", looked.message()))),
    }
}

/// Whether the process may run, without the call's deadline being over.
fn is_unknown(error: &Error) -> bool {
    error.may_have_been_processed() && error.kind() != ErrorKind::Timeout
}

/// Looks for the process of a start whose answer was lost. A process that has ended is not found any more.
async fn find(
    sandbox: &Sandbox,
    command: &Command,
    marker: &Marker,
    lost: &Error,
    asked: Instant,
) -> Result<Option<CommandHandle>, Error> {
    for wait in LOOK_AFTER {
        sleep(wait).await;
        let processes = sandbox.commands().list_raw().await?;
        let Some(process) = processes.iter().find(|process| marker.is_of(process)) else { continue };
        tracing::debug!(pid = process.pid, "the answer to a start was lost; the process was found by its marker");
        let watch = command.stream_options().watch();
        let attached = Attached::connect(sandbox, ACTION, process.pid, watch).await?;
        let handle = CommandHandle::started(sandbox, attached, command, marker.clone(), asked);
        return Ok(Some(handle.after_gap(lost.message())));
    }
    Ok(None)
}

impl Marker {
    fn shown(&self) -> String {
        if self.is_tag { format!("the tag {:?}", self.name) } else { format!("{VARIABLE}={} set", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_a_tag_of_its_own_or_by_a_variable_beside_the_callers() {
        for command in [Command::new("a"), Command::new("a").tag("mine")] {
            let marker = Marker::new(&command).unwrap();
            let request = command.request(&marker);
            let config = request.process.into_option().unwrap();
            let mut process = ProcessInfo {
                pid: 1,
                tag: request.tag,
                program: config.cmd,
                args: config.args,
                cwd: config.cwd,
                envs: config.envs.into_iter().collect(),
            };
            assert!(marker.is_of(&process));
            assert!(!Marker::new(&command).unwrap().is_of(&process));
            assert_eq!(process.tag.as_deref() == Some("mine"), command.tag_name().is_some());
            (process.tag, process.envs) = (Some("mine".into()), BTreeMap::new());
            assert!(!marker.is_of(&process));
        }
    }
}
