//! Templates: what sandboxes are made from.

mod base;
mod build;
mod context;
mod dockerfile;
mod line;
mod ready;
mod registry;
mod steps;
mod upload;

pub use build::{BuildEvent, BuildTemplate, TemplateBuild};
pub use line::{InstallFor, TemplateStep};
pub use ready::Ready;
pub use registry::{ListTemplates, Templates};
pub use steps::CopyFiles;

use std::fmt;
use std::path::PathBuf;

use oncebox_protocol::api::{self, ImageRegistry};

use crate::error::Error;
use crate::shell;

/// What a template begins with when nothing is said (protocol fact: the official SDKs' base image).
const DEFAULT_IMAGE: &str = "e2bdev/base";

/// The recipe of a template: what it begins with, and steps. Nothing is sent until it is
/// [built](Templates::build).
///
/// ```no_run
/// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
/// use oncebox::{Ready, Template};
///
/// let recipe = Template::from_base_image()
///     .apt_install(["jq"])
///     .copy("app/", "/srv/app")
///     .set_envs([("PORT", "8000")])
///     .start_command("python3 -m http.server --directory /srv/app 8000", Ready::port(8000));
/// let built = client.templates().build(&recipe, "my-server").await?;
/// println!("{} is ready", built.template_id());
/// # Ok(()) }
/// ```
///
/// A wrong argument of a step is remembered and refused when the template is built, before any I/O. The steps' wording is
/// that of the official SDKs (protocol fact), so that their caches and ours are one.
#[derive(Clone)]
#[must_use = "a recipe does nothing until it is built"]
pub struct Template {
    base: Base,
    steps: Vec<Step>,
    start: Option<String>,
    ready: Option<String>,
    context: PathBuf,
    ignored: Vec<String>,
    /// From here on every step is built anew.
    forced: bool,
    /// So is what it begins with.
    forced_base: bool,
    /// The first argument that made no sense.
    wrong: Option<Error>,
}

#[derive(Clone)]
enum Base {
    Image { name: String, login: Option<ImageRegistry> },
    Template(String),
}

#[derive(Clone)]
struct Step {
    kind: StepKind,
    forced: bool,
}

#[derive(Clone)]
enum StepKind {
    Copy(CopyFiles),
    /// A step that needs no files, by the protocol's word for it.
    Plain(&'static str, Vec<String>),
}

impl Template {
    fn new(base: Base) -> Self {
        Self {
            base,
            steps: Vec::new(),
            start: None,
            ready: None,
            context: PathBuf::from("."),
            ignored: Vec::new(),
            forced: false,
            forced_base: false,
            wrong: None,
        }
    }

    /// The directory that files are copied from. Default: the working directory of this process, when it is built. What its
    /// `.dockerignore` names is left out.
    pub fn context(mut self, directory: impl Into<PathBuf>) -> Self {
        self.context = directory.into();
        self
    }

    /// Leaves out more than `.dockerignore` does, in its notation.
    pub fn ignore<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.ignored.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Builds the steps from here on anew, whatever the server has kept of earlier builds.
    pub fn skip_cache(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Builds all of it anew, from what it begins with on.
    pub fn skip_all_cache(mut self) -> Self {
        self.forced_base = true;
        self.skip_cache()
    }

    /// What its sandboxes start with, and what tells that this is ready.
    pub fn start_command(mut self, command: impl Into<String>, ready: Ready) -> Self {
        self.start = Some(command.into());
        self.ready(ready)
    }

    /// What tells that a sandbox is ready.
    pub fn ready(mut self, ready: Ready) -> Self {
        self.ready = Some(ready.into_command());
        self
    }

    /// The recipe as the protocol has it, without what logs in at a registry, and without the hashes of files.
    pub fn to_json(&self) -> serde_json::Value {
        self.json(&[])
    }

    /// As [`to_json`](Self::to_json), with the hashes of the files that it copies. It reads them, and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a step that makes no sense, and for files that are not
    /// there or cannot be read.
    pub fn to_json_with_hashes(&self) -> Result<serde_json::Value, Error> {
        self.check()?;
        let hash = |copy| context::find(&self.context, &self.ignored, copy).map(|files| files.hash);
        let hashes: Vec<String> = self.copies().map(hash).collect::<Result<_, _>>()?;
        Ok(self.json(&hashes))
    }

    fn json(&self, hashes: &[String]) -> serde_json::Value {
        let mut start = self.start_build(false, hashes);
        start.from_image_registry = None;
        serde_json::to_value(start).unwrap_or_default()
    }

    /// Has its sandboxes start with the development container of a directory. The recipe must begin with the template
    /// `devcontainer`.
    pub fn start_dev_container(mut self, directory: &str) -> Self {
        self.need("devcontainer");
        let directory = shell::quote(directory);
        let start = format!(
            "sudo devcontainer up --workspace-folder {directory} && sudo /prepare-exec.sh {directory} | \
             sudo tee /devcontainer.sh > /dev/null && sudo chmod +x /devcontainer.sh && sudo touch /devcontainer.up"
        );
        self.start_command(start, Ready::file("/devcontainer.up"))
    }

    /// The recipe as a Dockerfile. A command of another user stands between two `USER`, of which the second names whom the
    /// steps ran as before: the sandboxes' `user` where no step says otherwise.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a recipe that begins with a template, which no
    /// Dockerfile can name, and for a step with what a Dockerfile cannot hold, such as a path with a `$`.
    pub fn to_dockerfile(&self) -> Result<String, Error> {
        dockerfile::write(self)
    }

    /// Refuses what no server could build: building does so by itself, before any I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for the first argument of a step that makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(()),
        }
    }

    /// Remembers the first wrong argument.
    fn refuse(&mut self, rule: impl Into<String>) {
        if self.wrong.is_none() {
            self.wrong = Some(Error::invalid(rule));
        }
    }

    /// Refuses a recipe that begins otherwise.
    fn need(&mut self, template: &str) {
        if !matches!(&self.base, Base::Template(name) if name == template) {
            self.refuse(format!("this step needs a recipe that begins with the template {template}: from_template"));
        }
    }

    fn copies(&self) -> impl Iterator<Item = &CopyFiles> {
        self.steps.iter().filter_map(|step| match &step.kind {
            StepKind::Copy(copy) => Some(copy),
            StepKind::Plain(..) => None,
        })
    }

    /// What starts the build. `hashes` are those of the copied files, in order.
    fn start_build(&self, forced: bool, hashes: &[String]) -> api::StartBuild {
        let mut hashes = hashes.iter();
        let steps = self.steps.iter().map(|step| {
            let (kind, args, files_hash) = match &step.kind {
                StepKind::Copy(copy) => ("COPY", copy.args(), hashes.next().cloned()),
                StepKind::Plain(kind, args) => (*kind, args.clone(), None),
            };
            let force = Some(step.forced);
            api::BuildStep { r#type: kind.to_owned(), args: Some(args), files_hash, force }
        });
        let (from_image, from_image_registry, from_template) = match &self.base {
            Base::Image { name, login } => (Some(name.clone()), login.clone(), None),
            Base::Template(name) => (None, None, Some(name.clone())),
        };
        api::StartBuild {
            from_image,
            from_template,
            from_image_registry,
            force: Some(forced || self.forced_base),
            steps: Some(steps.collect()),
            start_cmd: self.start.clone(),
            ready_cmd: self.ready.clone(),
        }
    }
}

impl fmt::Debug for Template {
    // Commands and variables may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}
