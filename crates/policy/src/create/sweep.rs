//! After the end: what was made twice is found and killed.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::action::{Action, Step};
use super::clock::ServerClock;
use super::input::{Input, ListedSandbox, Listing};
use super::intent::Intent;
use super::keys::KeyEvidence;
use super::listing::{Reading, read};
use super::rule::Rule;
use super::version::Route;
use super::{Create, Origin, Turn};
use crate::backoff::backoff;
use crate::options::CLEANUP_LOOKUPS;

/// Which of the sandboxes that carry the intent stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The first by (startedAt, id): what a `resolve` adopts, or has adopted.
    First,
    /// None: the call ended without one, or nobody wants it.
    None,
}

/// The sweep of one create. It looks at once and again after `settle`, when late effects have shown themselves.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    intent: Intent,
    given: bool,
    keep: Keep,
    /// The sandbox that the call ended with.
    handle: Option<String>,
    /// How many sandboxes the call, and an earlier one's lost send, may have made.
    sends: u32,
    /// One key was sent, on one path: it should have made one sandbox.
    one_key: bool,
    pub(super) evidence: Option<KeyEvidence>,
    /// When the second look is due.
    second: Duration,
    /// Nothing starts from here on.
    bound: Duration,
    requests: u32,
    /// The second look has begun.
    late: bool,
    repeats: u32,
    /// What was decided to be killed is not all any more.
    once_more: bool,
    killed: Vec<String>,
    left: Vec<String>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// A look is due.
    Due(Duration, Rule),
    /// A look runs.
    Looking(Duration),
    /// These are killed next.
    Notified(Vec<String>, Rule),
    /// These are being killed.
    Killing,
}

impl Sweep {
    pub(super) fn new(create: &Create, keep: Keep, handle: Option<String>, now: Duration) -> Self {
        let options = &create.call.options;
        Self {
            intent: create.intent,
            given: create.origin == Origin::Given,
            keep,
            handle,
            sends: create.sends_to_sweep(),
            // An earlier call's send may have had another key.
            one_key: create.keys.number == 0 && create.call.earlier_loss.is_none(),
            evidence: None,
            second: now.saturating_add(options.settle),
            bound: now.saturating_add(options.cleanup_timeout),
            requests: CLEANUP_LOOKUPS,
            late: false,
            repeats: 0,
            once_more: false,
            killed: Vec::new(),
            left: Vec::new(),
            stage: Stage::Due(now, Rule::SweepAtOnce),
        }
    }

    /// Nobody wants the handle's sandbox any more, and none in its place.
    pub(super) fn abandon(&mut self) {
        self.keep = Keep::None;
        self.once_more = matches!(self.stage, Stage::Notified(..) | Stage::Killing);
    }

