//! Values within what is sent that a server may repeat, and that no error shall tell.

use serde::Serialize;
use serde_json::Value;

/// All texts within a value.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather(value, true, &mut found);
    found
}

/// What a network's options hold of secrets: passwords of proxies, and headers that are set on the way out.
pub(crate) fn of_network(network: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    gather(&serde_json::to_value(network).unwrap_or_default(), false, &mut found);
    found
}

fn gather(value: &Value, is_secret: bool, into: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, is_secret, into)),
        Value::Object(fields) => {
            for (name, field) in fields {
                gather(field, is_secret || matches!(name.as_str(), "password" | "headers"), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_and_headers_of_a_network_are_found_and_hosts_are_not() {
        let network = json!({
            "egressProxy": {"address": "proxy:1080", "username": "me", "password": "hunter22"},
            "rules": {"api.example": [{"transform": {"headers": {"authorization": "Bearer t0ken"}}}]},
        });
        assert_eq!(of_network(&network), ["hunter22", "Bearer t0ken"]);
        assert_eq!(texts(&json!({"a": ["b", {"c": "d"}], "e": 1})), ["b", "d"]);
    }
}
