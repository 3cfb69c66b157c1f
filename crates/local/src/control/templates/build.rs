//! One build: its steps, in a sandbox of its own whose files become the template.

use std::time::Duration;

use http::{Request, header};
use http_body_util::BodyExt;
use oncebox_protocol::api::{BuildStep, LogLevel, StartBuild};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::upload::file_name;
use super::{Settings, Source, Templates};
use crate::file_body::FileBody;
use crate::registry::Workshop;
use crate::rpc::{Script, Stream};

/// What to build.
pub(super) struct Recipe {
    pub(super) source: Source,
    pub(super) start: StartBuild,
}

/// Why a build failed.
#[derive(Debug)]
pub(super) struct BuildError {
    /// The step, as clients count: the base is 0.
    pub(super) step: Option<String>,
    pub(super) why: String,
}

impl BuildError {
    fn new(step: Option<String>, why: impl std::fmt::Display) -> Self {
        Self { step, why: why.to_string() }
    }
}

/// Where a build's log goes.
pub(super) type Log<'l> = &'l (dyn Fn(LogLevel, Option<&str>, &str) + Send + Sync);

/// Where the archive of a COPY step is put, and where it is unpacked.
const ARCHIVE: &str = "/tmp/.oncebox-build/archive";
const UNPACKED: &str = "/tmp/.oncebox-build/files";

/// Longest time that a build's steps may take.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
/// How long a program may take to be ready, and how often it is looked at.
const READY_LIMIT: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Takes the steps, and leaves the files where those of this build belong.
pub(super) async fn build(
    templates: &Templates,
    template: &str,
    build_id: &str,
    recipe: &Recipe,
    log: Log<'_>,
) -> Result<Settings, BuildError> {
    let base = || Some("base".to_owned());
    let name = recipe.source.alias.as_deref().unwrap_or(&recipe.source.template_id);
    log(LogLevel::Info, Some("base"), &format!("Beginning with {name}"));
    let files = recipe.source.build.as_ref().map(|build| templates.files(build));
    let workshop = templates.registry.workshop(files).await.map_err(|error| BuildError::new(base(), error))?;
    let mut builder =
        Builder { templates, template, workshop: &workshop, log, settings: recipe.source.settings.clone() };
    // Around the steps alone: whatever comes of them, the sandbox is ended and its files are not left behind.
    let built = tokio::time::timeout(BUILD_LIMIT, builder.take_steps(&recipe.start)).await;
    let built =
        built.unwrap_or_else(|_| Err(BuildError::new(None, format!("the build was not done within {BUILD_LIMIT:?}"))));
    let settings = builder.settings;
    match built {
        Ok(()) => {
            let kept = workshop.keep(templates.files(build_id)).await;
            kept.map_err(|error| BuildError::new(Some("finalize".to_owned()), error))?;
            Ok(settings)
        }
        Err(error) => {
            workshop.discard().await;
            Err(error)
        }
    }
}

struct Builder<'b> {
    templates: &'b Templates,
    template: &'b str,
    workshop: &'b Workshop,
    log: Log<'b>,
    settings: Settings,
}

