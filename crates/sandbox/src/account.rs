//! What belongs to an account rather than to a sandbox: API keys, teams, webhooks, events.

use oncebox_protocol::{Operation, api, operations};
use serde::Serialize;
use serde_json::Value;

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, values};
use crate::mint::{Listing, Mint, unknown};
use crate::rpc::query;

pub use oncebox_protocol::api::{ApiKey, CreatedApiKey, Team};

const API_KEYS: Listing = Listing::whole(&operations::LIST_API_KEYS, "id");
const WEBHOOKS: Listing = Listing::whole(&operations::LIST_WEBHOOKS, "id");

/// An account: see [`Client::account`].
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    client: &'a Client,
}

impl Client {
    /// The account's API keys, teams, webhooks and events. Some providers want other credentials for them than an API key.
    pub fn account(&self) -> Account<'_> {
        Account { client: self }
    }
}

impl Account<'_> {
    /// All API keys, without their secrets.
    ///
    /// # Errors
    ///
    /// When the server could not be asked, or does not offer this.
    pub async fn api_keys(&self) -> Result<Vec<ApiKey>, Error> {
        const ACTION: &str = "list API keys";
        parse(ACTION, &self.client.call(ApiCall::new(&operations::LIST_API_KEYS, ACTION, [])).await?)
    }

    /// Makes an API key. Its secret is shown this once.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys). Where the answer is lost, the one key that has this name since the call began, and that
    /// no key had before, is deleted when `settle` is over and it was not used, since nobody has its secret, and another one is
    /// made. When that cannot be told, the error names [candidates](Error::candidates).
    ///
    /// The protocol has nothing but the name to tell a key by: where two processes make keys of one name at the same moment
    /// and one request is lost, the other's key may be taken for the lost one. Give keys names of their own.
    pub async fn create_api_key(&self, name: &str) -> Result<CreatedApiKey, Error> {
        const ACTION: &str = "create an API key";
        let body = api::NewApiKey { name: name.to_owned() };
        let call = ApiCall::new(&operations::CREATE_API_KEY, ACTION, []).json(&body)?;
        let mut mint = Mint::begin(self.client, ACTION, API_KEYS, name).await?;
        let made = async {
            loop {
                let lost = match mint.send(call.clone()).await {
                    Ok(made) => return Ok(made),
                    Err(lost) => lost?,
                };
                if let Some(orphan) = mint.find_orphan(lost.clone()).await? {
                    mint.delete(&operations::DELETE_API_KEY, &orphan.id, lost.clone()).await?;
                }
                mint.again(&lost).await?;
            }
        }
        .await;
        made.map_err(|error| mint.tell(error))
    }

    /// Gives an API key another name.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn rename_api_key(&self, id: &str, name: &str) -> Result<(), Error> {
        let body = api::UpdateApiKey { name: name.to_owned() };
        let call = ApiCall::new(&operations::UPDATE_API_KEY, "rename the API key", [id]).json(&body)?;
        self.client.call(call).await.map(drop)
    }

    /// Deletes an API key; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn delete_api_key(&self, id: &str) -> Result<bool, Error> {
        self.delete(&operations::DELETE_API_KEY, "delete the API key", id).await
    }

    /// The teams that the credentials belong to.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn teams(&self) -> Result<Vec<Team>, Error> {
        const ACTION: &str = "list teams";
        parse(ACTION, &self.client.call(ApiCall::new(&operations::LIST_TEAMS, ACTION, [])).await?)
    }

    /// All webhooks, as the server describes them: the protocol leaves their form open.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn webhooks(&self) -> Result<Vec<Value>, Error> {
        const ACTION: &str = "list webhooks";
        parse(ACTION, &self.client.call(ApiCall::new(&operations::LIST_WEBHOOKS, ACTION, [])).await?)
    }

    /// Makes a webhook.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys). Where the answer is lost, a webhook that has this `name` since the call began, and that
    /// none had before, is the answer. When that cannot be told, the error names [candidates](Error::candidates); of one without a
    /// `name` it never can.
    pub async fn create_webhook(&self, webhook: &impl Serialize) -> Result<Value, Error> {
        const ACTION: &str = "create a webhook";
        let webhook = serde_json::to_value(webhook).map_err(|error| Error::invalid(format!("{ACTION}: {error}")))?;
        let call = ApiCall::new(&operations::CREATE_WEBHOOK, ACTION, []).json(&webhook)?;
        let name = webhook.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut mint = Mint::begin(self.client, ACTION, WEBHOOKS, name).await?;
        let made = async {
            loop {
                let lost = match mint.send(call.clone()).await {
                    Ok(made) => return Ok(made),
                    Err(lost) => lost?,
                };
                // Without a name it cannot be found, and so cannot be known to be absent.
                if name.is_empty() {
                    return Err(unknown(lost, Vec::new()));
                }
                match mint.find(lost.clone()).await? {
                    Some(made) => return Ok(made.value),
                    None => mint.again(&lost).await?,
                }
            }
        }
        .await;
        let secrets = values::secrets(&webhook);
        made.map_err(|error| mint.tell(error).without_values(secrets.iter().map(String::as_str)))
    }

    /// Deletes a webhook; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn delete_webhook(&self, id: &str) -> Result<bool, Error> {
        self.delete(&operations::DELETE_WEBHOOK, "delete the webhook", id).await
    }

    /// Events of all sandboxes, or of one, newest first, `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`api_keys`](Self::api_keys).
    pub async fn events(&self, sandbox: Option<&str>, limit: u32) -> Result<Value, Error> {
        const ACTION: &str = "list events";
        let mut call = match sandbox {
            Some(id) => ApiCall::new(&operations::LIST_SANDBOX_EVENTS, ACTION, [id]),
            None => ApiCall::new(&operations::LIST_SANDBOXES_EVENTS, ACTION, []),
        };
        call.query = query([("limit", &*limit.to_string())]);
        parse(ACTION, &self.client.call(call).await?)
    }

    async fn delete(&self, operation: &'static Operation, action: &str, id: &str) -> Result<bool, Error> {
        self.client.call_unless_missing(ApiCall::new(operation, action, [id])).await
    }
}
