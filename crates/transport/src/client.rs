//! The client, and the ways to make a call.

mod builder;

pub use builder::ClientBuilder;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use foldhash::fast::RandomState;
use http::uri::Scheme;
use http::{Request, Uri};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Handle, Id};

use crate::body::{Body, ResponseBody};
use crate::call::{Call, Collected, Streaming};
use crate::dial::{Route, Via};
use crate::error::Error;
use crate::observe::Hook;
use crate::options::{CallOptions, Defaults, HttpVersion, Limits};
use crate::pool::{Authority, Origin, origin};
use crate::proxy::Proxies;
use crate::response::Response;

/// Makes HTTP calls. Clones are cheap and share connections, budgets and options.
///
/// ```no_run
/// # async fn example() -> Result<(), oncebox_transport::Error> {
/// use oncebox_transport::{Body, CallOptions, Client};
///
/// let client = Client::builder().retries(1).build();
/// let request = http::Request::get("http://127.0.0.1:3000/health").body(Body::empty()).unwrap();
/// let response = client.send_collected(request, CallOptions::new()).await?;
/// println!("{}, {} bytes", response.status(), response.body().len());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    defaults: Defaults,
    limits: Limits,
    version: HttpVersion,
    route: Route,
    proxies: Proxies,
    max_response_size: usize,
    /// Where the client was given a seed.
    random: Option<Mutex<fastrand::Rng>>,
    observer: Option<Hook>,
    traces: bool,
    known: Known,
}

impl Client {
    /// A client with the default options.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Sets options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Makes a call and hands its response on as soon as its head has come. From then on nothing is repeated.
    ///
    /// A status is not an error: what the server answered last is returned as it came, with the call's history.
    ///
    /// # Errors
    ///
    /// When no answer came, or the request cannot be made.
    pub fn send(
        &self,
        request: Request<Body>,
        options: CallOptions,
    ) -> impl Future<Output = Result<Response<ResponseBody>, Error>> + Send {
        // Not an `async fn`, whose future would hold the request twice.
        Call::new(self, request, &options, Streaming).run()
    }

    /// Makes a call and reads its response whole, as part of the attempt: a body that is cut is an unknown outcome,
    /// and is repeated where a repeat is permitted.
    ///
    /// # Errors
    ///
    /// When no complete answer came, when it is larger than `max_response_size`, or the request cannot be made.
    pub fn send_collected(
        &self,
        request: Request<Body>,
        options: CallOptions,
    ) -> impl Future<Output = Result<Response<Bytes>, Error>> + Send {
        Call::new(self, request, &options, Collected { limit: self.inner.max_response_size }).run()
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    pub(crate) fn max_response_size(&self) -> usize {
        self.inner.max_response_size
    }

    pub(crate) fn version(&self) -> HttpVersion {
        self.inner.version
    }

    pub(crate) fn observer(&self) -> Option<&Hook> {
        self.inner.observer.as_ref()
    }

    /// Whether attempts name themselves as parts of a trace.
    pub(crate) fn traces(&self) -> bool {
        self.inner.traces
    }

    pub(crate) fn random(&self) -> f64 {
        self.inner.random.as_ref().map_or_else(fastrand::f64, |random| random.lock().f64())
    }

    /// The origin that a request's URI names.
    pub(crate) fn origin(&self, uri: &Uri) -> Result<Arc<Origin>, Error> {
        let runtime = Handle::current().id();
        if let Some(known) = self.inner.known.find(uri, runtime) {
            return Ok(known);
        }
        let authority = Authority::of(uri)?;
        let mut route = self.inner.route.clone();
        if let (Via::Nothing, Some(proxy)) = (&route.via, self.inner.proxies.of(uri)?) {
            route.via = Via::Proxy(proxy);
        }
        let origin = origin(authority, self.inner.limits, route);
        if let Some(hook) = &self.inner.observer {
            origin.watched_by(hook);
        }
        self.inner.known.add(uri, runtime, &origin);
        Ok(origin)
    }
}

/// How many origins a client remembers.
const KNOWN: usize = 256;

/// The origins that a client used lately, so that a call need not ask the process's registry. It keeps none alive.
#[derive(Default)]
struct Known(RwLock<HashMap<Box<str>, KnownOrigin, RandomState>>);

struct KnownOrigin {
    https: bool,
    runtime: Id,
    origin: Weak<Origin>,
}

impl Known {
    fn find(&self, uri: &Uri, runtime: Id) -> Option<Arc<Origin>> {
        let known = self.0.read();
        let known = known.get(uri.authority()?.as_str())?;
        let is_same = known.runtime == runtime && known.https == (uri.scheme() == Some(&Scheme::HTTPS));
        if is_same { known.origin.upgrade() } else { None }
    }

    fn add(&self, uri: &Uri, runtime: Id, origin: &Arc<Origin>) {
        let Some(authority) = uri.authority().map(|authority| authority.as_str().into()) else { return };
        let mut known = self.0.write();
        if known.len() >= KNOWN {
            known.clear();
        }
        let https = uri.scheme() == Some(&Scheme::HTTPS);
        known.insert(authority, KnownOrigin { https, runtime, origin: Arc::downgrade(origin) });
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("origins", &self.0.read().len()).finish()
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl tower_service::Service<Request<Body>> for Client {
    type Response = http::Response<ResponseBody>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    /// Always ready: a call waits for its stream itself, so that its deadline bounds the wait.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Takes [`CallOptions`] from the request's extensions, where there are any.
    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let client = self.clone();
        let options = request.extensions_mut().remove::<CallOptions>().unwrap_or_default();
        Box::pin(async move { client.send(request, options).await.map(Response::into_http) })
    }
}
