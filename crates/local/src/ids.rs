//! Names and tokens nobody can guess.

use std::io;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Letters of a sandbox id.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 20;

/// A new sandbox id: `i` and twenty letters or digits.
pub(crate) fn sandbox_id() -> io::Result<String> {
    resource_id("i")
}

/// A new id: a prefix that says of what, and twenty letters or digits.
pub(crate) fn resource_id(prefix: &str) -> io::Result<String> {
    let mut id = String::from(prefix);
    let length = prefix.len() + ID_LENGTH;
    while id.len() < length {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        // Bytes above the last multiple of 36 would make some letters likelier.
        let letters =
            bytes.iter().filter(|byte| **byte < 252).map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()]);
        id.extend(letters.take(length - id.len()).map(char::from));
    }
    Ok(id)
}

/// Whether a text can be a sandbox id at all.
pub(crate) fn is_sandbox_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A name for a folder.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

/// A new id in the form of a UUID, version 4.
pub(crate) fn uuid() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| text.get(part).unwrap_or_default());
    Ok(parts.join("-"))
}

/// A new secret of 40 hexadecimal digits.
pub(crate) fn secret(prefix: &str) -> io::Result<String> {
    let mut bytes = [0_u8; 20];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{prefix}{}", hex(&bytes)))
}

/// What a server derives access tokens from.
pub(crate) struct Seed([u8; 32]);

impl Seed {
    /// A seed for one server.
    pub(crate) fn new() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// A seed that was written down.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The seed, to be written down.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// The access token of a sandbox.
    pub(crate) fn access_token(&self, sandbox_id: &str) -> io::Result<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(io::Error::other)?;
        mac.update(sandbox_id.as_bytes());
        Ok(hex(&mac.finalize().into_bytes()))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_protocols_form() {
        let id = sandbox_id().unwrap();
        assert_eq!(id.len(), 21);
        assert!(id.starts_with('i') && is_sandbox_id(&id));
        assert_ne!(id, sandbox_id().unwrap());
        for bad in ["", "I1", "../x", "a-b", "ü"] {
            assert!(!is_sandbox_id(bad), "{bad}");
        }
    }

    #[test]
    fn tokens_differ_by_sandbox_and_server() {
        let (one, other) = (Seed::new().unwrap(), Seed::new().unwrap());
        assert_eq!(one.access_token("a").unwrap(), one.access_token("a").unwrap());
        assert_eq!(one.access_token("a").unwrap().len(), 64);
        assert_ne!(one.access_token("a").unwrap(), one.access_token("b").unwrap());
        assert_ne!(one.access_token("a").unwrap(), other.access_token("a").unwrap());
    }
}
