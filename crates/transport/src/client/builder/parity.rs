//! `spec/options.json` against the transport: each option's default is what holds without it, setting it changes something,
//! and a wrong value says what the table says. That the table lists every option is for `cargo xtask codegen`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};

use super::ClientBuilder;
use crate::options::HttpVersion;

fn table() -> Value {
    serde_json::from_str(include_str!("../../../../../spec/options.json")).unwrap()
}

/// The options of the transport, each with its kind's entry.
fn options(table: &Value) -> impl Iterator<Item = (&str, &Value, &Value)> {
    let section = table["sections"].as_array().unwrap().iter().find(|section| section["id"] == "transport").unwrap();
    section["options"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|option| option["rust"] != json!(false))
        .map(|option| (option["name"].as_str().unwrap(), option, &table["kinds"][option["kind"].as_str().unwrap()]))
}

/// Sets an option; `None`: it takes what no table can hold.
fn set(builder: ClientBuilder, name: &str, value: &Value) -> Option<Result<ClientBuilder, crate::Error>> {
    let text = || value.as_str().unwrap();
    let time = || Duration::from_secs_f64(value.as_f64().unwrap());
    let count = || u32::try_from(value.as_u64().unwrap()).unwrap();
    let on = || value.as_bool().unwrap();
    Some(Ok(match name {
        "retries" => builder.retries(count()),
        "connection_retries" => builder.connection_retries(count()),
        "request_timeout" => builder.request_timeout(time()),
        "attempt_timeout" => builder.attempt_timeout(time()),
        "read_idle_timeout" => builder.read_idle_timeout(time()),
        "write_idle_timeout" => builder.write_idle_timeout(time()),
        "keepalive_expiry" => builder.keepalive_expiry(time()),
        "max_connection_age" => builder.max_connection_age(time()),
        "dns_timeout" => builder.dns_timeout(time()),
        "connect_timeout" => builder.connect_timeout(time()),
        "tls_timeout" => builder.tls_timeout(time()),
        "proxy_timeout" => builder.proxy_timeout(time()),
        "tcp_keepalive" => builder.tcp_keepalive(time()),
        "replay_buffer_limit" => builder.replay_buffer_limit(count() as usize),
        "max_response_size" => builder.max_response_size(count() as usize),
        "max_connections" => builder.max_connections(count() as usize),
        "initial_streams" => builder.initial_streams(count()),
        "seed" => builder.seed(count().into()),
        "danger_accept_invalid_certificates" => builder.danger_accept_invalid_certificates(on()),
        "trace_context" => builder.trace_context(on()),
        "http_version" => builder.http_version(match text() {
            "auto" => HttpVersion::Auto,
            "2" => HttpVersion::Http2,
            other => panic!("{other}"),
        }),
        "ping" => {
            let pair: Vec<Duration> =
                value.as_array().unwrap().iter().map(|time| Duration::from_secs(time.as_u64().unwrap())).collect();
            builder.ping(pair[0], pair[1])
        }
        "add_root_certificates" => return Some(builder.add_root_certificates(text().as_bytes())),
        "client_certificate" => return Some(builder.client_certificate(text().as_bytes(), text().as_bytes())),
        "proxy" => match crate::Proxy::new(text()) {
            Ok(proxy) => builder.proxy(proxy),
            Err(error) => return Some(Err(error)),
        },
        #[cfg(unix)]
        "unix_socket" => builder.unix_socket(text()),
        // What they take is a value of its own: tests of their own hold them.
        "no_proxy" | "observer" | "policy" | "resolver" => return None,
        other => panic!("spec/options.json has {other}, which no test knows"),
    }))
}

/// All that options amount to.
fn state(builder: &ClientBuilder) -> String {
    format!("{builder:?}").replace("keepalive_expiry_is_set: true", "keepalive_expiry_is_set: false")
}

#[test]
fn each_default_of_the_table_is_what_holds_without_the_option() {
    let table = table();
    let mut checked = 0;
    for (name, option, _) in options(&table) {
        let Some(default) = option.get("default") else { continue };
        let builder = set(ClientBuilder::default(), name, default).unwrap().unwrap();
        assert_eq!(state(&builder), state(&ClientBuilder::default()), "{name}");
        checked += 1;
    }
    assert!(checked > 18, "{checked}");
}

#[test]
fn each_option_of_the_table_changes_something() {
    let table = table();
    for (name, option, _) in options(&table) {
        let other = match (option.get("other"), option.get("default")) {
            (Some(other), _) => other.clone(),
            (None, Some(Value::Bool(on))) => json!(!on),
            (None, Some(Value::Number(number))) => json!(number.as_u64().unwrap() + 1),
            _ => continue,
        };
        let builder = set(ClientBuilder::default(), name, &other).unwrap().unwrap();
        assert_ne!(state(&builder), state(&ClientBuilder::default()), "{name}");
    }
}

#[test]
fn each_wrong_value_of_the_table_says_what_it_says() {
    let table = table();
    let (mut checked, mut differences) = (0, Vec::new());
    for (name, option, kind) in options(&table) {
        let wrong = option.get("wrong").map_or(&kind["rust"], |own| &own["rust"]);
        let Some(expected) = wrong["error"].as_str().map(|error| error.replace("{name}", name)) else { continue };
        let said = match set(ClientBuilder::default(), name, &wrong["value"]).unwrap() {
            Ok(builder) => builder.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        if said != expected {
            differences.push(format!("{said}, and the table: {expected}"));
        }
        checked += 1;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(checked > 14, "{checked}");
}

#[test]
fn what_is_out_of_range_becomes_the_nearest_that_is_not() {
    let builder = ClientBuilder::default()
        .attempt_timeout(Duration::MAX)
        .ping(Duration::MAX, Duration::MAX)
        .max_connections(usize::MAX)
        .initial_streams(0);
    assert!(builder.validate().is_err());
    let bounded = builder.bounded();
    assert_eq!(bounded.validate(), Ok(()));
    assert_eq!(bounded.limits.max_connections, u32::MAX as usize);
}
