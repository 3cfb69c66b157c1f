//! The commands and files that the documentation shows, as they stand there: README.md, docs/GUIDE.md, docs/testing.md,
//! docs/releasing.md, docs/cli.md, crates/faults/README.md, docs/design/0011-control-plane-sdk.md.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a page that begin with these words.
fn blocks(page: &str, info: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let begin = format!("\n```{info}\n");
    let found: Vec<String> = text
        .split(&begin)
        .skip(1)
        .map(|rest| rest.split_once("\n```").map_or(rest, |(block, _)| block).to_owned())
        .collect();
    assert!(!found.is_empty(), "{page} has no ```{info}");
    found
}

/// The lines of a page's blocks that a shell would run, one command each.
fn lines(page: &str, info: &str) -> Vec<String> {
    let lines: Vec<String> = blocks(page, info)
        .iter()
        .flat_map(|block| block.lines())
        .map(|line| line.trim().trim_start_matches("$ ").to_owned())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert!(!lines.is_empty(), "{page} has no commands");
    lines
}

/// A shell that runs the line in a folder, with the program that was built; ports are any that are free.
fn shell(line: &str, folder: &Path, variables: &[(String, String)]) -> Command {
    let line = line.strip_prefix("cargo run --quiet --package oncebox-cli --").map_or_else(
        || line.strip_prefix("oncebox ").unwrap_or_else(|| panic!("not a command of ours: {line}")).to_owned(),
        str::to_owned,
    );
    let line = line.replace("--port 3000", "--port 0").replace("--port 8080", "--port 0");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec \"$ONCEBOX\" {line}")).current_dir(folder).stdin(Stdio::null());
    command.env("ONCEBOX", env!("CARGO_BIN_EXE_oncebox")).env("ONCEBOX_CONFIG", folder.join("none.toml"));
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().cloned());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command printed. `None`: sandboxes cannot be isolated here, which the test says.
fn ran(test: &str, line: &str, folder: &Path, variables: &[(String, String)]) -> Option<String> {
    let Output { status, stdout, stderr } = shell(line, folder, variables).output().unwrap();
    if !status.success() && text(&stderr).contains("cannot be isolated") {
        println!("SKIP {test}: {}", text(&stderr).trim());
        return None;
    }
    assert!(status.success(), "{line}: {}", text(&stderr));
    Some(text(&stdout))
}

/// A server that a line of the documentation starts.
struct Started {
    child: Child,
    /// All that it printed until its address came.
    said: String,
}

