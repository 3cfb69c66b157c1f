//! The pool's counting, in every order that two or three threads can bring its steps into.
//!
//! The pool's own `Load`, `Queue` and `Line`, with loom's atomics and locks in place of the system's, and around them
//! what the pool does with them, in the order in which it does it. A waiter that nobody serves is a deadlock, which
//! loom finds; a stream that is counted wrongly is an assertion.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

#[path = "../src/pool/line.rs"]
#[allow(dead_code)]
mod line;
#[path = "../src/pool/load.rs"]
#[allow(dead_code, unreachable_pub)]
mod load;
#[path = "../src/pool/queue.rs"]
mod queue;

mod sync {
    pub(super) use loom::sync::MutexGuard;
    pub(super) use loom::sync::atomic::Ordering;
    use loom::sync::atomic::fence;

    #[derive(Debug)]
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    /// loom takes sequentially consistent accesses for acquiring and releasing ones, but knows such fences: one before
    /// each access and one after it.
    fn ordered<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
        let fenced = order == Ordering::SeqCst;
        if fenced {
            fence(Ordering::SeqCst);
        }
        let result = access();
        if fenced {
            fence(Ordering::SeqCst);
        }
        result
    }

    macro_rules! atomic {
        ($name:ident, $number:ty) => {
            #[derive(Debug)]
            pub(super) struct $name(loom::sync::atomic::$name);

            #[allow(dead_code)] // Each of the two is used in part.
            impl $name {
                pub(super) fn new(value: $number) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(super) fn load(&self, order: Ordering) -> $number {
                    ordered(order, || self.0.load(order))
                }

                pub(super) fn store(&self, value: $number, order: Ordering) {
                    ordered(order, || self.0.store(value, order));
                }

                pub(super) fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                    ordered(order, || self.0.fetch_add(value, order))
                }

                pub(super) fn fetch_sub(&self, value: $number, order: Ordering) -> $number {
                    ordered(order, || self.0.fetch_sub(value, order))
                }

                pub(super) fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    change: impl FnMut($number) -> Option<$number>,
                ) -> Result<$number, $number> {
                    ordered(set, || self.0.fetch_update(set, fetch, change))
                }
            }
        };
    }

    atomic!(AtomicU32, u32);
    atomic!(AtomicUsize, usize);
}

use line::{Line, Locked};
use load::Load;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use queue::Place;

/// What a waiter and whoever serves it share: tokio's oneshot channel, in small.
#[derive(Debug, Default)]
struct Served {
    /// A refusal would not be repeated.
    cautious: bool,
    cell: Mutex<Cell>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum Cell {
    #[default]
    Open,
    Full(usize),
    Closed,
}

/// As `Http2Pool`, without what it does to sockets. A permit is its connection's index.
struct Pool {
    connections: Vec<Load>,
    /// SETTINGS have come on one of them.
    is_announced: AtomicBool,
    line: Line<Arc<Served>, ()>,
}

impl Pool {
    fn new(caps: &[u32]) -> Arc<Self> {
        Arc::new(Self {
            connections: caps.iter().map(|cap| Load::new(*cap, u32::MAX)).collect(),
            is_announced: AtomicBool::new(false),
            line: Line::new(()),
        })
    }

    fn pick(&self, cautious: bool) -> Option<usize> {
        if cautious
            && !self.is_announced.load(Ordering::Acquire)
            && self.connections.iter().any(|load| load.active() > 0)
        {
            return None;
        }
        self.connections.iter().position(Load::take)
    }

    fn settle(&self, slow: &mut Locked<'_, Arc<Served>, ()>) {
        slow.hand_over(
            |waiter| self.pick(waiter.cautious),
            |waiter, stream| {
                let mut cell = waiter.cell.lock().unwrap();
                if matches!(*cell, Cell::Closed) {
                    return Err(stream);
                }
                *cell = Cell::Full(stream);
                waiter.changed.notify_one();
                Ok(())
            },
            |stream| self.connections[stream].untake(),
        );
    }

    fn join(&self, cautious: bool) -> (Arc<Served>, Place) {
        let served = Arc::new(Served { cautious, ..Served::default() });
        let mut slow = self.line.lock();
        let place = slow.join(served.clone(), false);
        self.settle(&mut slow);
        (served, place)
    }

    fn acquire(&self) -> usize {
        if !self.line.is_anyone_waiting()
            && let Some(stream) = self.pick(false)
        {
            return stream;
        }
        self.wait(false)
    }

    /// Those who are cautious always join the line.
    fn acquire_cautiously(&self) -> usize {
        self.wait(true)
    }

