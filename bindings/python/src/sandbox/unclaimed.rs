//! New sandboxes whose caller may have gone away.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::runtime::Undo;

/// A new sandbox that nobody has taken yet. Dropped like that, it is killed: its caller went away between its answer and the
/// moment of taking it.
pub(super) struct Unclaimed {
    sandbox: Option<oncebox::Sandbox>,
    undo: Undo,
}

impl Unclaimed {
    pub(super) fn new(sandbox: oncebox::Sandbox, undo: Undo) -> Self {
        Self { sandbox: Some(sandbox), undo }
    }

    pub(super) fn claim(mut self) -> PyResult<oncebox::Sandbox> {
        self.sandbox.take().ok_or_else(|| PyRuntimeError::new_err("oncebox: the sandbox was taken already"))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.undo.spawn(async move {
                // Nobody is left who could be told.
                let _ = sandbox.kill().await;
            });
        }
    }
}
