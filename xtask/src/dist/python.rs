//! The wheel and the source distribution.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::clean::{Clean, expect};
use super::{Dist, Packed, files};
use crate::command::run;
use crate::python::{self, package};
use crate::test::target_folder;

/// The main job, on the server that the environment leads to.
const JOB: &str = "\
from oncebox import Sandbox
with Sandbox.create() as sandbox:
    sandbox.files.write('job.py', 'print(6 * 7)')
    print(sandbox.commands.run('python3 job.py', durable=True).stdout.strip())
";

pub(super) fn pack(dist: &Dist) -> Result<Vec<Packed>, String> {
    let python = python::environment(&dist.root)?;
    let built = python::build(&dist.root, &python, dist.profile)?;
    let out = dist.folder("python")?;
    let wheel = out.join(built.file_name().unwrap_or_default());
    fs::copy(&built, &wheel).map_err(|error| format!("{}: {error}", wheel.display()))?;
    run(package(&dist.root, &python)
        .arg("tools/with_file.py")
        .arg(&wheel)
        .args(["licence", "THIRD-PARTY.txt"])
        .arg(dist.notices()?))?;
    run(package(&dist.root, &python).args(["-m", "maturin", "sdist", "--out"]).arg(&out))?;
    let source = files(&out, ".tar.gz")?;

    // What it needs is fetched before: nothing is asked of the network where it is tried.
    let needed = dist.folder("needed")?;
    let download =
        ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--dest"];
    run(Command::new(&python).args(download).arg(&needed).arg(&wheel))?;

    let clean = Clean::new(&["python3"])?;
    let bin = installed(&clean, "wheel", &needed, &wheel)?;
    let of_source = from_source(dist, &python, &source, &needed)?;
    clean.command_works(&bin.join("oncebox"), &dist.version, |server| {
        for python in [bin.join("python"), installed(&clean, "source", &needed, &of_source)?.join("python")] {
            expect(clean.command(python).args(["-c", JOB]).envs(server.environment()), "42\n")?;
        }
        Ok(())
    })?;
    println!("passed: the wheel, and one built of the source distribution, in new environments without a network");
    let of_wheel = Packed {
        name: "The Python package, with the command".into(),
        install: format!("pip install {}", wheel.display()),
        files: vec![wheel],
    };
    let of_source = Packed {
        name: "The Python package's source (needs Rust; no command)".into(),
        install: format!("pip install {}", source.iter().map(|file| file.display().to_string()).collect::<String>()),
        files: source,
    };
    Ok(vec![of_wheel, of_source])
}

/// A wheel built of the source distribution by pip, as on a machine for which there is no wheel. Always quickly: that it can be
/// built is what is tried.
fn from_source(dist: &Dist, python: &Path, source: &[PathBuf], needed: &Path) -> Result<PathBuf, String> {
    let (unpacked, folder) = (needed.join("source"), needed.join("of-source"));
    fs::create_dir_all(&unpacked).map_err(|error| format!("{}: {error}", unpacked.display()))?;
    // With the time of now: by those in it, which are all the same, cargo would take what it built of another version for this.
    run(Command::new("tar").args(["--touch", "--strip-components=1", "-xzf"]).args(source).arg("-C").arg(&unpacked))?;
    // Without isolation, which would fetch maturin, it has to be in the path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = python.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).map_err(|error| error.to_string())?;
    let wheel = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"];
    run(Command::new(python)
        .args(wheel)
        .arg("--wheel-dir")
        .arg(&folder)
        .arg(&unpacked)
        .current_dir(needed)
        .env("PATH", path)
        .env("MATURIN_PEP517_ARGS", "--profile=dev")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Not the tree's own, whose crates have the same names for cargo as these.
        .env("CARGO_TARGET_DIR", target_folder(&dist.root).join("dist/source-builds")))?;
    files(&folder, ".whl").map(|mut wheels| wheels.swap_remove(0))
}

/// Installs a wheel in a new environment, and returns where its programs are.
fn installed(clean: &Clean, name: &str, needed: &Path, wheel: &Path) -> Result<PathBuf, String> {
    run(clean.command("python3").args(["-m", "venv", name]))?;
    let bin = clean.folder().join(name).join("bin");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links"];
    run(clean.command(bin.join("python")).args(pip).arg(needed).arg(wheel))?;
    Ok(bin)
}