impl Builder<'_> {
    async fn take_steps(&mut self, start: &StartBuild) -> Result<(), BuildError> {
        let steps = start.steps.as_deref().unwrap_or_default();
        for (index, step) in steps.iter().enumerate() {
            let number = (index + 1).to_string();
            let args = step.args.as_deref().unwrap_or_default();
            let told = args.first().map_or("", String::as_str);
            let line = format!("[{number}/{}] {} {told}", steps.len(), step.r#type);
            (self.log)(LogLevel::Info, Some(&number), &line);
            let taken = self.take(step, args, &number).await;
            taken.map_err(|why| BuildError::new(Some(number), why))?;
        }
        self.settings.start_cmd = start.start_cmd.clone().filter(|command| !command.trim().is_empty());
        self.settings.ready_cmd = start.ready_cmd.clone().filter(|command| !command.trim().is_empty());
        let finalize = "finalize";
        let settings = self.settings.clone();
        let log = |message: &str| (self.log)(LogLevel::Info, Some(finalize), message);
        let ready = boot(self.workshop.envd(), &settings, &log).await;
        ready.map_err(|why| BuildError::new(Some(finalize.to_owned()), why))
    }

    async fn take(&mut self, step: &BuildStep, args: &[String], number: &str) -> Result<(), String> {
        match (step.r#type.as_str(), args) {
            ("RUN", [command, user @ ..]) => {
                self.run(command, user.first().map(String::as_str).filter(|user| !user.is_empty()), number).await
            }
            ("ENV", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
                for pair in pairs.chunks_exact(2) {
                    if let [name, value] = pair {
                        self.settings.env.insert(name.clone(), value.as_str().into());
                    }
                }
                Ok(())
            }
            ("WORKDIR", [path]) => {
                self.run(&format!("mkdir -p -- {}", quote(path)), None, number).await?;
                self.settings.workdir = Some(path.clone());
                Ok(())
            }
            ("USER", [user]) => {
                self.run("true", Some(user), number).await?;
                self.settings.user = Some(user.clone());
                Ok(())
            }
            ("COPY", [from, to, rest @ ..]) => self.copy(step, from, to, rest, number).await,
            (kind, args) => Err(format!("no step is called {} with {} arguments", kind.escape_debug(), args.len())),
        }
    }

    /// Runs a command where and as whom the steps before said.
    async fn run(&self, command: &str, user: Option<&str>, number: &str) -> Result<(), String> {
        let user = user.or(self.settings.user.as_deref()).unwrap_or("user");
        let script = Script {
            text: command,
            user,
            cwd: self.settings.workdir.as_deref(),
            env: &self.settings.env,
            limit: Duration::ZERO,
        };
        let mut lines = Lines::default();
        let envd = self.workshop.envd();
        let run = envd.run(script, |stream, bytes| {
            let level = if stream == Stream::Err { LogLevel::Warn } else { LogLevel::Info };
            lines.add(bytes, |line| (self.log)(level.clone(), Some(number), line));
        });
        let code = run.await.map_err(|error| error.to_string())?;
        lines.end(|line| (self.log)(LogLevel::Info, Some(number), line));
        if code == 0 { Ok(()) } else { Err(format!("command failed with exit code {code}: {command}")) }
    }

    /// Unpacks a step's files inside the sandbox, so that nothing in the archive can lead outside.
    async fn copy(&self, step: &BuildStep, from: &str, to: &str, rest: &[String], number: &str) -> Result<(), String> {
        let hash = step.files_hash.as_deref().ok_or("a COPY step needs filesHash")?;
        if hash.contains('/') {
            return Err("filesHash is no hash".to_owned());
        }
        let archive = self.templates.registry.state().upload(&file_name(self.template, hash));
        let file =
            tokio::fs::File::open(&archive).await.map_err(|_| format!("the files of '{from}' were not uploaded"))?;
        self.send(file).await?;
        let option = |index: usize| rest.get(index).map(String::as_str).filter(|value| !value.is_empty());
        let mode = option(1).map_or_else(String::new, |mode| format!("chmod -R -- {} {UNPACKED}/*\n", quote(mode)));
        // A folder's contents are copied, as are a file's; several files, or a file for "dir/", go into the folder.
        let script = format!(
            "set -eu; shopt -s dotglob nullglob\n\
             mkdir -p {UNPACKED}; tar -x -f {ARCHIVE} -C {UNPACKED}; rm -f {ARCHIVE}\n\
             to={to}; case $to in /*) ;; *) to=$PWD/$to ;; esac\n\
             cd {UNPACKED}\n\
             from=({from})\n\
             [ ${{#from[@]}} -gt 0 ] || {{ echo 'no file matches' >&2; exit 1; }}\n\
             {mode}\
             if [ ${{#from[@]}} -gt 1 ] || [ \"${{to%/}}\" != \"$to\" ] || [ -d \"${{from[0]}}\" ] || [ -d \"$to\" ]; then\n\
               mkdir -p -- \"$to\"\n\
               for one in \"${{from[@]}}\"; do\n\
                 if [ -d \"$one\" ]; then cp -a -- \"$one\"/. \"$to\"; else cp -a -- \"$one\" \"$to\"; fi\n\
               done\n\
             else\n\
               mkdir -p -- \"$(dirname -- \"$to\")\"; cp -a -- \"${{from[0]}}\" \"$to\"\n\
             fi\n\
             rm -rf {UNPACKED}",
            to = quote(to),
            from = glob(from),
        );
        self.run(&script, option(0).and_then(|owner| owner.split(':').next()), number).await.map_err(|error| {
            // The script is ours, and long.
            error.lines().next().unwrap_or_default().replace(": set -eu; shopt -s dotglob nullglob", "")
        })
    }

    async fn send(&self, file: tokio::fs::File) -> Result<(), String> {
        let envd = self.workshop.envd();
        let path = utf8_percent_encode(ARCHIVE, NON_ALPHANUMERIC);
        let request = Request::post(format!("/files?path={path}&username=root"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header("x-access-token", envd.token.expose())
            .body(FileBody::new(file))
            .map_err(|error| error.to_string())?;
        let response = envd.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("the files could not be put into the sandbox: {status}: {}", String::from_utf8_lossy(&body)))
    }
}

/// Starts what a template starts, and waits until it is ready.
pub(crate) async fn boot(
    envd: crate::rpc::Envd<'_>,
    settings: &Settings,
    log: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), String> {
    let script = |text| Script {
        text,
        user: settings.user.as_deref().unwrap_or("user"),
        cwd: settings.workdir.as_deref(),
        env: &settings.env,
        limit: Duration::ZERO,
    };
    if let Some(command) = &settings.start_cmd {
        log(&format!("Starting: {command}"));
        envd.leave_running(script(command)).await.map_err(|error| format!("the start command: {error}"))?;
    }
    let Some(ready) = &settings.ready_cmd else { return Ok(()) };
    log(&format!("Waiting for: {ready}"));
    let wait = async {
        while envd.run(script(ready), |_, _| {}).await.map_err(|error| error.to_string())? != 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    let ready = tokio::time::timeout(READY_LIMIT, wait).await;
    ready.unwrap_or_else(|_| Err(format!("the ready command did not succeed within {READY_LIMIT:?}")))
}

/// A word as a shell takes it.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A pattern as a shell expands it: `*`, `?` and brackets mean something, all else is meant.
fn glob(pattern: &str) -> String {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let mut out = String::new();
    for c in pattern.chars() {
        match c {
            '*' | '?' | '[' | ']' => out.push(c),
            '\'' => out.push_str(r"\'"),
            c if c.is_alphanumeric() || "/._-".contains(c) => out.push(c),
            // In quotes, a newline too is only itself.
            c => {
                out.push('\'');
                out.push(c);
                out.push('\'');
            }
        }
    }
    if out.is_empty() { ".".to_owned() } else { out }
}

/// Output, taken line by line.
#[derive(Default)]
struct Lines(Vec<u8>);

/// A line is passed on when it is this long, ended or not.
const LONG: usize = 8192;

impl Lines {
    fn add(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for byte in bytes {
            if *byte == b'\n' || self.0.len() >= LONG {
                each(String::from_utf8_lossy(&self.0).trim_end());
                self.0.clear();
            }
            if *byte != b'\n' {
                self.0.push(*byte);
            }
        }
    }

    fn end(self, mut each: impl FnMut(&str)) {
        if !self.0.is_empty() {
            each(String::from_utf8_lossy(&self.0).trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_patterns_say_what_they_say_and_no_more() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(glob("./src/*.py"), "src/*.py");
        assert_eq!(glob("a b$(x)"), "a' 'b'$''('x')'");
        assert_eq!(glob("it's"), r"it\'s");
        assert_eq!(glob("."), ".");
    }

    #[test]
    fn output_is_taken_line_by_line() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        lines.add(b"one\ntw", |line| seen.push(line.to_owned()));
        lines.add(b"o\nrest", |line| seen.push(line.to_owned()));
        lines.end(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", "two", "rest"]);
    }
}
