//! Names to addresses.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use parking_lot::Mutex;
use tokio::net::lookup_host;

use crate::body::BoxError;

/// The addresses of a host, on their way.
pub type Resolving = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, BoxError>> + Send>>;

/// Turns a name into addresses, in the order in which they should be tried.
///
/// It is asked anew for each dial; what it keeps for how long is its own matter. Names that are addresses never reach
/// it.
pub trait Resolve: Send + Sync {
    /// The host's addresses. No addresses are an error, too.
    fn resolve(&self, host: &str) -> Resolving;
}

/// Who is asked. Two are equal when they are the same.
#[derive(Clone, Default)]
pub(crate) enum Resolver {
    /// `getaddrinfo`, on a thread where it may block.
    #[default]
    System,
    Own(Arc<dyn Resolve>),
}

impl Resolver {
    fn resolve(&self, host: &str) -> Resolving {
        match self {
            Self::System => {
                let host = host.to_owned();
                Box::pin(async move {
                    let found = lookup_host((host, 0)).await?;
                    let mut addresses: Vec<IpAddr> = Vec::new();
                    for address in found.map(|address| address.ip()) {
                        if !addresses.contains(&address) {
                            addresses.push(address);
                        }
                    }
                    Ok(addresses)
                })
            }
            Self::Own(resolver) => resolver.resolve(host),
        }
    }

    /// What tells two apart.
    fn identity(&self) -> Option<usize> {
        match self {
            Self::System => None,
            Self::Own(resolver) => Some(Arc::as_ptr(resolver).cast::<()>().addr()),
        }
    }
}

impl PartialEq for Resolver {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Resolver {}

impl Hash for Resolver {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.identity().is_some() { "Own" } else { "System" })
    }
}

/// Addresses that are tried at most.
const MAX_ADDRESSES: usize = 64;

type Found = Result<Arc<[IpAddr]>, Arc<str>>;

type Lookup = Pin<Box<dyn Future<Output = Found> + Send>>;

/// Look-ups under way. Dials that begin while one for the same name is under way share it, so that a burst of dials
/// does not take a thread each.
pub(super) struct Lookups {
    resolver: Resolver,
    running: Mutex<Vec<(Box<str>, WeakShared<Lookup>)>>,
}

impl Lookups {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self { resolver, running: Mutex::default() }
    }

    pub(super) async fn resolve(&self, host: &str) -> Found {
        match host.parse::<IpAddr>() {
            Ok(address) => Ok(Arc::new([address])),
            Err(_) => self.shared(host).await,
        }
    }

    fn shared(&self, host: &str) -> Shared<Lookup> {
        let mut running = self.running.lock();
        // One that is over is not new enough, and one that nobody waits for is gone.
        running.retain(|(_, lookup)| lookup.upgrade().is_some_and(|lookup| lookup.peek().is_none()));
        let known = running.iter().find(|(name, _)| **name == *host);
        if let Some(lookup) = known.and_then(|(_, lookup)| lookup.upgrade()) {
            return lookup;
        }
        let resolving = self.resolver.resolve(host);
        let lookup: Lookup = Box::pin(async move {
            match resolving.await {
                Ok(mut found) => {
                    found.truncate(MAX_ADDRESSES);
                    Ok(found.into())
                }
                Err(error) => Err(error.to_string().into()),
            }
        });
        let lookup = lookup.shared();
        if let Some(weak) = lookup.downgrade() {
            running.push((host.into(), weak));
        }
        lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    struct Slow(Arc<AtomicUsize>);

    impl Resolve for Slow {
        fn resolve(&self, host: &str) -> Resolving {
            let asked = self.0.fetch_add(1, Ordering::SeqCst);
            let host = host.to_owned();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                if host == "nowhere" {
                    return Err("no such host".into());
                }
                Ok(vec![IpAddr::from([10, 0, 0, asked as u8])])
            })
        }
    }

    fn slow() -> (Lookups, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        (Lookups::new(Resolver::Own(Arc::new(Slow(asked.clone())))), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn dials_at_once_share_a_look_up_and_later_ones_ask_again() {
        let (lookups, asked) = slow();
        let (a, b, other) = tokio::join!(lookups.resolve("a"), lookups.resolve("a"), lookups.resolve("b"));
        assert_eq!(a, b);
        assert_ne!(a, other);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_ne!(lookups.resolve("a").await, a);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_that_everyone_gave_up_is_not_joined() {
        let (lookups, asked) = slow();
        assert!(tokio::time::timeout(Duration::from_millis(1), lookups.resolve("a")).await.is_err());
        lookups.resolve("a").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_not_looked_up_and_failures_are_told() {
        let (lookups, asked) = slow();
        assert_eq!(&lookups.resolve("::1").await.unwrap()[..], [IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        assert_eq!(&*lookups.resolve("nowhere").await.unwrap_err(), "no such host");
    }

    #[tokio::test]
    async fn the_systems_resolver_knows_this_host() {
        let found = Lookups::new(Resolver::System).resolve("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_resolver_is_equal_to_itself_only() {
        let one = Resolver::Own(Arc::new(Slow(Arc::default())));
        let other = Resolver::Own(Arc::new(Slow(Arc::default())));
        assert!(one == one.clone() && one != other && one != Resolver::System);
    }
}
