//! Installs what the tests need from Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::command::{is_present, run};

/// A program that some test needs, and the Debian package that has it.
const TOOLS: [(&str, &str); 23] = [
    ("python3", "python3"),
    ("curl", "curl"),
    ("git", "git"),
    ("nghttp", "nghttp2-client"),
    ("nghttpx", "nghttp2-proxy"),
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    // Shells that durable commands are tried in.
    ("busybox", "busybox"),
    ("dash", "dash"),
    // Looks at the local server's page.
    ("chromium", "chromium"),
    // The way out of local sandboxes, and a network to try it in.
    ("pasta", "passt"),
    ("ip", "iproute2"),
    // A desktop, windows that tell what they are told, and what streams it.
    ("Xvfb", "xvfb"),
    ("xdotool", "xdotool"),
    ("scrot", "scrot"),
    ("xdpyinfo", "x11-utils"),
    ("openbox", "openbox"),
    ("gtk-launch", "libgtk-3-bin"),
    ("xdg-open", "xdg-utils"),
    ("x11vnc", "x11vnc"),
    ("websockify", "websockify"),
    // noVNC's own script looks for processes; the VNC client of the tests enciphers.
    ("pgrep", "procps"),
    ("openssl", "openssl"),
];

/// Where Debian has the page that shows a desktop.
const NOVNC: &str = "/usr/share/novnc";

/// Debian's packages ask this program whether they may start their services: 101 says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the packages of the tools that are missing.
pub(crate) fn system() -> Result<(), String> {
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| !is_present(tool)).map(|(_, package)| *package).collect();
    // A program that is not on the path.
    if !Path::new(NOVNC).exists() {
        packages.push("novnc");
    }
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
    without_services(|| {
        run(Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    })
}

/// The tests start the servers themselves. A policy that the machine has already is left alone.
fn without_services(install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    if Path::new(POLICY).exists() {
        return install();
    }
    let written = fs::write(POLICY, "#!/bin/sh\nexit 101\n")
        .and_then(|()| fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{POLICY}: {error}"))?;
    let installed = install();
    fs::remove_file(POLICY).map_err(|error| format!("{POLICY}: {error}"))?;
    installed
}

/// Debian ships `venv` without `ensurepip`, in a package of its own.
fn venv_works() -> bool {
    Command::new("python3").args(["-c", "import venv, ensurepip"]).output().is_ok_and(|output| output.status.success())
}
