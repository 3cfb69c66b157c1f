//! The steps of a recipe.

use super::line::{InstallFor, TemplateStep};
use super::{Step, StepKind, Template};
use crate::sandbox::is_env_name;

/// Files to copy into a template: see [`Template::copy_files`].
#[derive(Clone, Debug)]
#[must_use = "it says what to copy, and copies nothing"]
pub struct CopyFiles {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) user: Option<String>,
    pub(super) mode: Option<u32>,
    pub(super) forced: bool,
    pub(super) follow_links: bool,
    pub(super) gzip: bool,
}

impl CopyFiles {
    /// Copies `from`, a path or glob below the [context](Template::context), to `to`. Of a directory its content is copied.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            user: None,
            mode: None,
            forced: false,
            follow_links: false,
            gzip: true,
        }
    }

    /// Whom they belong to.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Their permissions, such as `0o755`. Default: those they have here.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Uploads them even if the server has them, and builds the step anew.
    pub fn force_upload(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Copies what symbolic links lead to, in place of the links. Default: the links.
    pub fn resolve_symlinks(mut self, resolve: bool) -> Self {
        self.follow_links = resolve;
        self
    }

    /// Whether the upload is compressed. Default: it is.
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = gzip;
        self
    }

    pub(super) fn args(&self) -> Vec<String> {
        let mode = self.mode.map(|mode| format!("{mode:04o}"));
        vec![self.from.clone(), self.to.clone(), self.user.clone().unwrap_or_default(), mode.unwrap_or_default()]
    }

    /// The rule that a path breaks.
    fn wrong(&self) -> Option<String> {
        let from = &self.from;
        if from.trim().is_empty() || self.to.trim().is_empty() {
            return Some(format!("copy: {from:?} to {:?}: a path is empty", self.to));
        }
        if from.starts_with(['/', '\\']) || from.split(['/', '\\']).any(|part| part == "..") {
            return Some(format!("copy: {from:?} leads outside of the context; move the context, or the files"));
        }
        self.mode.filter(|mode| *mode > 0o7777).map(|mode| format!("copy: mode {mode:#o} is more than 0o7777"))
    }
}

impl Template {
    /// Copies a path or glob below the [context](Self::context). Of a directory its content is copied.
    pub fn copy(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.copy_files(CopyFiles::new(from, to))
    }

    /// Copies files with more to say about them.
    pub fn copy_files(mut self, copy: CopyFiles) -> Self {
        if let Some(rule) = copy.wrong() {
            self.refuse(rule);
        }
        let forced = self.forced || copy.forced;
        self.steps.push(Step { kind: StepKind::Copy(copy), forced });
        self
    }

    /// Runs a line in a shell.
    pub fn run(self, command: impl Into<String>) -> Self {
        self.run_line(command.into(), None)
    }

    /// Runs a line in a shell as somebody.
    pub fn run_as(self, user: impl Into<String>, command: impl Into<String>) -> Self {
        self.run_line(command.into(), Some(user.into()))
    }

    /// Runs lines in one shell, each if the one before succeeded.
    pub fn run_all<S: AsRef<str>>(self, commands: impl IntoIterator<Item = S>) -> Self {
        self.step(TemplateStep::run(commands))
    }

    /// Removes a path, with all below it; a missing one is fine.
    pub fn remove(self, path: &str) -> Self {
        self.step(TemplateStep::remove([path], true, true))
    }

    /// Renames a path.
    pub fn rename(self, from: &str, to: &str) -> Self {
        self.step(TemplateStep::rename(from, to, false))
    }

    /// Makes a directory with its parents.
    pub fn make_dir(self, path: &str) -> Self {
        self.step(TemplateStep::make_dir([path], None))
    }

    /// Makes a symbolic link at `link` that leads to `target`.
    pub fn make_symlink(self, target: &str, link: &str) -> Self {
        self.step(TemplateStep::make_symlink(target, link, false))
    }

    /// Where the next steps, and the commands of its sandboxes, run.
    pub fn workdir(self, path: impl Into<String>) -> Self {
        self.plain("WORKDIR", vec![path.into()])
    }

    /// Whom the next steps, and the commands of its sandboxes, run as.
    pub fn user(self, user: impl Into<String>) -> Self {
        self.plain("USER", vec![user.into()])
    }

    /// Environment variables of the next steps and of its sandboxes.
    pub fn set_envs<N: Into<String>, V: Into<String>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let pairs: Vec<String> = variables.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect();
        let mut template = self;
        if let Some(name) = pairs.iter().step_by(2).find(|name| !is_env_name(name)) {
            template.refuse(format!("set_envs: {name:?} is no name for an environment variable"));
        }
        if pairs.is_empty() { template } else { template.plain("ENV", pairs) }
    }

    /// Installs Python packages for everybody; none given: the project in the working directory.
    pub fn pip_install<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        self.step(TemplateStep::pip_install(packages, true))
    }

    /// Installs Node packages for everybody; none given: those of the project in the working directory, for it alone.
    pub fn npm_install<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        let (packages, whom) = for_whom(packages);
        self.step(TemplateStep::npm_install(packages, whom))
    }

    /// Installs packages by Bun for everybody; none given: those of the project in the working directory, for it alone.
    pub fn bun_install<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        let (packages, whom) = for_whom(packages);
        self.step(TemplateStep::bun_install(packages, whom))
    }

    /// Installs Debian packages.
    pub fn apt_install<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        self.step(TemplateStep::apt_install(packages, true, false))
    }

    /// Clones a repository: a branch, to a path, and no more than `depth` commits of it, where these are given. A URL with
    /// credentials is refused: the template and the build's log would have them.
    pub fn git_clone(self, url: &str, path: Option<&str>, branch: Option<&str>, depth: Option<u32>) -> Self {
        self.step(TemplateStep::git_clone(url, path, branch, depth))
    }

    /// Adds servers to the MCP gateway of a recipe that begins with the template `mcp-gateway`.
    pub fn add_mcp_server<S: AsRef<str>>(self, servers: impl IntoIterator<Item = S>) -> Self {
        self.step(TemplateStep::add_mcp_server(servers))
    }

    pub(super) fn run_line(mut self, command: String, user: Option<String>) -> Self {
        if command.trim().is_empty() {
            self.refuse("run: the command is empty");
        }
        self.plain("RUN", std::iter::once(command).chain(user).collect())
    }

    pub(super) fn plain(mut self, kind: &'static str, args: Vec<String>) -> Self {
        if args.iter().any(|arg| arg.contains('\0')) {
            self.refuse(format!("{kind}: an argument holds a NUL character"));
        }
        if kind != "ENV" && args.iter().any(|arg| arg.trim().is_empty()) {
            self.refuse(format!("{kind}: an argument is empty"));
        }
        let forced = self.forced;
        self.steps.push(Step { kind: StepKind::Plain(kind, args), forced });
        self
    }
}

/// Named packages are for everybody; a project's are its own.
fn for_whom<S: AsRef<str>>(packages: impl IntoIterator<Item = S>) -> (Vec<String>, InstallFor) {
    let packages: Vec<String> = packages.into_iter().map(|package| package.as_ref().to_owned()).collect();
    let whom = if packages.is_empty() { InstallFor::Project } else { InstallFor::Everybody };
    (packages, whom)
}
