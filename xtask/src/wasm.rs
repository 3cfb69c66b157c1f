//! The policy as a WebAssembly module: `cargo xtask wasm` builds it, `--check` builds it again and compares.
//!
//! rustup's toolchain has no standard library for wasm32, so the compiler is Debian's (`rustc-web`), which has the sources
//! of its own one (`rust-web-src`); cargo and the linker are rustup's. Another version of that compiler may write other
//! bytes, so that a difference is not a failed test: what the committed module does is held by the vectors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::command::{cargo, run};
use crate::test::target_folder;

/// Debian's compiler. The one of rustup comes first in the path.
const RUSTC: &str = "/usr/bin/rustc";

/// A panic is a trap, whose text would be an eighth of the module, and addresses take no more room than they need. Nothing is
/// inlined that makes the module larger, and what is copied is copied by one instruction, not field by field.
const RUSTFLAGS: &str = "-Zunstable-options -Cpanic=immediate-abort -Clink-arg=--compress-relocations \
    -Clink-arg=--strip-all -Cllvm-args=-inline-threshold=0 -Cllvm-args=-max-store-memcpy=1 \
    -Cllvm-args=-max-store-memmove=1 -Cllvm-args=-max-store-memset=1";

/// Small before quick: a decision takes less than what it decides about by orders of magnitude.
const PROFILE: [(&str, &str); 1] = [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")];

const TARGET: &str = "wasm32-unknown-unknown";

/// The module, below the repository's root.
const MODULE: &str = "bindings/js/src/policy/policy.wasm";

/// The same for builds that cannot import it.
const INLINED: &str = "bindings/js/src/policy/bytes.generated.ts";

/// Builds the module, and writes it or compares it with the one that is committed.
pub(crate) fn run_all(root: &Path, check: bool) -> Result<(), String> {
    let built = build(root)?;
    let committed = fs::read(root.join(MODULE)).unwrap_or_default();
    let inlined = inlined(&built);
    println!("{MODULE}: {} bytes, by {}", built.len(), compiler()?);
    if !check {
        return write(root, MODULE, &built).and_then(|()| write(root, INLINED, inlined.as_bytes()));
    }
    if fs::read(root.join(INLINED)).ok().as_deref() != Some(self::inlined(&committed).as_bytes()) {
        return Err(format!("{INLINED} is not {MODULE}: `cargo xtask wasm` writes both"));
    }
    if built != committed {
        return Err(format!(
            "{MODULE} has {} bytes and is not what {RUSTC} builds, which has {}: either crates/policy changed and \
             `cargo xtask wasm` was not run, or the module was built by another compiler",
            committed.len(),
            built.len()
        ));
    }
    println!("the committed module is what is built");
    Ok(())
}

fn write(root: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    fs::write(root.join(name), bytes).map_err(|error| format!("{name}: {error}"))
}

fn compiler() -> Result<String, String> {
    let missing = "install it with `apt-get install --no-install-recommends rustc-web rust-web-src`";
    let output =
        Command::new(RUSTC).arg("--version").output().map_err(|error| format!("{RUSTC}: {error}; {missing}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn build(root: &Path) -> Result<Vec<u8>, String> {
    compiler()?;
    let stage = target_folder(root).join("wasm");
    let folder = self::stage(root, &stage).map_err(|error| format!("{}: {error}", stage.display()))?;
    let mut command = cargo(&folder, &["build", "--quiet", "--release", "--target", TARGET]);
    command
        .args(["-Z", "build-std=core,alloc", "-Z", "build-std-features=optimize_for_size", "--target-dir"])
        .arg(stage.join("target"))
        .envs(PROFILE)
        .env("RUSTC", RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker()?)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTUP_TOOLCHAIN");
    run(&mut command)?;
    let module = stage.join("target").join(TARGET).join("release/oncebox_policy_wasm.wasm");
    fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))
}

/// A workspace of only the two crates, with the versions of ours. The names of functions, and with them their order, follow
/// from where a crate lies, which counts from the workspace's root for its members and from the disk's for all others.
fn stage(root: &Path, stage: &Path) -> io::Result<PathBuf> {
    const CRATES: [&str; 2] = ["crates/policy", "bindings/js/wasm"];
    for name in CRATES {
        let copy = stage.join(name);
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        copy_folder(&root.join(name), &copy)?;
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let lines = manifest
        .lines()
        .filter(|line| !line.starts_with("exclude = "))
        .map(|line| if line.starts_with("members = ") { format!("members = {CRATES:?}") } else { line.to_owned() });
    fs::write(stage.join("Cargo.toml"), lines.collect::<Vec<_>>().join("\n"))?;
    fs::copy(root.join("Cargo.lock"), stage.join("Cargo.lock"))?;
    Ok(stage.join(CRATES[1]))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to.join(name))?;
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// `rust-lld` of rustup's stable toolchain.
fn linker() -> Result<PathBuf, String> {
    let output = Command::new("rustup")
        .args(["run", "stable", "rustc", "--print", "sysroot"])
        .output()
        .map_err(|error| format!("rustup: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let linker = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    if linker.exists() { Ok(linker) } else { Err(format!("there is no {}", linker.display())) }
}

fn inlined(module: &[u8]) -> String {
    format!(
        "// Generated by `cargo xtask wasm` from policy.wasm; do not edit.\n\n/** The policy's module in base64. */\n\
         export const POLICY_BASE64 =\n  '{}';\n",
        BASE64_STANDARD.encode(module)
    )
}
