//! The users a sandbox knows by name. Both are the same user to the kernel: one-uid maps have no second one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

/// A user of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum User {
    /// Whoever asks without a name.
    #[default]
    User,
    Root,
}

impl User {
    /// The user of that name; the default user if there is none.
    pub(super) fn named(name: Option<&str>) -> Result<Self, String> {
        match name.unwrap_or_default() {
            "" | "user" => Ok(Self::User),
            "root" => Ok(Self::Root),
            other => Err(format!("user '{}' does not exist; this sandbox has user and root", other.escape_debug())),
        }
    }

    /// The user a request names with `Authorization: Basic base64("name:")`.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let Some(header) = headers.get(http::header::AUTHORIZATION) else { return Ok(Self::User) };
        let encoded = header.to_str().ok().and_then(|text| {
            let (scheme, rest) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("basic").then(|| rest.trim())
        });
        let decoded =
            encoded.and_then(|text| STANDARD.decode(text).ok()).and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(credentials) = decoded else {
            return Err("Authorization is not of the form Basic base64(\"user:\")".to_owned());
        };
        Self::named(credentials.split(':').next())
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Result<User, String> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::AUTHORIZATION, value.parse().unwrap());
        User::of(&headers)
    }

    #[test]
    fn basic_credentials_name_the_user() {
        assert_eq!(of("Basic cm9vdDo="), Ok(User::Root));
        assert_eq!(of("basic dXNlcjo="), Ok(User::User));
        assert_eq!(User::of(&HeaderMap::new()), Ok(User::User));
        assert!(of("Basic Ym9iOg==").unwrap_err().contains("'bob' does not exist"));
        assert!(of("Bearer x").is_err());
        assert!(of("Basic ???").is_err());
    }
}
