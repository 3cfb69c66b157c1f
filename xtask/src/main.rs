//! Tasks of this repository: `cargo xtask <task>`.

mod bench_operations;
mod codegen;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

  codegen [--check]   write all generated files; with --check, fail if any is stale
  bench operations    time finding an operation in the whole table";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["codegen"] => codegen::run(&root(), false),
        ["codegen", "--check"] => codegen::run(&root(), true),
        ["bench", "operations"] => bench_operations::run(&root()),
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
