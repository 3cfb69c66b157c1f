//! Lists of snapshots.

use oncebox_protocol::{api, operations};

use super::Snapshot;
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::paged::{MAX_PAGES, PAGE_SIZE, next_page};
use crate::rpc::query;

/// A listing of snapshots about to be made: see [`Client::list_snapshots`].
#[derive(Clone, Debug)]
#[must_use = "a listing does nothing until its pages are asked for"]
pub struct ListSnapshots {
    client: Client,
    sandbox: String,
    name: String,
    page_size: Option<u32>,
    first: String,
}

impl ListSnapshots {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            sandbox: String::new(),
            name: String::new(),
            page_size: None,
            first: String::new(),
        }
    }

    /// Only snapshots of this sandbox.
    pub fn sandbox(mut self, id: impl Into<String>) -> Self {
        self.sandbox = id.into();
        self
    }

    /// Only snapshots of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// So many a page, 1 to 100. Default: the server's.
    pub fn page_size(mut self, size: u32) -> Self {
        self.page_size = Some(size);
        self
    }

    /// Begins at the page of this token, which [`SnapshotPages::next_token`] told. Default: at the first.
    pub fn next_token(mut self, token: impl Into<String>) -> Self {
        self.first = token.into();
        self
    }

    /// The pages, one by one.
    pub fn pages(self) -> SnapshotPages {
        SnapshotPages { next: Some(self.first.clone()), listing: self, read: 0 }
    }
}

/// A listing's pages: see [`ListSnapshots::pages`].
#[derive(Debug)]
pub struct SnapshotPages {
    listing: ListSnapshots,
    /// The next page's token, empty for the first; `None` after the last.
    next: Option<String>,
    read: usize,
}

impl SnapshotPages {
    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When the server could not be asked. The same page is then asked for again by the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<Snapshot>>, Error> {
        const ACTION: &str = "list snapshots";
        let Some(token) = &self.next else { return Ok(None) };
        let listing = &self.listing;
        if listing.page_size.is_some_and(|size| !(1..=PAGE_SIZE).contains(&size)) {
            let size = listing.page_size.unwrap_or_default();
            return Err(Error::invalid(format!("page_size: {size} is not from 1 to {PAGE_SIZE}")));
        }
        if self.read >= MAX_PAGES {
            return Err(Error::malformed(ACTION, format!("the list did not end after {MAX_PAGES} pages")));
        }
        let size = listing.page_size.map(|size| size.to_string()).unwrap_or_default();
        let pairs =
            [("sandboxID", &*listing.sandbox), ("name", &*listing.name), ("nextToken", token), ("limit", &*size)];
        let mut call = ApiCall::new(&operations::LIST_SNAPSHOTS, ACTION, []);
        call.query = query(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        let response = listing.client.call(call).await?;
        let page: Vec<api::Snapshot> = parse(ACTION, &response)?;
        self.read += 1;
        self.next = next_page(&response);
        Ok(Some(page.into_iter().map(Snapshot::from).collect()))
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
}
