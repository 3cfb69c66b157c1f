//! Changes to a repository: commits, resets, restored files.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::remote::awaited;
use super::run::check;
use super::{Git, at};
use crate::commands::CommandOutput;
use crate::error::Error;

/// A commit about to be made: see [`Git::commit`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitCommit<'a> {
    git: Git<'a>,
    path: String,
    message: String,
    author: Option<(String, String)>,
    allow_empty: bool,
}

/// A reset about to be made: see [`Git::reset`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitReset<'a> {
    git: Git<'a>,
    path: String,
    mode: Option<GitResetMode>,
    target: Option<String>,
    paths: Vec<String>,
}

/// What a reset changes besides the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitResetMode {
    /// Nothing.
    Soft,
    /// What is staged.
    Mixed,
    /// What is staged, and the files.
    Hard,
    /// What is staged, and the files, unless they have changes of their own.
    Merge,
    /// The files, unless they have changes of their own.
    Keep,
}

/// Files about to be restored: see [`Git::restore`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct GitRestore<'a> {
    git: Git<'a>,
    path: String,
    paths: Vec<String>,
    staged: bool,
    worktree: Option<bool>,
    source: Option<String>,
}

impl<'a> Git<'a> {
    /// Commits what is staged in the repository at `path`.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub fn commit(&self, path: impl Into<String>, message: impl Into<String>) -> GitCommit<'a> {
        let (path, message) = (path.into(), message.into());
        GitCommit { git: Clone::clone(self), path, message, author: None, allow_empty: false }
    }

    /// Moves the branch that is checked out, or takes back what is staged.
    ///
    /// # Errors
    ///
    /// As told at [`Git`].
    pub fn reset(&self, path: impl Into<String>) -> GitReset<'a> {
        GitReset { git: Clone::clone(self), path: path.into(), mode: None, target: None, paths: Vec::new() }
    }

    /// Brings files, relative to the repository at `path`, back to what they were.
    ///
    /// # Errors
    ///
    /// As told at [`Git`]; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for none.
    pub fn restore<S: Into<String>>(
        &self,
        path: impl Into<String>,
        paths: impl IntoIterator<Item = S>,
    ) -> GitRestore<'a> {
        GitRestore {
            git: Clone::clone(self),
            path: path.into(),
            paths: paths.into_iter().map(Into::into).collect(),
            staged: false,
            worktree: None,
            source: None,
        }
    }
}

impl GitCommit<'_> {
    /// Whose commit it is. Default: whom git's configuration names.
    pub fn author(mut self, name: impl Into<String>, email: impl Into<String>) -> Self {
        self.author = Some((name.into(), email.into()));
        self
    }

    /// Commits even where nothing changed. Default: no.
    pub fn allow_empty(mut self, allow: bool) -> Self {
        self.allow_empty = allow;
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        if self.message.trim().is_empty() {
            return Err(Error::invalid("message: it is empty"));
        }
        let author = self.author.map(|(name, email)| [format!("user.name={name}"), format!("user.email={email}")]);
        let mut args = Vec::new();
        for setting in author.iter().flatten() {
            args.extend(["-c", setting.as_str()]);
        }
        args.extend(["commit", "-m", &self.message]);
        args.extend(self.allow_empty.then_some("--allow-empty"));
        self.git.run("commit", &at(&self.path, &args)?).await
    }
}

impl GitReset<'_> {
    /// What is changed besides the branch. Default: what git does by itself, which is [`Mixed`](GitResetMode::Mixed).
    pub fn mode(mut self, mode: GitResetMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Where to: a commit, branch or tag. Default: HEAD.
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Takes back what is staged of these files, and moves nothing.
    pub fn paths<S: Into<String>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        self.paths.extend(paths.into_iter().map(Into::into));
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        if self.mode.is_some() && !self.paths.is_empty() {
            return Err(Error::invalid("mode: paths are reset without one; give one of the two"));
        }
        let mut args = vec!["reset"];
        args.extend(self.mode.map(|mode| match mode {
            GitResetMode::Soft => "--soft",
            GitResetMode::Mixed => "--mixed",
            GitResetMode::Hard => "--hard",
            GitResetMode::Merge => "--merge",
            GitResetMode::Keep => "--keep",
        }));
        if let Some(target) = &self.target {
            args.push(check("target", target)?);
        }
        args.push("--");
        args.extend(self.paths.iter().map(String::as_str));
        self.git.run("reset", &at(&self.path, &args)?).await
    }
}

impl GitRestore<'_> {
    /// Restores what is staged. Default: no.
    pub fn staged(mut self, staged: bool) -> Self {
        self.staged = staged;
        self
    }

    /// Restores the files themselves. Default: yes, unless `staged` is set.
    pub fn worktree(mut self, worktree: bool) -> Self {
        self.worktree = Some(worktree);
        self
    }

    /// Where from: a commit, branch or tag. Default: what is staged, and HEAD for what is staged itself.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    async fn send(self) -> Result<CommandOutput, Error> {
        if self.paths.is_empty() {
            return Err(Error::invalid("paths: none is given; \".\" is all"));
        }
        let worktree = self.worktree.unwrap_or(!self.staged);
        if !worktree && !self.staged {
            return Err(Error::invalid("worktree: with neither staged nor worktree there is nothing to restore"));
        }
        let mut args = vec!["restore"];
        args.extend(self.staged.then_some("--staged"));
        args.extend(worktree.then_some("--worktree"));
        if let Some(source) = &self.source {
            args.extend(["--source", check("source", source)?]);
        }
        args.push("--");
        args.extend(self.paths.iter().map(String::as_str));
        self.git.run("restore the files", &at(&self.path, &args)?).await
    }
}

awaited!(GitCommit, GitReset, GitRestore);
