//! Operations that make something other than a sandbox: what is done when nobody knows whether it was made.
//!
//! What has a name that nobody had before, and is no older than the call, is what the call made. Anything less is a
//! candidate, which the error names.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use oncebox_protocol::{Operation, operations};
use oncebox_transport::policy::create::INTENT_METADATA;
use serde_json::Value;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::once::server_date;
use crate::rpc::query;
use crate::sandbox::Sandbox;

/// A server's clock that is further off than this is none.
const SANE_SKEW: Duration = Duration::from_secs(24 * 60 * 60);

/// Look-ups within `settle`, evenly apart.
const LOOKS_PER_SETTLE: u32 = 8;

/// Makes one thing that has a name: an API key, a webhook.
pub(crate) struct Mint<'a> {
    client: &'a Client,
    action: &'static str,
    list: &'static Operation,
    name: &'a str,
    deadline: Option<Instant>,
    sends: u32,
    /// `None`: it could not be listed.
    before: Option<Before>,
    /// One at a time: of two, each would take what the other has made for its own, and delete it.
    _turn: MutexGuard<'a, ()>,
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
        list: &'static Operation,
        name: &'a str,
    ) -> Result<Self, Error> {
        let deadline = client.request_timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let turn = match deadline {
            None => client.minting().lock().await,
            Some(deadline) => timeout_at(deadline, client.minting().lock()).await.map_err(|_| {
                let message = "waited for others that this client makes; nothing was sent (request_timeout)";
                Error::new(ErrorKind::Timeout, action, message).nothing_done(None)
            })?,
        };
        let mut mint = Self { client, action, list, name, deadline, sends: 0, before: None, _turn: turn };
        // Where that fails the call is made as well, and ends unknown if its answer is lost.
        if let Ok((response, listed)) = mint.listed().await {
            let ids = listed.iter().filter_map(|item| text(item, "id")).map(str::to_owned).collect();
            let has_name = listed.iter().any(|item| text(item, "name") == Some(name));
            mint.before = Some(Before { ids, has_name, date: sane_date(&response) });
        }
        Ok(mint)
    }

    /// Sends it. `Err(Ok(error))`: nobody knows whether it was made.
    pub(crate) async fn send<T: serde::de::DeserializeOwned>(
        &mut self,
        call: ApiCall<'_>,
    ) -> Result<T, Result<Error, Error>> {
        self.sends += 1;
        let answer = self.call(call).await;
        match answer.and_then(|response| parse(self.action, &response)) {
            Ok(made) => Ok(made),
            Err(error) if error.may_have_been_processed() => Err(Ok(error)),
            Err(error) => Err(Err(error)),
        }
    }

    /// Finds what was made although its answer was lost; `None`: nothing was.
    ///
    /// # Errors
    ///
    /// That it cannot be told, with what may be it.
    pub(crate) async fn find(&self, lost: Error) -> Result<Option<Named>, Error> {
        let settle = self.client.create_options().settle;
        let lost_at = Instant::now();
        let Some(before) = &self.before else { return Err(unknown(lost, Vec::new())) };
        for _ in 0..self.client.policy().lookups {
            if let Ok((_, listed)) = self.listed().await {
                let is_new = |item: &&Value| {
                    text(item, "name") == Some(self.name) && text(item, "id").is_some_and(|id| !before.ids.contains(id))
                };
                let mut new: Vec<Named> = listed
                    .iter()
                    .filter(is_new)
                    .map(|item| Named { id: text(item, "id").unwrap_or_default().to_owned(), value: item.clone() })
                    .collect();
                match new.len() {
                    0 if lost_at.elapsed() >= settle => return Ok(None),
                    0 => {}
                    1 if before.is_ours(&new[0].value) => return Ok(new.pop()),
                    _ => return Err(unknown(lost, new.into_iter().map(|named| named.id).collect())),
                }
            }
            let wait = settle / LOOKS_PER_SETTLE;
            if self.deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
                break;
            }
            sleep(wait).await;
        }
        Err(unknown(lost, Vec::new()))
    }

    /// Deletes what was made and cannot be used.
    pub(crate) async fn delete(&self, operation: &'static Operation, id: &str, lost: Error) -> Result<(), Error> {
        match self.call(ApiCall::new(operation, self.action, [id])).await {
            Err(error) if !error.is_not_found() => Err(unknown(lost, vec![id.to_owned()])),
            _ => Ok(()),
        }
    }

    /// Whether it may be sent once more.
    ///
    /// # Errors
    ///
    /// That nothing was made, and nothing is sent again.
    pub(crate) fn again(&self, lost: &Error) -> Result<(), Error> {
        if self.sends <= self.client.policy().retries {
            return Ok(());
        }
        let message = format!("{}; nothing is left of it; retries used up (retries)", lost.message());
        Err(Error::new(ErrorKind::NotDone, self.action, message).nothing_done(None))
    }

    async fn listed(&self) -> Result<(Response<Bytes>, Vec<Value>), Error> {
        let response = self.call(ApiCall::new(self.list, self.action, [])).await?;
        let listed = parse(self.action, &response)?;
        Ok((response, listed))
    }

    /// Within the deadline that is left.
    async fn call(&self, mut call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        if let Some(deadline) = self.deadline {
            // Zero would be no limit.
            call.request_timeout = Some(deadline.duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
        self.client.call(call).await
    }
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
fn sane_date(response: &Response<Bytes>) -> Option<Timestamp> {
    let date = server_date(response.headers())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    (date.abs_diff(now) <= SANE_SKEW).then(|| Timestamp::from_second(i64::try_from(date.as_secs()).ok()?).ok())?
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
}
