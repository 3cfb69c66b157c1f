//! Lists that come in pages.

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::Response;
use oncebox_protocol::Operation;
use oncebox_protocol::headers::X_NEXT_TOKEN;
use serde::de::DeserializeOwned;

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::rpc::query;

/// So many pages are read of one list.
pub(crate) const MAX_PAGES: usize = 1000;

/// The most items that a page may have (protocol fact).
pub(crate) const PAGE_SIZE: u32 = 100;

/// Turns the pages of a list that has no filters.
#[derive(Debug)]
pub(crate) struct Pager {
    client: Client,
    operation: &'static Operation,
    action: &'static str,
    size: u32,
    /// The next page's token, empty for the first; `None` after the last.
    next: Option<String>,
    read: usize,
}

impl Pager {
    pub(crate) fn new(client: Client, operation: &'static Operation, action: &'static str, size: u32) -> Self {
        Self { client, operation, action, size, next: Some(String::new()), read: 0 }
    }

    /// Begins at the page of this token.
    pub(crate) fn at(mut self, token: String) -> Self {
        self.next = Some(token);
        self
    }

    /// The next page's token, empty for the first; `None` after the last.
    pub(crate) fn next_token(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The next page; `None` after the last one. After an error the same page is asked for again.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, Error> {
        let Some(token) = &self.next else { return Ok(None) };
        if !(1..=PAGE_SIZE).contains(&self.size) {
            return Err(Error::invalid(format!("page_size: {} is not from 1 to {PAGE_SIZE}", self.size)));
        }
        if self.read >= MAX_PAGES {
            return Err(Error::malformed(self.action, format!("the list did not end after {MAX_PAGES} pages")));
        }
        let size = self.size.to_string();
        let mut call = ApiCall::new(self.operation, self.action, []);
        let pairs = [("nextToken", token.as_str()), ("limit", &size)];
        call.query = query(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        let response = self.client.call(call).await?;
        let page = parse(self.action, &response)?;
        self.read += 1;
        self.next = next_page(&response);
        Ok(Some(page))
    }

    /// The items, one by one, page after page as they are asked for.
    pub(crate) fn stream<T: DeserializeOwned + Send>(self) -> impl Stream<Item = Result<T, Error>> + Send {
        let pages = futures_util::stream::try_unfold(self, |mut pager| async move {
            Ok::<_, Error>(pager.next::<T>().await?.map(|page| (page, pager)))
        });
        pages.map_ok(|page| futures_util::stream::iter(page.into_iter().map(Ok))).try_flatten()
    }
}

/// The token of the page after this one, where there is one.
pub(crate) fn next_page(response: &Response<Bytes>) -> Option<String> {
    let next = response.headers().get(&X_NEXT_TOKEN).and_then(|token| token.to_str().ok());
    next.filter(|next| !next.is_empty()).map(str::to_owned)
}
