//! Repositories elsewhere: clone, push, pull, remotes.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use url::Url;

use super::credentials::{Credentials, check_remote, split};
use super::run::check;
use super::{Git, at, check_path};
use crate::commands::CommandOutput;
use crate::error::{Error, ErrorKind};

/// What was given as credentials: checked when they are used, before any I/O.
type Given = Option<Result<Credentials, Error>>;

/// A clone about to be made: see [`Git::clone`].
#[derive(Clone)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitClone<'a> {
    git: Git<'a>,
    url: String,
    path: Option<String>,
    branch: Option<String>,
    depth: Option<u32>,
    credentials: Given,
    store: bool,
}

/// A remote about to be added: see [`Git::remote_add`].
#[derive(Clone)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitRemoteAdd<'a> {
    git: Git<'a>,
    path: String,
    name: String,
    url: String,
    fetch: bool,
    overwrite: bool,
}

impl fmt::Debug for GitClone<'_> {
    // The URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitClone")
            .field("git", &self.git)
            .field("path", &self.path)
            .field("branch", &self.branch)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GitRemoteAdd<'_> {
    // As above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitRemoteAdd")
            .field("git", &self.git)
            .field("path", &self.path)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A push about to be made: see [`Git::push`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitPush<'a> {
    git: Git<'a>,
    path: String,
    remote: Option<String>,
    branch: Option<String>,
    set_upstream: bool,
    credentials: Given,
}

/// A pull about to be made: see [`Git::pull`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitPull<'a> {
    git: Git<'a>,
    path: String,
    remote: Option<String>,
    branch: Option<String>,
    credentials: Given,
}

impl<'a> Git<'a> {
    /// Clones a repository. A password or a token in the URL is taken out of it, and used as [credentials](GitClone::credentials) are.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub fn clone(&self, url: impl Into<String>) -> GitClone<'a> {
        GitClone {
            git: Clone::clone(self),
            url: url.into(),
            path: None,
            branch: None,
            depth: None,
            credentials: None,
            store: false,
        }
    }

    /// Adds a remote to the repository at `path`.
    ///
    /// # Errors
    ///
    /// As told at [`Git`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for a URL with a password, which would stay in the
    /// sandbox's configuration.
    pub fn remote_add(
        &self,
        path: impl Into<String>,
        name: impl Into<String>,
        url: impl Into<String>,
    ) -> GitRemoteAdd<'a> {
        let (path, name, url) = (path.into(), name.into(), url.into());
        GitRemoteAdd { git: Clone::clone(self), path, name, url, fetch: false, overwrite: false }
    }

    /// Pushes the branch that is checked out in the repository at `path`.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub fn push(&self, path: impl Into<String>) -> GitPush<'a> {
        GitPush {
            git: Clone::clone(self),
            path: path.into(),
            remote: None,
            branch: None,
            set_upstream: true,
            credentials: None,
        }
    }

    /// Pulls into the repository at `path`.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub fn pull(&self, path: impl Into<String>) -> GitPull<'a> {
        GitPull { git: Clone::clone(self), path: path.into(), remote: None, branch: None, credentials: None }
    }

    /// The remote's URL, where credentials are to be used with it.
    async fn server(&self, path: &str, remote: &str, credentials: &Option<Credentials>) -> Result<Option<Url>, Error> {
        if credentials.is_none() {
            return Ok(None);
        }
        if let (_, Some(url), _) = split(remote)? {
            return Ok(Some(url));
        }
        let text = self.remote_get(path, remote).await?;
        let text = text.ok_or_else(|| Error::invalid(format!("remote: the repository has no remote {remote:?}")))?;
        let (_, url, _) = split(&text)?;
        url.map(Some).ok_or_else(not_http)
    }

    /// The remote that the branch belongs to: its own, else the only one there is.
    async fn remote_of(&self, path: &str, branch: &str) -> Result<Option<String>, Error> {
        let own = self.get_config(&format!("branch.{branch}.remote"), super::GitScope::Local(path)).await?;
        if own.is_some() {
            return Ok(own);
        }
        let listed = self.run("list remotes", &at(path, &["remote"])?).await?.stdout_text();
        let mut remotes = listed.lines();
        Ok(match (remotes.next(), remotes.next()) {
            (Some(only), None) => Some(only.to_owned()),
            _ => None,
        })
    }

    async fn current_branch(&self, path: &str) -> Result<Option<String>, Error> {
        const ACTION: &str = "read which branch is checked out";
        let output = self.try_run(ACTION, &at(path, &["symbolic-ref", "--quiet", "--short", "HEAD"])?).await?;
        match output.exit_code() {
            0 => Ok(Some(output.stdout_text().trim_end().to_owned())),
            // No branch is.
            1 => Ok(None),
            _ => Err(super::run::failed(ACTION, &output)),
        }
    }
}

