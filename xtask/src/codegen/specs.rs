//! The OpenAPI documents of `spec/`.

use super::document;
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
            Ok(Spec { file, module, plane, title, document })
        })
        .collect()
}
