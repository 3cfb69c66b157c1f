//! A secret is stored.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use oncebox_protocol::{SecretString, api, operations};

use super::labels::Labels;
use super::{SECRETS, SecretInfo, check_name, keeping_secret};
use crate::Client;
use crate::client::ApiCall;
use crate::error::{Error, ErrorKind};
use crate::mint::Mint;

const ACTION: &str = "create a secret";

/// A secret about to be stored: see [`Secret::create`](crate::Secret::create).
#[derive(Clone)]
#[must_use = "a secret is not stored until this is awaited"]
pub struct CreateSecret {
    client: Client,
    name: String,
    value: SecretString,
    labels: Labels,
}

impl CreateSecret {
    pub(super) fn new(client: &Client, name: String, value: SecretString) -> Self {
        Self { client: client.clone(), name, value, labels: Labels::default() }
    }

    /// Labels it: at most 32 labels, names of 1 to 128 bytes, values of at most 1024, 8192 in all.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.add(name.into(), value.into());
        self
    }

    async fn send(self) -> Result<SecretInfo, Error> {
        let name = check_name(&self.name)?;
        let metadata = self.labels.checked()?;
        let body = api::NewSecret { name: name.clone(), value: self.value, metadata };
        let call = ApiCall::new(&operations::CREATE_SECRET, ACTION, []).json(&body)?;
        let mut mint = Mint::begin(&self.client, ACTION, SECRETS, &name).await?;
        let made = store(&mut mint, &call).await;
        made.map_err(|error| mint.tell(error))
    }
}

async fn store(mint: &mut Mint<'_>, call: &ApiCall<'_>) -> Result<SecretInfo, Error> {
    let mut earlier: Option<Error> = None;
    loop {
        let (lost, refusal) = match mint.send::<api::Secret>(call.clone()).await {
            Ok(made) => return Ok(made.into()),
            Err(Ok(lost)) => (lost, None),
            // What is in the way may be an earlier one of this call that came late.
            Err(Err(error)) => match earlier.take() {
                Some(lost) if error.kind() == ErrorKind::Conflict && mint.absent_at().is_some() => (lost, Some(error)),
                _ => return Err(error),
            },
        };
        match (mint.find(lost.clone()).await?, refusal) {
            (Some(made), _) => return read(made.value),
            (None, Some(refusal)) => return Err(refusal),
            (None, None) => mint.again(&lost).await?,
        }
        earlier = Some(lost);
    }
}

impl IntoFuture for CreateSecret {
    type Output = Result<SecretInfo, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(keeping_secret(self.value.clone(), self.send()))
    }
}

impl fmt::Debug for CreateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read(item: serde_json::Value) -> Result<SecretInfo, Error> {
    let secret = serde_json::from_value::<api::Secret>(item).map_err(|error| Error::malformed(ACTION, error))?;
    Ok(secret.into())
}
