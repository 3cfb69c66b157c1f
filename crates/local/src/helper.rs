//! The program that becomes the process inside each sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cgroups::Groups;
use crate::confined::Network;
use crate::error::StartError;
use crate::lifeline::Options;
use crate::limits::{Keeper, Limits};

/// The environment variable that names a helper.
const VARIABLE: &str = "ONCEBOX_HELPER";
/// The helper that is built with this crate.
const PROGRAM: &str = "oncebox-envd";

/// The program that becomes the process inside each sandbox, with the arguments that make it so.
///
/// Without one, the environment variable `ONCEBOX_HELPER` is looked at, and then a program `oncebox-envd` beside the
/// running one. A program that calls [`helper_main`](crate::helper_main) from a subcommand can be its own helper:
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use oncebox_local::Helper;
///
/// let helper = Helper::new(std::env::current_exe()?).arg("envd-helper");
/// # let _ = helper;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    program: PathBuf,
    args: Vec<OsString>,
    options: Options,
    groups: Arc<Groups>,
    network: Network,
}

impl Helper {
    /// A helper without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            options: Options::default(),
            groups: Arc::default(),
            network: Network::None,
        }
    }

    /// Adds an argument before those the server gives.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// What the server tells every sandbox.
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// What every sandbox may use, and how that is kept.
    pub(crate) fn with_limits(mut self, keeper: Keeper, network: Network) -> Self {
        self.options.limits = keeper.limits;
        self.options.kept = keeper.inside;
        self.groups = keeper.groups;
        self.network = network;
        self
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn network(&self) -> Network {
        self.network
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Looks for a helper where nobody named one.
    pub(crate) fn find() -> Result<Self, StartError> {
        if let Some(program) = std::env::var_os(VARIABLE).filter(|program| !program.is_empty()) {
            return Ok(Self::new(program));
        }
        let candidates = std::env::current_exe().map(|exe| beside(&exe)).unwrap_or_default();
        match candidates.iter().find(|candidate| candidate.is_file()) {
            Some(program) => Ok(Self::new(program)),
            None => {
                let looked_at: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
                let looked_at = format!("{VARIABLE} (not set) and {}", looked_at.join(", "));
                Err(StartError::HelperNotFound { looked_at })
            }
        }
    }
}

/// Where a helper may lie beside `exe`. Cargo puts tests and examples one folder below programs.
fn beside(exe: &Path) -> Vec<PathBuf> {
    let Some(folder) = exe.parent() else { return Vec::new() };
    let mut found = vec![folder.join(PROGRAM)];
    if folder.ends_with("deps") || folder.ends_with("examples") {
        found.extend(folder.parent().map(|folder| folder.join(PROGRAM)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_finds_the_helper_of_its_build() {
        assert_eq!(beside(Path::new("/usr/bin/oncebox")), [Path::new("/usr/bin/oncebox-envd")]);
        let found = beside(Path::new("/t/debug/deps/test-1"));
        assert_eq!(found, [Path::new("/t/debug/deps/oncebox-envd"), Path::new("/t/debug/oncebox-envd")]);
    }
}
