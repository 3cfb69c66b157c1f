//! Operations that make something other than a sandbox: what is done when nobody knows whether it was made.
//!
//! What has a name that nobody had before, and is no older than the call, is what the call made. Anything less is a
//! candidate, which the error names.

mod turn;

pub(crate) use turn::Turn;

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use oncebox_protocol::{Operation, operations};
use oncebox_transport::policy::create::INTENT_METADATA;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::once::server_date;
use crate::paged::next_page;
use crate::rpc::query;
use crate::sandbox::Sandbox;

/// A server's clock that is further off than this is none.
const SANE_SKEW: Duration = Duration::from_secs(24 * 60 * 60);

/// Look-ups for forks within `settle`, evenly apart.
const LOOKS_PER_SETTLE: u32 = 8;

/// Pages of one look-up. What has more cannot be told.
const MAX_PAGES: usize = 20;

/// How things of one kind are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    operation: &'static Operation,
    /// What an item's id is called.
    id: &'static str,
    /// Where it comes page by page: asked for in the largest.
    query: &'static str,
}

impl Listing {
    /// A list that comes whole.
    pub(crate) const fn whole(operation: &'static Operation, id: &'static str) -> Self {
        Self { operation, id, query: "" }
    }

    /// A list that comes page by page.
    pub(crate) const fn paged(operation: &'static Operation, id: &'static str) -> Self {
        Self { operation, id, query: "?limit=100" }
    }

    fn id<'i>(&self, item: &'i Value) -> Option<&'i str> {
        text(item, self.id)
    }
}

/// Makes one thing that has a name: an API key, a webhook, a secret, a volume.
pub(crate) struct Mint<'a> {
    turn: Turn<'a>,
    list: Listing,
    name: &'a str,
    /// `None`: it could not be listed.
    before: Option<Before>,
}

/// What there was before the call.
struct Before {
    ids: HashSet<String>,
    has_name: bool,
    /// The server's time; `None` where it makes no sense.
    date: Option<Timestamp>,
}

/// A thing as its list describes it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) value: Value,
}

impl<'a> Mint<'a> {
    pub(crate) async fn begin(
        client: &'a Client,
        action: &'static str,
        list: Listing,
        name: &'a str,
    ) -> Result<Self, Error> {
        let turn = Turn::begin(client, action).await?;
        let mut mint = Self { turn, list, name, before: None };
        let mut failure = None;
        // Where that fails the call is made as well, and ends unknown if its answer is lost.
        while mint.before.is_none() && mint.turn.ask_before(failure.as_ref()).await {
            match mint.listed().await {
                Ok((response, listed)) => {
                    let ids = listed.iter().filter_map(|item| list.id(item)).map(str::to_owned).collect();
                    let has_name = listed.iter().any(|item| text(item, "name") == Some(name));
                    mint.before = Some(Before { ids, has_name, date: sane_date(&response) });
                }
                Err(error) => failure = Some(error),
            }
        }
        Ok(mint)
    }

    /// As [`Turn::send`].
    pub(crate) async fn send<T: DeserializeOwned>(&mut self, call: ApiCall<'_>) -> Result<T, Result<Error, Error>> {
        self.turn.send(call).await
    }

    /// As [`Turn::again`].
    pub(crate) async fn again(&mut self, lost: &Error) -> Result<(), Error> {
        self.turn.again(lost).await
    }

    /// As [`Turn::tell`].
    pub(crate) fn tell(&self, error: Error) -> Error {
        self.turn.tell(error)
    }

    /// As [`Turn::fetch`].
    pub(crate) async fn fetch(&mut self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        self.turn.fetch(call).await
    }

    /// As [`Turn::find_out`].
    pub(crate) async fn find_out<T, F: Future<Output = T>>(
        &mut self,
        look_ups: u32,
        ask: impl FnOnce(Client) -> F,
    ) -> Option<T> {
        self.turn.find_out(look_ups, ask).await
    }

