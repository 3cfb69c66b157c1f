//! A front on this machine through which any E2B SDK, in any language, gains Oncebox's guarantees.
//!
//! An SDK is pointed at a [`Proxy`] by two URLs, `E2B_API_URL` and `E2B_SANDBOX_URL` (and `E2B_VOLUME_API_URL` for the content
//! of volumes). It takes HTTP/1.1 and HTTP/2 without TLS, and carries each request through Oncebox's transport: what was
//! provably not processed is replayed, what may be repeated is retried by the one policy, and a create makes one sandbox.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use oncebox::Client;
//! use oncebox_proxy::Proxy;
//!
//! // No request goes out with this key: SDKs send their own.
//! let client = Client::builder().api_key("unused").domain("e2b.app").build()?;
//! let proxy = Proxy::builder(&client).start().await?;
//! println!("export E2B_API_URL={0} E2B_SANDBOX_URL={0} E2B_VOLUME_API_URL={0}", proxy.url());
//! // …
//! for left in proxy.stop().await {
//!     eprintln!("{left}");
//! }
//! # Ok(()) }
//! ```
//!
//! # Which request is for whom
//!
//! A request with `E2b-Sandbox-Id` (and `E2b-Sandbox-Port`, else envd's port), or for the host `<port>-<sandbox>.localhost`, is
//! for a sandbox; `/volumecontent/…` is the content of volumes; all else is the control plane, but for `/`, which shows what
//! the proxy did, and `/oncebox/status`, which tells it in JSON.
//!
//! # What it does to a call
//!
//! - *Control plane.* Whether a request may be repeated is what [`oncebox_protocol`]'s table says of it. Retries, deadline and
//!   switches are the client's. Answers are read whole within the attempt, so that a cut one is an outcome to be judged.
//! - *Sandboxes and volumes.* Only what was provably not processed is sent again, unless
//!   [`sandbox_retries`](ProxyBuilder::sandbox_retries) gives a number. Streams flow both ways as they come, without any limit
//!   of the proxy's own: whoever asked hangs up when it has waited long enough.
//! - *WebSockets*, and whatever else a program in a sandbox changes its connection to by HTTP/1.1's `Upgrade`, flow both ways
//!   as they are. Such a request is sent once, but for what was provably not processed.
//! - *Request bodies* with a Content-Length of at most `replay_buffer_limit` are read first and can then be sent any number of
//!   times; so are those of the control plane's own operations without one, and where
//!   `sandbox_retries` is given those of a sandbox's daemons. Others are streams, of which
//!   `replay_buffer_limit` bytes are kept.
//! - *Failures* are final, but for a 503 of the proxy's own that it does too much: each says `Should-Retry: false`, and a 429
//!   comes without the `Retry-After` by which SDKs would repeat it once more inside the same budget.
//! - *Creates* are made by the create machine, with the body as it came and a label, which answers do not show. The intent is
//!   the `Idempotency-Key` where there is one. Else a create like one that failed with nobody knowing what it did, or whose
//!   SDK hung up, takes over from that one when it comes within `settle`: one from one. Creates that are under way at the same
//!   time are never joined.
//!
//! `docs/design/0021-proxy.md` says why.
#![deny(missing_docs)]

mod answer;
mod body;
mod carry;
mod create;
mod domains;
mod front;
mod gate;
mod headers;
mod hide;
mod orphans;
mod room;
mod server;
mod status;
mod tunnel;

pub use server::{MOST_AT_A_TIME, Proxy, ProxyBuilder, StartError};
pub use status::{CallStatus, Counts, Status};
