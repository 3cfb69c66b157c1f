//! The fault document: how it is written, and what is wrong with one.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use oncebox_protocol::Table;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most rules in a document.
const MAX_RULES: usize = 1000;
/// Longest time that a fault may take, in seconds.
const MAX_SECONDS: f64 = 3600.0;

/// How the server misbehaves. An empty document: not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Document {
    /// What chance draws from: the same seed gives each rule the same draws.
    pub(super) seed: u64,
    /// Faults of single requests. The first rule that fires decides; latencies add up on the way to it.
    pub(super) rules: Vec<Rule>,
    /// Whether idempotency keys are honoured, where the control plane honours them.
    pub(super) keys: Keys,
    /// Whether lists honour the metadata filter.
    pub(super) filter: Filter,
    /// Whether lists return metadata.
    pub(super) list_metadata: ListMetadata,
    /// For so many seconds after its start a sandbox is in no list.
    pub(super) list_lag: f64,
    /// The status with which v2 of the API is missing, 404 or 405; absent: it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) v2_missing: Option<u16>,
    /// How many sandboxes may be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create_limit: Option<CreateLimit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Keys {
    #[default]
    Honoured,
    /// The control plane never sees them.
    Ignored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Filter {
    #[default]
    Honoured,
    Ignored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ListMetadata {
    #[default]
    Returned,
    Omitted,
}

/// A token bucket. What finds it empty is answered 429.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateLimit {
    pub(super) per_second: f64,
    /// How many may come at once; as many as in a second, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) burst: Option<u32>,
}

/// Which requests meet which fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// Operations by their id, or by a group's name; none named: all.
    #[serde(default)]
    pub(super) on: Vec<String>,
    /// Only requests whose `Oncebox-Test-Id` is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) test_id: Option<String>,
    /// Only the n-th attempt of a call, by `Oncebox-Attempt`, which a first one does not carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attempt: Option<u32>,
    /// So many matching requests pass first.
    #[serde(default)]
    pub(super) skip: u64,
    /// It fires so often and not again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u64>,
    /// How likely it fires.
    #[serde(default = "always")]
    pub(super) probability: f64,
    pub(super) fault: Fault,
}

