//! Signed file URLs: who may read or write one path without the access token in a header.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// What a signature is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

impl Operation {
    /// `GET` reads, `POST` writes; no other method of `/files` is signed.
    pub(crate) fn of(method: &http::Method) -> Option<Self> {
        match *method {
            http::Method::GET | http::Method::HEAD => Some(Self::Read),
            http::Method::POST => Some(Self::Write),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The query of `/files`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FilesQuery {
    pub(crate) path: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) signature: Option<String>,
    pub(crate) signature_expiration: Option<i64>,
}

impl FilesQuery {
    /// Whether the signature was made with `token` for `operation`; says nothing about its expiration.
    pub(crate) fn signed_with(&self, token: &str, operation: Operation) -> bool {
        let Some(signature) = &self.signature else { return false };
        let path = self.path.as_deref().unwrap_or_default();
        let user = self.username.as_deref().unwrap_or_default();
        let expected = sign(path, operation, user, token, self.signature_expiration);
        same(signature.as_bytes(), expected.as_bytes())
    }

    /// Whether the signature's time is over at `now`, in seconds since 1970.
    pub(crate) fn expired(&self, now: i64) -> bool {
        self.signature_expiration.is_some_and(|expiration| expiration < now)
    }
}

fn sign(path: &str, operation: Operation, user: &str, token: &str, expiration: Option<i64>) -> String {
    let mut text = format!("{path}:{}:{user}:{token}", operation.name());
    if let Some(expiration) = expiration {
        text.push_str(&format!(":{expiration}"));
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
}

/// Compares in a time that depends on the lengths only.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(signature: &str, expiration: Option<i64>) -> FilesQuery {
        FilesQuery {
            path: Some("/home/user/a b".to_owned()),
            username: Some("user".to_owned()),
            signature: Some(signature.to_owned()),
            signature_expiration: expiration,
        }
    }

    #[test]
    fn a_signature_is_for_one_path_operation_user_token_and_time() {
        // printf '/home/user/a b:read:user:secret:1700000000' | openssl dgst -sha256 -binary | base64
        let good = sign("/home/user/a b", Operation::Read, "user", "secret", Some(1_700_000_000));
        let query = query(&good, Some(1_700_000_000));
        assert!(query.signed_with("secret", Operation::Read));
        assert!(!query.signed_with("secret", Operation::Write));
        assert!(!query.signed_with("other", Operation::Read));
        assert!(query.expired(1_700_000_001));
        assert!(!query.expired(1_700_000_000));
    }
}
