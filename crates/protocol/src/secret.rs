//! What is never printed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A credential on the wire: `Debug` hides it, there is no `Display`, and whoever wants it asks by name.
///
/// ```
/// use oncebox_protocol::SecretString;
///
/// let token = SecretString::from("s3cret");
/// assert_eq!(format!("{token:?}"), "SecretString(…)");
/// assert_eq!(token.expose(), "s3cret");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text, taken out.
    pub fn into_exposed(self) -> String {
        self.0
    }
}

impl From<String> for SecretString {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for SecretString {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretString(…)")
    }
}

/// Any JSON that may hold a credential: `Debug` hides it, there is no `Display`, and whoever wants it asks by name.
///
/// ```
/// use oncebox_protocol::SecretValue;
///
/// let value = SecretValue::from(serde_json::json!({"token": "s3cret"}));
/// assert_eq!(format!("{value:?}"), "SecretValue(…)");
/// assert_eq!(value.expose()["token"], "s3cret");
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretValue(Value);

impl SecretValue {
    /// The JSON.
    pub fn expose(&self) -> &Value {
        &self.0
    }
}

impl From<Value> for SecretValue {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}