    pub(super) fn asked_at(&self) -> Duration {
        match self.stage {
            Stage::Looking(began) => began,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn step(&mut self, input: Input, clock: &ServerClock, route: &mut Route, turn: Turn<'_>) -> Step {
        match (core::mem::replace(&mut self.stage, Stage::Killing), input) {
            (Stage::Due(at, rule), Input::Continue) => self.look_at(at, rule, route, turn),
            (Stage::Notified(ids, rule), Input::Continue) => self.kill(ids, rule, turn),
            (Stage::Looking(_), Input::Listed(listing)) => self.listed(&listing, clock, route, turn),
            (Stage::Looking(_), Input::ListFailed(failure)) if route.list_failed(failure.status) => {
                self.look_at(turn.now, Rule::ListFallBack, route, turn)
            }
            (Stage::Looking(_), Input::ListFailed(failure)) => {
                self.look_again(failure.retry_after.unwrap_or_default(), route, turn)
            }
            (Stage::Killing, Input::Killed { left, retry_after }) => {
                let failed = !left.is_empty();
                self.left.extend(left);
                self.next(failed, Rule::Swept, retry_after.unwrap_or_default(), route, turn)
            }
            (_, Input::Continue) if turn.now >= self.bound => self.finished(Rule::SweepBound),
            (stage, _) => {
                self.stage = stage;
                Step { action: Action::Wait { until: self.bound }, rule: Rule::Awaited }
            }
        }
    }

    fn look_at(&mut self, at: Duration, rule: Rule, route: &Route, turn: Turn<'_>) -> Step {
        if at.max(turn.now) >= self.bound || self.requests == 0 {
            return self.finished(Rule::SweepBound);
        }
        if at > turn.now {
            self.stage = Stage::Due(at, rule);
            return Step { action: Action::Wait { until: at }, rule };
        }
        self.requests -= 1;
        self.late |= turn.now >= self.second;
        self.stage = Stage::Looking(turn.now);
        Step { action: Action::LookUp { version: route.list }, rule }
    }

    fn listed(&mut self, listing: &Listing, clock: &ServerClock, route: &Route, turn: Turn<'_>) -> Step {
        let found = match read(listing, &self.intent) {
            Reading::Found(found) => found,
            Reading::Absent => Vec::new(),
            Reading::CannotTell => {
                return self.look_again(Duration::ZERO, route, turn);
            }
        };
        let began = clock.began(self.given);
        let is_ours = |sandbox: &ListedSandbox| began.is_some_and(|began| sandbox.started_at >= began);
        if self.one_key && found.iter().filter(|sandbox| is_ours(sandbox)).count() > 1 {
            self.evidence = Some(KeyEvidence::Ignored);
        }

        let kept = match self.keep {
            Keep::First => found.first(),
            Keep::None => None,
        };
        let losers = found.get(usize::from(kept.is_some())..).unwrap_or_default();
        // No more than this call can have made: the rest is somebody else's, whatever it carries.
        let own = usize::from(kept.is_some_and(|kept| is_ours(kept)));
        let mut allowance = (self.sends as usize).saturating_sub(own).saturating_sub(self.killed.len());
        let mut doomed = Vec::new();
        self.left.clear();
        for loser in losers {
            let again = self.killed.contains(&loser.id);
            if is_ours(loser) && (again || allowance > 0) {
                allowance -= usize::from(!again);
                doomed.push(loser.id.clone());
            } else {
                self.left.push(loser.id.clone());
            }
        }
        if doomed.is_empty() {
            let rule = match began {
                _ if self.left.is_empty() => Rule::Swept,
                None => Rule::NoSaneDate,
                Some(_) => Rule::OthersStay,
            };
            return self.next(false, rule, Duration::ZERO, route, turn);
        }
        let rule = if self.keep == Keep::First { Rule::KillDouble } else { Rule::KillUnwanted };
        match (self.handle.take(), kept) {
            (Some(lost), Some(kept)) if doomed.contains(&lost) => {
                self.stage = Stage::Notified(doomed, rule);
                Step { action: Action::Superseded { lost, by: kept.id.clone() }, rule: Rule::HandleLost }
            }
            (handle, _) => {
                self.handle = handle;
                self.kill(doomed, rule, turn)
            }
        }
    }

    fn kill(&mut self, mut ids: Vec<String>, rule: Rule, turn: Turn<'_>) -> Step {
        // Each kill is a request.
        let beyond = ids.split_off(ids.len().min(self.requests as usize));
        self.once_more |= !beyond.is_empty();
        self.left.extend(beyond);
        if ids.is_empty() || turn.now >= self.bound {
            self.left.append(&mut ids);
            return self.finished(Rule::SweepBound);
        }
        self.requests -= ids.len() as u32;
        for id in &ids {
            if !self.killed.contains(id) {
                self.killed.push(id.clone());
            }
        }
        self.stage = Stage::Killing;
        Step { action: Action::Kill { ids }, rule }
    }

    /// A look is done. The second one is the last, unless a kill failed; `rule` is then why the sweep ends.
    fn next(&mut self, failed: bool, rule: Rule, wait: Duration, route: &Route, turn: Turn<'_>) -> Step {
        let once_more = core::mem::take(&mut self.once_more);
        if self.late && !failed && !once_more {
            return self.finished(rule);
        }
        self.look_again(wait, route, turn)
    }

    fn look_again(&mut self, wait: Duration, route: &Route, turn: Turn<'_>) -> Step {
        if !self.late {
            let at = self.second.max(turn.now.saturating_add(wait));
            return self.look_at(at, Rule::SweepAfterSettle, route, turn);
        }
        let wait = wait.max(backoff(self.repeats, turn.random));
        self.repeats += 1;
        self.look_at(turn.now.saturating_add(wait), Rule::SweepAgain, route, turn)
    }

    fn finished(&mut self, rule: Rule) -> Step {
        let left = core::mem::take(&mut self.left);
        Step { action: Action::Finished { left, certain: rule != Rule::SweepBound }, rule }
    }
}
