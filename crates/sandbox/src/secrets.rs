//! Secrets: values that are stored once, used by name, and never shown again.

mod list;

pub use list::{ListSecrets, SecretPages};

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use jiff::Timestamp;
use oncebox_protocol::{SecretString, api, operations};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::mint::{Listing, Mint, Turn, sane_date, unknown};

/// Longest name (protocol fact).
const MAX_NAME: usize = 128;
/// What metadata may be at most (protocol facts): entries, bytes of a key, bytes of a value, bytes in all.
const MAX_METADATA: (usize, usize, usize, usize) = (32, 128, 1024, 8192);

const SECRETS: Listing = Listing::paged(&operations::LIST_SECRETS, "secretID");

/// The secrets of an account.
///
/// A value goes in and never comes out: neither through this crate nor into its errors, logs and `Debug` texts. Sandboxes
/// use it by the placeholder that [`fill`](Self::fill) gives, in headers that their network adds to requests.
///
/// ```no_run
/// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
/// use oncebox::Secret;
///
/// let secret = Secret::create(&client, "api-token", std::env::var("TOKEN").unwrap_or_default()).await?;
/// assert_eq!(secret.version, 1);
/// assert_eq!(Secret::fill("api-token")?, "${e2b.secrets.api-token}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub enum Secret {}

/// A secret without its value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SecretInfo {
    /// Its id.
    pub id: String,
    /// Its name, in lower case.
    pub name: String,
    /// The version in use; the first is 1.
    pub version: i64,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When its latest version was stored.
    pub updated_at: Timestamp,
}

impl Secret {
    /// Stores a secret. Set labels on what this returns, and await it. Names have 1 to 128 letters, digits, `-` and `_`, and
    /// are kept in lower case.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a name or labels that break the rules, before any I/O;
    /// [`Conflict`](ErrorKind::Conflict) when the name is taken, or there are as many secrets as there may be. Where the
    /// answer is lost, a secret that has this name since the call began, and that none had before, is the answer. When that
    /// cannot be told, the error names [candidates](Error::candidates).
    pub fn create(client: &Client, name: impl Into<String>, value: impl Into<SecretString>) -> CreateSecret {
        CreateSecret { client: client.clone(), name: name.into(), value: value.into(), metadata: None }
    }

    /// Adds a version to a secret, which takes the place of the one in use. By id or name.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); [`NotFound`](ErrorKind::NotFound) when there is no such secret. Where the answer is lost,
    /// the version that came next since the call began is the answer.
    pub fn update(client: &Client, secret: impl Into<String>, value: impl Into<SecretString>) -> UpdateSecret {
        UpdateSecret { client: client.clone(), secret: secret.into(), value: value.into(), metadata: None }
    }

    /// Describes a secret, by id or name.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such one.
    pub async fn info(client: &Client, secret: &str) -> Result<SecretInfo, Error> {
        const ACTION: &str = "describe the secret";
        let secret = check_name(secret)?;
        let response = client.call(ApiCall::new(&operations::GET_SECRET, ACTION, [&*secret])).await?;
        parse::<api::Secret>(ACTION, &response).map(SecretInfo::from)
    }

    /// Lists secrets. Set the size of pages on what this returns, and await it.
    pub fn list(client: &Client) -> ListSecrets {
        ListSecrets::new(client)
    }

    /// Whether there is such a secret, by id or name.
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn exists(client: &Client, secret: &str) -> Result<bool, Error> {
        match Self::info(client, secret).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a secret with all its versions, by id or name; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn destroy(client: &Client, secret: &str) -> Result<bool, Error> {
        let secret = check_name(secret)?;
        client.call_unless_missing(ApiCall::new(&operations::DELETE_SECRET, "delete the secret", [&*secret])).await
    }

    /// What stands for a secret's value in the headers that a sandbox's network adds: `${e2b.secrets.<name>}`.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for what is no name of a secret.
    pub fn fill(name: &str) -> Result<String, Error> {
        Ok(format!("${{e2b.secrets.{}}}", check_name(name)?))
    }

    /// What stands for one of a sandbox's identity tokens ([`SandboxIam`](crate::SandboxIam)) there:
    /// `${e2b.identity.tokens.<name>}`.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a name with other characters than letters, digits, `-` and `_`.
    pub fn identity_token(name: &str) -> Result<String, Error> {
        check_characters("the identity token's name", name)?;
        Ok(format!("${{e2b.identity.tokens.{name}}}"))
    }
}

/// A secret about to be stored: see [`Secret::create`].
#[derive(Clone)]
#[must_use = "a secret is not stored until this is awaited"]
pub struct CreateSecret {
    client: Client,
    name: String,
    value: SecretString,
    metadata: Option<BTreeMap<String, String>>,
}

impl CreateSecret {
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

/// Another version of a secret, about to be stored: see [`Secret::update`].
#[derive(Clone)]
#[must_use = "a secret is not updated until this is awaited"]
pub struct UpdateSecret {
    client: Client,
    secret: String,
    value: SecretString,
    metadata: Option<BTreeMap<String, String>>,
}

impl UpdateSecret {
    /// Labels it anew: the first call of this takes the place of all labels there were.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    async fn send(self) -> Result<SecretInfo, Error> {
        let value = self.value.clone();
        self.send_plain().await.map_err(|error| error.without(value.expose()))
    }

