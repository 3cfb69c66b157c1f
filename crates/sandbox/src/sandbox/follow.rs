//! A log that goes on.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{Stream, stream};
use jiff::{SignedDuration, Timestamp};

use super::Sandbox;
use super::observe::{MAX_LOG_PAGE, SandboxLogEntry};
use crate::error::Error;

/// However often it is to be asked for, not more often.
const SHORTEST: Duration = Duration::from_millis(10);

pub(super) fn follow(
    sandbox: Sandbox,
    from: Option<Timestamp>,
    every: Duration,
) -> impl Stream<Item = Result<SandboxLogEntry, Error>> + Send {
    let state = (sandbox, Follow { at: from, ..Follow::default() });
    stream::try_unfold(state, move |(sandbox, mut follow)| async move {
        loop {
            if let Some(entry) = follow.ready.pop_front() {
                return Ok(Some((entry, (sandbox, follow))));
            }
            if follow.asked && !follow.full {
                tokio::time::sleep(every.max(SHORTEST)).await;
            }
            match sandbox.logs(follow.at).await {
                Ok(page) => follow.take(page),
                Err(error) if error.is_not_found() && follow.asked => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    })
}

/// How far a log was told.
#[derive(Debug, Default)]
struct Follow {
    /// Asked for from here on: the moment of the last entry, to the millisecond, which is as fine as servers are asked.
    at: Option<Timestamp>,
    /// Those entries of that millisecond that were told.
    told: Vec<SandboxLogEntry>,
    ready: VecDeque<SandboxLogEntry>,
    asked: bool,
    /// The last page was full: there may be more already.
    full: bool,
}

impl Follow {
    fn take(&mut self, page: Vec<SandboxLogEntry>) {
        self.asked = true;
        self.full = page.len() >= MAX_LOG_PAGE.parse().unwrap_or(usize::MAX);
        let mut told = self.told.clone();
        for entry in page {
            if let Some(place) = told.iter().position(|known| *known == entry) {
                told.swap_remove(place);
                continue;
            }
            let moment = entry.timestamp.as_millisecond();
            if self.at.is_none_or(|at| moment > at.as_millisecond()) {
                self.told.clear();
                self.at = Timestamp::from_millisecond(moment).ok();
            }
            self.told.push(entry.clone());
            self.ready.push_back(entry);
        }
        // A millisecond of more entries than a page has: the rest of it cannot be had.
        if self.full && self.ready.is_empty() {
            self.at = self.at.and_then(|at| at.checked_add(SignedDuration::from_millis(1)).ok());
            self.told.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use oncebox_protocol::api::LogLevel;

    use super::*;

    fn entry(milliseconds: i64, message: &str) -> SandboxLogEntry {
        let timestamp = Timestamp::from_millisecond(milliseconds).unwrap();
        SandboxLogEntry { timestamp, message: message.to_owned(), level: LogLevel::Info, fields: BTreeMap::new() }
    }

    fn told(follow: &mut Follow, page: &[SandboxLogEntry]) -> Vec<String> {
        follow.take(page.to_vec());
        follow.ready.drain(..).map(|entry| entry.message).collect()
    }

    #[test]
    fn each_entry_is_told_once_also_those_alike() {
        let mut follow = Follow::default();
        let (a, b, c) = (entry(1, "a"), entry(1, "b"), entry(2, "c"));
        assert_eq!(told(&mut follow, &[a.clone(), a.clone()]), ["a", "a"]);
        assert_eq!(told(&mut follow, &[a.clone(), a.clone()]), [""; 0]);
        assert_eq!(told(&mut follow, &[a.clone(), a.clone(), a, b, c.clone()]), ["a", "b", "c"]);
        assert_eq!(follow.at.unwrap().as_millisecond(), 2);
        assert_eq!(told(&mut follow, &[c]), [""; 0]);
        let many = vec![entry(3, "x"); 1000];
        assert_eq!(told(&mut follow, &many).len(), 1000);
        assert_eq!(told(&mut follow, &many), [""; 0]);
        assert_eq!(follow.at.unwrap().as_millisecond(), 4);
    }
}
