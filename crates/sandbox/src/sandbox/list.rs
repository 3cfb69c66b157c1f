//! Lists of sandboxes, and what they tell of each.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::Response;
use jiff::Timestamp;
use oncebox_protocol::{api, operations};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::create::RESERVED_METADATA;
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::paged::{MAX_PAGES, PAGE_SIZE, next_page};
use crate::rpc::query;

/// What the control plane knows of a sandbox.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SandboxInfo {
    /// Its id.
    pub id: String,
    /// The template it was made from.
    pub template: String,
    /// The template's name, where it has one.
    pub alias: Option<String>,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// Whether it runs.
    pub state: SandboxState,
    /// When it started.
    pub started_at: Timestamp,
    /// When its lifetime ends.
    pub end_at: Timestamp,
    /// CPU cores.
    pub cpu_count: i32,
    /// Memory in MiB.
    pub memory_mb: i32,
    /// Disk in MiB.
    pub disk_size_mb: i32,
    /// The version of the daemon inside.
    pub envd_version: String,
    /// Whether the daemon inside did not answer when the sandbox was paused.
    pub envd_unresponsive_at_pause: Option<bool>,
    /// The volumes that are mounted.
    pub volume_mounts: Vec<VolumeMount>,
    /// The domain below which it is reached. Lists do not tell.
    pub domain: Option<String>,
    /// Whether outgoing traffic was allowed or denied explicitly. Lists do not tell.
    pub allow_internet_access: Option<bool>,
    /// What it may reach, and who may reach it. Lists do not tell.
    pub network: Option<SandboxNetwork>,
    /// What happens at the end of its lifetime. Lists do not tell.
    pub lifecycle: Option<SandboxLifecycle>,
}

pub use oncebox_protocol::api::{Order, SandboxState};
use oncebox_protocol::api::{SandboxLifecycle, SandboxNetwork, VolumeMount};

/// A listing about to be made: see [`Sandbox::list`](super::Sandbox::list). Await it for all sandboxes that match.
#[derive(Clone, Debug)]
#[must_use = "a listing does nothing until it is awaited"]
pub struct ListSandboxes {
    client: Client,
    metadata: BTreeMap<String, String>,
    states: Vec<SandboxState>,
    started_after: Option<Timestamp>,
    template: Option<String>,
    order: Option<Order>,
    page_size: u32,
    first: String,
}

