//! The JavaScript package as it is published, in every runtime that can be had.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::licences;
use crate::test::{TOOLS_FOLDER, run_for_skips, target_folder};

/// A runtime's name for the tests, the package that has its program for a processor, that package's version, and the program.
type Runtime = (&'static str, fn(&Processor) -> String, &'static str, &'static str);

/// The packages hold programs alone: nothing of theirs is run to install them.
const RUNTIMES: [Runtime; 4] = [
    ("node22", |cpu| format!("node-linux-{}", cpu.node), "22.23.3", "bin/node"),
    ("node24", |cpu| format!("node-linux-{}", cpu.node), "24.21.0", "bin/node"),
    ("bun", |cpu| format!("@oven/bun-linux-{}", cpu.bun), "1.4.5", "bin/bun"),
    ("deno", |cpu| format!("@deno/linux-{}-glibc", cpu.node), "2.9.6", "deno"),
];

/// What those who pack programs call a processor.
struct Processor {
    node: &'static str,
    bun: &'static str,
}

/// Packs the package and the addon, and runs them. Runtimes that are missing are named, and skipped.
pub(crate) fn test(root: &Path, package: &Path, addon: &Path, skipped: &mut BTreeSet<String>) -> Result<(), String> {
    let (Some(processor), Ok(platform)) = (processor(), platform()) else {
        skipped
            .insert("the smoke tests of the JavaScript package: they know Linux on x86-64 and arm64 alone".to_owned());
        return Ok(());
    };
    let packed = root.join(TOOLS_FOLDER).join("js-packages");
    fs::remove_dir_all(&packed).ok();
    // The program is the one that was built, and need not be packed to be found.
    pack(package, &packed, addon, &[])?;
    let mut programs = serde_json::Map::new();
    for runtime in RUNTIMES {
        match install(root, &runtime, &processor) {
            Ok(program) => {
                programs.insert(runtime.0.to_owned(), program.display().to_string().into());
            }
            // The tests say that it was skipped.
            Err(reason) => eprintln!("{reason}"),
        }
    }
    let miniflare = package.join("node_modules/miniflare/dist/src/index.js");
    programs.insert("miniflare".to_owned(), miniflare.display().to_string().into());
    if let Some(chromium) = find("chromium") {
        programs.insert("chromium".to_owned(), chromium.display().to_string().into());
    }
    let tarball = |name: &str| tarball(&packed, name);
    let mut smoke = Command::new("node");
    smoke
        .arg("smoke/run.mjs")
        .arg(tarball(&format!("oncebox-{}.tgz", licences::version(root)?))?)
        .arg(tarball(&format!("oncebox-{platform}-"))?);
    smoke.current_dir(package).env("ONCEBOX_BIN", target_folder(root).join("debug/oncebox"));
    run_for_skips(smoke.env("ONCEBOX_RUNTIMES", serde_json::Value::Object(programs).to_string()), skipped)
}

/// Packs what is published to a folder. `more`: the program, and the notices of what is linked in.
pub(crate) fn pack(package: &Path, out: &Path, addon: &Path, more: &[&Path]) -> Result<(), String> {
    let mut pack = Command::new("node");
    pack.arg("scripts/pack.mjs").arg(out).arg(addon).arg(platform()?).args(more);
    run(pack.current_dir(package))
}

/// What npm's packages of addons call this machine.
fn platform() -> Result<String, String> {
    use std::env::consts::{ARCH, OS};
    let cpu = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return Err(format!("there are no addons for {ARCH}")),
    };
    match OS {
        "linux" if cfg!(target_env = "musl") => Ok(format!("linux-{cpu}-musl")),
        "linux" => Ok(format!("linux-{cpu}-gnu")),
        "macos" => Ok(format!("darwin-{cpu}")),
        "windows" => Ok(format!("win32-{cpu}-msvc")),
        _ => Err(format!("there are no addons for {OS}")),
    }
}

/// The processor, where there are runtimes for it.
fn processor() -> Option<Processor> {
    if std::env::consts::OS != "linux" {
        return None;
    }
    match std::env::consts::ARCH {
        "x86_64" => Some(Processor { node: "x64", bun: "x64" }),
        "aarch64" => Some(Processor { node: "arm64", bun: "aarch64" }),
        _ => None,
    }
}

/// A runtime's program, installed in a folder of its own.
fn install(root: &Path, (name, package, version, program): &Runtime, cpu: &Processor) -> Result<PathBuf, String> {
    let package = package(cpu);
    let folder = root.join(TOOLS_FOLDER).join("js-runtimes").join(format!("{name}-{version}"));
    let program = folder.join("node_modules").join(&package).join(program);
    if !program.exists() {
        fs::create_dir_all(&folder)
            // npm looks for a package in the folders above otherwise.
            .and_then(|()| fs::write(folder.join("package.json"), "{}"))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let npm = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
        run(Command::new("npm").args(npm).arg(format!("{package}@{version}")).current_dir(&folder))?;
    }
    Ok(program)
}

/// The one tarball whose name begins so.
fn tarball(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    files
        .filter_map(|file| Some(file.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
        .ok_or_else(|| format!("{}: no tarball of {name}", folder.display()))
}

/// A program in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}
