//! The Python of the code interpreter, asked where its parts are.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::StartError;
use crate::lifeline::Options;

/// Prints the folders that a Python consists of, if it can start kernels.
const QUESTION: &str = "import sys, json, ipykernel, jupyter_client; print(json.dumps([sys.prefix, sys.base_prefix]))";
/// How long it may take to answer: a first import compiles.
const LIMIT: Duration = Duration::from_secs(60);

/// The options of sandboxes whose code interpreter is `python`.
pub(crate) async fn options(python: PathBuf) -> Result<Options, StartError> {
    let failed = |why: String| StartError::CodeInterpreter { python: python.clone(), why };
    let python = std::path::absolute(&python).map_err(|error| failed(error.to_string()))?;
    let mut command = std::process::Command::new(&python);
    command.args(["-c", QUESTION]).stdin(std::process::Stdio::null());
    let asked = tokio::task::spawn_blocking(move || command.output());
    let output = match tokio::time::timeout(LIMIT, asked).await {
        Ok(Ok(output)) => output.map_err(|error| failed(error.to_string()))?,
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed(format!("it gave no answer within {LIMIT:?}"))),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim_end().lines().next_back().unwrap_or_default();
        return Err(failed(format!("{}: {last}", output.status)));
    }
    let shown = serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(Options { interpreter: Some(python), shown, ..Options::default() })
}
