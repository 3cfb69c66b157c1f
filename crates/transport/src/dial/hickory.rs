//! Names to addresses without the system's resolver: asynchronous, and answers are kept for as long as they say.

use std::fmt;

use hickory_resolver::TokioResolver;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

use super::dns::{Resolve, Resolving};

/// A resolver that asks the system's name servers itself (feature `hickory-dns`), for
/// [`ClientBuilder::resolver`](crate::ClientBuilder::resolver).
///
/// It takes no thread for a look-up, and keeps answers for their time to live. It knows the hosts file and the name
/// servers in `/etc/resolv.conf`, but not what else the system may ask (`nsswitch.conf`).
#[derive(Default)]
pub struct HickoryResolver {
    /// Its connections to name servers belong to a runtime.
    running: Mutex<Option<(Id, TokioResolver)>>,
}

impl HickoryResolver {
    /// With the system's name servers, which are read at the first look-up.
    pub fn new() -> Self {
        Self::default()
    }

    fn on_this_runtime(&self) -> Result<TokioResolver, String> {
        let runtime = Handle::current().id();
        let mut running = self.running.lock();
        if let Some((of, resolver)) = &*running
            && *of == runtime
        {
            return Ok(resolver.clone());
        }
        let failed = |error: &dyn fmt::Display| format!("the system's name servers could not be read: {error}");
        let resolver = TokioResolver::builder_tokio().map_err(|error| failed(&error))?;
        let resolver = resolver.build().map_err(|error| failed(&error))?;
        *running = Some((runtime, resolver.clone()));
        Ok(resolver)
    }
}

impl Resolve for HickoryResolver {
    fn resolve(&self, host: &str) -> Resolving {
        let (host, resolver) = (host.to_owned(), self.on_this_runtime());
        Box::pin(async move {
            let found = resolver?.lookup_ip(host).await?;
            Ok(found.iter().collect())
        })
    }
}

impl fmt::Debug for HickoryResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HickoryResolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_hosts_own_name_is_found_on_one_runtime_after_the_other() {
        let resolver = HickoryResolver::new();
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let found = runtime.block_on(async { resolver.resolve("localhost").await }).unwrap();
            assert!(!found.is_empty() && found.iter().all(std::net::IpAddr::is_loopback), "{found:?}");
        }
    }
}
