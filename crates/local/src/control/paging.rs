//! Lists in pages: a limit, and a cursor that the page before answered.

use axum::Json;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// Most items of a page, and how many there are when nothing is said.
pub(super) const MAX_PAGE: usize = 100;

/// A page of a list, with the cursor of the next in `X-Next-Token`.
pub(super) type Page<T> = (HeaderMap, Json<Vec<T>>);

/// The query of a list that has nothing but pages.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageQuery {
    pub(super) limit: Option<usize>,
    pub(super) next_token: Option<String>,
}

/// The limit that was asked for, if it is one.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Refusal> {
    let limit = asked.unwrap_or(MAX_PAGE);
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(limit);
    }
    Err(Refusal::bad_request(format!("limit {limit} is not between 1 and {MAX_PAGE}")))
}

/// The page of a sorted list that the query asks for. The key of an item says its place and is no other item's.
pub(super) fn page<T, S: Serialize>(
    mut items: Vec<T>,
    query: &PageQuery,
    key: impl Fn(&T) -> String,
    show: impl Fn(T) -> S,
) -> Result<Page<S>, Refusal> {
    let limit = limit(query.limit)?;
    if let Some(token) = query.next_token.as_deref().filter(|token| !token.is_empty()) {
        let after = decode(token)?;
        // What the cursor names may be gone; the list goes on behind its place.
        items.retain(|item| key(item) > after);
    }
    let mut headers = HeaderMap::new();
    if items.len() > limit {
        items.truncate(limit);
        if let Some(last) = items.last() {
            headers.insert("x-next-token", encode(&key(last))?);
        }
    }
    Ok((headers, Json(items.into_iter().map(show).collect())))
}

fn encode(key: &str) -> Result<HeaderValue, Refusal> {
    HeaderValue::try_from(URL_SAFE_NO_PAD.encode(key)).map_err(Refusal::internal)
}

fn decode(token: &str) -> Result<String, Refusal> {
    let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Refusal::bad_request("nextToken is not one that this server gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another_to_the_end() {
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let query = PageQuery { limit: Some(2), next_token: token };
            let (headers, Json(items)) =
                page(vec!["a", "b", "c", "d", "e"], &query, |item| (*item).to_owned(), |item| item).unwrap();
            found.extend(items);
            match headers.get("x-next-token") {
                Some(next) => token = Some(next.to_str().unwrap().to_owned()),
                None => break,
            }
        }
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
        for bad in [
            PageQuery { limit: Some(0), next_token: None },
            PageQuery { limit: None, next_token: Some("?".to_owned()) },
        ] {
            assert!(page(vec!["a"], &bad, |item| (*item).to_owned(), |item| item).is_err());
        }
    }
}
