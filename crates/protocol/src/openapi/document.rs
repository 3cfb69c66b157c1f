//! An OpenAPI document read down to what a table needs: each operation with its marks.
//!
//! This file is compiled twice: here, for tables that users load at run time, and in `xtask`, for the tables that this crate
//! is generated with. It uses nothing else of either crate, so that code generation never waits for generated code.

use super::node::Node;

/// The keys of a path item that are operations, in the order in which a document's operations are listed.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// What a document says about repeating an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The method decides.
    ByMethod,
    /// `x-idempotent: true`, with the reason given.
    Repeatable(String),
    /// `x-idempotent: false`, with the reason given.
    NotRepeatable(String),
    /// A POST or PATCH about which nothing is said.
    Missing,
}

/// One operation of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `operationId`, or method and path where there is none.
    pub(crate) id: String,
    /// The method, in capitals.
    pub(crate) method: String,
    /// The path template, as written.
    pub(crate) path: String,
    /// What is said about repeating it.
    pub(crate) mark: Mark,
    /// `x-mints`.
    pub(crate) mints: bool,
    /// `x-idempotency-key`.
    pub(crate) accepts_idempotency_key: bool,
    /// `deprecated`.
    pub(crate) deprecated: bool,
    /// `summary`.
    pub(crate) summary: String,
}

impl Entry {
    /// Whether the two are repeated alike.
    pub(crate) fn same_marks(&self, other: &Self) -> bool {
        self.mints == other.mints
            && self.accepts_idempotency_key == other.accepts_idempotency_key
            && matches!(
                (&self.mark, &other.mark),
                (Mark::ByMethod, Mark::ByMethod)
                    | (Mark::Repeatable(_), Mark::Repeatable(_))
                    | (Mark::NotRepeatable(_) | Mark::Missing, Mark::NotRepeatable(_) | Mark::Missing)
            )
    }

    /// How messages name it.
    pub(crate) fn title(&self) -> String {
        format!("{} {} ({})", self.method, self.path, self.id)
    }
}

/// Parses YAML or JSON.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    // OpenAPI is YAML 1.2, in which `no`, `off` and `N` are text and no truth values.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| format!("not a YAML document: {e}"))
}

/// The operations of a document, in its order.
pub(crate) fn entries(document: &Node) -> Result<Vec<Entry>, String> {
    let paths = document.get("paths").and_then(Node::as_map).ok_or("no `paths`: not an OpenAPI document")?;
    let mut entries = Vec::new();
    for (path, item) in paths {
        // A path item may be named by reference; extensions beside the paths are nobody's path.
        if path.starts_with("x-") {
            continue;
        }
        check_template(path)?;
        let item = resolve(document, item).ok_or_else(|| format!("{path}: its reference leads nowhere"))?;
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                entries.push(entry(path, method, operation)?);
            }
        }
    }
    Ok(entries)
}

fn entry(path: &str, method: &str, operation: &Node) -> Result<Entry, String> {
    let method = method.to_uppercase();
    let text = |key: &str| operation.get(key).and_then(Node::as_str).map(str::trim).unwrap_or_default();
    let flag = |key: &str| match operation.get(key) {
        None => Ok(None),
        Some(Node::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("{method} {path}: `{key}` must be true or false")),
    };
    let reason = text("x-idempotent-reason").to_owned();
    let mark = match (flag("x-idempotent")?, method.as_str()) {
        (Some(true), "POST" | "PATCH") => Mark::Repeatable(reason),
        (Some(false), _) => Mark::NotRepeatable(reason),
        (None, "POST" | "PATCH") => Mark::Missing,
        _ => Mark::ByMethod,
    };
    Ok(Entry {
        id: match text("operationId") {
            "" => format!("{method} {path}"),
            id => id.to_owned(),
        },
        mark,
        mints: flag("x-mints")?.unwrap_or(false),
        accepts_idempotency_key: flag("x-idempotency-key")?.unwrap_or(false),
        deprecated: flag("deprecated")?.unwrap_or(false),
        summary: text("summary").to_owned(),
        path: path.to_owned(),
        method,
    })
}

/// Follows a reference within the document, if `value` is one.
pub(crate) fn resolve<'a>(document: &'a Node, value: &'a Node) -> Option<&'a Node> {
    match value.get("$ref").and_then(Node::as_str) {
        Some(reference) => document.pointer(reference.strip_prefix('#')?),
        None => Some(value),
    }
}

/// One segment of a path template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// To be matched byte for byte.
    Literal(&'a str),
    /// Any one segment that is not empty; holds the parameter's name.
    Parameter(&'a str),
}

/// The segments of a path template that [`check_template`] found good.
pub(crate) fn segments(template: &str) -> impl Iterator<Item = Segment<'_>> {
    template.strip_prefix('/').unwrap_or(template).split('/').map(|segment| {
        match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => Segment::Parameter(name),
            None => Segment::Literal(segment),
        }
    })
}

/// Refuses a template that could match more, or less, than it says.
pub(crate) fn check_template(template: &str) -> Result<(), String> {
    let rest = template.strip_prefix('/').ok_or_else(|| format!("path {template:?} does not begin with `/`"))?;
    for segment in rest.split('/') {
        let name = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        match name {
            Some(name) if name.is_empty() || name.contains(['{', '}']) => {
                return Err(format!("path {template:?}: `{segment}` is not one parameter"));
            }
            None if segment.contains(['{', '}']) => {
                return Err(format!("path {template:?}: a parameter must be a whole segment, unlike `{segment}`"));
            }
            None if segment.contains(['?', '#']) => {
                return Err(format!("path {template:?}: `{segment}` is not part of a path"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses operations of which one request could mean either.
///
/// A template that is more specific in some segment and in none less wins, as in every router. Where neither is, the leftmost
/// literal wins, which is fine only if both are repeated alike.
pub(crate) fn check_unambiguous(entries: &[Entry]) -> Result<(), String> {
    for (index, one) in entries.iter().enumerate() {
        for other in &entries[index + 1..] {
            if one.id == other.id {
                return Err(format!("operation id {:?} is given twice", one.id));
            }
            match clash(one, other) {
                Some(Clash::Same) => {
                    return Err(format!("ambiguous path: {} and {} are one", one.title(), other.title()));
                }
                Some(Clash::Crossing) if !one.same_marks(other) => {
                    return Err(format!(
                        "ambiguous path: {} and {} can match one request, and are marked differently",
                        one.title(),
                        other.title()
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// How two operations can mean one request although neither template is the more specific one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clash {
    /// They match the same requests.
    Same,
    /// Each is narrower in another segment.
    Crossing,
}

/// Whether one request can mean either operation.
pub(crate) fn clash(one: &Entry, other: &Entry) -> Option<Clash> {
    if one.method != other.method || segments(&one.path).count() != segments(&other.path).count() {
        return None;
    }
    let (mut one_narrower, mut other_narrower) = (false, false);
    for pair in segments(&one.path).zip(segments(&other.path)) {
        match pair {
            (Segment::Literal(a), Segment::Literal(b)) if a != b => return None,
            (Segment::Literal(_), Segment::Parameter(_)) => one_narrower = true,
            (Segment::Parameter(_), Segment::Literal(_)) => other_narrower = true,
            _ => {}
        }
    }
    match (one_narrower, other_narrower) {
        (false, false) => Some(Clash::Same),
        (true, true) => Some(Clash::Crossing),
        _ => None,
    }
}