impl GitClone<'_> {
    /// Where to. Default: a folder that git names after the repository.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Clones this branch, and no other.
    pub fn branch(mut self, branch: impl Into<String>) -> Self {
        self.branch = Some(branch.into());
        self
    }

    /// Clones so many commits of history.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Leaves the credentials in the clone's folder `.git`, in plain text, so that later pulls and pushes there find them.
    /// Whatever runs in the sandbox can read them. Default: they are gone when the clone ends.
    pub fn dangerously_store_credentials(mut self, store: bool) -> Self {
        self.store = store;
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        let (plain, url, in_url) = split(check("url", &self.url).map_err(|_| bad_url())?)?;
        let credentials = self.credentials.transpose()?.or(in_url);
        if credentials.is_some() && url.is_none() {
            return Err(not_http());
        }
        let depth = self.depth.map(|depth| depth.to_string());
        if self.depth == Some(0) {
            return Err(Error::invalid("depth: 0 would clone nothing; give 1 or more"));
        }
        let path = self.path.as_deref().map(check_path).transpose()?;
        let folder = path.or_else(|| folder_of(&plain));
        let mut args = vec!["clone"];
        if let Some(branch) = &self.branch {
            args.extend(["--branch", check("branch", branch)?, "--single-branch"]);
        }
        if let Some(depth) = &depth {
            args.extend(["--depth", depth]);
        }
        args.extend(["--", &plain]);
        args.extend(path);
        let output = self.git.run_as("clone the repository", credentials.as_ref(), url.as_ref(), &args).await?;
        if let (true, Some(credentials), Some(url)) = (self.store, &credentials, &url) {
            let folder = folder.ok_or_else(|| Error::invalid("path: git names no folder after this URL; give one"))?;
            let stored = self.git.store_in_repository(folder, credentials, url).await;
            stored.map_err(Error::partly)?;
        }
        Ok(output)
    }
}

impl GitRemoteAdd<'_> {
    /// Fetches from it at once. Default: no.
    pub fn fetch(mut self, fetch: bool) -> Self {
        self.fetch = fetch;
        self
    }

    /// Where a remote of this name exists, changes its URL. Default: that is an error.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        let (url, _, credentials) = split(check("url", &self.url).map_err(|_| bad_url())?)?;
        if credentials.is_some() {
            return Err(Error::invalid(
                "url: it holds a password or a token, which would stay in the sandbox's configuration; give it to push and pull, \
                 or to dangerously_authenticate",
            ));
        }
        let name = check("name", &self.name)?;
        let exists = self.overwrite && self.git.remote_get(&self.path, name).await?.is_some();
        let what = if exists { "set-url" } else { "add" };
        let output = self.git.run("add the remote", &at(&self.path, &["remote", what, name, &url])?).await?;
        if self.fetch {
            let fetched = self.git.run("fetch from the remote", &at(&self.path, &["fetch", name])?).await;
            return fetched.map_err(Error::partly);
        }
        Ok(output)
    }
}

