//! What the crates below say of their work, for Python's `logging`. Nothing of it is secret.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines that wait to be taken, at most. The oldest are dropped, and it is told how many.
const WAITING: usize = 1000;

/// Whether somebody wants more than warnings.
static DEBUG: AtomicBool = AtomicBool::new(false);
/// Whether there is anything to be taken.
static SAID: AtomicBool = AtomicBool::new(false);
static LINES: Mutex<Lines> = Mutex::new(Lines { waiting: VecDeque::new(), dropped: 0 });

struct Lines {
    waiting: VecDeque<(u8, String)>,
    dropped: usize,
}

/// Listens from now on. Costs nothing until debugging is asked for: what is not listened to is not even formatted.
pub(crate) fn listen() {
    // Somebody else's cannot be there: the crates are this module's own copies.
    let _ = tracing::subscriber::set_global_default(Listener);
}

/// Whether more than warnings are wanted.
#[pyfunction]
pub(crate) fn log_debug(wanted: bool) {
    if DEBUG.swap(wanted, Ordering::Relaxed) != wanted {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Whether there is anything to be taken.
#[pyfunction]
pub(crate) fn has_log() -> bool {
    SAID.load(Ordering::Relaxed)
}

/// What was said since the last time: levels of Python's `logging`, and texts.
#[pyfunction]
pub(crate) fn take_log() -> Vec<(u8, String)> {
    let mut lines = LINES.lock();
    SAID.store(false, Ordering::Relaxed);
    let dropped = std::mem::take(&mut lines.dropped);
    let mut all: Vec<_> = lines.waiting.drain(..).collect();
    if dropped > 0 {
        all.insert(0, (30, format!("{dropped} lines were dropped: nobody took them in time")));
    }
    all
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("oncebox") && *metadata.level() <= level()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(level()))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // What spans tell is in the block that a call ends with.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut lines = LINES.lock();
        if lines.waiting.len() >= WAITING {
            lines.waiting.pop_front();
            lines.dropped += 1;
        }
        lines.waiting.push_back((level, format!("{}{}", text.message, text.fields)));
        SAID.store(true, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level() -> Level {
    if DEBUG.load(Ordering::Relaxed) { Level::DEBUG } else { Level::WARN }
}

/// An event as a line: its message, then its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
