//! A secret gets another version.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use jiff::Timestamp;
use oncebox_protocol::{SecretString, api, operations};

use super::labels::Labels;
use super::{SecretInfo, check_name, keeping_secret};
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::mint::{Turn, sane_date, unknown};

/// Another version of a secret, about to be stored: see [`Secret::update`](crate::Secret::update).
#[derive(Clone)]
#[must_use = "a secret is not updated until this is awaited"]
pub struct UpdateSecret {
    client: Client,
    secret: String,
    value: SecretString,
    labels: Labels,
}

impl UpdateSecret {
    pub(super) fn new(client: &Client, secret: String, value: SecretString) -> Self {
        Self { client: client.clone(), secret, value, labels: Labels::default() }
    }

    /// Labels it anew: the first call of this takes the place of all labels there were.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.add(name.into(), value.into());
        self
    }

    async fn send(self) -> Result<SecretInfo, Error> {
        const ACTION: &str = "update the secret";
        let secret = check_name(&self.secret)?;
        let body = api::UpdateSecret { value: self.value, metadata: self.labels.checked()? };
        let call = ApiCall::new(&operations::UPDATE_SECRET, ACTION, [&*secret]).json(&body)?;
        let mut turn = Turn::begin(&self.client, ACTION).await?;
        let updated = update(&mut turn, &secret, &call, body.metadata.as_ref()).await;
        updated.map_err(|error| turn.tell(error))
    }
}

async fn update(
    turn: &mut Turn<'_>,
    secret: &str,
    call: &ApiCall<'_>,
    metadata: Option<&BTreeMap<String, String>>,
) -> Result<SecretInfo, Error> {
    let (mut before, mut failure) = (None, None);
    // Where that fails the call is made as well, and ends unknown if its answer is lost.
    while before.is_none() && turn.ask_before(failure.as_ref()).await {
        match Before::look(turn, secret).await {
            Ok(looked) => before = Some(looked),
            Err(error) => failure = Some(error),
        }
    }
    loop {
        let lost = match turn.send::<api::Secret>(call.clone()).await {
            Ok(updated) => return Ok(updated.into()),
            Err(lost) => lost?,
        };
        let Some(before) = &before else { return Err(unknown(lost, Vec::new())) };
        turn.lost();
        let now = loop {
            let Some(began) = turn.next_look().await else { return Err(unknown(lost, Vec::new())) };
            match Before::look(turn, secret).await {
                Ok(now) if now.secret.current_version != before.secret.current_version => break Some(now.secret),
                Ok(_) if turn.is_settled(began) => break None,
                Ok(_) | Err(_) => {}
            }
        };
        match now {
            None => turn.again(&lost).await?,
            Some(now) if before.is_next(&now, metadata) => return Ok(now.into()),
            Some(now) => {
                let version = format!("{} version {}", now.secret_id, now.current_version);
                return Err(unknown(lost, vec![version]));
            }
        }
    }
}

/// A secret before its update, and the server's time then; `None` where that makes no sense.
struct Before {
    secret: api::Secret,
    date: Option<Timestamp>,
}

impl Before {
    async fn look(turn: &Turn<'_>, secret: &str) -> Result<Self, Error> {
        const ACTION: &str = "look up the secret";
        let response = turn.attempt(ApiCall::new(&operations::GET_SECRET, ACTION, [secret])).await?;
        Ok(Self { secret: parse(ACTION, &response)?, date: sane_date(&response) })
    }

    /// Whether this is the next version, stored since, with the labels that were asked for.
    fn is_next(&self, now: &api::Secret, metadata: Option<&BTreeMap<String, String>>) -> bool {
        now.secret_id == self.secret.secret_id
            && now.current_version == self.secret.current_version + 1
            // Servers' dates have whole seconds, so that this one is not too late.
            && self.date.is_some_and(|date| now.updated_at >= date)
            && metadata.unwrap_or(&self.secret.metadata) == &now.metadata
    }
}

impl IntoFuture for UpdateSecret {
    type Output = Result<SecretInfo, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(keeping_secret(self.value.clone(), self.send()))
    }
}

impl fmt::Debug for UpdateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateSecret").field("secret", &self.secret).finish_non_exhaustive()
    }
}
