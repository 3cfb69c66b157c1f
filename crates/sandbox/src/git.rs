//! Git in a sandbox, over its commands.

mod change;
mod credentials;
mod remote;
mod run;
mod status;

pub use change::{GitCommit, GitReset, GitResetMode, GitRestore};
pub use remote::{GitClone, GitPull, GitPush, GitRemoteAdd};
pub use status::{GitBranches, GitFileStatus, GitStatus};

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::commands::CommandOutput;
use crate::error::Error;
use crate::sandbox::Sandbox;
use credentials::Credentials;
use run::check;

/// Whether a repository's URL holds a password or a token, or what may be one.
pub(crate) fn is_with_credentials(url: &str) -> bool {
    // What cannot be read as a URL may hold one as well.
    credentials::split(url).map_or(true, |(_, _, credentials)| credentials.is_some()) || is_with_password(url)
}

/// The same of a URL of whatever scheme.
fn is_with_password(url: &str) -> bool {
    match url::Url::parse(url) {
        // A number sign in a password ends what is read as its host and port.
        Ok(url) => url.password().is_some() || url.fragment().is_some_and(|fragment| fragment.contains('@')),
        Err(_) => {
            let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
            user.is_some_and(|(user, _)| user.contains(':'))
        }
    }
}

/// Git in a sandbox: see [`Sandbox::git`]. The sandbox's template must have it.
///
/// ```no_run
/// # async fn example(sandbox: oncebox::Sandbox, token: String) -> Result<(), oncebox::Error> {
/// let git = sandbox.git();
/// git.clone("https://github.com/team/project.git").depth(1).credentials("me", token.as_str()).await?;
/// sandbox.files().write("project/NOTES", "hello").await?;
/// git.add_all("project").await?;
/// git.commit("project", "notes").author("Me", "me@example.com").await?;
/// git.push("project").credentials("me", token).await?;
/// # Ok(()) }
/// ```
///
/// Credentials go to git through a pipe that it alone reads from, and only for the server that they are meant for. They are
/// in no argument, no environment variable, no file and no text of an error, unless a method whose name begins with
/// `dangerously_` is asked for.
///
/// Errors: [`GitAuthentication`](crate::ErrorKind::GitAuthentication) where the server wants other credentials,
/// [`GitUpstream`](crate::ErrorKind::GitUpstream) where a branch has no upstream, [`CommandFailed`](crate::ErrorKind::CommandFailed) with
/// git's own words for whatever else git says, [`Unsupported`](crate::ErrorKind::Unsupported) where there is no git; and those of
/// [`Commands::run`](crate::Commands::run).
#[derive(Clone)]
pub struct Git<'a> {
    sandbox: &'a Sandbox,
    envs: BTreeMap<String, String>,
    user: Option<String>,
    cwd: Option<String>,
    timeout: Option<Duration>,
}

impl fmt::Debug for Git<'_> {
    // What variables hold may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Git")
            .field("sandbox", &self.sandbox)
            .field("envs", &self.envs.keys())
            .field("user", &self.user)
            .field("cwd", &self.cwd)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Which file of configuration is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitScope<'a> {
    /// The user's.
    Global,
    /// The whole sandbox's.
    System,
    /// That of the repository at this path.
    Local(&'a str),
}

impl Sandbox {
    /// Git in the sandbox.
    pub fn git(&self) -> Git<'_> {
        Git { sandbox: self, envs: BTreeMap::new(), user: None, cwd: None, timeout: None }
    }
}

