//! Executes a create's actions against the modelled server, and checks each of them.

use std::time::Duration;

use oncebox_policy::create::{Action, Create, Done, Input, Intent, IntentTag, Rule, Step};
use oncebox_policy::{Budget, CLEANUP_LOOKUPS, Outcome, Policy, Tokens};

use super::server::Server;

/// More steps than any run may need.
const MOST_STEPS: usize = 400;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) trace: Vec<(Duration, Step)>,
    pub(crate) end: Action,
    pub(crate) left: Vec<String>,
    pub(crate) certain: bool,
    pub(crate) sends: u32,
    /// How long ago the last loss was when the call ended.
    pub(crate) lost_for: Option<Duration>,
    pub(crate) abandoned: bool,
}

impl Run {
    pub(crate) fn kills(&self) -> usize {
        self.trace.iter().filter(|(_, step)| matches!(step.action, Action::Kill { .. })).count()
    }
}

pub(crate) struct Setup<'a> {
    pub(crate) intent: Intent,
    pub(crate) policy: &'a Policy,
    pub(crate) deadline: Duration,
    /// At this step the caller gives up.
    pub(crate) abandon_at: Option<usize>,
    /// A fork of what the call ended with is made at the end.
    pub(crate) fork: bool,
}

/// Runs a create to its very end.
pub(crate) fn drive(create: &mut Create, server: &mut Server, setup: &Setup<'_>) -> Run {
    let budget = Budget::new();
    let tokens = Some(Tokens { budget: &budget, call_started: Duration::ZERO });
    let mut now = Duration::ZERO;
    let mut input = Input::Continue;
    let mut run = Run {
        trace: Vec::new(),
        end: Action::Probe,
        left: Vec::new(),
        certain: false,
        sends: 0,
        lost_for: None,
        abandoned: false,
    };
    let (mut attempts, mut single, mut after) = (0, 0, 0);
    let mut not_before = Duration::ZERO;
    let mut ended = None;
    for index in 0..MOST_STEPS {
        let random = server.random();
        let step = if setup.abandon_at == Some(index) {
            run.abandoned = true;
            if let Action::Done(Done { id, .. }) = &run.end {
                server.kill(std::slice::from_ref(id));
            }
            // A send that runs goes on at the server, and its result is never seen; its head may have been written.
            match create.step(Input::Abandoned { sent: true }, tokens, now, random) {
                // The sweep still awaits the result of its own request.
                Step { rule: Rule::Awaited, .. } => create.step(input, tokens, now, random),
                step => step,
            }
        } else {
            create.step(input, tokens, now, random)
        };
        run.trace.push((now, step.clone()));
        let running = ended.is_none();
        if running
            && !matches!(step.action, Action::Wait { .. } | Action::Done(_) | Action::NotDone(_) | Action::Unknown(_))
        {
            assert!(now < setup.deadline, "{:?} at or after the deadline", step.action);
        }
        input = match step.action {
            Action::Send(send) => {
                assert!(running, "a send after the end");
                assert!(now >= not_before, "a send before the server's wait is over");
                match step.rule {
                    Rule::InProgress => single += 1,
                    _ => attempts += 1,
                }
                let (at, answer) = server.create(&setup.intent, &send.key, send.version, now);
                if let Outcome::Responded(response) = answer.outcome {
                    not_before = at + response.retry_after.unwrap_or_default();
                }
                now = at;
                if at >= setup.deadline {
                    now = setup.deadline;
                    let sent = answer.outcome.was_sent();
                    Input::Answered(oncebox_policy::create::Answer::new(Outcome::TimedOut { sent }))
                } else {
                    Input::Answered(answer)
                }
            }
            Action::Wait { until } => {
                assert!(until > now, "a wait for nothing");
                now = until;
                Input::Continue
            }
            Action::Probe => {
                single += 1;
                now += server.trip();
                server.probe()
            }
            Action::LookUp { version } => {
                if running {
                    single += 1
                } else {
                    after += 1
                }
                now += server.trip();
                server.list(&setup.intent, version, now)
            }
            Action::Adopt { id, .. } => {
                single += 1;
                now += server.trip();
                let sandbox = server.sandboxes.iter().find(|sandbox| sandbox.id == id);
                let tag = sandbox.map(|sandbox| sandbox.tag.clone());
                assert_eq!(tag, Some(IntentTag::Value(setup.intent.to_string())), "a foreign sandbox is adopted");
                server.adopt(&id)
            }
            Action::Kill { ids } => {
                assert!(!running, "a kill within the call");
                after += ids.len();
                for id in &ids {
                    let sandbox = server.sandboxes.iter().find(|sandbox| sandbox.id == *id);
                    assert!(sandbox.is_some_and(|sandbox| sandbox.ours), "{id} is not ours to kill: {sandbox:?}");
                }
                now += server.trip();
                server.kill(&ids)
            }
            Action::Superseded { lost, by } => {
                assert!(server.is_alive(&by), "superseded by a dead sandbox");
                match &mut run.end {
                    Action::Done(done) if done.id == lost => done.id = by,
                    end => panic!("superseded without a handle: {end:?}"),
                }
                Input::Continue
            }
            Action::Finished { left, certain } => {
                assert!(ended.is_some(), "finished before an end");
                (run.left, run.certain) = (left, certain);
                check_counts(setup, create, attempts, single, after);
                run.sends = create.sends();
                return run;
            }
            end @ (Action::Done(_) | Action::NotDone(_) | Action::Unknown(_)) => {
                assert!(running, "a second end");
                if let Action::Done(Done { id, .. }) = &end {
                    assert!(server.is_alive(id), "ended with a sandbox that does not exist");
                    if setup.fork {
                        let tag = IntentTag::Value(format!("{}-fork", setup.intent));
                        server.add_foreign(now.as_secs_f64() + 0.5, tag);
                    }
                }
                ended = Some(now);
                run.end = end;
                run.lost_for = create.lost_for(now);
                Input::Continue
            }
        };
    }
    panic!("no end after {MOST_STEPS} steps: {:?}", run.trace.last());
}

fn check_counts(setup: &Setup<'_>, create: &Create, attempts: u32, single: u32, after: usize) {
    // The send that found v2 missing is one of the single attempts.
    let fell_back = create.ledger().attempts().iter().any(|record| {
        record.purpose == oncebox_policy::Purpose::LookUp && matches!(record.outcome.status(), Some(404 | 405))
    });
    let (attempts, single) = (attempts - u32::from(fell_back), single + u32::from(fell_back));
    assert!(attempts <= setup.policy.bound(), "{attempts} attempts");
    assert!(single <= setup.policy.lookups, "{single} look-ups, fetches, probes and polls");
    assert_eq!(single, create.ledger().look_ups_used(), "look-ups are counted as they are made");
    assert!(after <= CLEANUP_LOOKUPS as usize, "{after} requests after the end");
}