impl ListSandboxes {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            metadata: BTreeMap::new(),
            states: Vec::new(),
            started_after: None,
            template: None,
            order: None,
            page_size: PAGE_SIZE,
            first: String::new(),
        }
    }

    /// Only sandboxes that have this label.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Only sandboxes in this state; several calls add up. Default: any.
    pub fn state(mut self, state: SandboxState) -> Self {
        self.states.push(state);
        self
    }

    /// Only sandboxes that started after this.
    pub fn started_after(mut self, moment: Timestamp) -> Self {
        self.started_after = Some(moment);
        self
    }

    /// Only sandboxes of this template; without a tag.
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Which come first, by their start. Default: the newest.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Begins at the page of this token, which [`Pages::next_token`] told. Default: at the first.
    pub fn next_token(mut self, token: impl Into<String>) -> Self {
        self.first = token.into();
        self
    }

    /// So many a page, 1 to 100. Default 100.
    pub fn page_size(mut self, size: u32) -> Self {
        self.page_size = size;
        self
    }

    /// The pages, one by one.
    pub fn pages(self) -> Pages {
        let v1 = self.client.creates().speaks_v1();
        Pages { next: Some(self.first.clone()), listing: self, read: 0, v1 }
    }

    /// The sandboxes, one by one, page after page as they are asked for.
    pub fn stream(self) -> impl Stream<Item = Result<SandboxInfo, Error>> + Send {
        let pages = futures_util::stream::try_unfold(self.pages(), |mut pages| async move {
            Ok::<_, Error>(pages.next().await?.map(|page| (page, pages)))
        });
        pages.map_ok(|page| futures_util::stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    async fn send(self) -> Result<Vec<SandboxInfo>, Error> {
        let (mut pages, mut found) = (self.pages(), Vec::new());
        while let Some(page) = pages.next().await? {
            found.extend(page);
        }
        Ok(found)
    }
}

/// A listing's pages: see [`ListSandboxes::pages`].
#[derive(Debug)]
pub struct Pages {
    listing: ListSandboxes,
    /// The next page's token, empty for the first; `None` after the last.
    next: Option<String>,
    read: usize,
    /// v1 of the API is asked, which has one page only.
    v1: bool,
}

impl Pages {
    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When the server could not be asked. The same page is then asked for again by the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<SandboxInfo>>, Error> {
        const ACTION: &str = "list sandboxes";
        let Some(token) = self.next.clone() else { return Ok(None) };
        if self.read >= MAX_PAGES {
            return Err(Error::malformed(ACTION, format!("the list did not end after {MAX_PAGES} pages")));
        }
        let response = match self.ask(ACTION, &token).await {
            // A server that has v1 only.
            Err(error) if !self.v1 && self.read == 0 && matches!(error.status(), Some(404 | 405)) => {
                self.v1 = true;
                self.ask(ACTION, &token).await?
            }
            response => response?,
        };
        let page: Vec<api::ListedSandbox> = parse(ACTION, &response)?;
        self.read += 1;
        self.next = next_page(&response);
        Ok(Some(page.into_iter().map(SandboxInfo::from).collect()))
    }

    /// The token of the next page; `None` before the first and after the last.
    pub fn next_token(&self) -> Option<&str> {
        self.next.as_deref().filter(|token| !token.is_empty())
    }

    /// Whether there is a page to be asked for.
    pub fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Asks for the pages that follow with another client, such as one with other [options](Client::with).
    pub fn use_client(&mut self, client: &Client) {
        self.listing.client = client.clone();
    }

    async fn ask(&self, action: &str, token: &str) -> Result<Response<Bytes>, Error> {
        let listing = &self.listing;
        if !(1..=100).contains(&listing.page_size) {
            return Err(Error::invalid(format!("page_size: {} is not from 1 to 100", listing.page_size)));
        }
        let metadata = metadata_filter(&listing.metadata);
        let states = listing.states.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let started_after = listing.started_after.map(|at| at.to_string()).unwrap_or_default();
        let size = listing.page_size.to_string();
        let order = listing.order.as_ref().map(|order| order.to_string()).unwrap_or_default();
        let all = [
            ("metadata", &*metadata),
            ("state", &*states),
            ("startedAfter", &*started_after),
            ("template", listing.template.as_deref().unwrap_or_default()),
            ("order", &*order),
            ("nextToken", token),
            ("limit", &*size),
        ];
        let (operation, known) =
            if self.v1 { (&operations::LIST_SANDBOXES_V1, &all[..1]) } else { (&operations::LIST_SANDBOXES, &all[..]) };
        let mut call = ApiCall::new(operation, action, []);
        call.query = query(known.iter().copied().filter(|(_, value)| !value.is_empty()));
        listing.client.call(call).await
    }
}

impl IntoFuture for ListSandboxes {
    type Output = Result<Vec<SandboxInfo>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// Names and values are encoded, joined as a query, and then encoded once more as a query's value; and the official
/// SDKs encode names and values twice, which servers undo (protocol fact).
pub(crate) fn metadata_filter(metadata: &BTreeMap<String, String>) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> =
        metadata.iter().map(|(name, value)| format!("{}={}", encode(&encode(name)), encode(&encode(value)))).collect();
    pairs.join("&")
}

fn visible(metadata: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut metadata = metadata.unwrap_or_default();
    metadata.retain(|name, _| !name.starts_with(RESERVED_METADATA));
    metadata
}

impl From<api::ListedSandbox> for SandboxInfo {
    fn from(listed: api::ListedSandbox) -> Self {
        Self {
            id: listed.sandbox_id,
            template: listed.template_id,
            alias: listed.alias,
            metadata: visible(listed.metadata),
            state: listed.state,
            started_at: listed.started_at,
            end_at: listed.end_at,
            cpu_count: listed.cpu_count,
            memory_mb: listed.memory_mb,
            disk_size_mb: listed.disk_size_mb,
            envd_version: listed.envd_version,
            envd_unresponsive_at_pause: listed.envd_unresponsive_at_pause,
            volume_mounts: listed.volume_mounts.unwrap_or_default(),
            domain: None,
            allow_internet_access: None,
            network: None,
            lifecycle: None,
        }
    }
}

impl From<api::SandboxDetail> for SandboxInfo {
    fn from(detail: api::SandboxDetail) -> Self {
        Self {
            id: detail.sandbox_id,
            template: detail.template_id,
            alias: detail.alias,
            metadata: visible(detail.metadata),
            state: detail.state,
            started_at: detail.started_at,
            end_at: detail.end_at,
            cpu_count: detail.cpu_count,
            memory_mb: detail.memory_mb,
            disk_size_mb: detail.disk_size_mb,
            envd_version: detail.envd_version,
            envd_unresponsive_at_pause: detail.envd_unresponsive_at_pause,
            volume_mounts: detail.volume_mounts.unwrap_or_default(),
            domain: detail.domain,
            allow_internet_access: detail.allow_internet_access,
            network: detail.network,
            lifecycle: detail.lifecycle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metadata_filter_is_encoded_as_the_official_sdks_do() {
        let metadata = BTreeMap::from([("a b".to_owned(), "c&d".to_owned())]);
        let filter = metadata_filter(&metadata);
        // The figure of the protocol's notes, seen on the wire: metadata=a%252520b%3Dc%252526d.
        assert_eq!(query([("metadata", &*filter)]), "?metadata=a%252520b%3Dc%252526d");
    }

    #[test]
    fn our_own_metadata_is_not_shown() {
        let all = BTreeMap::from([("oncebox.intent".to_owned(), "x".to_owned()), ("task".to_owned(), "42".to_owned())]);
        assert_eq!(visible(Some(all)), BTreeMap::from([("task".to_owned(), "42".to_owned())]));
    }
}
