//! The one table of what can be set, and by what.

use std::time::Duration;

use oncebox::{ClientBuilder, HttpVersion, Proxy};

use crate::args;
use crate::connection::{ProviderArgs, http_version};

/// One thing that can be set.
pub(super) struct Setting {
    /// Its name in the file.
    pub(super) name: &'static str,
    pub(super) flag: Option<&'static str>,
    pub(super) variable: Option<&'static str>,
    /// What holds when nothing is said; `None`: nothing does.
    pub(super) default: Option<&'static str>,
    /// Shown masked.
    pub(super) is_secret: bool,
    /// A URL, which may have a password in it: of that what stands before the host is shown masked.
    pub(super) is_url: bool,
    /// One of those that say where servers are.
    pub(super) is_address: bool,
    /// What the flags say.
    pub(super) given: fn(&ProviderArgs) -> Option<String>,
    /// Sets it; the error is the rule that the value breaks.
    pub(super) set: fn(ClientBuilder, &str) -> Result<ClientBuilder, String>,
}

impl Setting {
    const fn new(name: &'static str, set: fn(ClientBuilder, &str) -> Result<ClientBuilder, String>) -> Self {
        Self {
            name,
            flag: None,
            variable: None,
            default: None,
            is_secret: false,
            is_url: false,
            is_address: false,
            given: |_| None,
            set,
        }
    }

    const fn flag(mut self, flag: &'static str, given: fn(&ProviderArgs) -> Option<String>) -> Self {
        self.flag = Some(flag);
        self.given = given;
        self
    }

    const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    const fn url(mut self) -> Self {
        self.is_url = true;
        self
    }

    const fn address(mut self) -> Self {
        self.is_address = true;
        self
    }

    /// A value as it may be shown.
    pub(super) fn shown(&self, value: &str) -> String {
        if self.is_url {
            return without_password(value);
        }
        if !self.is_secret {
            return value.to_owned();
        }
        // The end tells keys apart, of those that are long enough to keep the rest.
        let end: String = value.chars().skip(value.chars().count().saturating_sub(4)).collect();
        if value.chars().count() >= 16 { format!("…{end}") } else { "…".to_owned() }
    }
}

/// A URL as it may be shown: whatever stands between its scheme and its last @ may be a password.
pub(super) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{separator}…@{host}"),
        None => url.to_owned(),
    }
}

/// All of them.
pub(super) static SETTINGS: [Setting; 12] = [
    Setting::new("api_key", |builder, key| Ok(builder.api_key(key))).variable("E2B_API_KEY").secret(),
    Setting::new("domain", |builder, domain| Ok(builder.domain(domain)))
        .flag("--domain", |flags| flags.domain.clone())
        .variable("E2B_DOMAIN")
        .default("e2b.app")
        .address(),
    Setting::new("api_url", |builder, url| Ok(builder.api_url(url)))
        .flag("--api-url", |flags| flags.api_url.clone())
        .variable("E2B_API_URL")
        .url()
        .address(),
    Setting::new("sandbox_url", |builder, url| Ok(builder.sandbox_url(url)))
        .flag("--sandbox-url", |flags| flags.sandbox_url.clone())
        .variable("E2B_SANDBOX_URL")
        .url()
        .address(),
    Setting::new("volume_api_url", |builder, url| Ok(builder.volume_api_url(url)))
        .flag("--volume-api-url", |flags| flags.volume_api_url.clone())
        .variable("E2B_VOLUME_API_URL")
        .url()
        .address(),
    Setting::new("request_timeout", |builder, text| Ok(builder.request_timeout(args::seconds(text)?)))
        .flag("--request-timeout", |flags| flags.request_timeout.map(|timeout| timeout.as_secs_f64().to_string()))
        .variable("ONCEBOX_REQUEST_TIMEOUT")
        .default("60"),
    Setting::new("retries", |builder, text| Ok(builder.retries(args::retries(text)?)))
        .flag("--retries", |flags| flags.retries.map(|retries| retries.to_string()))
        .variable("ONCEBOX_RETRIES")
        .default("3"),
    Setting::new("connection_retries", |builder, text| Ok(builder.connection_retries(args::retries(text)?)))
        .flag("--connection-retries", |flags| flags.connection_retries.map(|retries| retries.to_string()))
        .variable("E2B_CONNECTION_RETRIES")
        .default("3"),
    Setting::new("http_version", |builder, text| Ok(builder.http_version(http_version(text)?)))
        .flag("--http", |flags| {
            flags.network.http.map(|version| if version == HttpVersion::Http2 { "2" } else { "1.1" }.to_owned())
        })
        .variable("E2B_HTTP_VERSION"),
    Setting::new("max_connections", |builder, text| {
        let rule = "it must be a whole number of 1 or more";
        Ok(builder.max_connections(text.parse().ok().filter(|number| *number > 0).ok_or(rule)?))
    })
    .variable("E2B_MAX_CONNECTIONS")
    .default("200"),
    Setting::new("keepalive_expiry", |builder, text| {
        let rule = "it must be a whole number of seconds";
        Ok(builder.keepalive_expiry(Duration::from_secs(text.parse::<u32>().map_err(|_| rule)?.into())))
    })
    .variable("E2B_KEEPALIVE_EXPIRY")
    .default("300"),
    Setting::new("proxy", |builder, url| Ok(builder.proxy(Proxy::new(url).map_err(|error| error.to_string())?)))
        .flag("--proxy", |flags| flags.network.proxy.clone())
        .url(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_secret_little_is_shown() {
        let shown = |value| SETTINGS[0].shown(value);
        assert_eq!((shown("e2b_0123456789abcdef"), shown("short")), ("…cdef".into(), "…".into()));
        assert_eq!(SETTINGS[1].shown("e2b.app"), "e2b.app");
    }

    #[test]
    fn of_a_url_all_but_the_password_is_shown() {
        for (url, shown) in [
            ("http://user:p@ss@proxy.example:3128", "http://…@proxy.example:3128"),
            ("user:pass@proxy.example:3128", "…@proxy.example:3128"),
            ("socks5h://only-user@h", "socks5h://…@h"),
            ("http://proxy.example:3128", "http://proxy.example:3128"),
            ("proxy.example", "proxy.example"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn the_table_is_consistent() {
        for setting in &SETTINGS {
            assert_eq!(setting.flag.is_some(), setting.flag.is_some_and(|flag| flag.starts_with("--")));
            if let Some(default) = setting.default {
                assert!((setting.set)(ClientBuilder::default(), default).is_ok(), "{}", setting.name);
            }
        }
    }
}
