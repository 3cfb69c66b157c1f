//! What decides about repeats, from a client's options.

use std::ops::RangeInclusive;

use oncebox::{ClientBuilder, Policy};
use oncebox_policy::{RepeatUnknown, retries_option};
use pyo3::prelude::*;

use crate::errors::invalid;
use crate::options::Options;

/// How many `retries` and `connection_retries` there can be: the policy's own rule.
pub(super) const RETRIES: RangeInclusive<u64> = 0..=oncebox_policy::MAX_RETRIES as u64;

/// What counts repeats of failed connects where nothing that was given does.
const VARIABLE: &str = "E2B_CONNECTION_RETRIES";

type Switch = fn(&mut Policy) -> &mut bool;

/// The switches, by the names of the policy's own fields.
const SWITCHES: [(&str, Switch); 8] = [
    ("trust_service_unavailable", |policy| &mut policy.trust_service_unavailable),
    ("trust_bad_gateway", |policy| &mut policy.trust_bad_gateway),
    ("retry_gateway_timeout", |policy| &mut policy.retry_gateway_timeout),
    ("retry_request_timeout_status", |policy| &mut policy.retry_request_timeout_status),
    ("replay_misdirected_and_early", |policy| &mut policy.replay_misdirected_and_early),
    ("retry_rate_limit_without_hint", |policy| &mut policy.retry_rate_limit_without_hint),
    ("honor_should_retry", |policy| &mut policy.honor_should_retry),
    ("retry_budget", |policy| &mut policy.retry_budget),
];

/// Takes the preset and what is changed of it. Without a preset, switches change the defaults, and the environment still says
/// what it says of `connection_retries`.
pub(super) fn apply(options: &Options<'_>, mut builder: ClientBuilder) -> PyResult<ClientBuilder> {
    let presets = [("default", Policy::default()), ("e2b_2_52", Policy::e2b_2_52()), ("e2b_2_63", Policy::e2b_2_63())];
    let preset = options.choice("policy", &presets)?;
    let has_preset = preset.is_some();
    let mut policy = preset.unwrap_or_default();
    let before = policy.clone();
    for (name, field) in SWITCHES {
        if let Some(is) = options.flag(name)? {
            *field(&mut policy) = is;
        }
    }
    let unknown =
        [("never", RepeatUnknown::Never), ("safe", RepeatUnknown::Safe), ("permitted", RepeatUnknown::Permitted)];
    if let Some(repeat) = options.choice("repeat_unknown", &unknown)? {
        policy.repeat_unknown = repeat;
    }
    if let Some(jitter) = options.fraction("retry_after_jitter")? {
        policy.retry_after_jitter = jitter;
    }
    if let Some(retries) = options.whole("retries", RETRIES)? {
        builder = builder.retries(retries);
    }
    if let Some(lookups) = options.count("lookups")? {
        builder = builder.lookups(lookups);
    }
    let retries = match options.whole("connection_retries", RETRIES)? {
        // A policy says how many, and this one is the defaults': it would silence the environment.
        None if !has_preset && policy != before => of_environment(options)?,
        given => given,
    };
    if let Some(retries) = retries {
        builder = builder.connection_retries(retries);
    }
    Ok(if has_preset || policy != before { builder.policy(policy) } else { builder })
}

fn of_environment(options: &Options<'_>) -> PyResult<Option<u32>> {
    let told = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let read = told.map(|text| retries_option(VARIABLE, &text)).transpose();
    read.map_err(|error| invalid(options.py(), error.to_string()))
}
