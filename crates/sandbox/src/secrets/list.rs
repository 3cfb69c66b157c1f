//! Lists of secrets.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use futures_util::{Stream, TryStreamExt};
use oncebox_protocol::{api, operations};

use super::SecretInfo;
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::mint::next_page;
use crate::rpc::query;
use crate::sandbox::MAX_PAGES;

/// Secrets a page: the most that servers give (protocol fact).
const PAGE_SIZE: u32 = 100;

/// A listing about to be made: see [`Secret::list`](super::Secret::list). Await it for all secrets.
#[derive(Clone, Debug)]
#[must_use = "a listing does nothing until it is awaited"]
pub struct ListSecrets {
    client: Client,
    page_size: u32,
}

impl ListSecrets {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), page_size: PAGE_SIZE }
    }

    /// So many a page, 1 to 100. Default 100.
    pub fn page_size(mut self, size: u32) -> Self {
        self.page_size = size;
        self
    }

    /// The pages, one by one.
    pub fn pages(self) -> SecretPages {
        SecretPages { listing: self, next: Some(String::new()), read: 0 }
    }

    /// The secrets, one by one, page after page as they are asked for.
    pub fn stream(self) -> impl Stream<Item = Result<SecretInfo, Error>> + Send {
        let pages = futures_util::stream::try_unfold(self.pages(), |mut pages| async move {
            Ok::<_, Error>(pages.next().await?.map(|page| (page, pages)))
        });
        pages.map_ok(|page| futures_util::stream::iter(page.into_iter().map(Ok))).try_flatten()
    }
}

/// A listing's pages: see [`ListSecrets::pages`].
#[derive(Debug)]
pub struct SecretPages {
    listing: ListSecrets,
    /// The next page's token, empty for the first; `None` after the last.
    next: Option<String>,
    read: usize,
}

impl SecretPages {
    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When the server could not be asked. The same page is then asked for again by the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<SecretInfo>>, Error> {
        const ACTION: &str = "list secrets";
        let Some(token) = &self.next else { return Ok(None) };
        let size = self.listing.page_size;
        if !(1..=100).contains(&size) {
            return Err(Error::invalid(format!("page_size: {size} is not from 1 to 100")));
        }
        if self.read >= MAX_PAGES {
            return Err(Error::malformed(ACTION, format!("the list did not end after {MAX_PAGES} pages")));
        }
        let size = size.to_string();
        let mut call = ApiCall::new(&operations::LIST_SECRETS, ACTION, []);
        let pairs = [("nextToken", token.as_str()), ("limit", &size)];
        call.query = query(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        let response = self.listing.client.call(call).await?;
        let page: Vec<api::Secret> = parse(ACTION, &response)?;
        self.read += 1;
        self.next = next_page(&response);
        Ok(Some(page.into_iter().map(SecretInfo::from).collect()))
    }
}

impl IntoFuture for ListSecrets {
    type Output = Result<Vec<SecretInfo>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.stream().try_collect())
    }
}
