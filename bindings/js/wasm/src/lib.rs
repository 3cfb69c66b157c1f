//! The policy behind a flat interface: numbers in registers, everything else as bytes in one message buffer.
//!
//! The caller asks for room with [`message`], writes what an export takes, and calls it; what it returns is the address of
//! its answer, which stays until the next call. How values are written is said in `message.rs`; both sides keep the same
//! order, and the vectors go through every value. A call, a create and a budget are handles, to be given back by the
//! export whose name ends in `_free`. Nothing here is called by two threads.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod memory;
mod message;
mod read;
mod write;

use core::time::Duration;

use oncebox_policy::create::{Create, Step};
use oncebox_policy::{
    Budget, CallFacts, DecidedBy, Ledger, Policy, Return, ReturnReason, Rule, Tokens, Verdict, http_date,
    judge_adopted, judge_look_up, judge_reconciled, judge_traced, retry_after, should_retry,
};

use memory::{borrow, give, release};
use message::{Reader, Writer, answer, with_message};

/// One call, with what decides about it.
pub struct Call {
    policy: Policy,
    facts: CallFacts,
    ledger: Ledger,
}

/// Makes room for a message of this length, and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn message(length: usize) -> *mut u8 {
    message::reserve(length)
}

/// A preset's policy: 0 the default, 1 that of the official SDK 2.52, 2 that of 2.63.
#[unsafe(no_mangle)]
pub extern "C" fn preset(number: u32) -> *const u8 {
    answer(|writer| {
        write::policy(
            writer,
            &match number {
                1 => Policy::e2b_2_52(),
                2 => Policy::e2b_2_63(),
                _ => Policy::DEFAULT,
            },
        );
    })
}

/// `Retry-After`. Takes the value, `Date` if there is one, and the local clock in seconds since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn read_retry_after() -> f64 {
    with_message(|mut reader| {
        let value = reader.bytes().unwrap_or_default();
        let date = reader.bytes();
        let wait = retry_after(value, date, reader.f64() as u64);
        wait.map_or(f64::NAN, |wait| wait.as_secs_f64())
    })
}

/// An HTTP date in seconds since 1970, or NaN. Takes the value and the local clock.
#[unsafe(no_mangle)]
pub extern "C" fn read_http_date() -> f64 {
    with_message(|mut reader| {
        let value = reader.bytes().unwrap_or_default();
        http_date(value, reader.f64() as u64).map_or(f64::NAN, |seconds| seconds as f64)
    })
}

/// `Should-Retry`: whether it says true.
#[unsafe(no_mangle)]
pub extern "C" fn read_should_retry() -> bool {
    with_message(|mut reader| should_retry(reader.bytes().unwrap_or_default()))
}

/// A budget with this many tokens.
#[unsafe(no_mangle)]
pub extern "C" fn budget_new(tokens: u32) -> *mut Budget {
    give(Budget::with_level(tokens))
}

/// Whole tokens at this time of the budget's clock.
#[unsafe(no_mangle)]
pub extern "C" fn budget_available(budget: *mut Budget, now: f64) -> u32 {
    borrow(budget).map_or(0, |budget| budget.available(read::duration(now)))
}

#[unsafe(no_mangle)]
pub extern "C" fn budget_free(budget: *mut Budget) {
    release(budget);
}

/// A call. Takes its policy and its facts.
#[unsafe(no_mangle)]
pub extern "C" fn call_new() -> *mut Call {
    with_message(|mut reader| {
        let policy = read::policy(&mut reader);
        let facts = read::facts(&mut reader);
        give(Call { policy, facts, ledger: Ledger::new() })
    })
}

/// After an attempt. Takes the turn, the body's state and the attempt; answers with the verdict and its rule.
#[unsafe(no_mangle)]
pub extern "C" fn call_judge(call: *mut Call, budget: *mut Budget) -> *const u8 {
    decide(call, budget, |call, tokens, turn, reader| {
        call.facts.body = read::body(reader);
        let attempt = read::attempt(reader);
        let Call { policy, facts, ledger } = call;
        let mut by = DecidedBy::default();
        let verdict = judge_traced(policy, facts, ledger, tokens, &attempt, turn.now, turn.random, &mut by);
        (Some(verdict), by.0)
    })
}

/// The reconciler wants the request sent again. Takes the turn; answers with the verdict.
#[unsafe(no_mangle)]
pub extern "C" fn call_resend(call: *mut Call, budget: *mut Budget) -> *const u8 {
    decide(call, budget, |Call { policy, facts, ledger }, tokens, turn, _| {
        (Some(judge_reconciled(policy, facts, ledger, tokens, turn.now, turn.random)), None)
    })
}