    async fn send_plain(self) -> Result<SecretInfo, Error> {
        const ACTION: &str = "update the secret";
        let secret = check_name(&self.secret)?;
        check_metadata(self.metadata.as_ref())?;
        let body = api::UpdateSecret { value: self.value, metadata: self.metadata };
        let call = ApiCall::new(&operations::UPDATE_SECRET, ACTION, [&*secret]).json(&body)?;
        let mut turn = Turn::begin(&self.client, ACTION).await?;
        // Where that fails the call is made as well, and ends unknown if its answer is lost.
        let before = Before::look(&turn, &secret).await.ok();
        loop {
            let lost = match turn.send::<api::Secret>(call.clone()).await {
                Ok(updated) => return Ok(updated.into()),
                Err(lost) => lost?,
            };
            let Some(before) = &before else { return Err(unknown(lost, Vec::new())) };
            let mut looks = turn.looks();
            let now = loop {
                if !looks.next().await {
                    return Err(unknown(lost, Vec::new()));
                }
                match Before::look(&turn, &secret).await {
                    Ok(now) if now.secret.current_version != before.secret.current_version => break Some(now.secret),
                    Ok(_) if looks.are_settled() => break None,
                    Ok(_) | Err(_) => {}
                }
            };
            match now {
                None => turn.again(&lost)?,
                Some(now) if before.is_next(&now, body.metadata.as_ref()) => return Ok(now.into()),
                Some(now) => {
                    let version = format!("{} version {}", now.secret_id, now.current_version);
                    return Err(unknown(lost, vec![version]));
                }
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
        let response = turn.call(ApiCall::new(&operations::GET_SECRET, ACTION, [secret])).await?;
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

fn read(action: &str, item: serde_json::Value) -> Result<SecretInfo, Error> {
    let secret = serde_json::from_value::<api::Secret>(item).map_err(|error| Error::malformed(action, error))?;
    Ok(secret.into())
}

/// A secret's name, or its id, in lower case.
fn check_name(name: &str) -> Result<String, Error> {
    check_characters("the secret's name", name)?;
    Ok(name.to_ascii_lowercase())
}

fn check_characters(what: &str, name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(allowed) {
        let rule = format!("it must have 1 to {MAX_NAME} letters, digits, - and _");
        return Err(Error::invalid(format!("{what}: {name:?}: {rule}")));
    }
    Ok(())
}

fn check_metadata(metadata: Option<&BTreeMap<String, String>>) -> Result<(), Error> {
    let Some(metadata) = metadata else { return Ok(()) };
    let (entries, key, value, all) = MAX_METADATA;
    let fits = |(k, v): (&String, &String)| (1..=key).contains(&k.len()) && v.len() <= value;
    let total: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if metadata.len() > entries || !metadata.iter().all(fits) || total > all {
        return Err(Error::invalid(format!(
            "metadata: at most {entries} labels, with names of 1 to {key} bytes, values of at most {value}, and {all} bytes \
             in all"
        )));
    }
    Ok(())
}

impl From<api::Secret> for SecretInfo {
    fn from(secret: api::Secret) -> Self {
        Self {
            id: secret.secret_id,
            name: secret.name,
            version: secret.current_version,
            metadata: secret.metadata,
            created_at: secret.created_at,
            updated_at: secret.updated_at,
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

impl IntoFuture for UpdateSecret {
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

impl fmt::Debug for UpdateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateSecret").field("secret", &self.secret).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_hold_names_and_nothing_else() {
        assert_eq!(Secret::fill("API_key-1").unwrap(), "${e2b.secrets.api_key-1}");
        assert_eq!(Secret::identity_token("aws").unwrap(), "${e2b.identity.tokens.aws}");
        for bad in ["", "a b", "a}", "a.b", "ä", &"x".repeat(129)] {
            let error = Secret::fill(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("1 to 128"), "{error}");
            assert!(Secret::identity_token(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_are_counted() {
        let labels = |n: usize, key: usize, value: usize| {
            (0..n).map(|i| (format!("{i:0key$}"), "v".repeat(value))).collect::<BTreeMap<_, _>>()
        };
        assert!(check_metadata(Some(&labels(32, 128, 128))).is_ok());
        for bad in [labels(33, 2, 1), labels(1, 129, 1), labels(1, 1, 1025), labels(32, 128, 129)] {
            assert!(check_metadata(Some(&bad)).is_err());
        }
    }
}
