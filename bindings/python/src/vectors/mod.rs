//! What the conformance vectors ask for, one family a file. For tests: what a vector expects is not looked at here.

mod create;
mod operations;
mod policy;

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::errors::invalid;

/// What becomes of a vector of `conformance/<folder>`, both as JSON.
#[pyfunction]
pub(crate) fn run_vector(py: Python<'_>, folder: &str, vector: &str) -> PyResult<String> {
    let vector: Value = serde_json::from_str(vector).map_err(|error| invalid(py, error.to_string()))?;
    let ran = match folder {
        "policy" => policy::run(&vector),
        "create" => create::run(&vector),
        "operations" => operations::run(&vector),
        "runtime-errors" => Ok(operations::thrown(&vector)),
        other => Err(format!("there are no vectors in {other:?}")),
    };
    ran.map(|told| told.to_string()).map_err(|why| invalid(py, why))
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("{value}: {error}"))
}