fn always() -> f64 {
    1.0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    /// Another answer than the server's own.
    Status(Answer),
    /// No answer: the connection ends.
    Cut(Cut),
    /// The effect comes later than the answer, or than the cut.
    Late(Late),
    /// The request waits so many seconds before anything else; two numbers are the bounds that chance draws between.
    Latency(Seconds),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) code: u16,
    #[serde(default)]
    pub(super) when: When,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// A text is sent as it is, anything else as JSON; absent: an error of the protocol's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    /// Nothing was done.
    #[default]
    Before,
    /// All was done.
    After,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Cut {
    pub(super) when: When,
    pub(super) how: How,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// In order, with a FIN.
    #[default]
    Close,
    /// With a RST.
    Reset,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Late {
    /// How much later.
    pub(super) seconds: Seconds,
    /// What is answered at once; absent: the connection is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Answer>,
    #[serde(default)]
    pub(super) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Seconds {
    Exactly(f64),
    Between([f64; 2]),
}

impl Seconds {
    /// `chance` is in [0, 1).
    pub(super) fn draw(self, chance: f64) -> Duration {
        let seconds = match self {
            Self::Exactly(seconds) => seconds,
            Self::Between([low, high]) => low + (high - low) * chance,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// Names that stand for several operations.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    ("create", &["createSandbox", "createSandboxV1"]),
    ("list", &["listSandboxes", "listSandboxesV1"]),
    ("connect", &["connectSandbox", "connectSandboxV1", "resumeSandbox"]),
    ("kill", &["killSandbox"]),
    ("start", &["processStart"]),
    ("write", &["writeFiles", "composeFiles"]),
];

/// Reads a document. The error names the place and the reason; nothing of it is then used.
pub(super) fn parse(json: &[u8]) -> Result<Document, String> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let document: Document = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
    reader.end().map_err(|error| format!("after the document: {error}"))?;
    document.check()?;
    Ok(document)
}

impl Document {
    fn check(&self) -> Result<(), String> {
        if self.rules.len() > MAX_RULES {
            return Err(format!("rules: {} are more than {MAX_RULES}", self.rules.len()));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|error| format!("rules[{index}].{error}"))?;
        }
        check_seconds(self.list_lag).map_err(|rule| format!("list_lag: {rule}"))?;
        if let Some(status) = self.v2_missing.filter(|status| !matches!(status, 404 | 405)) {
            return Err(format!("v2_missing: {status} is neither 404 nor 405"));
        }
        if let Some(limit) = self.create_limit {
            if !(limit.per_second > 0.0 && limit.per_second <= 1e6) {
                return Err(format!("create_limit.per_second: {} is not above 0 and at most 1e6", limit.per_second));
            }
            if limit.burst == Some(0) {
                return Err("create_limit.burst: 0 would let nothing through".to_owned());
            }
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        for (index, name) in self.on.iter().enumerate() {
            let is_group = GROUPS.iter().any(|(group, _)| group == name);
            if !is_group && !Table::all().operations().any(|operation| operation.id == *name) {
                let groups: Vec<_> = GROUPS.iter().map(|(group, _)| *group).collect();
                let groups = groups.join(", ");
                return Err(format!("on[{index}]: {name:?} is neither an operation's id nor one of {groups}"));
            }
        }
        if self.attempt == Some(0) {
            return Err("attempt: attempts are counted from 1".to_owned());
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("probability: {} is not from 0 to 1", self.probability));
        }
        match &self.fault {
            Fault::Status(answer) => answer.check().map_err(|error| format!("fault.status.{error}")),
            Fault::Late(late) => {
                late.seconds.check().map_err(|rule| format!("fault.late.seconds: {rule}"))?;
                late.answer.as_ref().map_or(Ok(()), |a| a.check().map_err(|error| format!("fault.late.answer.{error}")))
            }
            Fault::Latency(seconds) => seconds.check().map_err(|rule| format!("fault.latency: {rule}")),
            Fault::Cut(_) => Ok(()),
        }
    }

    /// Whether it is about an operation at all.
    pub(super) fn concerns(&self, operation: Option<&str>) -> bool {
        let names = |name: &String| {
            let group = GROUPS.iter().find(|(group, _)| group == name).map(|(_, members)| *members);
            operation.is_some_and(|id| group.map_or(id == name, |members| members.contains(&id)))
        };
        self.on.is_empty() || self.on.iter().any(names)
    }
}

impl Seconds {
    fn check(self) -> Result<(), String> {
        match self {
            Self::Exactly(seconds) => check_seconds(seconds),
            Self::Between([low, high]) if low > high => Err(format!("{low} is more than {high}")),
            Self::Between([low, high]) => check_seconds(low).and_then(|()| check_seconds(high)),
        }
    }
}

fn check_seconds(seconds: f64) -> Result<(), String> {
    if (0.0..=MAX_SECONDS).contains(&seconds) {
        return Ok(());
    }
    Err(format!("{seconds} is not a number of seconds from 0 to {MAX_SECONDS}"))
}

impl Answer {
    fn check(&self) -> Result<(), String> {
        if !(200..=599).contains(&self.code) {
            return Err(format!("code: {} is not from 200 to 599", self.code));
        }
        for (name, value) in &self.headers {
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
                return Err(format!("headers: {name:?}: {value:?} is no header"));
            }
        }
        Ok(())
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn header_map(&self) -> HeaderMap {
        let pairs = self.headers.iter();
        pairs.filter_map(|(n, v)| Some((HeaderName::try_from(n).ok()?, HeaderValue::try_from(v).ok()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_refused_with_its_place_and_reason() {
        for (json, place, reason) in [
            (r#"{"rulez": []}"#, "rulez", "unknown field"),
            (r#"{"rules": [{"fault": {"latency": 1}}, {"fault": {"latency": -1}}]}"#, "rules[1].fault.latency", "-1"),
            (r#"{"rules": [{"on": ["creat"], "fault": {"cut": {}}}]}"#, "rules[0].on[0]", "\"creat\" is neither"),
            (r#"{"rules": [{"fault": {"status": {"code": 99}}}]}"#, "rules[0].fault.status.code", "not from 200"),
            (r#"{"rules": [{"fault": {"status": {"code": "x"}}}]}"#, "rules[0].fault", "invalid type"),
            (r#"{"rules": [{"fault": {"cut": {}}, "probability": 2}]}"#, "rules[0].probability", "not from 0 to 1"),
            (r#"{"rules": [{"fault": {"late": {"seconds": [3, 1]}}}]}"#, "rules[0].fault.late.seconds", "3 is more"),
            (r#"{"v2_missing": 500}"#, "v2_missing", "neither 404 nor 405"),
            (r#"{"create_limit": {"per_second": 0}}"#, "create_limit.per_second", "above 0"),
            ("{} {}", "after the document", "trailing"),
        ] {
            let error = parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(place) && error.contains(reason), "{json}: {error}");
        }
    }

    #[test]
    fn a_group_stands_for_its_operations() {
        let rule = |on: &[&str]| Rule {
            on: on.iter().map(|name| (*name).to_owned()).collect(),
            test_id: None,
            attempt: None,
            skip: 0,
            times: None,
            probability: 1.0,
            fault: Fault::Cut(Cut::default()),
        };
        assert!(rule(&["create"]).concerns(Some("createSandboxV1")));
        assert!(rule(&["killSandbox", "list"]).concerns(Some("killSandbox")));
        assert!(!rule(&["create"]).concerns(Some("listSandboxes")) && !rule(&["create"]).concerns(None));
        assert!(rule(&[]).concerns(None));
        for (_, members) in GROUPS {
            for id in members {
                assert!(Table::all().operations().any(|operation| operation.id == *id), "{id}");
            }
        }
    }
}
