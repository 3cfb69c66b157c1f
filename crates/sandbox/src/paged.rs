//! Lists that come in pages.

use std::collections::VecDeque;

use futures_util::Stream;
use oncebox_protocol::Operation;
use oncebox_protocol::headers::X_NEXT_TOKEN;
use serde::de::DeserializeOwned;

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::rpc::query;

/// So many pages are read of one list.
const MAX_PAGES: usize = 1000;

/// All items of a list, page after page as they are asked for.
pub(crate) fn items<T: DeserializeOwned + Send>(
    client: Client,
    operation: &'static Operation,
    action: &'static str,
) -> impl Stream<Item = Result<T, Error>> + Send {
    let pages = Pages { client, operation, action, next: Some(String::new()), read: 0, items: VecDeque::new() };
    futures_util::stream::try_unfold(pages, |mut pages| async move {
        loop {
            if let Some(item) = pages.items.pop_front() {
                return Ok(Some((item, pages)));
            }
            if !pages.turn().await? {
                return Ok(None);
            }
        }
    })
}

struct Pages<T> {
    client: Client,
    operation: &'static Operation,
    action: &'static str,
    /// The next page's token, empty for the first; `None` after the last.
    next: Option<String>,
    read: usize,
    items: VecDeque<T>,
}

impl<T: DeserializeOwned> Pages<T> {
    /// Reads the next page; `false`: there is none.
    async fn turn(&mut self) -> Result<bool, Error> {
        let Some(token) = self.next.clone() else { return Ok(false) };
        if self.read >= MAX_PAGES {
            return Err(Error::malformed(self.action, format!("the list did not end after {MAX_PAGES} pages")));
        }
        let mut call = ApiCall::new(self.operation, self.action, []);
        call.query =
            query([("nextToken", &*token), ("limit", "100")].into_iter().filter(|(_, value)| !value.is_empty()));
        let response = self.client.call(call).await?;
        self.items = parse(self.action, &response)?;
        self.read += 1;
        let next = response.headers().get(&X_NEXT_TOKEN).and_then(|token| token.to_str().ok());
        self.next = next.filter(|next| !next.is_empty()).map(str::to_owned);
        Ok(true)
    }
}
