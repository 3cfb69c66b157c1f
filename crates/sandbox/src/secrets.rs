//! Secrets: values that are stored once, used by name, and never shown again.

mod create;
mod labels;
mod list;
mod update;

pub use create::CreateSecret;
pub use list::{ListSecrets, SecretPages};
pub use update::UpdateSecret;

use std::collections::BTreeMap;

use jiff::Timestamp;
use oncebox_protocol::{SecretString, api, operations};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::mint::Listing;

/// Longest name (protocol fact).
const MAX_NAME: usize = 128;

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
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a name or labels that break the rules, before any I/O;
    /// [`Conflict`](crate::ErrorKind::Conflict) when the name is taken, or there are as many secrets as there may be. Where the
    /// answer is lost, a secret that has this name since the call began, and that none had before, is the answer. When that
    /// cannot be told, the error names [candidates](Error::candidates).
    pub fn create(client: &Client, name: impl Into<String>, value: impl Into<SecretString>) -> CreateSecret {
        CreateSecret::new(client, name.into(), value.into())
    }

    /// Adds a version to a secret, which takes the place of the one in use. By id or name.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); [`NotFound`](crate::ErrorKind::NotFound) when there is no such secret. Where the answer is lost,
    /// the version that came next since the call began is the answer.
    pub fn update(client: &Client, secret: impl Into<String>, value: impl Into<SecretString>) -> UpdateSecret {
        UpdateSecret::new(client, secret.into(), value.into())
    }

    /// Describes a secret, by id or name.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such one.
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
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for what is no name of a secret.
    pub fn fill(name: &str) -> Result<String, Error> {
        Ok(format!("${{e2b.secrets.{}}}", check_name(name)?))
    }

    /// What stands for one of a sandbox's identity tokens ([`SandboxIam`](crate::SandboxIam)) there:
    /// `${e2b.identity.tokens.<name>}`.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a name with other characters than letters, digits, `-` and `_`.
    pub fn identity_token(name: &str) -> Result<String, Error> {
        check_characters("the identity token's name", name)?;
        Ok(format!("${{e2b.identity.tokens.{name}}}"))
    }
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

/// What a call with this value ends with. A server may have repeated the value in its answer: it is taken out of errors.
async fn keeping_secret(
    value: SecretString,
    call: impl Future<Output = Result<SecretInfo, Error>>,
) -> Result<SecretInfo, Error> {
    call.await.map_err(|error| error.without(value.expose()))
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
}
