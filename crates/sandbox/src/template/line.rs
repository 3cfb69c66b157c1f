//! Steps that are one line for a shell.

use std::fmt::Write;

use super::Template;
use crate::shell::quote;

/// A step that is one line for a shell, with more to say about it than the short methods of [`Template`] take: see
/// [`Template::step`].
///
/// ```
/// use oncebox::{Template, TemplateStep};
///
/// let recipe = Template::from_base_image()
///     .step(TemplateStep::make_dir(["/srv/a", "/srv/b"], Some(0o755)).user("root"))
///     .step(TemplateStep::apt_install(["jq"], false, true));
/// # assert!(recipe.check().is_ok());
/// ```
#[derive(Clone, Debug)]
#[must_use = "a step is part of no recipe until it is added to one"]
pub struct TemplateStep {
    line: String,
    user: Option<String>,
    /// The template that this step needs the recipe to begin with.
    needs: Option<&'static str>,
    wrong: Option<String>,
}

/// For whom a package manager installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallFor {
    /// The project in the working directory.
    Project,
    /// The project, for those who develop it.
    Developers,
    /// Everybody in the sandbox, as root.
    Everybody,
}

/// Why a URL is refused.
const CREDENTIALS: &str = "git_clone: the URL holds credentials, which would be kept in the template's files, the build's log and \
     the server's cache; clone in a sandbox by its git, or, where they may be known to all of these, by a step of `run`";

impl TemplateStep {
    fn new(line: String) -> Self {
        Self { line, user: None, needs: None, wrong: None }
    }

    /// A step over several paths; none is refused.
    fn over<S: AsRef<str>>(name: &str, line: &str, paths: impl IntoIterator<Item = S>) -> Self {
        let paths = words(paths);
        let mut step = Self::new(format!("{line}{paths}"));
        if paths.is_empty() {
            step.wrong = Some(format!("{name}: nothing is named"));
        }
        step
    }

    fn by_root(self) -> Self {
        self.user("root")
    }

    /// Whom it runs as. Default: whoever the recipe's steps run as there; installing for everybody is root's.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Lines that run in one shell, each if the one before succeeded.
    pub fn run<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Self {
        let lines: Vec<String> = lines.into_iter().map(|line| line.as_ref().to_owned()).collect();
        Self::new(lines.join(" && "))
    }

    /// Removes paths. `force`: missing ones are fine; `recursive`: directories with all below them.
    pub fn remove<S: AsRef<str>>(paths: impl IntoIterator<Item = S>, force: bool, recursive: bool) -> Self {
        let (recursive, force) = (flag(recursive, " -r"), flag(force, " -f"));
        Self::over("remove", &format!("rm{recursive}{force}"), paths)
    }

    /// Renames a path. `force`: what is there already makes room.
    pub fn rename(from: &str, to: &str, force: bool) -> Self {
        Self::new(format!("mv {} {}{}", quote(from), quote(to), flag(force, " -f")))
    }

    /// Makes directories with their parents, and with these permissions.
    pub fn make_dir<S: AsRef<str>>(paths: impl IntoIterator<Item = S>, mode: Option<u32>) -> Self {
        let permissions = mode.map(|mode| format!(" -m {mode:04o}")).unwrap_or_default();
        let mut step = Self::over("make_dir", &format!("mkdir -p{permissions}"), paths);
        if let Some(mode) = mode.filter(|mode| *mode > 0o7777) {
            step.wrong = Some(format!("make_dir: mode {mode:#o} is more than 0o7777"));
        }
        step
    }

    /// Makes a symbolic link at `link` that leads to `target`. `force`: what is there already makes room.
    pub fn make_symlink(target: &str, link: &str, force: bool) -> Self {
        Self::new(format!("ln -s{} {} {}", flag(force, " -f"), quote(target), quote(link)))
    }

    /// Installs Python packages for everybody, or for the user alone; none given: the project in the working directory.
    pub fn pip_install<S: AsRef<str>>(packages: impl IntoIterator<Item = S>, everybody: bool) -> Self {
        let packages = words(packages);
        let packages = if packages.is_empty() { " ." } else { &packages };
        let step = Self::new(format!("pip install{}{packages}", flag(!everybody, " --user")));
        if everybody { step.by_root() } else { step }
    }

    /// Installs Node packages; none given: those of the project in the working directory.
    pub fn npm_install<S: AsRef<str>>(packages: impl IntoIterator<Item = S>, whom: InstallFor) -> Self {
        Self::install("npm install", " --save-dev", packages, whom)
    }

    /// Installs packages by Bun; none given: those of the project in the working directory.
    pub fn bun_install<S: AsRef<str>>(packages: impl IntoIterator<Item = S>, whom: InstallFor) -> Self {
        Self::install("bun install", " --dev", packages, whom)
    }

    fn install<S: AsRef<str>>(
        program: &str,
        developers: &str,
        packages: impl IntoIterator<Item = S>,
        whom: InstallFor,
    ) -> Self {
        let option = match whom {
            InstallFor::Project => "",
            InstallFor::Developers => developers,
            InstallFor::Everybody => " -g",
        };
        let step = Self::new(format!("{program}{option}{}", words(packages)));
        if whom == InstallFor::Everybody { step.by_root() } else { step }
    }

    /// Installs Debian packages. `recommended`: with those that they recommend; `fix_missing`: without those that cannot be
    /// had.
    pub fn apt_install<S: AsRef<str>>(
        packages: impl IntoIterator<Item = S>,
        recommended: bool,
        fix_missing: bool,
    ) -> Self {
        const INSTALL: &str = "DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y";
        let recommended = flag(!recommended, " --no-install-recommends");
        let line = format!("apt-get update && {INSTALL}{recommended}{}", flag(fix_missing, " --fix-missing"));
        Self::over("apt_install", &line, packages).by_root()
    }

