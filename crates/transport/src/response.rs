//! What a call was answered.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use http::response::Parts;
use oncebox_policy::{ClosedLedger, Ledger, Record};

/// A response, with the [`History`] of the call that it answers.
///
/// ```
/// # async fn example(client: oncebox_transport::Client) -> Result<(), oncebox_transport::Error> {
/// use oncebox_transport::{Body, CallOptions};
///
/// let request = http::Request::get("http://127.0.0.1:3000/health").body(Body::empty()).unwrap();
/// let response = client.send_collected(request, CallOptions::new()).await?;
/// println!("{} after {} attempts", response.status(), response.history().attempts().len());
/// # Ok(()) }
/// ```
pub struct Response<B> {
    http: http::Response<B>,
    // Beside the response: in its extensions it would cost three allocations.
    history: History,
}

impl<B> Response<B> {
    pub(crate) fn new(http: http::Response<B>, ledger: &Ledger) -> Self {
        Self { http, history: History::new(ledger) }
    }

    /// Every attempt of the call.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The body.
    pub fn into_body(self) -> B {
        self.http.into_body()
    }

    /// Head, body and history.
    pub fn into_parts(self) -> (Parts, B, History) {
        let (head, body) = self.http.into_parts();
        (head, body, self.history)
    }

    /// The same with another body.
    pub fn map<C>(self, change: impl FnOnce(B) -> C) -> Response<C> {
        Response { http: self.http.map(change), history: self.history }
    }

    /// The response as `http` has it, with its [`History`] in the extensions.
    pub fn into_http(self) -> http::Response<B> {
        let mut http = self.http;
        http.extensions_mut().insert(self.history);
        http
    }
}

/// Status, headers and body.
impl<B> Deref for Response<B> {
    type Target = http::Response<B>;

    fn deref(&self) -> &Self::Target {
        &self.http
    }
}

impl<B> DerefMut for Response<B> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.http
    }
}

impl<B: fmt::Debug> fmt::Debug for Response<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("http", &self.http).field("history", &self.history).finish()
    }
}

/// Every attempt of a call, oldest first.
#[derive(Clone, Debug)]
pub struct History {
    closed: ClosedLedger,
    /// Most histories are of one attempt and read by nobody, so that the whole record is made when it is asked for.
    whole: OnceLock<Box<Ledger>>,
}

impl History {
    fn new(ledger: &Ledger) -> Self {
        Self { closed: ledger.close(), whole: OnceLock::new() }
    }

    /// The attempts.
    pub fn attempts(&self) -> &[Record] {
        self.ledger().attempts()
    }

    /// The whole record of the call.
    pub fn ledger(&self) -> &Ledger {
        self.whole.get_or_init(|| Box::new(self.closed.reopen()))
    }
}
