//! Connections, streams and bodies; the network turned into outcomes; the one attempt loop.
//!
//! [`Client`] makes HTTP calls over HTTP/1.1 or HTTP/2. Each attempt of a call ends in an
//! [`Outcome`](oncebox_policy::Outcome) that says what is *known*: nothing was sent, the server refused it, it
//! answered, or it was sent and nobody knows. [`oncebox_policy`] decides what follows. There is one loop, and one
//! ledger a call: what connects, refusals and statuses take away is counted together.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox_transport::Error> {
//! use oncebox_transport::{Body, CallOptions, Client};
//!
//! let client = Client::new();
//! let request = http::Request::post("http://127.0.0.1:3000/things").body(Body::from("{}")).unwrap();
//! match client.send_collected(request, CallOptions::new()).await {
//!     Ok(response) => println!("{}", response.status()),
//!     Err(error) if error.may_have_been_processed() => println!("nobody knows: {error}"),
//!     Err(error) => println!("not done: {error}"),
//! }
//! # Ok(()) }
//! ```

#![deny(missing_docs)]

mod answer;
pub mod blocking;
mod body;
mod call;
mod client;
mod conn;
mod dial;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod io;
mod limit;
mod observe;
mod options;
mod pool;
mod proxy;
mod response;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod single;
mod tls;

pub use answer::AnswerReader;
pub use body::{Body, BoxError, ResponseBody};
pub use client::{Client, ClientBuilder};
#[cfg(feature = "hickory-dns")]
pub use dial::HickoryResolver;
pub use dial::{Resolve, Resolving};
pub use error::{BodyError, Error};
pub use limit::Step;
#[cfg(feature = "metrics")]
pub use observe::MetricsRecorder;
#[cfg(feature = "opentelemetry")]
pub use observe::OpenTelemetryRecorder;
pub use observe::{CallEnd, Connections, Count, Observed, Observer, Recorder, Recording};
pub use options::{CallOptions, HttpVersion, TrafficClass};
pub use proxy::Proxy;
pub use response::{History, Response};
pub use single::{Attempted, Place, RetryBudget};

pub use oncebox_policy as policy;
