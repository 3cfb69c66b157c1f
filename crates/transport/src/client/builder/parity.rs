//! `spec/options.json` against the transport: each option's default is what holds without it, setting it changes something,
//! and a wrong value says what the table says. That the table lists every option is for `cargo xtask codegen`.

#![allow(clippy::unwrap_used)]

mod table;

use std::time::Duration;

use serde_json::Value;

use super::ClientBuilder;
use crate::options::HttpVersion;
use table::Section;

fn section() -> Section {
    Section::read("transport")
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
    section().defaults(18, |name, default| {
        let builder = set(ClientBuilder::default(), name, default).unwrap().unwrap();
        assert_eq!(state(&builder), state(&ClientBuilder::default()), "{name}");
    });
}

#[test]
fn each_option_of_the_table_changes_something() {
    section().others(|name, other| {
        let builder = set(ClientBuilder::default(), name, other).unwrap().unwrap();
        assert_ne!(state(&builder), state(&ClientBuilder::default()), "{name}");
    });
}

#[test]
fn each_wrong_value_of_the_table_says_what_it_says() {
    section().wrong(14, |name, value| match set(ClientBuilder::default(), name, value).unwrap() {
        Ok(builder) => builder.validate().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    });
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
