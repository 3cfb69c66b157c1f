//! Tasks of this repository: `cargo xtask <task>`.

mod bench;
mod changelog;
mod codegen;
mod command;
mod compat;
mod dist;
mod js;
mod licences;
mod lint;
mod program;
mod python;
mod python_compat;
mod setup;
mod sim;
mod site;
mod soak;
mod test;
mod wasm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  test [--no-skip]    build and run every test whose tools are present; with --no-skip, a skipped test is a failure
  test javascript     the JavaScript package alone: built, typed, linted, tested, and tried in every runtime
  test python         the Python package alone: its wheel built, installed and tested
  dist [KIND…]        what is published, in target/dist, each tried where nothing else is installed: crates, python,
                      javascript, archive. --profile dev is quick; --stamp gives them the branch's pre-release version
  licences            looks at the licence of every dependency; part of lint
  lint                formatting, clippy and documentation with warnings denied, generated files current
  compat [--write]    run the official SDKs and CLI on the local server and compare docs/compatibility.md, or write it
  compat faults [--write]  the measured faults with the official Python SDK, with ours beneath it, and with ours; or write
                      docs/python-faults.md
  codegen [--check]   write all generated files; with --check, fail if any is stale
  wasm [--check]      build the policy for JavaScript as WebAssembly; with --check, compare it with the committed module
  setup --system      install what the tests need from Debian's packages
  sim --seeds N       client and server over a simulated network, for the seeds up to N
  site [--pages]      the documentation as a site in target/site, with the references of each language whose tools are there;
                      with --pages, without them
  soak --minutes N    clients under faults; descriptors, memory and calls under way are in the end what they were
  bench commands      10,000 commands at once over connections that are retired: none lost, none doubled
  bench policy        time and allocations of a decision
  bench faults        connections and requests a second through a scripted server
  bench files         many small files over a slow link, beside one request each
  bench js            requests of the JavaScript package over connections that are retired, beside undici
  bench local         a sandbox's start and the memory of `oncebox serve`, with 200 sandboxes at once
  bench operations    time finding an operation in the whole table
  bench python        what a call costs from Python, beside the official SDK, httpx and pyqwest; 10,000 commands at once;
                      --only PART for one of sdk, httpx, pyqwest, commands, round-trips
  bench retirement    requests lost and doubled under retirement, beside four clients by others; --write draws the picture
  bench timeouts      when each limit fires, beside what it says
  bench transport     what a request costs, beside raw h2, hyper-util and reqwest
  bench wasm          the policy's module for JavaScript: its size, and the time until it is there";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["bench", "retirement"] => bench::retirement(&root(), false),
        ["bench", "retirement", "--write"] => bench::retirement(&root(), true),
        ["bench", "python", options @ ..] => python_compat::bench(&root(), options),
        ["bench", name] => bench::run_one(&root(), name),
        ["test"] => test::run_all(&root(), false),
        ["test", "--no-skip"] => test::run_all(&root(), true),
        ["compat"] => compat::run(&root(), false),
        ["compat", "--write"] => compat::run(&root(), true),
        ["test", "javascript"] => test::run_javascript(&root()),
        ["test", "python"] => test::run_python(&root()),
        ["dist", args @ ..] => dist::run(&root(), args),
        ["compat", "faults"] => python_compat::faults(&root(), false),
        ["compat", "faults", "--write"] => python_compat::faults(&root(), true),
        ["licences"] => licences::check(&root()).and_then(|()| licences::of_other_languages(&root())),
        ["lint"] => lint::run_all(&root()),
        ["sim", "--seeds", seeds] => sim::run_all(&root(), seeds),
        ["soak", "--minutes", minutes] => soak::run_for(&root(), minutes),
        ["site"] => site::build(&root(), true),
        ["site", "--pages"] => site::build(&root(), false),
        ["setup", "--system"] => setup::system(),
        ["wasm"] => wasm::run_all(&root(), false),
        ["wasm", "--check"] => wasm::run_all(&root(), true),
        ["codegen"] => codegen::run(&root(), false),
        ["codegen", "--check"] => codegen::run(&root(), true),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
    }
}

/// The repository's root: the folder above this crate's.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
