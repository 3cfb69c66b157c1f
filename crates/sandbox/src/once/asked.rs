//! What a create asks for.

use std::fmt;

use oncebox_protocol::api;
use oncebox_transport::policy::create::{INTENT_METADATA, Intent};
use serde_json::{Map, Value};

const SHORTEST_SECRET: usize = 8;

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

    /// Values that a server may repeat, and that no error shall tell. What is short is no secret, but a word.
    pub(super) fn secrets(&self) -> Vec<&str> {
        let Self::Ours(body) = self else { return Vec::new() };
        let mut secrets: Vec<&str> = body.env_vars.iter().flatten().map(|(_, value)| value.expose()).collect();
        for servers in body.mcp.iter().flat_map(|mcp| mcp.values()) {
            texts(servers.expose(), &mut secrets);
        }
        secrets.retain(|value| value.len() >= SHORTEST_SECRET);
        secrets
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

/// All texts within.
fn texts<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, into)),
        _ => {}
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
