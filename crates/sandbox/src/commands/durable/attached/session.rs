//! The sessions in which a durable command's wrapper is read: one after the other, as connections are cut.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use oncebox_protocol::envd::process::process_event::Event;
use oncebox_protocol::envd::process::process_event::data_event::Output as Written;
use tokio::time::sleep;

use super::{ACTION, DurableCommand};
use crate::commands::durable::Offsets;
use crate::commands::durable::frames::{Frames, Said};
use crate::commands::durable::spool::{Call, cut, wrapper_failed};
use crate::commands::reattach::{is_passing, wait_before};
use crate::commands::stream::Attached;
use crate::error::{Error, ErrorKind};

/// The most of a wrapper's complaints that is kept.
const MAX_WORDS: usize = 1000;
pub(super) enum State {
    Idle,
    Starting(BoxFuture<'static, Result<Attached, Error>>),
    Open {
        attached: Attached,
        frames: Frames,
        words: String,
    },
    /// The sandbox is asked what the loss of its connection means.
    Failing(BoxFuture<'static, Error>),
    Ended,
}

impl DurableCommand {
    /// Goes on until the wrapper has said something.
    pub(super) fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Said>, Error>> {
        loop {
            if let Some(said) = self.said.pop_front() {
                return Poll::Ready(Ok(Some(said)));
            }
            match &mut self.state {
                State::Idle => self.state = State::Starting(self.session()),
                State::Starting(starting) => match ready!(starting.poll_unpin(cx)) {
                    Ok(attached) => {
                        self.state = State::Open { attached, frames: Frames::default(), words: String::new() };
                    }
                    Err(error) => self.lost(error),
                },
                State::Open { attached, frames, words } => match ready!(attached.poll(cx)) {
                    Ok(Event::Data(data)) => match data.output {
                        Some(Written::Stdout(bytes)) => {
                            if let Err(wrong) = frames.push(bytes.into(), &mut self.said) {
                                self.state = State::Ended;
                                return Poll::Ready(Err(Error::malformed(ACTION, wrong).begun()));
                            }
                        }
                        Some(Written::Stderr(bytes)) if words.len() < MAX_WORDS => {
                            words.push_str(&String::from_utf8_lossy(&bytes));
                        }
                        _ => {}
                    },
                    Ok(Event::End(end)) => {
                        let error = wrapper_failed(ACTION, &end.status, words);
                        self.lost(error);
                    }
                    Ok(_) => {}
                    Err(why) => self.lost(cut(ACTION, why)),
                },
                State::Failing(asking) => {
                    let error = ready!(asking.poll_unpin(cx));
                    // Whoever asks again, tries again.
                    (self.state, self.in_vain) = (State::Idle, 0);
                    return Poll::Ready(Err(error));
                }
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Has the wrapper read from where we are.
    fn session(&mut self) -> BoxFuture<'static, Result<Attached, Error>> {
        self.sessions += 1;
        let Offsets { stdout, stderr } = self.offsets;
        let mut args = vec![stdout.to_string(), stderr.to_string(), self.reader.clone(), self.sessions.to_string()];
        let call = match &self.launch {
            Some((command, more)) => {
                args.extend(more.iter().cloned());
                Call::reading("run", args, Some(command.clone()))
            }
            None => Call::reading("tail", args, None),
        };
        let (spool, wait) = (Arc::clone(&self.spool), wait_before(self.in_vain));
        async move {
            sleep(wait).await;
            spool.start(ACTION, &call).await
        }
        .boxed()
    }

    /// A session ended, and not by its own word.
    fn lost(&mut self, error: Error) {
        self.begun |= error.may_have_been_processed();
        self.in_vain += 1;
        if is_passing(&error) && self.in_vain <= self.spool.stream.reattachments {
            tracing::debug!(%error, id = self.spool.id, "a durable command is attached to again");
            self.state = State::Idle;
            return;
        }
        let Offsets { stdout, stderr } = self.offsets;
        let message = format!(
            "{}; nothing came of {} attempts in a row (reattachments); its outputs are known up to {stdout} and {stderr} \
             bytes, and attaching to {:?} goes on from there",
            error.message(),
            self.in_vain,
            self.spool.id
        );
        // One that was cut may have been begun by the attempt before.
        let kind = if is_passing(&error) { ErrorKind::ConnectionLost } else { error.kind() };
        let mut told = Error::new(kind, ACTION, message);
        if self.begun {
            told = told.begun();
        }
        let sandbox = self.spool.sandbox.clone();
        self.state = State::Failing(async move { sandbox.tell(sandbox.after_loss(told).await) }.boxed());
    }
}
