//! A secret is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use oncebox_protocol::{SecretString, api, operations};

use super::{SECRETS, SecretInfo, check_metadata, check_name};
use crate::Client;
use crate::client::ApiCall;
use crate::error::{Error, ErrorKind};
use crate::mint::Mint;

/// A secret about to be stored: see [`Secret::create`](crate::Secret::create).
#[derive(Clone)]
#[must_use = "a secret is not stored until this is awaited"]
pub struct CreateSecret {
    client: Client,
    name: String,
    value: SecretString,
    metadata: Option<BTreeMap<String, String>>,
}

impl CreateSecret {
    pub(super) fn new(client: &Client, name: String, value: SecretString) -> Self {
        Self { client: client.clone(), name, value, metadata: None }
    }

    /// Labels it: at most 32 labels, names of 1 to 128 bytes, values of at most 1024, 8192 in all.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    async fn send(self) -> Result<SecretInfo, Error> {
        let value = self.value.clone();
        self.send_plain().await.map_err(|error| error.without(value.expose()))
    }

    async fn send_plain(self) -> Result<SecretInfo, Error> {
        const ACTION: &str = "create a secret";
        let name = check_name(&self.name)?;
        check_metadata(self.metadata.as_ref())?;
        let body = api::NewSecret { name: name.clone(), value: self.value, metadata: self.metadata };
        let call = ApiCall::new(&operations::CREATE_SECRET, ACTION, []).json(&body)?;
        let mut mint = Mint::begin(&self.client, ACTION, SECRETS, &name).await?;
        let mut earlier: Option<Error> = None;
        loop {
            let (lost, refusal) = match mint.send::<api::Secret>(call.clone()).await {
                Ok(made) => return Ok(made.into()),
                Err(Ok(lost)) => (lost, None),
                // What is in the way may be an earlier one of this call that came late.
                Err(Err(error)) => match earlier.take() {
                    Some(lost) if error.kind() == ErrorKind::Conflict && mint.absent_at().is_some() => {
                        (lost, Some(error))
                    }
                    _ => return Err(error),
                },
            };
            match (mint.find(lost.clone()).await?, refusal) {
                (Some(made), _) => return read(ACTION, made.value),
                (None, Some(refusal)) => return Err(refusal),
                (None, None) => mint.again(&lost)?,
            }
            earlier = Some(lost);
        }
    }
}

impl IntoFuture for CreateSecret {
    type Output = Result<SecretInfo, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for CreateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read(action: &str, item: serde_json::Value) -> Result<SecretInfo, Error> {
    let secret = serde_json::from_value::<api::Secret>(item).map_err(|error| Error::malformed(action, error))?;
    Ok(secret.into())
}
