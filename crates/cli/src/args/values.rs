//! What the values of flags must look like, each with its rule as it is told.

use std::time::Duration;

use oncebox_policy::{MAX_RETRIES, retries_option};

use super::Memory;

/// The longest timeout that can be given: a year.
const MAX_SECONDS: f64 = 365.0 * 24.0 * 60.0 * 60.0;

pub(super) fn memory(text: &str) -> Result<Memory, String> {
    if text == "none" {
        return Ok(Memory(None));
    }
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(MEMORY_RULE.to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.map(|bytes| Memory(Some(bytes))).ok_or_else(|| MEMORY_RULE.to_owned())
}

const MEMORY_RULE: &str = "it must be a number of bytes, with K, M, G or T for KiB, MiB, GiB or TiB, or none";

pub(crate) fn non_empty(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it must not be empty".into()) } else { Ok(text.to_owned()) }
}

/// An environment variable.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    named(text, "LANG=C")
}

/// What a sandbox or a secret is found by.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    named(text, "task=42")
}

fn named(text: &str, example: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("it must look like NAME=VALUE, such as {example}")),
    }
}

/// A sandbox's id as it is typed. Servers cut whatever follows a hyphen, so that an id with a slip behind it would name
/// another sandbox; all that old ids have there is the id of a client, which is 8 hex digits.
pub(crate) fn sandbox_id(text: &str) -> Result<String, String> {
    let (own, client) = text.split_once('-').map_or((text, None), |(own, client)| (own, Some(client)));
    let is_client = |id: &str| id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if own.is_empty() || !own.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err("it is no sandbox id, which is of a-z and 0-9; `oncebox sandbox ls` lists them".to_owned());
    }
    if client.is_some_and(|client| !is_client(client)) {
        return Err(format!(
            "it is no sandbox id: {own} alone may be one, or with a client's id behind it, a hyphen and 8 hex digits; \
             `oncebox sandbox ls` lists them"
        ));
    }
    Ok(text.to_owned())
}

/// The id of a durable command.
pub(super) fn durable_id(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_id = (1..=64).contains(&text.len()) && text.bytes().all(fits);
    if is_id { Ok(text.to_owned()) } else { Err("it must be 1 to 64 of a-z, 0-9 and hyphens".to_owned()) }
}

/// A whole number, whose rule is told whatever is wrong with it.
pub(crate) fn whole<T: TryFrom<u64>>(
    from: u64,
    to: Option<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| (from..=to.unwrap_or(u64::MAX)).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match to {
            Some(to) => format!("it must be a whole number from {from} to {to}"),
            None => format!("it must be a whole number of {from} or more, and not too large"),
        })
    }
}

pub(super) fn processors(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number of processors, such as 1.5".to_owned())
}

pub(crate) fn ip(text: &str) -> Result<std::net::IpAddr, String> {
    text.parse().map_err(|_| "it must be an IP address, such as 127.0.0.1 or ::1".to_owned())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let rule = || format!("it must be a number of seconds from 0 to {MAX_SECONDS}, such as 30 or 0.5");
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => match Duration::from_secs_f64(seconds) {
            // Rounded to nothing it would mean never.
            Duration::ZERO if seconds > 0.0 => Err(rule()),
            timeout => Ok(timeout),
        },
        _ => Err(rule()),
    }
}

pub(crate) fn seconds_over_zero(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| format!("it must be a number of seconds over 0 and up to {MAX_SECONDS}, such as 30 or 0.5"))
}

pub(crate) fn retries(text: &str) -> Result<u32, String> {
    retries_option("retries", text).map_err(|_| format!("it must be a whole number from 0 to {MAX_RETRIES}"))
}

pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("it must be a whole number from 0 to {}", u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        for bad in ["-1", "nan", "inf", "1e300", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["-1", "1.5", "1001", "x"] {
            assert!(retries(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_may_have_a_clients_behind_it_and_nothing_else() {
        for id in ["i1abc", "i1abc-6532622b"] {
            assert_eq!(sandbox_id(id).as_deref(), Ok(id));
        }
        for id in [
            "",
            "iABC",
            "../x",
            "i1abc-",
            "i1abc-typo",
            "i1abc-6532622",
            "i1abc-6532622b-x",
            "-6532622b",
            "i1abc-6532622B",
        ] {
            assert!(sandbox_id(id).is_err(), "{id}");
        }
    }
}
