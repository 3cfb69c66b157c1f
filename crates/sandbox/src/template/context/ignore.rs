//! Patterns, and what they leave out.

use std::path::Path;
use std::{fs, io};

use globset::{GlobBuilder, GlobMatcher};

use super::unreadable_at;
use crate::error::Error;

/// What says which files are left out.
const IGNORE_FILE: &str = ".dockerignore";

/// What is left out, by Docker's rules: patterns are of the context's root, what lies below a match is left out with it, and
/// of several the last one decides.
pub(super) struct Ignore(Vec<Rule>);

struct Rule {
    matcher: GlobMatcher,
    keeps: bool,
}

impl Ignore {
    pub(super) fn read(context: &Path, more: &[String]) -> Result<Self, Error> {
        let path = context.join(IGNORE_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable_at(&path, &error)),
        };
        let patterns = text.lines().chain(more.iter().map(String::as_str)).map(str::trim);
        let patterns = patterns.filter(|pattern| !pattern.is_empty() && !pattern.starts_with('#'));
        let rule = |pattern: &str| {
            let (keeps, pattern) = match pattern.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, pattern),
            };
            Ok(Rule { matcher: matcher(&plain(pattern))?, keeps })
        };
        Ok(Self(patterns.map(rule).collect::<Result<_, Error>>()?))
    }

    pub(super) fn excludes(&self, name: &str) -> bool {
        let last = self.0.iter().rev().find(|rule| itself_and_parents(name).any(|path| rule.matcher.is_match(path)));
        last.is_some_and(|rule| !rule.keeps)
    }

    /// Whether nothing below can be wanted.
    pub(super) fn prunes(&self, name: &str) -> bool {
        !self.0.iter().any(|rule| rule.keeps) && !name.is_empty() && self.excludes(name)
    }
}

pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, Error> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| Error::invalid(format!("{pattern:?} is no pattern: {error}")))
}

/// A path of the context without what has no meaning there; empty: all of it.
pub(super) fn plain(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}

pub(super) fn itself_and_parents(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.rsplit_once('/').map(|(parent, _)| parent))
}
