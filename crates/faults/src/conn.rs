//! A connection: what its HTTP version shares with the other, and the faults that any moment can have.

mod act;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{Engine, Occasion, Request};
use crate::gate::Gate;
use crate::h2::H2;
use crate::log::Log;
use crate::out::Out;
use crate::script::{Answer, Fault, Link, Moment, Version, Withhold};
use crate::server::Shared;
use crate::upstream::Upstream;

pub(crate) use run::run;

/// What becomes of a request after the faults of a moment.
pub(crate) enum Flow {
    /// It goes on.
    On,
    /// It is over.
    Over,
    /// It is never answered.
    Hold,
    /// This is its answer.
    Answer(Box<Answer>),
}

pub(crate) struct Conn {
    pub(crate) number: u64,
    pub(crate) engine: Arc<Engine>,
    pub(crate) log: Log,
    pub(crate) gate: Gate,
    /// Where requests are passed on to; `None`: the script answers them.
    pub(crate) upstream: Option<Arc<Upstream>>,
    pub(crate) out: Out,
    pub(crate) h2: H2,
    /// The socket itself, to set how it closes; `None`: what it serves is none. Taken away at the end, so that the
    /// connection's halves are the last to hold it.
    pub(crate) socket: Mutex<Option<Arc<TcpStream>>>,
    version: Mutex<Option<Version>>,
    withheld: [AtomicBool; 3],
    /// What was said of the line at the start.
    pub(crate) line: Mutex<Line>,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    busy: Mutex<Busy>,
    pub(crate) busy_changed: Notify,
}

/// What a script says of a connection's line when it is accepted.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) link: Option<Link>,
    pub(crate) cut_tls: Option<u64>,
}

/// How many requests are open, and since when none was.
struct Busy {
    open: u64,
    idle_since: Instant,
}

impl Conn {
    pub(crate) fn new(number: u64, shared: Shared, socket: Option<Arc<TcpStream>>) -> Self {
        let Shared { engine, log, gate, upstream, .. } = shared;
        let engine = engine.lock().clone();
        Self {
            number,
            h2: H2::new(&engine.script),
            engine,
            log,
            gate,
            upstream,
            out: Out::default(),
            socket: Mutex::new(socket),
            version: Mutex::new(None),
            line: Mutex::default(),
            withheld: Default::default(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            busy: Mutex::new(Busy { open: 0, idle_since: Instant::now() }),
            busy_changed: Notify::new(),
        }
    }

    pub(crate) fn version(&self) -> Option<Version> {
        *self.version.lock()
    }

    pub(crate) fn set_version(&self, version: Version) {
        *self.version.lock() = Some(version);
        self.log.connection(self.number, |record| record.version = Some(version));
    }

    pub(crate) fn withhold(&self, what: Withhold) {
        self.withheld[what as usize].store(true, Ordering::Relaxed);
    }

    pub(crate) fn withholds(&self, what: Withhold) -> bool {
        self.withheld[what as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn request_begins(&self) {
        self.busy.lock().open += 1;
        self.busy_changed.notify_waiters();
    }

    pub(crate) fn request_is_over(&self) {
        let mut busy = self.busy.lock();
        busy.open -= 1;
        busy.idle_since = Instant::now();
        drop(busy);
        self.busy_changed.notify_waiters();
    }

    /// Since when no request was open; `None`: one is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let busy = self.busy.lock();
        (busy.open == 0).then_some(busy.idle_since)
    }

    /// Those of a script's numbers at which something may happen to a request.
    pub(crate) fn marks(&self, all: &[u64], at: fn(u64) -> Moment, request: &Request) -> Vec<u64> {
        let occasion = Occasion { connection: self.number, version: self.version(), request: Some(request) };
        self.engine.marks(all, at, &occasion)
    }

    /// The faults of a moment, in order.
    pub(crate) async fn happen(self: &Arc<Self>, moment: Moment, request: Option<&Request>) -> Flow {
        let engine = &self.engine;
        let rules = engine.at(moment);
        if rules.is_empty() {
            return Flow::On;
        }
        let occasion = Occasion { connection: self.number, version: self.version(), request };
        // All are looked at before the first happens: what one rule counts does not depend on what another does.
        let holding: Vec<usize> = rules.iter().copied().filter(|index| engine.holds(*index, &occasion)).collect();
        for index in &holding {
            let rule = &engine.script.rules[*index];
            // The faults after one that ends a request or the connection still happen: late frames, say.
            let mut over = false;
            for fault in &rule.faults {
                self.log_fault(*index, fault, request);
                if let Fault::Wait(ms) = fault {
                    tokio::time::sleep(std::time::Duration::from_millis(*ms)).await;
                    continue;
                }
                match self.act(fault, request) {
                    Flow::On => {}
                    Flow::Over => over = true,
                    chosen => return chosen,
                }
            }
            if over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    pub(crate) fn log_fault(&self, index: usize, fault: &Fault, request: Option<&Request>) {
        let name = &self.engine.script.rules[index].name;
        let unnamed;
        let name = if name.is_empty() {
            unnamed = format!("rules[{index}]");
            &unnamed
        } else {
            name
        };
        self.log.fault(self.number, request.map_or(0, |request| request.stream), name, fault.name());
    }
}
