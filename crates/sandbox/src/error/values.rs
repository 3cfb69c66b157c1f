//! Values within what is sent that a server may repeat, and that no error shall tell.

use serde::Serialize;
use serde_json::Value;

/// All texts within a value.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather(value, true, &mut found);
    found
}

/// What options hold of secrets: passwords of proxies and headers that a network sets on the way out, the secret that a
/// webhook's events are signed with.
pub(crate) fn secrets(options: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    gather(&serde_json::to_value(options).unwrap_or_default(), false, &mut found);
    found
}

fn gather(value: &Value, is_secret: bool, into: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, is_secret, into)),
        Value::Object(fields) => {
            for (name, field) in fields {
                gather(field, is_secret || is_of_secret(name), into);
            }
        }
        _ => {}
    }
}

fn is_of_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "headers" || ["password", "secret"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_headers_and_secrets_are_found_and_hosts_are_not() {
        let network = json!({
            "egressProxy": {"address": "proxy:1080", "username": "me", "password": "hunter22"},
            "rules": {"api.example": [{"transform": {"headers": {"authorization": "Bearer t0ken"}}}]},
        });
        assert_eq!(secrets(&network), ["hunter22", "Bearer t0ken"]);
        let webhook = json!({"name": "n", "url": "http://h/", "signatureSecret": "s1gned"});
        assert_eq!(secrets(&webhook), ["s1gned"]);
        assert_eq!(texts(&json!({"a": ["b", {"c": "d"}], "e": 1})), ["b", "d"]);
    }
}
