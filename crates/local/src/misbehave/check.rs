//! What is wrong with a fault document, and where.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use oncebox_faults::Script;
use oncebox_protocol::Table;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{Answer, Document, Fault, GROUPS, Rule, Seconds};

/// Most rules in a document.
const MAX_RULES: usize = 1000;
/// Longest time that a fault may take, in seconds.
const MAX_SECONDS: f64 = 3600.0;

/// Reads a document. The error names line, place and reason; nothing of it is then used.
pub(super) fn parse(json: &[u8]) -> Result<Document, String> {
    let text = str::from_utf8(json).map_err(|error| format!("it is not UTF-8: {error}"))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let document: Document = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (line, reason) = (error.inner().line(), error.inner().to_string());
        // Its own words about the place come last, and stand at the front here.
        let reason = reason.split(" at line ").next().unwrap_or_default();
        format!("line {line}: {}: {reason}", error.path())
    })?;
    reader.end().map_err(|error| format!("line {}: after the document: {error}", error.line()))?;
    document.check().map_err(|error| match line_of(text, &error) {
        Some(line) => format!("line {line}: {error}"),
        None => error,
    })?;
    Ok(document)
}

/// The script in a document.
pub(super) fn script(document: &Document) -> Result<Script, String> {
    match &document.frames {
        None => Ok(Script::new()),
        // Line and column would be those of another text than was sent.
        Some(script) => Script::from_json(&script.to_string()).map_err(|error| {
            let error = error.to_string();
            format!("frames: {}", error.split_once(": ").map_or(&*error, |(_, reason)| reason))
        }),
    }
}

/// The line on which that begins of which an error speaks: a rule, or a field.
fn line_of(text: &str, error: &str) -> Option<usize> {
    #[derive(Deserialize)]
    struct Rules<'t> {
        #[serde(borrow, default)]
        rules: Vec<&'t RawValue>,
    }
    let begin = if let Some(rest) = error.strip_prefix("rules[") {
        let index: usize = rest.split(']').next()?.parse().ok()?;
        serde_json::from_str::<Rules<'_>>(text).ok()?.rules.get(index)?.get()
    } else {
        let field = error.split(['.', ':']).next()?;
        serde_json::from_str::<BTreeMap<&str, &RawValue>>(text).ok()?.get(field)?.get()
    };
    let offset = (begin.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..offset)?.matches('\n').count() + 1)
}

/// Operations whose bodies are files.
const WRITES: [&str; 2] = ["writeFiles", "writeVolumeFile"];

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
        script(self)?;
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
            Fault::StallAnswer(stall) => {
                stall.seconds.check().map_err(|rule| format!("fault.stall_answer.seconds: {rule}"))
            }
            Fault::Cut(_) | Fault::CutAnswer(_) => Ok(()),
            Fault::HalfWrite(_) => match self.on.iter().find(|name| !WRITES.contains(&name.as_str())) {
                None if !self.on.is_empty() => Ok(()),
                _ => Err(format!("fault.half_write: \"on\" must name nothing but {}", WRITES.join(", "))),
            },
        }
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
            fault: Fault::Cut(super::super::document::Cut::default()),
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