    /// Clones a repository: a branch, to a path, and no more than `depth` commits of it, where these are given. A URL with
    /// credentials is refused: the template and the build's log would have them.
    pub fn git_clone(url: &str, path: Option<&str>, branch: Option<&str>, depth: Option<u32>) -> Self {
        if crate::git::is_with_credentials(url) {
            let mut step = Self::new(String::from("git clone"));
            // The URL itself stays out of the message.
            step.wrong = Some(CREDENTIALS.to_owned());
            return step;
        }
        let mut line = format!("git clone {}", quote(url));
        if let Some(branch) = branch {
            let _ = write!(line, " --branch {} --single-branch", quote(branch));
        }
        if let Some(depth) = depth {
            let _ = write!(line, " --depth {depth}");
        }
        if let Some(path) = path {
            let _ = write!(line, " {}", quote(path));
        }
        Self::new(line)
    }

    /// Adds servers to the MCP gateway. The recipe must begin with the template `mcp-gateway`.
    pub fn add_mcp_server<S: AsRef<str>>(servers: impl IntoIterator<Item = S>) -> Self {
        Self::over("add_mcp_server", "mcp-gateway pull", servers).by_root().needing("mcp-gateway")
    }

    /// Builds the development container of a directory. The recipe must begin with the template `devcontainer`.
    pub fn dev_container_prebuild(directory: &str) -> Self {
        let line = format!("devcontainer build --workspace-folder {}", quote(directory));
        Self::new(line).by_root().needing("devcontainer")
    }

    fn needing(mut self, template: &'static str) -> Self {
        self.needs = Some(template);
        self
    }
}

impl Template {
    /// Adds a step that is one line for a shell.
    pub fn step(mut self, step: TemplateStep) -> Self {
        if let Some(rule) = step.wrong {
            self.refuse(rule);
        }
        if let Some(needed) = step.needs {
            self.need(needed);
        }
        self.run_line(step.line, step.user)
    }
}

fn flag(set: bool, option: &'static str) -> &'static str {
    if set { option } else { "" }
}

/// Words for a shell, each after a space.
fn words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    words.into_iter().map(|word| format!(" {}", quote(word.as_ref()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_official_sdk() {
        for (step, line, user) in [
            (TemplateStep::remove(["a b"], false, false), "rm 'a b'", None),
            (TemplateStep::remove(["a", "b"], true, true).user("u"), "rm -r -f a b", Some("u")),
            (TemplateStep::rename("a", "b c", true), "mv a 'b c' -f", None),
            (TemplateStep::make_dir(["d", "e"], Some(0o755)), "mkdir -p -m 0755 d e", None),
            (TemplateStep::make_symlink("a", "b", true), "ln -s -f a b", None),
            (TemplateStep::pip_install(["a"], false), "pip install --user a", None),
            (TemplateStep::npm_install(["x"], InstallFor::Developers), "npm install --save-dev x", None),
            (TemplateStep::bun_install(["x"], InstallFor::Everybody), "bun install -g x", Some("root")),
            (TemplateStep::run(["x", "y"]).user("u"), "x && y", Some("u")),
        ] {
            assert_eq!((step.line.as_str(), step.user.as_deref()), (line, user));
        }
    }

    #[test]
    fn a_repository_is_not_cloned_by_a_url_with_credentials() {
        let clone = |url: &str| Template::from_base_image().git_clone(url, Some("/srv/a"), None, None).check();
        for (url, secret) in [
            ("https://me:hunter2@git.example/a.git", "hunter2"),
            ("https://:hunter2@git.example/a.git", "hunter2"),
            (" https://me:hunter2@git.example/a.git", "hunter2"),
            ("https://me:hun#ter2@git.example/a.git", "ter2"),
            ("https://ghp_0123456789abcdef0123@git.example/a.git", "ghp_0123456789abcdef0123"),
            ("ssh://me:hunter2@git.example/a.git", "hunter2"),
            ("ssh://me:hun#ter2@git.example/a.git", "ter2"),
            ("ssh://me:12#3hunter2@git.example/a.git", "hunter2"),
            ("ftp://me:hunter2@git.example/a.git", "hunter2"),
            ("FTPS://me:hunter2@git.example/a.git", "hunter2"),
            ("git+https://me:hunter2@git.example/a.git", "hunter2"),
        ] {
            let error = clone(url).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
            assert!(text.contains("git_clone") && text.contains("`run`") && !text.contains(secret), "{text}");
        }
        for url in [
            "https://git.example/a.git",
            "https://me@git.example:8443/a.git",
            "ssh://git@git.example:22/~me/a@b.git",
            "git@git.example:a.git",
            "git.example:a/b:c@d",
            "/srv/a.git",
            "../a:b@c",
            "file:///srv/a.git",
        ] {
            clone(url).unwrap();
        }
    }

    #[test]
    fn steps_that_cannot_be_are_refused() {
        let none: [&str; 0] = [];
        for (step, words) in [
            (TemplateStep::remove(none, true, true), "remove"),
            (TemplateStep::make_dir(["d"], Some(0o10000)), "0o7777"),
            (TemplateStep::add_mcp_server(["x"]), "mcp-gateway"),
            (TemplateStep::dev_container_prebuild("/d"), "devcontainer"),
        ] {
            let error = Template::from_base_image().step(step).check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(Template::from_template("mcp-gateway").step(TemplateStep::add_mcp_server(["x"])).check().is_ok());
    }
}
