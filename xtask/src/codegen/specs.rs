//! The OpenAPI documents of `spec/`.

use super::document::{self, Segment};
use super::node::Node;
use std::path::Path;

/// One document and what it is called on the Rust side.
pub(crate) struct Spec {
    /// Where it is, below the root.
    pub(crate) file: &'static str,
    /// The module that its schemas become.
    pub(crate) module: &'static str,
    /// The `Plane` variant of its operations.
    pub(crate) plane: &'static str,
    /// The first line of the module's documentation.
    pub(crate) title: &'static str,
    /// Its content.
    pub(crate) document: Node,
}

/// File, module, plane, title.
const SPECS: [(&str, &str, &str, &str); 4] = [
    (
        "spec/openapi.yaml",
        "api",
        "ControlPlane",
        "Wire types of the control plane: sandboxes, templates, secrets, volumes.",
    ),
    ("spec/volume.yaml", "volume", "VolumeContent", "Wire types of the volume content API."),
    (
        "spec/envd/rest.yaml",
        "envd_rest",
        "Envd",
        "Wire types of envd's plain HTTP operations; its RPCs are in [`envd`](crate::envd).",
    ),
    (
        "spec/code-interpreter.yaml",
        "code_interpreter",
        "CodeInterpreter",
        "Wire types of the code interpreter inside a sandbox.",
    ),
];

/// Reads all documents.
pub(crate) fn load(root: &Path) -> Result<Vec<Spec>, String> {
    SPECS
        .into_iter()
        .map(|(file, module, plane, title)| {
            let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
            let document = document::parse(&text).map_err(|e| format!("{file}: {e}"))?;
            check(&document).map_err(|e| format!("{file}: {e}"))?;
            Ok(Spec { file, module, plane, title, document })
        })
        .collect()
}

/// What a document must be beside what its readers look at.
fn check(document: &Node) -> Result<(), String> {
    for key in ["name", "version", "date"] {
        let pointer = format!("/info/x-upstream/{key}");
        document.pointer(&pointer).and_then(Node::as_str).ok_or_else(|| format!("it must say `{pointer}`"))?;
    }
    references(document, document)?;
    for (path, item) in document.get("paths").and_then(Node::as_map).unwrap_or_default() {
        let shared = declared(document, item);
        for (method, operation) in item.as_map().unwrap_or_default() {
            if operation.get("responses").is_none() {
                continue;
            }
            let own = declared(document, operation);
            for segment in document::segments(path) {
                if let Segment::Parameter(name) = segment
                    && !shared.contains(&name)
                    && !own.contains(&name)
                {
                    return Err(format!("{method} {path}: does not declare `{name}`"));
                }
            }
        }
    }
    Ok(())
}

/// Every reference must lead somewhere.
fn references(document: &Node, node: &Node) -> Result<(), String> {
    if document::resolve(document, node).is_none() {
        return Err(format!("{:?} leads nowhere", node.get("$ref").and_then(Node::as_str).unwrap_or_default()));
    }
    for (_, inner) in node.as_map().unwrap_or_default() {
        references(document, inner)?;
    }
    for inner in node.as_list().unwrap_or_default() {
        references(document, inner)?;
    }
    Ok(())
}

/// The names of the path parameters that a path item or operation declares.
fn declared<'a>(document: &'a Node, node: &'a Node) -> Vec<&'a str> {
    let parameters = node.get("parameters").and_then(Node::as_list).unwrap_or_default();
    parameters
        .iter()
        .filter_map(|parameter| document::resolve(document, parameter))
        .filter(|parameter| parameter.get("in").and_then(Node::as_str) == Some("path"))
        .filter_map(|parameter| parameter.get("name").and_then(Node::as_str))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(rest: &str) -> Result<(), String> {
        let head = "info: {x-upstream: {name: N, version: V, date: '2026-08-21'}}\n";
        check(&document::parse(&format!("{head}{rest}"))?)
    }

    #[test]
    fn a_document_says_where_its_facts_come_from() {
        let error = check(&document::parse("info: {x-upstream: {name: N, version: V}}").unwrap());
        assert_eq!(error, Err("it must say `/info/x-upstream/date`".to_owned()));
    }

    #[test]
    fn references_lead_somewhere() {
        assert_eq!(checked("a: [{b: {$ref: '#/c'}}]"), Err("\"#/c\" leads nowhere".to_owned()));
        assert_eq!(checked("a: [{b: {$ref: '#/c'}}]\nc: {}"), Ok(()));
    }

    #[test]
    fn path_parameters_are_declared() {
        let document = |parameters: &str| {
            format!("paths: {{'/a/{{b}}': {{parameters: [{parameters}], get: {{responses: {{}}}}}}}}")
        };
        assert_eq!(checked(&document("{name: b, in: path}")), Ok(()));
        assert_eq!(checked(&document("{name: b, in: query}")), Err("get /a/{b}: does not declare `b`".to_owned()));
    }
}
