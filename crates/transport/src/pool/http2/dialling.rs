//! How connections come to be, and what follows when they do not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use oncebox_policy::{Outcome, Phase, ShortText, dial_backoff};
use tokio::time::Instant;

use super::{Http2Pool, Slow, Unavailable, Unserved};
use crate::conn::{Failure, H2Connection, Liveness};
use crate::dial::DialError;
use crate::pool::load::Load;
use crate::pool::permit::Permit;
use crate::pool::registry::next_connection_id;
use crate::tls::Offer;

impl Http2Pool {
    /// Starts so many dials, or plans to look again when dials may start.
    pub(super) fn dial(&self, slow: &mut Slow<'_>, count: usize) {
        if count == 0 {
            return;
        }
        if let Some(at) = slow.not_before.filter(|at| *at > Instant::now()) {
            self.look_again(slow, at);
            return;
        }
        let may_choose = slow.front().is_some_and(|waiter| waiter.want.may_choose);
        for _ in 0..count {
            let Some(connecting) = self.connecting(false) else { return };
            self.runtime.spawn(async move {
                let opened = connecting.pool.open(may_choose, connecting.round).await;
                connecting.end(opened);
            });
        }
    }

    /// `None`: there is no place for another connection.
    fn connecting(&self, may_be_abandoned: bool) -> Option<Connecting> {
        let pool = self.this.upgrade()?;
        if !self.bound.take(self.class) {
            return None;
        }
        self.connecting.fetch_add(1, Ordering::AcqRel);
        Some(Connecting { pool, round: self.failed_dials(), may_be_abandoned, holds_place: true })
    }

    async fn open(&self, may_choose: bool, round: u32) -> Result<Arc<H2Connection>, Unavailable> {
        let offer = if may_choose { Offer::Either } else { Offer::Http2 };
        let dialled = self.dialer.dial(offer).await.map_err(unavailable)?;
        if self.dialer.is_https() && !dialled.chose_http2 {
            if !may_choose {
                let detail = "the server does not speak HTTP/2 (http_version)".into();
                return Err(Unavailable::new(Phase::Tls, detail));
            }
            let connection = self.http1.open(dialled.stream).await.map_err(unavailable)?;
            self.http1.put_idle(connection);
            return Err(Unavailable { chose_http1: true, ..Unavailable::new(Phase::Tls, ShortText::EMPTY) });
        }
        let load = {
            let slow = self.line.lock();
            let known = slow.learned.is_announced();
            let cap = if known { slow.learned.cap() } else { self.limits.initial_streams };
            Load::new(cap, slow.learned.lifetime())
        };
        let liveness = Liveness { interval: self.limits.ping_interval, timeout: self.limits.ping_timeout };
        H2Connection::open(dialled.stream, next_connection_id(), round, load, liveness, self.this.clone())
            .await
            .map_err(|error| unavailable(Failure::dial(Phase::Connect, error)))
    }

    fn opened(&self, slow: &mut Slow<'_>, connection: Arc<H2Connection>) {
        // A GOAWAY may have come already, and then it was counted as a failed dial.
        if connection.is_draining() {
            let detail = ShortText::new("the connection ended as soon as it was open");
            self.give_up(slow, Unavailable::new(Phase::Connect, detail));
        } else {
            self.connections.change(|list| list.iter().cloned().chain([connection]).collect());
        }
        self.settle(slow, 0);
    }

    /// Takes note of a failed dial, and tells all who wait when nothing else can help them.
    ///
    /// Dials that began in the same round count as one: the origin failed once, however many asked.
    pub(super) fn dial_failed(&self, slow: &mut Slow<'_>, round: u32, why: Unavailable) {
        let failed = round.saturating_add(1);
        let _ = self.failed_dials.compare_exchange(round, failed, Ordering::AcqRel, Ordering::Acquire);
        // The shortest wait that those who try again may draw: whoever is first dials for all.
        slow.not_before = Some(Instant::now() + dial_backoff(failed, 0.0));
        self.give_up(slow, why);
    }

    /// Dismisses all who wait, unless a connection is open or being dialled.
    fn give_up(&self, slow: &mut Slow<'_>, why: Unavailable) {
        if self.connections.load().is_empty() && self.connecting.load(Ordering::Acquire) == 0 {
            self.dismiss(slow, why);
        }
    }

    /// Tells all who wait that there will be no stream.
    fn dismiss(&self, slow: &mut Slow<'_>, why: Unavailable) {
        for waiter in slow.dismiss() {
            // One that left in the meantime needs no answer.
            let _ = waiter.served.send(Err(why.clone()));
        }
        self.show(slow);
    }

