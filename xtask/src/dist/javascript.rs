//! The tarballs for npm: the package, and that of this platform with the addon and the program.

use std::fs;
use std::process::Command;

use super::clean::{Clean, expect};
use super::{Dist, Packed, files};
use crate::command::{cargo, output, run};
use crate::test::target_folder;
use crate::{js, program};

/// The main job, with the testing kit's own server, and on the server that the environment leads to.
const JOB: &str = "\
import { Sandbox, capabilities } from 'oncebox';
import { LocalServer } from 'oncebox/testing';
if (capabilities().transport !== 'native') throw new Error(JSON.stringify(capabilities()));
const server = await LocalServer.start();
for (const options of [{}, { apiUrl: server.url, sandboxUrl: server.url, apiKey: 'local' }]) {
  const sandbox = await Sandbox.create(options);
  await sandbox.files.write('job.py', 'print(6 * 7)');
  console.log((await sandbox.commands.run('python3 job.py')).stdout.trim());
  await sandbox.kill();
}
await server.stop();
";

pub(super) fn pack(dist: &Dist) -> Result<Vec<Packed>, String> {
    let package = js::package_or_reason(&dist.root)?;
    run(Command::new("npm").args(["run", "--silent", "build"]).current_dir(&package))?;
    run(cargo(&dist.root, &["build", "--package", "oncebox-js"]).args(dist.profile.flags()))?;
    let addon = target_folder(&dist.root).join(dist.profile.folder()).join(js::addon_file());
    let program = program::build(&dist.root, dist.profile)?;
    let out = dist.folder("javascript")?;
    js::smoke::pack(&package, &out, &addon, &[&program, &dist.notices()?])?;
    let tarballs = files(&out, ".tgz")?;

    let clean = Clean::new(&["node"])?;
    let folder = clean.folder();
    let write = |file: &str, text: &str| {
        fs::write(folder.join(file), text).map_err(|error| format!("{}: {error}", folder.display()))
    };
    write("package.json", "{\"private\": true, \"type\": \"module\"}\n")?;
    write("job.mjs", JOB)?;
    let npm = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel", "error"];
    run(clean.command("npm").args(npm).args(&tarballs))?;
    // npm packs what it takes for a licence, and what is listed.
    for tarball in &tarballs {
        let listed = output(Command::new("tar").arg("-tzf").arg(tarball))?;
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            if !listed.contains(&format!("package/{licence}\n")) {
                return Err(format!("{}: there is no {licence} in it", tarball.display()));
            }
        }
    }
    clean.command_works(&folder.join("node_modules/.bin/oncebox"), &dist.version, |server| {
        expect(clean.command("node").arg("job.mjs").envs(server.environment()), "42\n42\n")
    })?;
    println!("passed: the npm packages, installed in an empty folder without a network");
    let shown: Vec<String> = tarballs.iter().map(|file| file.display().to_string()).collect();
    let install = format!("npm install {}", shown.join(" "));
    Ok(vec![Packed { name: "The npm package, with the command".into(), install, files: tarballs }])
}
