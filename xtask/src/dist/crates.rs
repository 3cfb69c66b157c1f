//! The crates, as they are uploaded.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::clean::Clean;
use super::{Dist, Packed, files};
use crate::command::{cargo, run};
use crate::licences;
use crate::program::Profile;
use crate::test::target_folder;

/// The crate with the command.
const COMMAND: &str = "oncebox-cli";

pub(super) fn pack(dist: &Dist) -> Result<Vec<Packed>, String> {
    let names = licences::published(&dist.root)?;
    // What cargo builds to see that each crate is whole; kept, so that the next time is quicker.
    let builds = target_folder(&dist.root).join("dist/crates-builds");
    fs::remove_dir_all(builds.join("package")).ok();
    // Quiet, since of each test that stays behind it would say so.
    let mut package = cargo(&dist.root, &["package", "--quiet", "--allow-dirty"]);
    for name in &names {
        package.args(["--package", name]);
    }
    // Whether it can be built does not hang on information for debuggers, which is most of what would be written.
    run(package.env("CARGO_TARGET_DIR", &builds).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    let out = dist.folder("crates")?;
    let mut packed = Vec::new();
    for name in &names {
        let file = format!("{name}-{}.crate", dist.version);
        let (made, kept) = (builds.join("package").join(&file), out.join(&file));
        fs::copy(&made, &kept).map_err(|error| format!("{}: {error}", made.display()))?;
        let verb = if name == COMMAND { "install" } else { "add" };
        packed.push(Packed {
            name: format!("The crate {name}"),
            install: format!("cargo {verb} {name}@{}", dist.version),
            files: vec![kept],
        });
    }
    install(dist, &names, &out, &builds)?;
    println!("passed: the crates, each built as it was packed, and `cargo install {COMMAND}` of them");
    Ok(packed)
}

/// Installs the command from the packed crates alone. A registry would have those beneath it; here they are named.
fn install(dist: &Dist, names: &[String], out: &Path, builds: &Path) -> Result<(), String> {
    let clean = Clean::new(&[])?;
    for file in files(out, ".crate")? {
        run(clean.command("tar").arg("-xzf").arg(file))?;
    }
    let unpacked = |name: &str| clean.folder().join(format!("{name}-{}", dist.version));
    // cargo needs its user's settings: which registry, through which proxy.
    let mut install = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    install.args(["install", "--quiet", "--root"]).arg(clean.folder().join("installed"));
    install.arg("--path").arg(unpacked(COMMAND)).current_dir(clean.folder());
    for name in names.iter().filter(|name| *name != COMMAND) {
        install.arg("--config").arg(format!("patch.crates-io.{name}.path={:?}", unpacked(name)));
    }
    if dist.profile == Profile::Dev {
        install.arg("--debug");
    }
    run(install.env("CARGO_TARGET_DIR", builds).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    clean.command_works(&clean.folder().join("installed/bin/oncebox"), &dist.version, |_| Ok(()))
}
