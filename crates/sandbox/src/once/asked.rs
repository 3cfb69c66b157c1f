//! What a create asks for.

use std::fmt;

use oncebox_protocol::api;
use oncebox_transport::policy::create::{INTENT_METADATA, Intent};
use serde_json::{Map, Value};

use crate::error::values;

/// The body of a create.
#[derive(Clone, PartialEq)]
pub(crate) enum Asked {
    /// One of this SDK's own.
    Ours(Box<api::NewSandbox>),
    /// Another SDK's, as it came: fields that this one does not know are for the server to judge.
    Theirs(Map<String, Value>),
}

impl Asked {
    /// Labels the sandbox with the intent. `false`: what is there for metadata can hold no label.
    pub(crate) fn tag(&mut self, intent: &Intent) -> bool {
        let (name, value) = (INTENT_METADATA.to_owned(), intent.to_string());
        match self {
            Self::Ours(body) => {
                body.metadata.get_or_insert_default().insert(name, value);
            }
            Self::Theirs(body) => {
                let metadata = body.entry("metadata").or_insert(Value::Null);
                if metadata.is_null() {
                    *metadata = Value::Object(Map::new());
                }
                let Value::Object(metadata) = metadata else { return false };
                metadata.insert(name, Value::String(value));
            }
        }
        true
    }

    /// Values that a server may repeat, and that no error shall tell.
    pub(super) fn secrets(&self) -> Vec<String> {
        let Self::Ours(body) = self else { return Vec::new() };
        let envs = body.env_vars.iter().flatten().map(|(_, value)| value.expose().to_owned());
        let mcp = body.mcp.iter().flatten().flat_map(|(_, server)| values::texts(server.expose()));
        envs.chain(mcp).chain(body.network.iter().flat_map(values::secrets)).collect()
    }

    /// The lifetime in seconds, where it is a number.
    pub(super) fn lifetime(&self) -> Option<i64> {
        match self {
            Self::Ours(body) => body.timeout,
            Self::Theirs(body) => body.get("timeout").and_then(Value::as_i64),
        }
    }

    /// Sets the lifetime where none is given.
    pub(super) fn lifetime_or(&mut self, seconds: i64) {
        match self {
            Self::Ours(body) => {
                body.timeout.get_or_insert(seconds);
            }
            Self::Theirs(body) => {
                let lifetime = body.entry("timeout").or_insert(Value::Null);
                if lifetime.is_null() {
                    *lifetime = seconds.into();
                }
            }
        }
    }
}

impl serde::Serialize for Asked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ours(body) => body.serialize(serializer),
            Self::Theirs(body) => body.serialize(serializer),
        }
    }
}

/// Its variables may be secret.
impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs(body: &str) -> Asked {
        Asked::Theirs(serde_json::from_str(body).unwrap())
    }

    #[test]
    fn a_foreign_body_gets_a_label_and_a_lifetime_and_keeps_what_it_has() {
        let intent = Intent::from_random([1; 16]);
        for (body, lifetime) in [
            (r#"{"templateID": "t", "new": [1.50], "metadata": {"a": "b"}, "timeout": 7}"#, 7),
            (r#"{"templateID": "t", "new": [1.50], "metadata": {"a": "b"}, "timeout": null}"#, 300),
        ] {
            let mut asked = theirs(body);
            asked.lifetime_or(300);
            assert!(asked.tag(&intent));
            assert_eq!(asked.lifetime(), Some(lifetime));
            let sent = serde_json::to_value(&asked).unwrap();
            assert_eq!(sent["metadata"], serde_json::json!({"a": "b", "oncebox.intent": intent.as_str()}));
            assert_eq!((&sent["new"][0], &sent["templateID"]), (&1.5.into(), &"t".into()));
        }
        assert!(theirs("{}").tag(&intent) && theirs(r#"{"metadata": null}"#).tag(&intent));
        assert!(!theirs(r#"{"metadata": "x"}"#).tag(&intent));
    }
}
