//! The fault document: how it is written.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Faults of connections and frames: a script of `oncebox-faults`, by which a proxy before the server misbehaves. The
    /// server is started with one, if it is to have any: see [`LocalServerBuilder::faults`](crate::LocalServerBuilder::faults).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frames: Option<Value>,
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
    /// The answer begins, and is cut in the middle of its body.
    CutAnswer(CutAnswer),
    /// The answer begins, and stands still in the middle of its body.
    StallAnswer(StallAnswer),
    /// Of a file that is uploaded only the beginning is stored, and the answer says that all is well.
    HalfWrite(HalfWrite),
}

/// Where in an answer's body something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// After so many bytes.
    Bytes(u64),
    /// After so many messages of a stream: those of a Connect stream, the lines of any other.
    Events(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CutAnswer {
    pub(super) after: Place,
    #[serde(default)]
    pub(super) how: CutHow,
}

/// What ends in the middle of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CutHow {
    /// The connection, with a FIN.
    #[default]
    Close,
    /// The connection, with a RST.
    Reset,
    /// The HTTP/2 stream, with RST_STREAM; over HTTP/1.1 the connection.
    Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StallAnswer {
    pub(super) after: Place,
    pub(super) seconds: Seconds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HalfWrite {
    /// So many bytes of the request's body are taken; absent: half of them, by its Content-Length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
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

/// Whether an operation is of a group.
pub(super) fn is_of(group: &str, operation: &str) -> bool {
    GROUPS.iter().any(|(name, members)| *name == group && members.contains(&operation))
}

impl Rule {
    /// Whether it is about an operation at all.
    pub(super) fn concerns(&self, operation: Option<&str>) -> bool {
        let names = |name: &String| {
            let group = GROUPS.iter().find(|(group, _)| group == name).map(|(_, members)| *members);
            operation.is_some_and(|id| group.map_or(id == name, |members| members.contains(&id)))
        };
        self.on.is_empty() || self.on.iter().any(names)
    }
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn header_map(&self) -> HeaderMap {
        let pairs = self.headers.iter();
        pairs.filter_map(|(n, v)| Some((HeaderName::try_from(n).ok()?, HeaderValue::try_from(v).ok()?))).collect()
    }
}
