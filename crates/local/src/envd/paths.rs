//! What the paths in requests mean.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::users::User;
use crate::lifeline::Defaults;

/// Where a sandbox's home is called to be, whatever it is on disk.
const HOME: &str = "/home/user";

/// How paths map to the file system.
#[derive(Debug)]
pub(super) struct Paths {
    /// Without isolation: the host's folder that stands for the home. With it, paths are what they say.
    alias: Option<PathBuf>,
    /// Of requests that name no user, and of those that name no path.
    user: User,
    workdir: Option<String>,
}

impl Paths {
    /// Inside a root of its own.
    pub(super) fn of_sandbox() -> Self {
        Self { alias: None, user: User::User, workdir: None }
    }

    /// On the host, with `home` standing for the sandbox's home.
    pub(super) fn of_host(home: PathBuf) -> Self {
        Self { alias: Some(home), user: User::User, workdir: None }
    }

    /// What the sandbox's template says. A user that it cannot have is nobody's default.
    pub(super) fn with_defaults(self, defaults: &Defaults) -> Self {
        let user = User::named(defaults.user.as_deref()).unwrap_or_default();
        Self { user, workdir: defaults.workdir.clone(), ..self }
    }

    /// The user of that name; the template's, or the default user, if there is none.
    pub(super) fn user(&self, name: Option<&str>) -> Result<User, String> {
        name.filter(|name| !name.is_empty()).map_or(Ok(self.user), |name| User::named(Some(name)))
    }

    /// The user a request names with `Authorization`.
    pub(super) fn user_of(&self, headers: &HeaderMap) -> Result<User, String> {
        if headers.contains_key(AUTHORIZATION) { User::of(headers) } else { Ok(self.user) }
    }

    /// Whether paths are those of a root of its own.
    pub(super) fn are_isolated(&self) -> bool {
        self.alias.is_none()
    }

    /// The home of a user, as commands see it.
    pub(super) fn home(&self, user: User) -> PathBuf {
        match (&self.alias, user) {
            (Some(home), _) => home.clone(),
            (None, User::User) => HOME.into(),
            (None, User::Root) => "/root".into(),
        }
    }

    /// The file a path of a request stands for: empty is the template's folder or the home, `~` and relative paths are in it.
    pub(super) fn resolve(&self, path: &str, user: User) -> Result<PathBuf, String> {
        if path.contains('\0') {
            return Err("a path cannot contain a NUL byte".to_owned());
        }
        let home = self.home(user);
        let path = if path.is_empty() { self.workdir.as_deref().unwrap_or_default() } else { path };
        let path = match path.strip_prefix('~') {
            Some("") => home,
            Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            Some(_) => {
                return Err(format!("'{}': only ~/ is understood, not another user's home", path.escape_debug()));
            }
            None => home.join(path),
        };
        let path = normalize(&path);
        Ok(match &self.alias {
            Some(home) => path.strip_prefix(HOME).map_or_else(|_| path.clone(), |inside| join(home, inside)),
            None => path,
        })
    }

    /// How a file is called in answers: the inverse of [`Paths::resolve`].
    pub(super) fn display(&self, path: &Path) -> String {
        let inside = self.alias.as_ref().and_then(|home| path.strip_prefix(home).ok());
        match inside {
            Some(inside) => join(Path::new(HOME), inside).to_string_lossy().into_owned(),
            None => path.to_string_lossy().into_owned(),
        }
    }
}

/// `Path::join` that adds no slash for an empty second part.
fn join(first: &Path, second: &Path) -> PathBuf {
    if second.as_os_str().is_empty() { first.to_owned() } else { first.join(second) }
}

/// Takes out `.`, `..` and doubled slashes by their text, as envd does. This is for the looks of answers; what a path
/// reaches is decided by the kernel.
fn normalize(path: &Path) -> PathBuf {
    let mut parts: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => {
                parts.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Path::new("/").join(parts.iter().collect::<PathBuf>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_home() {
        let paths = Paths::of_sandbox();
        let resolve = |path| paths.resolve(path, User::User).unwrap();
        assert_eq!(resolve(""), Path::new("/home/user"));
        assert_eq!(resolve("~"), Path::new("/home/user"));
        assert_eq!(resolve("~/a"), Path::new("/home/user/a"));
        assert_eq!(resolve("a/./b//c"), Path::new("/home/user/a/b/c"));
        assert_eq!(resolve("/x/../../../etc"), Path::new("/etc"));
        assert_eq!(paths.resolve("a", User::Root).unwrap(), Path::new("/root/a"));
        assert!(paths.resolve("~other/a", User::User).is_err());
        assert!(paths.resolve("a\0b", User::User).is_err());
    }

    #[test]
    fn without_isolation_the_home_has_its_usual_name() {
        let paths = Paths::of_host("/tmp/box".into());
        let resolve = |path| paths.resolve(path, User::User).unwrap();
        assert_eq!(resolve("/home/user"), Path::new("/tmp/box"));
        assert_eq!(resolve("/home/user/a"), Path::new("/tmp/box/a"));
        assert_eq!(resolve("a"), Path::new("/tmp/box/a"));
        assert_eq!(resolve("/etc/hosts"), Path::new("/etc/hosts"));
        assert_eq!(paths.display(Path::new("/tmp/box/a")), "/home/user/a");
        assert_eq!(paths.display(Path::new("/tmp/box")), "/home/user");
        assert_eq!(paths.display(Path::new("/etc")), "/etc");
    }
}
