//! What comes of code.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Chart;

/// All that came of a run of code.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Execution {
    /// Its results, in order: the last expression's value, and what was shown before.
    pub results: Vec<CodeResult>,
    /// What it wrote.
    pub logs: Logs,
    /// The exception that ended it.
    pub error: Option<ExecutionError>,
    /// The number of this run in its kernel.
    pub execution_count: Option<u64>,
}

/// What code wrote, in the pieces that it came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logs {
    /// To standard output.
    pub stdout: Vec<String>,
    /// To standard error.
    pub stderr: Vec<String>,
}

/// Something that came of code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CodeEvent {
    /// It wrote to standard output.
    Stdout(CodeOutput),
    /// It wrote to standard error.
    Stderr(CodeOutput),
    /// It has, or shows, a value.
    Result(Box<CodeResult>),
    /// An exception ended it.
    Error(ExecutionError),
}

/// A piece of what code wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeOutput {
    /// The text; it may hold several lines, or a part of one.
    pub text: String,
    /// When, in nanoseconds since 1970 by the sandbox's clock; 0 where it was not told.
    pub timestamp: u64,
}

/// An exception in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ExecutionError {
    /// Its class, such as "ZeroDivisionError".
    pub name: String,
    /// What it says.
    pub value: String,
    /// The traceback as the kernel shows it, perhaps with terminal colours.
    pub traceback: String,
}

/// A value, in all forms that the kernel gives it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CodeResult {
    /// Plain text.
    pub text: Option<String>,
    /// HTML.
    pub html: Option<String>,
    /// Markdown.
    pub markdown: Option<String>,
    /// SVG.
    pub svg: Option<String>,
    /// A PNG picture, in base64.
    pub png: Option<String>,
    /// A JPEG picture, in base64.
    pub jpeg: Option<String>,
    /// A PDF document, in base64.
    pub pdf: Option<String>,
    /// LaTeX.
    pub latex: Option<String>,
    /// JSON.
    pub json: Option<Value>,
    /// JavaScript.
    pub javascript: Option<String>,
    /// Tabular data, such as a data frame's.
    pub data: Option<Value>,
    /// A chart as data.
    pub chart: Option<Chart>,
    /// Other forms, by their media type.
    pub extra: BTreeMap<String, Value>,
    /// Whether it is the value of the last expression, rather than something that was shown.
    pub is_main_result: bool,
}

impl Execution {
    /// The text of the last expression's value.
    pub fn text(&self) -> Option<&str> {
        self.results.iter().find(|result| result.is_main_result)?.text.as_deref()
    }

    pub(super) fn add(&mut self, event: CodeEvent) {
        match event {
            CodeEvent::Stdout(output) => self.logs.stdout.push(output.text),
            CodeEvent::Stderr(output) => self.logs.stderr.push(output.text),
            CodeEvent::Result(result) => self.results.push(*result),
            CodeEvent::Error(error) => self.error = Some(error),
        }
    }
}

impl CodeResult {
    /// The names of the forms that there are, such as "text", "png", and media types.
    pub fn formats(&self) -> Vec<&str> {
        let known = [
            ("text", self.text.is_some()),
            ("html", self.html.is_some()),
            ("markdown", self.markdown.is_some()),
            ("svg", self.svg.is_some()),
            ("png", self.png.is_some()),
            ("jpeg", self.jpeg.is_some()),
            ("pdf", self.pdf.is_some()),
            ("latex", self.latex.is_some()),
            ("json", self.json.is_some()),
            ("javascript", self.javascript.is_some()),
            ("data", self.data.is_some()),
            ("chart", self.chart.is_some()),
        ];
        let known = known.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
        known.chain(self.extra.keys().map(String::as_str)).collect()
    }
}

/// A line of the interpreter's answer.
pub(super) enum Line {
    Event(CodeEvent),
    ExecutionCount(u64),
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    Stdout(Output),
    Stderr(Output),
    Result(Box<CodeResult>),
    Error(ExecutionError),
    NumberOfExecutions {
        execution_count: u64,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Output {
    text: String,
    /// Some servers write a text.
    timestamp: Option<Value>,
}

impl Line {
    pub(super) fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match serde_json::from_slice(line)? {
            Wire::Stdout(output) => Self::Event(CodeEvent::Stdout(output.into())),
            Wire::Stderr(output) => Self::Event(CodeEvent::Stderr(output.into())),
            Wire::Result(result) => Self::Event(CodeEvent::Result(result)),
            Wire::Error(error) => Self::Event(CodeEvent::Error(error)),
            Wire::NumberOfExecutions { execution_count } => Self::ExecutionCount(execution_count),
            Wire::Other => Self::Other,
        })
    }
}

impl From<Output> for CodeOutput {
    fn from(output: Output) -> Self {
        Self { text: output.text, timestamp: output.timestamp.and_then(|at| at.as_u64()).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> CodeEvent {
        match Line::read(line.as_bytes()).unwrap() {
            Line::Event(event) => event,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn lines_become_events() {
        let line = r#"{"type":"stdout","text":"a\nb","timestamp":"x"}"#;
        assert_eq!(event(line), CodeEvent::Stdout(CodeOutput { text: "a\nb".into(), timestamp: 0 }));
        let line = r#"{"type":"error","name":"E","value":"v","traceback":"t"}"#;
        assert!(matches!(event(line), CodeEvent::Error(error) if error.name == "E" && error.traceback == "t"));
        let line = r#"{"type":"result","text":"1","png":"AA==","extra":{"a/b":1},"is_main_result":true,"new":{}}"#;
        let CodeEvent::Result(result) = event(line) else { panic!() };
        assert_eq!(result.formats(), ["text", "png", "a/b"]);
        assert!(result.is_main_result);
        let count = Line::read(br#"{"type":"number_of_executions","execution_count":3}"#).unwrap();
        assert!(matches!(count, Line::ExecutionCount(3)));
        for other in [r#"{"type":"keepalive"}"#, r#"{"type":"end_of_execution","x":[1]}"#] {
            assert!(matches!(Line::read(other.as_bytes()).unwrap(), Line::Other), "{other}");
        }
        for bad in ["{", "[]", r#"{"text":"x"}"#, r#"{"type":"stdout"}"#] {
            assert!(Line::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
