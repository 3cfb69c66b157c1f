//! Git in a sandbox.

use futures_util::future::BoxFuture;
use oncebox::{CommandOutput, Error, Git, GitBranches, GitResetMode, GitScope, GitStatus};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Subject, invalid};
use crate::options::Options;
use crate::pending::{Pending, begin};
use crate::sandbox::Sandbox;

/// What git told.
enum Told {
    Output(CommandOutput),
    Text(Option<String>),
    Status(GitStatus),
    Branches(GitBranches),
    Nothing,
}

type Work = Box<dyn for<'a> FnOnce(Git<'a>) -> BoxFuture<'a, Result<Told, Error>> + Send>;

#[pymethods]
impl Sandbox {
    /// Runs git. Options: `envs`, `user`, `cwd`, `timeout`, and those of the operation.
    fn git(&self, py: Python<'_>, operation: &str, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let (envs, user, cwd) = (options.pairs("envs")?, options.text("user")?, options.path("cwd")?);
        let timeout = options.seconds("timeout")?;
        let work = work(operation, &options)?;
        options.finish()?;
        let sandbox = self.inner.clone();
        let told = async move {
            let mut git = sandbox.git();
            for (name, value) in envs {
                git = git.env(name, value);
            }
            if let Some(user) = user {
                git = git.user(user);
            }
            if let Some(cwd) = cwd {
                git = git.cwd(cwd);
            }
            if let Some(timeout) = timeout {
                git = git.timeout(timeout);
            }
            work(git).await
        };
        begin(py, Subject::Process, told, shown)
    }
}

/// The operation with its arguments.
fn work(operation: &str, options: &Options<'_>) -> PyResult<Work> {
    match operation {
        "clone" | "push" | "pull" => remote(operation, options),
        "set_config" | "get_config" | "configure_user" | "dangerously_authenticate" => configure(operation, options),
        _ => local(operation, options),
    }
}

/// A closure as what is wanted of it: the compiler does not see by itself that it takes any lifetime.
fn boxed<F>(work: F) -> Work
where
    F: for<'a> FnOnce(Git<'a>) -> BoxFuture<'a, Result<Told, Error>> + Send + 'static,
{
    Box::new(work)
}

fn local(operation: &str, options: &Options<'_>) -> PyResult<Work> {
    let is = |name: &str| Ok::<_, PyErr>(options.flag(name)?.unwrap_or(false));
    let text = |name: &str| needed(options, name);
    let path = needed_path(options, "path")?;
    Ok(match operation {
        "init" => {
            let (bare, branch) = (is("bare")?, options.text("initial_branch")?);
            boxed(move |git| Box::pin(async move { git.init(&path, bare, branch.as_deref()).await.map(Told::Output) }))
        }
        "remote_add" => {
            let (name, url, fetch, overwrite) = (text("name")?, text("url")?, is("fetch")?, is("overwrite")?);
            boxed(move |git| {
                Box::pin(async move {
                    git.remote_add(path, name, url).fetch(fetch).overwrite(overwrite).await.map(Told::Output)
                })
            })
        }
        "remote_get" => {
            let name = text("name")?;
            boxed(move |git| Box::pin(async move { git.remote_get(&path, &name).await.map(Told::Text) }))
        }
        "status" => boxed(move |git| Box::pin(async move { git.status(&path).await.map(Told::Status) })),
        "branches" => boxed(move |git| Box::pin(async move { git.branches(&path).await.map(Told::Branches) })),
        "create_branch" => {
            let branch = text("branch")?;
            boxed(move |git| Box::pin(async move { git.create_branch(&path, &branch).await.map(Told::Output) }))
        }
        "checkout_branch" => {
            let branch = text("branch")?;
            boxed(move |git| Box::pin(async move { git.checkout_branch(&path, &branch).await.map(Told::Output) }))
        }
        "delete_branch" => {
            let (branch, force) = (text("branch")?, is("force")?);
            boxed(move |git| Box::pin(async move { git.delete_branch(&path, &branch, force).await.map(Told::Output) }))
        }
        "add" => {
            let (files, all) = (options.words("files")?, options.flag("all")?.unwrap_or(true));
            boxed(move |git| {
                Box::pin(async move {
                    let files: Vec<&str> = files.iter().map(String::as_str).collect();
                    let added = match files.is_empty() {
                        // As in the official SDK: without files and without all, what is at the path.
                        true if all => git.add_all(&path).await,
                        true => git.add(&path, &["."]).await,
                        false => git.add(&path, &files).await,
                    };
                    added.map(Told::Output)
                })
            })
        }
        "commit" => {
            let (message, allow_empty) = (text("message")?, is("allow_empty")?);
            let author = both(options, "author_name", "author_email")?;
            boxed(move |git| {
                Box::pin(async move {
                    let mut commit = git.commit(path, message).allow_empty(allow_empty);
                    if let Some((name, email)) = author {
                        commit = commit.author(name, email);
                    }
                    commit.await.map(Told::Output)
                })
            })
        }
        "reset" => {
            let (mode, target, paths) = (reset_mode(options)?, options.text("target")?, options.words("paths")?);
            boxed(move |git| {
                Box::pin(async move {
                    let mut reset = git.reset(path).paths(paths);
                    if let Some(mode) = mode {
                        reset = reset.mode(mode);
                    }
                    if let Some(target) = target {
                        reset = reset.target(target);
                    }
                    reset.await.map(Told::Output)
                })
            })
        }
        "restore" => {
            let (paths, source) = (options.words("paths")?, options.text("source")?);
            let (staged, worktree) = (options.flag("staged")?, options.flag("worktree")?);
            boxed(move |git| {
                Box::pin(async move {
                    let mut restore = git.restore(path, paths);
                    if let Some(staged) = staged {
                        restore = restore.staged(staged);
                    }
                    if let Some(worktree) = worktree {
                        restore = restore.worktree(worktree);
                    }
                    if let Some(source) = source {
                        restore = restore.source(source);
                    }
                    restore.await.map(Told::Output)
                })
            })
        }
        _ => return Err(PyValueError::new_err("no such operation")),
    })
}

