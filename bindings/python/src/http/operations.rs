//! The operation table: which requests may be repeated once nobody knows what became of them.

use std::sync::Arc;

use http::{HeaderMap, Method};
use oncebox_policy::Permit;
use oncebox_protocol::Table;
use pyo3::prelude::*;

use super::transport::invalid;

/// Operations, found by method and path.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct OperationTable {
    table: Arc<Table>,
    base_path: String,
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl OperationTable {
    /// Reads an OpenAPI document in YAML or JSON. `base_path` stands before its paths on the wire.
    #[staticmethod]
    fn from_openapi(text: &str, base_path: &str) -> PyResult<Self> {
        let loaded = Table::from_openapi(text).map_err(invalid)?;
        let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
        let base_path = base_path.trim_end_matches('/').to_owned();
        Ok(Self { table: Arc::new(loaded.table), base_path, warnings })
    }

    /// The control plane of the E2B protocol.
    #[staticmethod]
    fn control_plane(base_path: &str) -> Self {
        Self {
            table: Arc::new(Table::control_plane().clone()),
            base_path: base_path.trim_end_matches('/').to_owned(),
            warnings: Vec::new(),
        }
    }

    /// Why a request may be repeated once its outcome is unknown; `None`: it may not.
    fn permit(&self, method: &str, path: &str) -> PyResult<Option<&'static str>> {
        let method = Method::from_bytes(method.as_bytes()).map_err(invalid)?;
        let permit = match facts(&self.table, &self.base_path, &method, path, &HeaderMap::new()) {
            Some((permit, _)) => permit,
            None => Permit::of_method(method.as_str()),
        };
        Ok(permit.map(permit_word))
    }

    fn __len__(&self) -> usize {
        self.table.operations().len()
    }
}

/// A permit's own name, as data has it.
pub(crate) fn permit_word(permit: Permit) -> &'static str {
    match permit {
        Permit::SafeMethod => "safe_method",
        Permit::IdempotentMethod => "idempotent_method",
        Permit::OperationTable => "operation_table",
        Permit::IdempotencyKey => "idempotency_key",
    }
}

impl OperationTable {
    pub(super) fn parts(&self) -> (Arc<Table>, String) {
        (self.table.clone(), self.base_path.clone())
    }
}

/// The header that names an intent (the IETF's draft).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What a table says of a request: why it may be repeated, and whether it makes something new. `None`: it is not listed.
pub(super) fn facts(
    table: &Table,
    base_path: &str,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<(Option<Permit>, bool)> {
    let operation = table.find(method, path.strip_prefix(base_path)?)?;
    let keyed = operation.accepts_idempotency_key && headers.contains_key(IDEMPOTENCY_KEY);
    Some((operation.permit().or(keyed.then_some(Permit::IdempotencyKey)), operation.mints))
}
