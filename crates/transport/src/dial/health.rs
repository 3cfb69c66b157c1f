//! Which addresses failed lately.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an address that failed comes after those that did not.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Addresses that are remembered.
const MAX_REMEMBERED: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<HashMap<SocketAddr, Instant>>);

impl Health {
    /// It refused, said nothing in time, or was of no use once connected.
    pub(super) fn failed(&self, address: SocketAddr) {
        let now = Instant::now();
        let mut failed = self.0.lock();
        if failed.len() >= MAX_REMEMBERED {
            failed.retain(|_, at| is_remembered(*at, now));
        }
        if failed.len() < MAX_REMEMBERED || failed.contains_key(&address) {
            failed.insert(address, now);
        }
    }

    pub(super) fn answered(&self, address: SocketAddr) {
        self.0.lock().remove(&address);
    }

    /// Those that failed lately last, the longest ago first among them; and the families in turn (RFC 8305 §4),
    /// beginning with that of the first address, as the resolver prefers it.
    pub(super) fn order(&self, addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
        let (now, failed) = (Instant::now(), self.0.lock());
        let failed_at = |address: &SocketAddr| failed.get(address).copied().filter(|at| is_remembered(*at, now));
        let (mut sick, well): (Vec<_>, Vec<_>) = addresses.partition(|address| failed_at(address).is_some());
        sick.sort_by_key(|address| failed_at(address));
        let mut order = in_turn(well);
        order.extend(sick);
        order
    }
}

fn is_remembered(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REMEMBERED
}

fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let count = addresses.len();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut order = Vec::with_capacity(count);
    while order.len() < count {
        order.extend(first.next());
        order.extend(second.next());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn families_take_turns_from_the_one_that_the_resolver_prefers() {
        let health = Health::default();
        let order = health.order(all(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]).into_iter());
        assert_eq!(order, all(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]));
        let order = health.order(all(&["1.1.1.1:1", "[::1]:1"]).into_iter());
        assert_eq!(order, all(&["1.1.1.1:1", "[::1]:1"]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_comes_last_for_a_minute_or_until_it_answers() {
        let health = Health::default();
        let addresses = all(&["1.1.1.1:1", "1.1.1.2:1", "1.1.1.3:1"]);
        let order = || health.order(addresses.iter().copied());
        health.failed(addresses[1]);
        tokio::time::advance(Duration::from_secs(1)).await;
        health.failed(addresses[0]);
        assert_eq!(order(), all(&["1.1.1.3:1", "1.1.1.2:1", "1.1.1.1:1"]));
        health.answered(addresses[0]);
        assert_eq!(order(), all(&["1.1.1.1:1", "1.1.1.3:1", "1.1.1.2:1"]));
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(order(), addresses);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let health = Health::default();
        for port in 0..1000 {
            health.failed(SocketAddr::from(([1, 1, 1, 1], port)));
        }
        assert_eq!(health.0.lock().len(), MAX_REMEMBERED);
    }
}