fn remote(operation: &str, options: &Options<'_>) -> PyResult<Work> {
    let login = both(options, "username", "password")?;
    let branch = options.text("branch")?;
    if operation == "clone" {
        let (url, path, depth) = (needed(options, "url")?, options.path("path")?, options.count("depth")?);
        let store = options.flag("dangerously_store_credentials")?.unwrap_or(false);
        return Ok(boxed(move |git| {
            Box::pin(async move {
                let mut clone = git.clone(url).dangerously_store_credentials(store);
                if let Some(path) = path {
                    clone = clone.path(path);
                }
                if let Some(branch) = branch {
                    clone = clone.branch(branch);
                }
                if let Some(depth) = depth {
                    clone = clone.depth(depth);
                }
                if let Some((username, password)) = login {
                    clone = clone.credentials(username, password);
                }
                clone.await.map(Told::Output)
            })
        }));
    }
    let (path, remote) = (needed_path(options, "path")?, options.text("remote")?);
    if operation == "pull" {
        return Ok(boxed(move |git| {
            Box::pin(async move {
                let mut pull = git.pull(path);
                if let Some(remote) = remote {
                    pull = pull.remote(remote);
                }
                if let Some(branch) = branch {
                    pull = pull.branch(branch);
                }
                if let Some((username, password)) = login {
                    pull = pull.credentials(username, password);
                }
                pull.await.map(Told::Output)
            })
        }));
    }
    let upstream = options.flag("set_upstream")?.unwrap_or(true);
    Ok(boxed(move |git| {
        Box::pin(async move {
            let mut push = git.push(path).set_upstream(upstream);
            if let Some(remote) = remote {
                push = push.remote(remote);
            }
            if let Some(branch) = branch {
                push = push.branch(branch);
            }
            if let Some((username, password)) = login {
                push = push.credentials(username, password);
            }
            push.await.map(Told::Output)
        })
    }))
}

fn configure(operation: &str, options: &Options<'_>) -> PyResult<Work> {
    let text = |name: &str| needed(options, name);
    if operation == "dangerously_authenticate" {
        let (username, password) = (text("username")?, text("password")?);
        let (host, protocol) = (options.text("host")?, options.text("protocol")?);
        return Ok(boxed(move |git| {
            Box::pin(async move {
                let stored =
                    git.dangerously_authenticate(&username, &password, host.as_deref(), protocol.as_deref()).await;
                stored.map(|()| Told::Nothing)
            })
        }));
    }
    let scope = Scope::read(options)?;
    Ok(match operation {
        "set_config" => {
            let (key, value) = (text("key")?, text("value")?);
            boxed(move |git| Box::pin(async move { git.set_config(&key, &value, scope.of()).await.map(Told::Output) }))
        }
        "get_config" => {
            let key = text("key")?;
            boxed(move |git| Box::pin(async move { git.get_config(&key, scope.of()).await.map(Told::Text) }))
        }
        _ => {
            let (name, email) = (text("name")?, text("email")?);
            boxed(move |git| {
                Box::pin(async move { git.configure_user(&name, &email, scope.of()).await.map(|()| Told::Nothing) })
            })
        }
    })
}

