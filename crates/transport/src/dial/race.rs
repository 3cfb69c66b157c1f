//! Races the addresses of a host (RFC 8305 §5).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::sleep;

/// How long an address has before the next one is tried as well (RFC 8305 §8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// One race: what was tried, whatever came of it and however the race ended.
#[derive(Debug, Default)]
pub(super) struct Race {
    tried: Vec<Tried>,
    winner: Option<SocketAddr>,
}

#[derive(Debug)]
struct Tried {
    address: SocketAddr,
    error: Option<io::Error>,
    /// Whether another was started since it did not answer.
    was_slow: bool,
}

impl Race {
    /// Tries the addresses in order, the next one as soon as the last failed or has not answered for a moment. The
    /// first that answers wins. `None`: none did.
    pub(super) async fn run<T, F>(
        &mut self,
        addresses: &[SocketAddr],
        connect: impl Fn(SocketAddr) -> F,
    ) -> Option<(SocketAddr, T)>
    where
        F: Future<Output = io::Result<T>>,
    {
        let mut running = FuturesUnordered::new();
        let mut waiting = addresses.iter().copied();
        loop {
            if let Some(address) = waiting.next() {
                self.tried.push(Tried { address, error: None, was_slow: false });
                let connecting = connect(address);
                running.push(async move { (address, connecting.await) });
            } else if running.is_empty() {
                return None;
            }
            let is_more = waiting.len() > 0;
            tokio::select! {
                biased;
                Some((address, result)) = running.next() => match result {
                    Ok(connection) => {
                        self.winner = Some(address);
                        return Some((address, connection));
                    }
                    Err(error) => {
                        if let Some(tried) = self.tried.iter_mut().find(|tried| tried.address == address) {
                            tried.error = Some(error);
                        }
                    }
                },
                () = sleep(ATTEMPT_DELAY), if is_more => {
                    self.tried.iter_mut().for_each(|tried| tried.was_slow = true);
                }
            }
        }
    }

    /// Those that failed, or had not answered when a later one did or the time was over.
    pub(super) fn overtaken(&self) -> impl Iterator<Item = SocketAddr> {
        let lost = |tried: &&Tried| {
            let is_beaten = self.winner.is_none() || tried.was_slow;
            Some(tried.address) != self.winner && (tried.error.is_some() || is_beaten)
        };
        self.tried.iter().filter(lost).map(|tried| tried.address)
    }

    /// What came of each address, where none answered within `limit`.
    pub(super) fn describe(&self, addresses: &[SocketAddr], limit: Duration) -> String {
        let tried = self.tried.iter().map(|tried| match &tried.error {
            Some(error) => format!("{}: {error}", tried.address),
            None => format!("{}: no answer in {limit:?} (connect_timeout)", tried.address),
        });
        let left = addresses.iter().skip(self.tried.len()).map(|address| format!("{address}: not tried in time"));
        tried.chain(left).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::future::pending;
    use tokio::time::Instant;

    fn addresses(count: u16) -> Vec<SocketAddr> {
        (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
    }

    /// Races addresses that each do something after a while: answer, refuse, or say nothing. Returns the winner's
    /// port, when each was started, and the race.
    async fn race(plan: &[Option<(u64, bool)>]) -> (Option<u16>, Vec<u64>, Race) {
        let began = Instant::now();
        let started = Mutex::new(Vec::new());
        let mut race = Race::default();
        let addresses = addresses(plan.len() as u16);
        let run = race.run(&addresses, |address| {
            started.lock().push(began.elapsed().as_millis() as u64);
            let planned = plan[usize::from(address.port()) - 1];
            async move {
                let Some((after, answers)) = planned else { return pending().await };
                sleep(Duration::from_millis(after)).await;
                if answers { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
            }
        });
        let won = tokio::time::timeout(Duration::from_secs(10), run).await.ok().flatten();
        (won.map(|(address, ())| address.port()), started.into_inner(), race)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_answers_within_the_delay_is_the_only_one_tried() {
        let (won, started, race) = race(&[Some((249, true)), Some((0, true))]).await;
        assert_eq!((won, started), (Some(1), vec![0]));
        assert_eq!(race.overtaken().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_costs_a_quarter_second_and_is_remembered() {
        let (won, started, race) = race(&[None, Some((10, true))]).await;
        assert_eq!((won, started), (Some(2), vec![0, 250]));
        assert_eq!(race.overtaken().map(|a| a.port()).collect::<Vec<_>>(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_still_wins_when_it_answers_first() {
        let (won, started, race) = race(&[Some((400, true)), None, Some((0, true))]).await;
        assert_eq!((won, started), (Some(1), vec![0, 250]));
        // The second had no time to show that it is slow.
        assert_eq!(race.overtaken().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_the_next_one_is_tried_at_once() {
        let (won, started, race) = race(&[Some((5, false)), Some((5, false)), Some((5, true))]).await;
        assert_eq!((won, started), (Some(3), vec![0, 5, 10]));
        assert_eq!(race.overtaken().count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn where_none_answers_each_is_listed_with_what_came_of_it() {
        let (won, _, race) = race(&[Some((5, false)), None]).await;
        assert_eq!(won, None);
        let text = race.describe(&addresses(3), Duration::from_secs(10));
        assert_eq!(
            text,
            "127.0.0.1:1: connection refused; 127.0.0.1:2: no answer in 10s (connect_timeout); \
             127.0.0.1:3: not tried in time"
        );
        assert_eq!(race.overtaken().count(), 2);
    }
}
