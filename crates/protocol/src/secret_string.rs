//! Text that is never printed.

use serde::{Deserialize, Serialize};
use std::fmt;

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
