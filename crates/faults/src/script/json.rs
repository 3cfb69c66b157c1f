//! Scripts as JSON, and errors that say where.

use super::Script;

/// Why a script is not one. The text names the value, the rule and the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {}{reason}", place(.path, .rule))]
pub struct ScriptError {
    /// The line, from 1; 0 for a script that was not read from a text.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// Where in the script, such as `rules[2].do[0].goaway.code`.
    pub path: String,
    /// The name of the rule, where it has one.
    pub rule: Option<String>,
    /// What is wrong.
    pub reason: String,
}

fn place(path: &str, rule: &Option<String>) -> String {
    match rule {
        Some(rule) => format!("{path} (rule {rule:?}): "),
        None if path.is_empty() || path == "?" || path == "." => String::new(),
        None => format!("{path}: "),
    }
}

impl Script {
    /// Reads a script.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let script = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            ScriptError::new(text, path, error.inner())
        })?;
        reader.end().map_err(|error| ScriptError::new(text, String::new(), &error))?;
        Ok(script)
    }

    /// The script as JSON that [`from_json`](Self::from_json) reads back to the same.
    pub fn to_json(&self) -> String {
        // A script holds nothing that JSON has no form for.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Whether every rule's moment, conditions and faults fit each other. [`from_json`](Self::from_json) has seen to
    /// that; a script that was built has not been checked before it is started.
    pub fn check(&self) -> Result<(), ScriptError> {
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|reason| ScriptError {
                line: 0,
                column: 0,
                path: format!("rules[{index}]"),
                rule: Some(rule.name.clone()).filter(|name| !name.is_empty()),
                reason,
            })?;
        }
        Ok(())
    }
}

impl ScriptError {
    fn new(text: &str, path: String, error: &serde_json::Error) -> Self {
        let reason = error.to_string();
        // serde_json ends its text with the place, which is told first here.
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        Self { line: error.line(), column: error.column(), rule: rule_name(text, &path), path, reason }
    }
}

/// The name of the rule that a path such as `rules[2].do[0]` leads into.
fn rule_name(text: &str, path: &str) -> Option<String> {
    let index: usize = path.strip_prefix("rules[")?.split(']').next()?.parse().ok()?;
    let script: serde_json::Value = serde_json::from_str(text).ok()?;
    script["rules"][index]["name"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Fault, Moment, Number, Rule, Settings};

    fn error(text: &str) -> String {
        Script::from_json(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_field_is_told_with_its_place() {
        let text = "{\n  \"seed\": 1,\n  \"sed\": 2\n}";
        let error = error(text);
        assert!(error.starts_with("line 3, column 7: sed: unknown field `sed`, expected one of `name`"), "{error}");
    }

    #[test]
    fn a_mistake_in_a_rule_names_the_rule() {
        let text = "{\"rules\": [\n{\"at\": \"request\", \"do\": [\"refuse\"]},\n\
                    {\"name\": \"late\", \"at\": \"request\", \"do\": [{\"reset_stream\": \"CANCELLED\"}]}]}";
        let error = error(text);
        assert!(
            error.starts_with(
                "line 3, column 69: rules[1].do[0].reset_stream (rule \"late\"): unknown variant `CANCELLED`"
            ),
            "{error}"
        );
    }

    #[test]
    fn values_out_of_range_are_told() {
        let share = error(r#"{"rules": [{"at": "request", "when": {"share": 1.5}, "do": ["refuse"]}]}"#);
        assert!(share.contains("rules[0].when.share: invalid value: floating point `1.5`"), "{share}");
        let number = error(r#"{"rules": [{"at": "request", "when": {"nth": "every 0"}, "do": ["refuse"]}]}"#);
        assert!(number.contains("rules[0].when.nth: invalid value: string \"every 0\""), "{number}");
        let hex = error(r#"{"rules": [{"at": "request", "do": [{"send": {"hex": "1"}}]}]}"#);
        assert!(hex.contains("even number of digits"), "{hex}");
    }

    #[test]
    fn moment_condition_and_fault_must_fit() {
        let condition = error("{\"rules\": [\n {\"at\": \"connect\", \"when\": {\"try\": 1}, \"do\": [\"reset\"]}]}");
        assert_eq!(
            condition,
            "line 2, column 56: rules[0]: the condition `try` needs a request, and at `connect` there is none"
        );
        let fault = error(r#"{"rules": [{"name": "x", "at": "answered", "do": ["hold"]}]}"#);
        assert!(fault.contains("rules[0] (rule \"x\"): the fault `hold` cannot happen at `answered`"), "{fault}");
        let order = error(r#"{"rules": [{"at": "request", "do": ["hold", "close"]}]}"#);
        assert!(order.contains("nothing may follow the fault `hold`"), "{order}");
        assert!(error(r#"{"rules": [{"at": "request", "do": []}]}"#).contains("a rule must do something"));
        let built = Script::new().rule(Rule::at(Moment::Idle(5)).does(Fault::Refuse));
        assert!(built.check().unwrap_err().to_string().contains("the fault `refuse` cannot happen at `idle`"));
    }

    #[test]
    fn what_follows_the_script_is_told() {
        assert_eq!(error("{} x"), "line 1, column 4: trailing characters");
        assert_eq!(error("{"), "line 1, column 1: EOF while parsing an object");
    }

    #[test]
    fn a_script_survives_json() {
        let script = Script::new()
            .seed(3)
            .settings(None)
            .rule(Rule::at(Moment::RequestBody(65_537)).nth(Number::Random { from: 1, to: 40 }).does(Fault::Refuse))
            .rule(Rule::at(Moment::BytesOut(10)).does(Fault::Send((&[0xff_u8, 0][..]).into())).does(Fault::Reset))
            .rule(Rule::at(Moment::Request).count(1..=3).does(Settings::streams(5)));
        assert_eq!(Script::from_json(&script.to_json()).unwrap(), script);
    }
}