impl GitPush<'_> {
    /// Where to. Default: the branch's remote, else the only one there is.
    pub fn remote(mut self, remote: impl Into<String>) -> Self {
        self.remote = Some(remote.into());
        self
    }

    /// Which branch. Default: the one that is checked out.
    pub fn branch(mut self, branch: impl Into<String>) -> Self {
        self.branch = Some(branch.into());
        self
    }

    /// Makes the remote's branch this one's upstream. Default: yes.
    pub fn set_upstream(mut self, set_upstream: bool) -> Self {
        self.set_upstream = set_upstream;
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        const ACTION: &str = "push";
        let credentials = self.credentials.transpose()?;
        let remote = self.remote.as_deref().map(check_remote).transpose()?;
        let branch = self.branch.as_deref().map(|branch| check("branch", branch)).transpose()?;
        let branch = match branch {
            Some(branch) => Some(branch.to_owned()),
            None => self.git.current_branch(&self.path).await?,
        };
        let remote = match (remote, &branch) {
            (Some(remote), _) => Some(remote.to_owned()),
            (None, Some(branch)) => self.git.remote_of(&self.path, branch).await?,
            (None, None) => None,
        };
        let (Some(remote), Some(branch)) = (remote, branch) else {
            let message = "nobody can tell where to: give remote and branch";
            return Err(Error::new(ErrorKind::GitUpstream, ACTION, message));
        };
        let url = self.git.server(&self.path, &remote, &credentials).await?;
        let mut args = vec!["push"];
        args.extend(self.set_upstream.then_some("--set-upstream"));
        args.extend([remote.as_str(), &branch]);
        self.git.run_as(ACTION, credentials.as_ref(), url.as_ref(), &at(&self.path, &args)?).await
    }
}

impl GitPull<'_> {
    /// Where from. Default: the upstream of the branch that is checked out.
    pub fn remote(mut self, remote: impl Into<String>) -> Self {
        self.remote = Some(remote.into());
        self
    }

    /// Which of the remote's branches. Default: the upstream.
    pub fn branch(mut self, branch: impl Into<String>) -> Self {
        self.branch = Some(branch.into());
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        let credentials = self.credentials.transpose()?;
        let mut remote = self.remote.as_deref().map(|remote| check_remote(remote).map(str::to_owned)).transpose()?;
        let branch = self.branch.as_deref().map(|branch| check("branch", branch)).transpose()?;
        if remote.is_none() && (branch.is_some() || credentials.is_some()) {
            let current = self.git.current_branch(&self.path).await?.unwrap_or_default();
            remote = self.git.remote_of(&self.path, &current).await?;
        }
        let url = match &remote {
            Some(remote) => self.git.server(&self.path, remote, &credentials).await?,
            None if branch.is_some() || credentials.is_some() => {
                let message = "nobody can tell where from: give remote";
                return Err(Error::new(ErrorKind::GitUpstream, "pull", message));
            }
            None => None,
        };
        let mut args = vec!["pull"];
        // A remote alone has git look for the upstream all the same.
        args.extend(remote.as_deref());
        args.extend(branch);
        self.git.run_as("pull", credentials.as_ref(), url.as_ref(), &at(&self.path, &args)?).await
    }
}

/// The folder that git makes for a clone of this URL.
fn folder_of(url: &str) -> Option<&str> {
    let name = url.trim_end_matches('/').rsplit(['/', ':']).next()?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

fn not_http() -> Error {
    Error::invalid("url: credentials can be used with http and https alone")
}

/// It may hold a password, and is not repeated.
fn bad_url() -> Error {
    Error::invalid("url: it is empty, begins with a hyphen, or holds a line break")
}

macro_rules! awaited {
    ($($name:ident),+) => {$(
        impl<'a> IntoFuture for $name<'a> {
            type Output = Result<CommandOutput, Error>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.send())
            }
        }
    )+};
}
pub(super) use awaited;

awaited!(GitClone, GitRemoteAdd, GitPush, GitPull);

macro_rules! with_credentials {
    ($($name:ident),+) => {$(
        impl $name<'_> {
            /// A user name, and a password or token, for this call and this server alone. http and https only.
            pub fn credentials(mut self, username: impl AsRef<str>, password: impl AsRef<str>) -> Self {
                self.credentials = Some(Credentials::new(username.as_ref(), password.as_ref()));
                self
            }
        }
    )+};
}

with_credentials!(GitClone, GitPush, GitPull);
