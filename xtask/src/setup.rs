//! Installs what the tests need from Debian.

use std::process::Command;

use crate::command::{is_present, run};

/// A program that some test needs, and the Debian package that has it.
const TOOLS: [(&str, &str); 3] = [("python3", "python3"), ("curl", "curl"), ("nghttp", "nghttp2-client")];

/// Installs the packages of the tools that are missing.
pub(crate) fn system() -> Result<(), String> {
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| !is_present(tool)).map(|(_, package)| *package).collect();
    if !venv_works() {
        packages.push("python3-venv");
    }
    packages.dedup();
    if packages.is_empty() {
        eprintln!("setup: nothing to install");
        return Ok(());
    }
    eprintln!("setup: installing {}", packages.join(", "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Debian ships `venv` without `ensurepip`, in a package of its own.
fn venv_works() -> bool {
    Command::new("python3").args(["-c", "import venv, ensurepip"]).output().is_ok_and(|output| output.status.success())
}
