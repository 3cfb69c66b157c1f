//! `oncebox._core`: what Python needs of the Rust SDK, and nothing decided here.
//!
//! An operation is begun by a call that returns a `Pending` at once, and goes on on the process's own
//! IO thread, which never takes the interpreter's lock. Its result becomes a Python object when it is taken.

mod client;
mod commands;
mod completions;
mod convert;
mod desktop;
mod errors;
mod feed;
mod files;
mod fleet;
mod git;
mod http;
mod interpreter;
mod kept;
mod local;
mod logging;
mod options;
mod pages;
mod pending;
mod pieces;
mod proxy;
mod runtime;
mod sandbox;
mod secrets;
mod template;
mod vectors;
mod volumes;

use pyo3::prelude::*;

/// The extension module. Everything in it is private to the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::commands::{Following, Input};
    #[pymodule_export]
    use super::completions::Completions;
    #[pymodule_export]
    use super::desktop::{Desktop, DesktopView, check_display};
    #[pymodule_export]
    use super::files::{Changes, FileUpload, Reading, Watcher};
    #[pymodule_export]
    use super::fleet::Fleet;
    #[pymodule_export]
    use super::http::{
        Decider, HttpFailure, HttpResponse, HttpTransport, Judged, OperationTable, RequestBody, policy_preset,
        retry_after,
    };
    #[pymodule_export]
    use super::interpreter::CodeRun;
    #[pymodule_export]
    use super::local::Server;
    #[pymodule_export]
    use super::logging::{has_log, log_debug, take_log};
    #[pymodule_export]
    use super::pending::Pending;
    #[pymodule_export]
    use super::runtime::{after_fork_in_child, after_fork_in_parent, before_fork, is_running, shut_down};
    #[pymodule_export]
    use super::sandbox::{Sandbox, SandboxPages, SnapshotPages};
    #[pymodule_export]
    use super::secrets::{SecretPages, placeholder};
    #[pymodule_export]
    use super::template::{Build, Recipe, ready_command};
    #[pymodule_export]
    use super::vectors::run_vector;
    #[pymodule_export]
    use super::volumes::{Volume, VolumeReading, VolumeWriting};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        logging::listen();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