    /// Finds what was made although its answer was lost now; `None`: nothing was.
    ///
    /// # Errors
    ///
    /// That it cannot be told, with what may be it.
    pub(crate) async fn find(&mut self, lost: Error) -> Result<Option<Named>, Error> {
        self.turn.lost();
        self.look(lost).await
    }

    async fn look(&mut self, lost: Error) -> Result<Option<Named>, Error> {
        let Some(before) = &self.before else { return Err(unknown(lost, Vec::new())) };
        while let Some(began) = self.turn.next_look().await {
            let Ok((_, listed)) = listed(&self.turn, self.list).await else { continue };
            let is_new = |item: &&Value| {
                text(item, "name") == Some(self.name) && self.list.id(item).is_some_and(|id| !before.ids.contains(id))
            };
            let named =
                |item: &Value| Named { id: self.list.id(item).unwrap_or_default().to_owned(), value: item.clone() };
            let mut new: Vec<Named> = listed.iter().filter(is_new).map(named).collect();
            match new.len() {
                0 if self.turn.is_settled(began) => return Ok(None),
                0 => {}
                1 if before.is_ours(&new[0].value) => return Ok(new.pop()),
                _ => return Err(unknown(lost, new.into_iter().map(|named| named.id).collect())),
            }
        }
        Err(unknown(lost, Vec::new()))
    }

    /// Finds what was made and nobody can use, to be deleted. A deletion cannot be undone, and another process may have made
    /// the one thing of this name meanwhile; so it is looked at once more when `settle` is over. A second one of its name,
    /// or one that was used since, says that it may be somebody else's.
    ///
    /// # Errors
    ///
    /// That it cannot be told, with what may be it.
    pub(crate) async fn find_orphan(&mut self, lost: Error) -> Result<Option<Named>, Error> {
        let Some(first) = self.find(lost.clone()).await? else { return Ok(None) };
        let Some(settled) = self.turn.settled_at() else { return Err(unknown(lost, vec![first.id])) };
        sleep_until(settled).await;
        let looked = self.look(lost.clone()).await;
        // What was seen may be it, also where it could not be looked at again.
        let seen =
            |error: Error| if error.candidates().is_empty() { unknown(error, vec![first.id.clone()]) } else { error };
        match looked.map_err(seen)? {
            Some(orphan) if orphan.id == first.id && is_unused(&orphan.value) => Ok(Some(orphan)),
            Some(other) if other.id == first.id => Err(unknown(lost, vec![first.id])),
            Some(other) => Err(unknown(lost, vec![first.id, other.id])),
            None => Ok(None),
        }
    }

    /// Deletes what was made and cannot be used.
    pub(crate) async fn delete(&mut self, operation: &'static Operation, id: &str, lost: Error) -> Result<(), Error> {
        match self.turn.fetch(ApiCall::new(operation, self.turn.action, [id])).await {
            Err(error) if !error.is_not_found() => Err(unknown(lost, vec![id.to_owned()])),
            _ => Ok(()),
        }
    }

    /// The server's time before it was sent, when nothing had its name; `None`: something had, or it is not known.
    pub(crate) fn absent_at(&self) -> Option<Timestamp> {
        self.before.as_ref().filter(|before| !before.has_name)?.date
    }

    async fn listed(&self) -> Result<(Response<Bytes>, Vec<Value>), Error> {
        listed(&self.turn, self.list).await
    }
}

/// The list, and its first page's answer: one look-up with all its pages.
async fn listed(turn: &Turn<'_>, list: Listing) -> Result<(Response<Bytes>, Vec<Value>), Error> {
    let first = page(turn, list, "").await?;
    let mut listed: Vec<Value> = parse(turn.action, &first)?;
    let mut next = next_page(&first);
    for _ in 1..MAX_PAGES {
        let Some(token) = next else { return Ok((first, listed)) };
        let page = page(turn, list, &token).await?;
        listed.extend(parse::<Vec<Value>>(turn.action, &page)?);
        next = next_page(&page);
    }
    match next {
        None => Ok((first, listed)),
        Some(_) => Err(Error::malformed(turn.action, format!("the list did not end after {MAX_PAGES} pages"))),
    }
}

