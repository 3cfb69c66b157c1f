//! Each example runs with `--local`, and ends well.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Every example: the sources say which there are.
fn names() -> Vec<String> {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let name = |path: PathBuf| (path.extension()? == "rs").then(|| path.file_stem()?.to_str().map(str::to_owned))?;
    let mut names: Vec<_> =
        std::fs::read_dir(sources).unwrap().filter_map(|entry| name(entry.unwrap().path())).collect();
    names.sort_unstable();
    names
}

/// What this machine has not, of what an example needs.
fn missing(name: &str) -> Option<String> {
    if name == "code" && std::env::var_os("ONCEBOX_PYTHON_WITH_IPYKERNEL").is_none() {
        return Some("ONCEBOX_PYTHON_WITH_IPYKERNEL names no Python".to_owned());
    }
    let programs: &[&str] = match name {
        "git" => &["git"],
        "desktop" => &["Xvfb", "xdotool", "scrot", "xmessage", "x11vnc", "websockify"],
        _ => &[],
    };
    let path = std::env::var_os("PATH").unwrap();
    let installed = |program: &&&str| std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    let missing = programs.iter().find(|program| !installed(program))?;
    Some(format!("{missing} is not installed"))
}

#[test]
fn every_example_runs_locally() {
    // Cargo builds examples with the tests, in a folder beside theirs.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let names = names();
    assert_eq!(names.len(), 16, "{names:?}");
    // All at once: one of them waits for what does not come.
    let start = |name: String| {
        let child = Command::new(folder.join(&name))
            .arg("--local")
            .env_remove("E2B_API_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, child)
    };
    let (left_out, names): (Vec<_>, Vec<_>) =
        names.into_iter().map(|name| (missing(&name), name)).partition(|(missing, _)| missing.is_some());
    for (missing, name) in left_out {
        println!("SKIP every_example_runs_locally: {name}: {}", missing.unwrap());
    }
    let started: Vec<_> = names.into_iter().map(|(_, name)| start(name)).collect();
    for (name, child) in started {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if told.contains("cannot be isolated") {
            println!("SKIP every_example_runs_locally: {told}");
            return;
        }
        assert!(output.status.success(), "{name}: {}: {told}", output.status);
        assert!(!output.stdout.is_empty(), "{name} says nothing");
    }
}