impl Started {
    /// `None`: sandboxes cannot be isolated here, which the test says.
    fn new(test: &str, line: &str, folder: &Path) -> Option<Self> {
        let mut child = shell(line, folder, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        while !said.contains("http://127.0.0.1:") && out.read_line(&mut said).unwrap() > 0 {}
        if !said.contains("http://127.0.0.1:") {
            let ended = child.wait_with_output().unwrap();
            let error = text(&ended.stderr);
            assert!(error.contains("cannot be isolated"), "{line}: {said}{error}");
            println!("SKIP {test}: {}", error.trim());
            return None;
        }
        // Nobody may be left waiting to be read.
        std::thread::spawn(move || out.lines().count());
        Some(Self { child, said })
    }

    fn url(&self) -> String {
        let rest = &self.said[self.said.find("http://127.0.0.1:").unwrap()..];
        rest.split(|c: char| c.is_whitespace() || "\"',".contains(c)).next().unwrap().trim_end_matches('.').to_owned()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn the_commands_of_the_readme_run() {
    const TEST: &str = "the_commands_of_the_readme_run";
    let folder = tempfile::tempdir().unwrap();
    for line in lines("README.md", "sh") {
        if line.starts_with("cargo xtask ") {
            is_task(&line);
        } else if line.contains(" serve ") {
            Started::new(TEST, &line, folder.path());
        } else if let Some(said) = ran(TEST, &line, folder.path(), &[]) {
            assert!(said.starts_with("hello from "), "{line}: {said}");
        }
    }
}

/// A task of this repository may be this test's own runner: that there is one of its name, with its words, is looked at.
fn is_task(line: &str) {
    let sources = ["xtask/src/main.rs", "xtask/src/dist.rs", "xtask/src/program.rs"];
    let sources: String = sources.iter().map(|file| std::fs::read_to_string(root().join(file)).unwrap()).collect();
    let (line, _) = line.split_once('#').unwrap_or((line, ""));
    let mut words = line.split_whitespace().skip(2);
    let task = words.next().unwrap();
    assert!(sources.contains(&format!("[\"{task}\"")), "{line}");
    for word in words {
        assert!(sources.contains(&format!("\"{word}\"")), "{line}: {word}");
    }
}

#[test]
fn the_tasks_of_the_page_on_releasing_are_there() {
    lines("docs/releasing.md", "sh").iter().for_each(|line| is_task(line));
}

#[test]
fn the_commands_of_the_guide_run() {
    const TEST: &str = "the_commands_of_the_guide_run";
    let folder = tempfile::tempdir().unwrap();
    for line in lines("docs/GUIDE.md", "sh") {
        if let Some(set) = line.strip_prefix("export ") {
            let names: Vec<&str> = set.split(' ').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
            let table = std::fs::read_to_string(root().join("spec/options.json")).unwrap();
            let is_known = |name: &&str| table.contains(&format!("\"variable\": {name:?}"));
            assert!(names.len() > 2 && names.iter().all(is_known), "{line}");
        } else if line.contains(" serve ") {
            Started::new(TEST, &line, folder.path());
        } else {
            ran(TEST, &line, folder.path(), &[]);
        }
    }
}

#[test]
fn the_commands_of_the_page_on_testing_run() {
    const TEST: &str = "the_commands_of_the_page_on_testing_run";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("faults.json"), &blocks("docs/testing.md", "json")[0]).unwrap();
    let lines = lines("docs/testing.md", "sh");
    let (serve, others) = lines.split_first().unwrap();
    let Some(server) = Started::new(TEST, serve, folder.path()) else { return };
    let names = ["E2B_API_URL", "E2B_SANDBOX_URL"];
    let mut variables = names.map(|name| (name.to_owned(), server.url())).to_vec();
    variables.push(("E2B_API_KEY".to_owned(), "any".to_owned()));
    assert_eq!(others.len(), 3);
    for line in others {
        ran(TEST, line, folder.path(), &variables);
    }
}

#[test]
fn the_commands_of_the_scripted_servers_run() {
    const TEST: &str = "the_commands_of_the_scripted_servers_run";
    let folder = tempfile::tempdir().unwrap();
    for line in lines("crates/faults/README.md", "console") {
        if line.contains("faults list") {
            ran(TEST, &line, folder.path(), &[]);
        } else {
            assert!(Started::new(TEST, &line, folder.path()).is_some(), "{line}");
        }
    }
}

#[test]
fn the_configuration_of_the_reference_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, &blocks("docs/cli.md", "toml")[0]).unwrap();
    let variables = [("ONCEBOX_CONFIG".to_owned(), file.display().to_string())];
    let told = ran("", "oncebox config --json", folder.path(), &variables).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["profile"], "work");
    let timeout = told["settings"].as_array().unwrap().iter().find(|one| one["name"] == "request_timeout").unwrap();
    assert_eq!((&timeout["value"], &timeout["source"]), (&"30".into(), &"file".into()));
    let here = ran("", "oncebox --profile here config --json", folder.path(), &variables).unwrap();
    assert!(here.contains("http://127.0.0.1:3000"), "{here}");
}

#[test]
fn the_fault_document_of_the_decision_is_taken() {
    const TEST: &str = "the_fault_document_of_the_decision_is_taken";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("faults.json"), &blocks("docs/design/0011-control-plane-sdk.md", "json")[0])
        .unwrap();
    Started::new(TEST, "oncebox serve --port 3000 --faults faults.json", folder.path());
}
