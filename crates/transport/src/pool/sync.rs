//! What the counting of streams is made of. The model test of it puts loom's in their place.

pub(super) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

pub(super) use parking_lot::{Mutex, MutexGuard};
