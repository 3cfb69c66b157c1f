//! Lists of secrets.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use futures_util::{Stream, TryStreamExt};
use oncebox_protocol::{api, operations};

use super::SecretInfo;
use crate::Client;
use crate::error::Error;
use crate::paged::{PAGE_SIZE, Pager};

/// A listing about to be made: see [`Secret::list`](super::Secret::list). Await it for all secrets.
#[derive(Clone, Debug)]
#[must_use = "a listing does nothing until it is awaited"]
pub struct ListSecrets {
    client: Client,
    page_size: u32,
    first: String,
}

impl ListSecrets {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), page_size: PAGE_SIZE, first: String::new() }
    }

    /// So many a page, 1 to 100. Default 100.
    pub fn page_size(mut self, size: u32) -> Self {
        self.page_size = size;
        self
    }

    /// Begins at the page of this token, which [`SecretPages::next_token`] told. Default: at the first.
    pub fn next_token(mut self, token: impl Into<String>) -> Self {
        self.first = token.into();
        self
    }

    /// The pages, one by one.
    pub fn pages(self) -> SecretPages {
        let pager = Pager::new(self.client, &operations::LIST_SECRETS, "list secrets", self.page_size);
        SecretPages { pager: pager.at(self.first) }
    }

    /// The secrets, one by one, page after page as they are asked for.
    pub fn stream(self) -> impl Stream<Item = Result<SecretInfo, Error>> + Send {
        self.pages().pager.stream::<api::Secret>().map_ok(SecretInfo::from)
    }
}

/// A listing's pages: see [`ListSecrets::pages`].
#[derive(Debug)]
pub struct SecretPages {
    pager: Pager,
}

impl SecretPages {
    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When the server could not be asked. The same page is then asked for again by the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<SecretInfo>>, Error> {
        let page = self.pager.next::<api::Secret>().await?;
        Ok(page.map(|page| page.into_iter().map(SecretInfo::from).collect()))
    }

    /// The next page's token, empty for the first; `None` after the last.
    pub fn next_token(&self) -> Option<&str> {
        self.pager.next_token()
    }
}

impl IntoFuture for ListSecrets {
    type Output = Result<Vec<SecretInfo>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.stream().try_collect())
    }
}