    fn wait(&self, cautious: bool) -> usize {
        let (served, place) = self.join(cautious);
        let mut cell = served.cell.lock().unwrap();
        let stream = loop {
            match *cell {
                Cell::Full(stream) => break stream,
                _ => cell = served.changed.wait(cell).unwrap(),
            }
        };
        drop(cell);
        self.line.lock().leave(place);
        stream
    }

    /// Joins the line and is dropped before it was served, or just afterwards.
    fn join_and_leave(&self) {
        let (served, place) = self.join(false);
        thread::yield_now();
        self.line.lock().leave(place);
        let cell = std::mem::replace(&mut *served.cell.lock().unwrap(), Cell::Closed);
        if let Cell::Full(stream) = cell {
            self.release(stream);
        }
    }

    fn release(&self, stream: usize) {
        self.connections[stream].give_back();
        if self.line.is_anyone_waiting() {
            self.settle(&mut self.line.lock());
        }
    }

    /// The peer's SETTINGS.
    fn announced(&self, connection: usize, cap: u32) {
        let mut slow = self.line.lock();
        self.is_announced.store(true, Ordering::Release);
        self.connections[connection].set_cap(cap);
        self.settle(&mut slow);
    }

    /// No other stream is open meanwhile.
    fn hold_alone(&self, stream: usize) {
        assert_eq!(self.connections[stream].active(), 1);
        self.release(stream);
    }

    /// Nobody waits, and no stream is taken.
    fn assert_quiet(&self) {
        assert!(!self.line.is_anyone_waiting());
        assert!(self.connections.iter().all(|load| load.active() == 0));
    }
}

/// On a thread of its own.
fn another(pool: &Arc<Pool>, act: impl FnOnce(&Pool) + 'static) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || act(&pool))
}

/// Orders with more switches between threads than this are left out, which find no more and take for ever.
fn every_order(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn one_stream_is_had_by_one_after_another() {
    every_order(4, || {
        let pool = Pool::new(&[1]);
        let others = [(); 2].map(|()| another(&pool, |pool| pool.hold_alone(pool.acquire())));
        others.into_iter().for_each(|other| other.join().unwrap());
        pool.assert_quiet();
    });
}

#[test]
fn a_stream_that_is_given_back_while_somebody_joins_is_found() {
    every_order(5, || {
        let pool = Pool::new(&[1]);
        let held = pool.acquire();
        let waiter = another(&pool, |pool| pool.release(pool.acquire()));
        pool.release(held);
        waiter.join().unwrap();
        pool.assert_quiet();
    });
}

#[test]
fn a_stream_handed_to_one_who_left_goes_to_the_next() {
    every_order(3, || {
        let pool = Pool::new(&[1]);
        let held = pool.acquire();
        let leaves = another(&pool, Pool::join_and_leave);
        let waits = another(&pool, |pool| pool.release(pool.acquire()));
        pool.release(held);
        leaves.join().unwrap();
        waits.join().unwrap();
        pool.assert_quiet();
    });
}

#[test]
fn a_cap_that_is_raised_while_somebody_joins_is_seen() {
    every_order(5, || {
        let pool = Pool::new(&[0]);
        let waiter = another(&pool, |pool| pool.release(pool.acquire()));
        pool.announced(0, 1);
        waiter.join().unwrap();
        pool.assert_quiet();
    });
}

/// Two calls without repeats find a connection that has not told how many streams it allows: one goes first.
#[test]
fn of_two_cautious_calls_one_is_at_risk_at_a_time() {
    every_order(4, || {
        let pool = Pool::new(&[2]);
        let others = [(); 2].map(|()| another(&pool, |pool| pool.hold_alone(pool.acquire_cautiously())));
        others.into_iter().for_each(|other| other.join().unwrap());
        pool.assert_quiet();
    });
}

/// The other goes as soon as the peer has told, though the first has not been answered.
#[test]
fn who_is_cautious_is_let_go_by_settings() {
    every_order(4, || {
        let pool = Pool::new(&[2]);
        let held = pool.acquire_cautiously();
        let waiter = another(&pool, |pool| pool.release(pool.acquire_cautiously()));
        pool.announced(0, 2);
        waiter.join().unwrap();
        pool.release(held);
        pool.assert_quiet();
    });
}

#[test]
fn a_connection_that_drains_takes_nobody_and_the_other_serves() {
    every_order(3, || {
        let pool = Pool::new(&[1, 1]);
        let others = [(); 2].map(|()| another(&pool, |pool| pool.release(pool.acquire())));
        pool.announced(0, 0);
        assert!(!pool.connections[0].take());
        others.into_iter().for_each(|other| other.join().unwrap());
        pool.assert_quiet();
    });
}
