//! All origins of the process: many clients share one pool.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

use super::origin::{Authority, Origin};
use crate::dial::Route;
use crate::options::Limits;

/// Origins that nobody uses are forgotten once there are this many.
const KEPT: usize = 256;

static ORIGINS: LazyLock<Mutex<HashMap<Key, Arc<Origin>>>> = LazyLock::new(Mutex::default);

/// Numbers connections over the whole process, so that histories of several origins can be read together.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// Connections belong to the runtime that drives them: those of one that has ended would never answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    authority: Authority,
    limits: Limits,
    route: Route,
    runtime: Id,
    /// After `fork` the parent's connections are still here, and are the parent's.
    process: u32,
}

/// The origin, shared by all clients with the same limits on the caller's runtime.
pub(crate) fn origin(authority: Authority, limits: Limits, route: Route) -> Arc<Origin> {
    let route = route.for_origin(&authority);
    let (runtime, process) = (Handle::current().id(), std::process::id());
    let key = Key { authority: authority.clone(), limits, route: route.clone(), runtime, process };
    let mut origins = ORIGINS.lock();
    if let Some(origin) = origins.get(&key) {
        return origin.clone();
    }
    if origins.len() >= KEPT {
        for (key, origin) in origins.extract_if(|_, origin| Arc::strong_count(origin) == 1) {
            // Dropping an origin closes its connections; whoever still calls through one keeps it alive. A parent's
            // would be taken from the epoll instance that the two processes share.
            if key.process != process {
                std::mem::forget(origin);
            }
        }
    }
    let origin = Origin::new(authority, limits, route);
    origins.insert(key, origin.clone());
    origin
}

pub(super) fn next_connection_id() -> u64 {
    NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed)
}