async fn page(turn: &Turn<'_>, list: Listing, token: &str) -> Result<Response<Bytes>, Error> {
    let mut call = ApiCall::new(list.operation, turn.action, []);
    call.query = list.query.to_owned();
    if !token.is_empty() {
        call.query += &query([("nextToken", token)]).replacen('?', "&", 1);
    }
    turn.attempt(call).await
}

impl Before {
    fn is_ours(&self, item: &Value) -> bool {
        let made: Option<Timestamp> = text(item, "createdAt").and_then(|at| at.parse().ok());
        !self.has_name && matches!((made, self.date), (Some(made), Some(date)) if made >= date)
    }
}

/// What may be the forks of a call that ended unknown: sandboxes that started after it began, and carry the parent's intent
/// where that is known. Looks until `settle` has passed or `count` of them are there.
pub(crate) async fn forks_since(sandbox: &Sandbox, began: Instant, count: usize) -> Vec<String> {
    let settle = sandbox.client().create_options().settle;
    let deadline = Instant::now() + settle;
    loop {
        let found = forks_listed(sandbox, began).await.unwrap_or_default();
        if found.len() >= count || Instant::now() >= deadline {
            return found;
        }
        sleep(settle / LOOKS_PER_SETTLE).await;
    }
}

async fn forks_listed(sandbox: &Sandbox, began: Instant) -> Result<Vec<String>, Error> {
    const ACTION: &str = "look for forks";
    let client = sandbox.client();
    // The server's time when the call began, from its time now.
    let response = client.call(newest(ACTION)).await?;
    let elapsed = began.elapsed() + Duration::from_secs(1);
    let Some(start) = sane_date(&response).and_then(|date| date.checked_sub(elapsed).ok()) else {
        return Ok(Vec::new());
    };
    let mut list = Sandbox::list(client);
    if let Some(intent) = sandbox.intent() {
        list = list.metadata(INTENT_METADATA, intent);
    }
    let listed = list.await?;
    let is_new = |id: &str, started: Timestamp| id != sandbox.id() && started >= start;
    Ok(listed.into_iter().filter(|info| is_new(&info.id, info.started_at)).map(|info| info.id).collect())
}

fn newest(action: &'static str) -> ApiCall<'static> {
    let mut call = ApiCall::new(&operations::LIST_SANDBOXES, action, []);
    call.query = query([("limit", "1")]);
    call
}

/// The error of a call of which nobody knows what it made.
pub(crate) fn unknown(lost: Error, candidates: Vec<String>) -> Error {
    lost.with_candidates(candidates)
}

/// The server's time, unless it is a day off.
pub(crate) fn sane_date(response: &Response<Bytes>) -> Option<Timestamp> {
    let date = server_date(response.headers())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    (date.abs_diff(now) <= SANE_SKEW).then(|| Timestamp::from_second(i64::try_from(date.as_secs()).ok()?).ok())?
}

/// Nobody has used it. Where the server does not tell, nobody has.
fn is_unused(item: &Value) -> bool {
    item.get("lastUsed").is_none_or(Value::is_null)
}

fn text<'a>(item: &'a Value, name: &str) -> Option<&'a str> {
    item.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_new_by_name_and_by_date_is_ours() {
        let date = Some("2026-01-01T00:00:00Z".parse().unwrap());
        let before = |has_name, date| Before { ids: HashSet::new(), has_name, date };
        let item = json!({"createdAt": "2026-01-01T00:00:00.5Z"});
        assert!(before(false, date).is_ours(&item));
        assert!(!before(true, date).is_ours(&item));
        assert!(!before(false, None).is_ours(&item));
        assert!(!before(false, date).is_ours(&json!({"createdAt": "2025-12-31T23:59:59Z"})));
        assert!(!before(false, date).is_ours(&json!({})));
    }

    #[test]
    fn what_was_used_is_somebodys() {
        assert!(is_unused(&json!({})) && is_unused(&json!({"lastUsed": null})));
        assert!(!is_unused(&json!({"lastUsed": "2026-01-01T00:00:00Z"})));
    }
}