/// The reconciler wants to begin a look-up. Takes the turn; answers with a verdict if something stops it.
#[unsafe(no_mangle)]
pub extern "C" fn call_start_look_up(call: *mut Call, budget: *mut Budget) -> *const u8 {
    decide(call, budget, |Call { policy, facts, ledger }, _, turn, _| {
        let stopped = ledger.start_look_up(policy, facts, turn.now).err();
        (stopped.map(|reason| Verdict::Return(Return { reason, retry_after: None })), None)
    })
}

/// The reconciler's own attempt ended. Takes the turn, its purpose and the attempt; answers with the verdict.
#[unsafe(no_mangle)]
pub extern "C" fn call_look_up(call: *mut Call, budget: *mut Budget) -> *const u8 {
    decide(call, budget, |Call { facts, ledger, .. }, _, turn, reader| {
        let purpose = read::purpose(reader);
        (Some(judge_look_up(facts, ledger, purpose, &read::attempt(reader), turn.now)), None)
    })
}

/// The reconciler ended the call well. Takes the turn.
#[unsafe(no_mangle)]
pub extern "C" fn call_adopted(call: *mut Call, budget: *mut Budget) -> *const u8 {
    decide(call, budget, |Call { policy, ledger, .. }, tokens, turn, _| {
        judge_adopted(policy, ledger, tokens, turn.now);
        (None, None)
    })
}

/// What the call has spent, and its attempts.
#[unsafe(no_mangle)]
pub extern "C" fn call_ledger(call: *mut Call) -> *const u8 {
    answer(|writer| {
        if let Some(call) = borrow(call) {
            write::ledger(writer, &call.ledger);
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn call_free(call: *mut Call) {
    release(call);
}

/// A create. Takes its mode (0 new, 1 given, 2 resolve), its intent and its call; null where the intent is none.
#[unsafe(no_mangle)]
pub extern "C" fn create_new() -> *mut Create {
    with_message(|mut reader| read::create(&mut reader).map_or(core::ptr::null_mut(), give))
}

/// Takes the turn and the input; answers with what to do and its rule.
#[unsafe(no_mangle)]
pub extern "C" fn create_step(create: *mut Create, budget: *mut Budget) -> *const u8 {
    let step = with_message(|mut reader| {
        let turn = read::turn(&mut reader);
        let input = read::input(&mut reader);
        let create = borrow(create)?;
        Some(create.step(input, tokens(budget, &turn), turn.now, turn.random))
    });
    answer(|writer| {
        if let Some(Step { action, rule }) = &step {
            write::action(writer, action);
            writer.u8(*rule as u8);
        }
    })
}

/// An attempt of a page, a fetch, a probe or a kill ended. Takes the turn, its purpose and the attempt.
#[unsafe(no_mangle)]
pub extern "C" fn create_record(create: *mut Create) {
    with_message(|mut reader| {
        let turn = read::turn(&mut reader);
        let purpose = read::purpose(&mut reader);
        let attempt = read::attempt(&mut reader);
        if let Some(create) = borrow(create) {
            create.record(purpose, &attempt, turn.now);
        }
    });
}

/// How many sends may have made a sandbox, what is known of the server, and the ledger.
#[unsafe(no_mangle)]
pub extern "C" fn create_state(create: *mut Create) -> *const u8 {
    answer(|writer| {
        if let Some(create) = borrow(create) {
            writer.u32(create.sends());
            write::server(writer, create.server());
            write::ledger(writer, create.ledger());
        }
    })
}

/// How many seconds ago, at this one of the call's, the last loss was whose outcome is not known; NaN: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn create_lost_for(create: *mut Create, now: f64) -> f64 {
    let lost = borrow(create).and_then(|create| create.lost_for(read::duration(now)));
    lost.map_or(f64::NAN, |ago| ago.as_secs_f64())
}

#[unsafe(no_mangle)]
pub extern "C" fn create_free(create: *mut Create) {
    release(create);
}

fn decide(
    call: *mut Call,
    budget: *mut Budget,
    decide: impl FnOnce(&mut Call, Option<Tokens<'_>>, &read::Turn, &mut Reader<'_>) -> (Option<Verdict>, Option<Rule>),
) -> *const u8 {
    let (verdict, rule) = with_message(|mut reader| {
        let turn = read::turn(&mut reader);
        match borrow(call) {
            Some(call) => decide(call, tokens(budget, &turn), &turn, &mut reader),
            None => (Some(NO_CALL), None),
        }
    });
    answer(|writer: &mut Writer| {
        write::verdict(writer, verdict.as_ref());
        writer.u8(rule.map_or(u8::MAX, |rule| rule as u8));
    })
}

/// The verdict on a handle that is none.
const NO_CALL: Verdict = Verdict::Return(Return { reason: ReturnReason::Cancelled, retry_after: None });

fn tokens<'a>(budget: *mut Budget, turn: &read::Turn) -> Option<Tokens<'a>> {
    let budget = borrow(budget)?;
    Some(Tokens { budget, call_started: turn.call_started })
}

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// Zero, as times begin.
pub(crate) const ZERO: Duration = Duration::ZERO;
