//! `spec/options.json` against the code: each option's default is what holds without it, setting it changes something, and a
//! wrong value says what the table says. That the table lists every option is for `cargo xtask codegen`.

#![allow(clippy::unwrap_used)]

#[path = "../../../../transport/src/client/builder/parity/table.rs"]
mod table;

use std::time::Duration;

use oncebox_transport::policy::{IdempotencyKeys, Policy};
use oncebox_transport::{HttpVersion, Proxy};
use serde_json::Value;

use super::ClientBuilder;
use crate::CallOptions;
use crate::config::{Config, VARIABLES, transport};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::options::Own;
use table::{Entry, Section};

fn section() -> Section {
    Section::read("client")
}

/// Sets an option; `None`: it takes what no table can hold.
fn set(builder: ClientBuilder, name: &str, value: &Value) -> Option<ClientBuilder> {
    let text = || value.as_str().unwrap().to_owned();
    let time = || Duration::from_secs_f64(value.as_f64().unwrap());
    let count = || u32::try_from(value.as_u64().unwrap()).unwrap();
    let on = || value.as_bool().unwrap();
    Some(match name {
        "api_key" => builder.api_key(text()),
        "domain" => builder.domain(text()),
        "api_url" => builder.api_url(text()),
        "sandbox_url" => builder.sandbox_url(text()),
        "volume_api_url" => builder.volume_api_url(text()),
        "root_certificates" => builder.root_certificates(text()),
        "client_certificate" => builder.client_certificate(text(), text()),
        "lookups" => builder.lookups(count()),
        "retries" => builder.retries(count()),
        "connection_retries" => builder.connection_retries(count()),
        "initial_streams" => builder.initial_streams(count()),
        "max_connections" => builder.max_connections(count() as usize),
        "replay_buffer_limit" => builder.replay_buffer_limit(count() as usize),
        "request_timeout" => builder.request_timeout(time()),
        "attempt_timeout" => builder.attempt_timeout(time()),
        "read_idle_timeout" => builder.read_idle_timeout(time()),
        "settle" => builder.settle(time()),
        "cleanup_timeout" => builder.cleanup_timeout(time()),
        "keepalive_expiry" => builder.keepalive_expiry(time()),
        "dns_timeout" => builder.dns_timeout(time()),
        "connect_timeout" => builder.connect_timeout(time()),
        "tls_timeout" => builder.tls_timeout(time()),
        "proxy_timeout" => builder.proxy_timeout(time()),
        "danger_accept_invalid_certificates" => builder.danger_accept_invalid_certificates(on()),
        "no_proxy" if on() => builder.no_proxy(),
        "no_proxy" => builder,
        "proxy" => builder.proxy(Proxy::new(&text()).ok()?),
        "idempotency_keys" => builder.idempotency_keys(match value.as_str().unwrap() {
            "auto" => IdempotencyKeys::Auto,
            "honoured" => IdempotencyKeys::Honoured,
            other => panic!("{other}"),
        }),
        "http_version" => builder.http_version(match value.as_str().unwrap() {
            "auto" => HttpVersion::Auto,
            "2" => HttpVersion::Http2,
            other => panic!("{other}"),
        }),
        // What they take is a value of its own: tests of their own hold them.
        "api_header" | "credentials" | "endpoint" | "header" | "policy" | "transport" => return None,
        other => panic!("spec/options.json has {other}, which no test knows"),
    })
}

/// All that options amount to.
fn state(builder: ClientBuilder) -> Result<String, Error> {
    let nothing = |_: &str| None;
    let transport = transport(&builder.given, &nothing)?;
    let config = Config::resolve(builder.given, &nothing)?;
    let key = config.api_key.lock().unwrap().clone();
    let transport = format!("{transport:?}").replace("keepalive_expiry_is_set: true", "keepalive_expiry_is_set: false");
    Ok(format!("{transport} {:?} {:?} {:?}", config.creates, config.endpoint, key.map(|key| key.as_bytes().to_owned())))
}

fn with_key() -> ClientBuilder {
    ClientBuilder::default().api_key("key")
}

#[test]
fn each_default_of_the_table_is_what_holds_without_the_option() {
    let untouched = state(with_key()).unwrap();
    section().defaults(20, |name, default| {
        let builder = set(with_key(), name, default).unwrap();
        assert_eq!(state(builder).unwrap(), untouched, "{name}");
    });
}

#[test]
fn each_option_of_the_table_changes_something() {
    let untouched = state(with_key()).unwrap();
    section().others(|name, other| {
        let Some(builder) = set(with_key(), name, other) else { return };
        assert_ne!(state(builder).unwrap(), untouched, "{name}");
    });
}

#[test]
fn each_wrong_value_of_the_table_says_what_it_says() {
    section().wrong(20, |name, value| match set(with_key(), name, value) {
        Some(builder) => {
            let error = state(builder).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
            error.to_string()
        }
        // It is refused where it is made.
        None => Proxy::new(value.as_str().unwrap()).unwrap_err().to_string(),
    });
}

#[test]
fn a_calls_own_options_have_the_clients_rules() {
    for Entry { name, kind, .. } in section().entries() {
        let options = match name {
            "retries" => CallOptions::new().retries(1001),
            "connection_retries" => CallOptions::new().connection_retries(1001),
            "request_timeout" => CallOptions::new().request_timeout(Duration::from_secs(2_147_483_648)),
            _ => continue,
        };
        let said = Own::default().with(options).unwrap_err().to_string();
        assert_eq!(said, kind["rust"]["error"].as_str().unwrap().replace("{name}", name));
    }
}

#[test]
fn the_tables_variables_are_those_that_are_read() {
    let section = section();
    let mut listed: Vec<&str> = section.options.iter().filter_map(|option| option["variable"].as_str()).collect();
    listed.sort_unstable();
    let mut read = VARIABLES;
    read.sort_unstable();
    assert_eq!(listed, read);
}

#[test]
fn a_policy_that_breaks_its_rule_is_refused_before_anything_is_sent() {
    let builder = with_key().policy(Policy { retry_after_jitter: 1.5, ..Policy::default() });
    assert_eq!(state(builder).unwrap_err().to_string(), "retry_after_jitter: 1.5 is not a fraction from 0 to 1");
    let endpoint = with_key().endpoint(Endpoint::debug());
    assert_ne!(state(endpoint).unwrap(), state(with_key()).unwrap());
}