impl Git<'_> {
    /// Sets an environment variable for what follows.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.envs.insert(name.into(), value.into());
        self
    }

    /// Whom git runs as. Default: the sandbox's default user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// Where relative paths begin. Default: the user's home.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// When the sandbox kills git; zero means never. Default 60 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes a repository. `initial_branch`: what its first branch is called; else as git is configured.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn init(&self, path: &str, bare: bool, initial_branch: Option<&str>) -> Result<CommandOutput, Error> {
        let mut args = vec!["init"];
        args.extend(bare.then_some("--bare"));
        if let Some(branch) = initial_branch {
            args.extend(["--initial-branch", check("initial_branch", branch)?]);
        }
        args.extend(["--", check_path(path)?]);
        self.run("make the repository", &args).await
    }

    /// The URL of a remote; `None`: there is no such one.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn remote_get(&self, path: &str, name: &str) -> Result<Option<String>, Error> {
        const ACTION: &str = "read the remote's URL";
        let output = self.try_run(ACTION, &at(path, &["remote", "get-url", check("name", name)?])?).await?;
        match output.exit_code() {
            0 => Ok(Some(output.stdout_text().trim_end().to_owned())),
            // What git ends with when there is no such remote.
            2 => Ok(None),
            _ => Err(run::failed(ACTION, &output)),
        }
    }

    /// What the working tree and its branch are like.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn status(&self, path: &str) -> Result<GitStatus, Error> {
        const ACTION: &str = "read the repository's status";
        let args = at(path, &["status", "--porcelain=v2", "--branch", "--untracked-files=all", "-z"])?;
        let output = self.run(ACTION, &args).await?;
        GitStatus::parse(&output.stdout_text()).ok_or_else(|| Error::malformed(ACTION, "git's status cannot be read"))
    }

    /// The local branches, and which one is checked out.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn branches(&self, path: &str) -> Result<GitBranches, Error> {
        let args = at(path, &["for-each-ref", "--format=%(HEAD)%(refname:short)", "refs/heads"])?;
        let output = self.run("list branches", &args).await?;
        Ok(GitBranches::parse(&output.stdout_text()))
    }

    /// Makes a branch at the commit that is checked out, and checks it out.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn create_branch(&self, path: &str, branch: &str) -> Result<CommandOutput, Error> {
        self.run("make the branch", &at(path, &["checkout", "-b", check("branch", branch)?])?).await
    }

    /// Checks a branch out.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn checkout_branch(&self, path: &str, branch: &str) -> Result<CommandOutput, Error> {
        self.run("check the branch out", &at(path, &["checkout", check("branch", branch)?, "--"])?).await
    }

    /// Deletes a branch; `force`: also one that is not merged.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn delete_branch(&self, path: &str, branch: &str, force: bool) -> Result<CommandOutput, Error> {
        let delete = if force { "-D" } else { "-d" };
        self.run("delete the branch", &at(path, &["branch", delete, check("branch", branch)?])?).await
    }

    /// Stages all changes.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn add_all(&self, path: &str) -> Result<CommandOutput, Error> {
        self.run("stage the changes", &at(path, &["add", "-A"])?).await
    }

    /// Stages these files, relative to the repository.
    ///
    /// # Errors
    ///
    /// As told at [`Git`]; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for none.
    pub async fn add(&self, path: &str, files: &[&str]) -> Result<CommandOutput, Error> {
        if files.is_empty() {
            return Err(Error::invalid("files: none is given; add_all stages all changes"));
        }
        let args = [&["add", "--"], files].concat();
        self.run("stage the changes", &at(path, &args)?).await
    }

    /// Sets a key of the configuration, such as "pull.rebase".
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn set_config(&self, key: &str, value: &str, scope: GitScope<'_>) -> Result<CommandOutput, Error> {
        let key = check("key", key)?;
        self.run("set git's configuration", &scoped(scope, &["--replace-all", key, value])?).await
    }

    /// Reads a key of the configuration; `None`: it is not set there.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn get_config(&self, key: &str, scope: GitScope<'_>) -> Result<Option<String>, Error> {
        const ACTION: &str = "read git's configuration";
        let output = self.try_run(ACTION, &scoped(scope, &["--get", check("key", key)?])?).await?;
        match output.exit_code() {
            0 => {
                let text = output.stdout_text();
                Ok(Some(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)))
            }
            // What git ends with for a key that is not set. It says more about one that cannot be.
            1 if output.stderr.is_empty() => Ok(None),
            _ => Err(run::failed(ACTION, &output)),
        }
    }

    /// Sets the name and address that commits carry.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn configure_user(&self, name: &str, email: &str, scope: GitScope<'_>) -> Result<(), Error> {
        for (what, text) in [("name", name), ("email", email)] {
            if text.trim().is_empty() {
                return Err(Error::invalid(format!("{what}: it is empty")));
            }
        }
        self.set_config("user.name", name, scope).await?;
        self.set_config("user.email", email, scope).await.map(drop).map_err(Error::partly)
    }

    /// Stores credentials in the sandbox, in plain text in the user's home, for all later calls of git to this host. Whatever
    /// runs in the sandbox can read them.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub async fn dangerously_authenticate(
        &self,
        username: &str,
        password: &str,
        host: Option<&str>,
        protocol: Option<&str>,
    ) -> Result<(), Error> {
        let credentials = Credentials::new(username, password)?;
        let (host, protocol) = (host.unwrap_or("github.com"), protocol.unwrap_or("https"));
        let (host, protocol) = (check("host", host)?, check("protocol", protocol)?);
        self.store_credentials(&credentials, host, protocol).await
    }
}

/// Arguments for the repository at `path`.
fn at<'a>(path: &'a str, args: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    Ok([&["-C", check_path(path)?], args].concat())
}

fn scoped<'a>(scope: GitScope<'a>, args: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    match scope {
        GitScope::Global => Ok([&["config", "--global"], args].concat()),
        GitScope::System => Ok([&["config", "--system"], args].concat()),
        GitScope::Local(path) => at(path, &[&["config", "--local"], args].concat()),
    }
}

fn check_path(path: &str) -> Result<&str, Error> {
    crate::files::check_path(path).map(|()| path)
}