enum Scope {
    Global,
    System,
    Local(String),
}

impl Scope {
    fn read(options: &Options<'_>) -> PyResult<Self> {
        let path = options.path("path")?;
        match (options.text("scope")?.as_deref(), path) {
            (None | Some("global"), _) => Ok(Self::Global),
            (Some("system"), _) => Ok(Self::System),
            (Some("local"), Some(path)) => Ok(Self::Local(path)),
            (Some("local"), None) => Err(invalid(options.py(), "path: the scope local needs the repository's path")),
            (Some(other), _) => {
                Err(invalid(options.py(), format!("scope: {other:?} is none of global, local, system")))
            }
        }
    }

    fn of(&self) -> GitScope<'_> {
        match self {
            Self::Global => GitScope::Global,
            Self::System => GitScope::System,
            Self::Local(path) => GitScope::Local(path),
        }
    }
}

fn reset_mode(options: &Options<'_>) -> PyResult<Option<GitResetMode>> {
    Ok(match options.text("mode")?.as_deref() {
        None => None,
        Some("soft") => Some(GitResetMode::Soft),
        Some("mixed") => Some(GitResetMode::Mixed),
        Some("hard") => Some(GitResetMode::Hard),
        Some("merge") => Some(GitResetMode::Merge),
        Some("keep") => Some(GitResetMode::Keep),
        Some(other) => {
            return Err(invalid(options.py(), format!("mode: {other:?} is none of soft, mixed, hard, merge, keep")));
        }
    })
}

/// Two texts that belong together.
fn both(options: &Options<'_>, one: &str, other: &str) -> PyResult<Option<(String, String)>> {
    match (options.text(one)?, options.text(other)?) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        _ => Err(invalid(options.py(), format!("{one}, {other}: they belong together; give both, or none"))),
    }
}

fn needed(options: &Options<'_>, name: &str) -> PyResult<String> {
    options.text(name)?.ok_or_else(|| invalid(options.py(), format!("{name}: it is needed")))
}

fn needed_path(options: &Options<'_>, name: &str) -> PyResult<String> {
    options.path(name)?.ok_or_else(|| invalid(options.py(), format!("{name}: it is needed")))
}

fn shown(py: Python<'_>, told: Told) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    match told {
        Told::Nothing => return Ok(py.None()),
        Told::Text(text) => return Ok(text.into_pyobject(py)?.into_any().unbind()),
        Told::Output(output) => {
            dict.set_item("stdout", output.stdout_text())?;
            dict.set_item("stderr", output.stderr_text())?;
            dict.set_item("exit_code", output.exit_code())?;
            dict.set_item("error", output.exit.error)?;
        }
        Told::Branches(branches) => {
            dict.set_item("branches", branches.branches)?;
            dict.set_item("current_branch", branches.current_branch)?;
        }
        Told::Status(status) => {
            let files = PyList::empty(py);
            for file in status.files {
                let one = PyDict::new(py);
                one.set_item("name", &file.path)?;
                one.set_item("index_status", letter(file.index))?;
                one.set_item("working_tree_status", letter(file.working_tree))?;
                one.set_item("staged", file.is_staged())?;
                one.set_item("conflicted", file.conflicted)?;
                one.set_item("renamed_from", file.renamed_from)?;
                files.append(one)?;
            }
            dict.set_item("file_status", files)?;
            dict.set_item("current_branch", status.current_branch)?;
            dict.set_item("upstream", status.upstream)?;
            dict.set_item("ahead", status.ahead)?;
            dict.set_item("behind", status.behind)?;
            dict.set_item("detached", status.detached)?;
        }
    }
    Ok(dict.into_any().unbind())
}

/// As the older form of git's status has it.
fn letter(letter: char) -> char {
    if letter == '.' { ' ' } else { letter }
}