    fn look_again(&self, slow: &mut Slow<'_>, at: Instant) {
        if std::mem::replace(&mut slow.look_planned, true) {
            return;
        }
        let pool = self.this.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(pool) = pool.upgrade() {
                let mut slow = pool.line.lock();
                slow.look_planned = false;
                pool.settle(&mut slow, 0);
            }
        });
    }

    /// A connection of its own, for a request that may use no other. `None`: there is no room for one.
    pub(super) async fn dial_for_one(self: &Arc<Self>, may_choose: bool) -> Option<Result<Permit, Unserved>> {
        let connecting = {
            let _slow = self.line.lock();
            let open = self.connections.load().len() + self.connecting.load(Ordering::Acquire);
            if open >= self.limits.max_connections {
                return None;
            }
            self.connecting(true)?
        };
        let opened = self.open(may_choose, connecting.round).await;
        // Taken before anyone else sees it.
        let permit = match &opened {
            Ok(connection) if connection.load().take() => Ok(Permit::new(connection.clone(), self.clone())),
            Ok(_) => Err(Unserved::Failed(Failure::not_sent("the new connection takes no streams"))),
            Err(why) => Err(why.clone().into_unserved()),
        };
        connecting.end(opened);
        Some(permit)
    }
}

fn unavailable(failure: Failure) -> Unavailable {
    match failure.outcome {
        Outcome::NotSent(not_sent) => Unavailable {
            error: failure.source.downcast::<DialError>().ok().map(|error| *error),
            ..Unavailable::new(not_sent.phase, not_sent.detail)
        },
        _ => Unavailable::new(Phase::Connect, ShortText::new(&failure.source.to_string())),
    }
}

/// A dial under way. It is counted down also when the runtime ends and drops this.
struct Connecting {
    pool: Arc<Http2Pool>,
    /// How many rounds of dials had failed when it began.
    round: u32,
    /// Whether it ends with the request that asked for it. Others may have counted on it.
    may_be_abandoned: bool,
    /// Whether it is counted among the origin's connections. A connection that it brings is counted in its stead.
    holds_place: bool,
}

impl Connecting {
    fn end(mut self, opened: Result<Arc<H2Connection>, Unavailable>) {
        let (pool, round) = (self.pool.clone(), self.round);
        let mut slow = pool.line.lock();
        self.may_be_abandoned = false;
        self.holds_place = opened.is_err();
        // Under the lock: nobody may see neither the dial nor its connection, and dial for it once more.
        drop(self);
        match opened {
            Ok(connection) => pool.opened(&mut slow, connection),
            // The dial did not fail: whoever waits goes on over HTTP/1.1.
            Err(why) if why.chose_http1 => pool.dismiss(&mut slow, why),
            Err(why) => {
                pool.dial_failed(&mut slow, round, why);
                pool.settle(&mut slow, 0);
            }
        }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.pool.connecting.fetch_sub(1, Ordering::AcqRel);
        if self.holds_place {
            self.pool.give_place_back();
        }
        if self.may_be_abandoned {
            self.pool.settle(&mut self.pool.line.lock(), 0);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "simulation")]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::dial::{Dialer, Route};
    use crate::observe::Shown;
    use crate::options::{Limits, TrafficClass};
    use crate::pool::bound::Bound;
    use crate::pool::http1::Http1Pool;
    use crate::pool::http2::Want;
    use crate::pool::origin::Authority;
    use crate::simulation::{self, Io};

    fn pool() -> Arc<Http2Pool> {
        let authority = Authority::of(&"http://server/".parse().unwrap()).unwrap();
        let (dialer, limits) = (Arc::new(Dialer::new(authority, Route::default())), Limits::default());
        let shown = Shown::new(String::new());
        let http1 = Http1Pool::new(dialer.clone(), limits, shown.clone());
        Http2Pool::new(TrafficClass::Interactive, Bound::new(1), dialer, limits, http1, shown)
    }

    /// It can be over as soon as it is open, before anybody else knows of it.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_ended_before_it_was_listed_is_a_failed_dial() {
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        let ours = Mutex::new(Some(ours));
        simulation::on_this_thread(move |_, _| {
            let ours = ours.lock().unwrap().take();
            Box::pin(async move { Ok(Box::new(ours.unwrap()) as Box<dyn Io>) })
        });
        let pool = pool();
        let connecting = pool.connecting(false).unwrap();
        let waits = tokio::spawn({
            let pool = pool.clone();
            async move { pool.acquire(Want::default()).await.map(drop) }
        });
        let Ok(opened) = pool.open(false, connecting.round).await else { panic!("it is open") };
        drop(theirs);
        while !opened.is_draining() {
            tokio::task::yield_now().await;
        }
        connecting.end(Ok(opened));
        assert!(pool.connections.load().is_empty());
        let told = tokio::time::timeout(Duration::from_secs(1), waits).await;
        assert!(matches!(told, Ok(Ok(Err(Unserved::Failed(_))))), "{told:?}");
        assert_eq!(pool.failed_dials(), 1);
    }
}
