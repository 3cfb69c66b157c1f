//! How many HTTP/1.1 connections there are, and how many calls wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::observe::{Connections, Shown};

/// What is counted. HTTP/2 counts under its line's lock instead.
pub(super) struct Counts {
    open: AtomicUsize,
    waiting: AtomicUsize,
    shown: Arc<Shown>,
}

/// One of those that are counted, until it is dropped.
pub(crate) struct Counted {
    counts: Arc<Counts>,
    what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Open,
    Waiting,
}

impl Counts {
    pub(super) fn new(shown: Arc<Shown>) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), waiting: AtomicUsize::new(0), shown })
    }

    pub(super) fn one(self: &Arc<Self>, what: What) -> Counted {
        self.of(what).fetch_add(1, Ordering::AcqRel);
        self.show();
        Counted { counts: self.clone(), what }
    }

    fn of(&self, what: What) -> &AtomicUsize {
        match what {
            What::Open => &self.open,
            What::Waiting => &self.waiting,
        }
    }

    /// Tells observers what there is now.
    pub(super) fn show(&self) {
        if self.shown.is_watched() {
            self.shown.set(0, || Connections {
                open: self.open.load(Ordering::Acquire),
                draining: 0,
                waiting: self.waiting.load(Ordering::Acquire),
            });
        }
    }
}

#[cfg(all(test, feature = "simulation"))]
impl Counted {
    /// That of a connection which belongs to no pool.
    pub(crate) fn alone() -> Self {
        Counts::new(Shown::new(String::new())).one(What::Open)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.of(self.what).fetch_sub(1, Ordering::AcqRel);
        self.counts.show();
    }
}
