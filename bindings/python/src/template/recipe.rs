//! A recipe: what a template begins with, and its steps.

use std::path::PathBuf;
use std::time::Duration;

use oncebox::{CopyFiles, Error, InstallFor, Ready, Template, TemplateStep};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Subject};
use crate::options::{self, Options};

/// A recipe that steps are added to. A step that makes no sense is refused when it is added, and the recipe stays as it was.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Recipe {
    context: PathBuf,
    ignored: Vec<String>,
    template: Mutex<Template>,
    /// Nothing of earlier builds is to be used, from the base on.
    anew: Mutex<bool>,
}

#[pymethods]
impl Recipe {
    /// `context`: the directory that files are copied from; `ignored`: what of it is left out.
    #[new]
    fn new(context: PathBuf, ignored: &Bound<'_, PyAny>) -> PyResult<Self> {
        let ignored = options::words("file_ignore_patterns", ignored)?;
        let template = Mutex::new(Template::from_base_image().context(&context).ignore(ignored.clone()));
        Ok(Self { context, ignored, template, anew: Mutex::new(false) })
    }

    /// The directory that files are copied from.
    #[getter]
    fn context(&self) -> PathBuf {
        self.context.clone()
    }

    /// Says what it begins with. Steps there were are gone.
    fn begin(&self, py: Python<'_>, kind: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let options = Options::new(options, py)?;
        let template = base(py, kind, &options)?;
        options.finish()?;
        let mut template = template.context(&self.context).ignore(self.ignored.clone());
        if *self.anew.lock() {
            template = template.skip_all_cache();
        }
        self.replace(py, template)
    }

    /// Adds a step.
    fn step(&self, py: Python<'_>, kind: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let options = Options::new(options, py)?;
        let template = step(self.template(), kind, &options)?;
        options.finish()?;
        self.replace(py, template)
    }

    /// Builds anew: all of it where `base`, else the steps from here on.
    fn skip_cache(&self, base: bool) {
        let mut template = self.template.lock();
        if base {
            *self.anew.lock() = true;
            *template = template.clone().skip_all_cache();
        } else {
            *template = template.clone().skip_cache();
        }
    }

    /// What its sandboxes start with, and the command that tells that this is ready.
    fn start(&self, py: Python<'_>, start: Option<String>, ready: String) -> PyResult<()> {
        let (template, ready) = (self.template(), Ready::command(ready));
        self.replace(
            py,
            match start {
                Some(start) => template.start_command(start, ready),
                None => template.ready(ready),
            },
        )
    }

    fn start_dev_container(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        self.replace(py, self.template().start_dev_container(&directory.to_string_lossy()))
    }

    /// As the protocol has it, with the hashes of what it copies.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let template = self.template();
        let json = py.detach(|| template.to_json_with_hashes()).map_err(|error| wrong(py, &error))?;
        serde_json::to_string(&json).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn to_dockerfile(&self, py: Python<'_>) -> PyResult<String> {
        self.template().to_dockerfile().map_err(|error| wrong(py, &error))
    }
}

impl Recipe {
    pub(super) fn template(&self) -> Template {
        self.template.lock().clone()
    }

    fn replace(&self, py: Python<'_>, template: Template) -> PyResult<()> {
        template.check().map_err(|error| wrong(py, &error))?;
        *self.template.lock() = template;
        Ok(())
    }
}

/// The command that tells that a sandbox is ready.
#[pyfunction]
pub(crate) fn ready_command(kind: &str, what: &Bound<'_, PyAny>, status: u16) -> PyResult<String> {
    let text = || options::text(kind, what);
    let ready = match kind {
        "port" => Ready::port(what.extract().map_err(|_| errors::invalid(what.py(), "port: it is from 0 to 65535"))?),
        "url" => Ready::url(&text()?, status),
        "process" => Ready::process(&text()?),
        "file" => Ready::file(&text()?),
        // Milliseconds, as in the official SDK.
        "timeout" => Ready::after(Duration::from_millis(options::count("timeout", what)?.into())),
        _ => return Err(PyValueError::new_err("no such kind")),
    };
    Ok(ready.as_command().to_owned())
}

fn base(py: Python<'_>, kind: &str, options: &Options<'_>) -> PyResult<Template> {
    let text = |name: &str| needed(py, name, options.text(name)?);
    Ok(match kind {
        "base" => Template::from_base_image(),
        "debian" => Template::from_debian_image(&text("variant")?),
        "ubuntu" => Template::from_ubuntu_image(&text("variant")?),
        "fedora" => Template::from_fedora_image(&text("variant")?),
        "alpine" => Template::from_alpine_image(&text("variant")?),
        "arch" => Template::from_arch_image(&text("variant")?),
        "python" => Template::from_python_image(&text("version")?),
        "node" => Template::from_node_image(&text("variant")?),
        "bun" => Template::from_bun_image(&text("variant")?),
        "template" => Template::from_template(text("template")?),
        "dockerfile" => Template::from_dockerfile(&text("dockerfile")?)
            .map_err(|error| errors::raise(py, &error, Subject::Dockerfile))?,
        "image" => match (text("image")?, options.text("username")?, options.text("password")?) {
            (image, None, None) => Template::from_image(image),
            (image, Some(username), Some(password)) => Template::from_image_with_login(image, username, password),
            _ => return Err(errors::invalid(py, "username, password: a registry wants both, or none of them")),
        },
        "aws" => Template::from_aws_registry(
            text("image")?,
            text("access_key_id")?,
            text("secret_access_key")?,
            text("region")?,
        ),
        "gcp" => Template::from_gcp_registry(text("image")?, text("service_account_json")?),
        _ => return Err(PyValueError::new_err("no such base")),
    })
}

fn step(template: Template, kind: &str, options: &Options<'_>) -> PyResult<Template> {
    let py = options.py();
    let path = |name: &str| needed(py, name, options.path(name)?);
    let is = |name: &str| Ok::<_, PyErr>(options.flag(name)?.unwrap_or(false));
    let step = match kind {
        "copy" => return copy(template, options),
        "workdir" => return Ok(template.workdir(path("workdir")?)),
        "user" => return Ok(template.user(needed(py, "user", options.text("user")?)?)),
        "envs" => return Ok(template.set_envs(options.pairs("envs")?)),
        "run" => TemplateStep::run(options.words("command")?),
        "remove" => TemplateStep::remove(options.words("path")?, is("force")?, is("recursive")?),
        "rename" => TemplateStep::rename(&path("src")?, &path("dest")?, is("force")?),
        "make_dir" => TemplateStep::make_dir(options.words("path")?, options.count("mode")?),
        "make_symlink" => TemplateStep::make_symlink(&path("src")?, &path("dest")?, is("force")?),
        "pip" => TemplateStep::pip_install(options.words("packages")?, is("g")?),
        "npm" => TemplateStep::npm_install(options.words("packages")?, whom(is("g")?, is("dev")?)),
        "bun" => TemplateStep::bun_install(options.words("packages")?, whom(is("g")?, is("dev")?)),
        "apt" => {
            TemplateStep::apt_install(options.words("packages")?, !is("no_install_recommends")?, is("fix_missing")?)
        }
        "git_clone" => TemplateStep::git_clone(
            &needed(py, "url", options.text("url")?)?,
            options.path("path")?.as_deref(),
            options.text("branch")?.as_deref(),
            options.count("depth")?,
        ),
        "mcp" => TemplateStep::add_mcp_server(options.words("servers")?),
        "dev_container" => TemplateStep::dev_container_prebuild(&path("directory")?),
        _ => return Err(PyValueError::new_err("no such step")),
    };
    Ok(template.step(match options.text("user")? {
        Some(user) => step.user(user),
        None => step,
    }))
}

fn copy(mut template: Template, options: &Options<'_>) -> PyResult<Template> {
    let py = options.py();
    let (from, to) = (options.words("src")?, needed(py, "dest", options.path("dest")?)?);
    let (user, mode) = (options.text("user")?, options.count("mode")?);
    let (forced, links, gzip) =
        (options.flag("force_upload")?, options.flag("resolve_symlinks")?, options.flag("gzip")?);
    if from.is_empty() {
        return Err(errors::invalid(py, "src: nothing is named"));
    }
    for from in from {
        let mut files = CopyFiles::new(from, to.as_str());
        if let Some(user) = &user {
            files = files.user(user);
        }
        if let Some(mode) = mode {
            files = files.mode(mode);
        }
        if forced == Some(true) {
            files = files.force_upload();
        }
        if let Some(links) = links {
            files = files.resolve_symlinks(links);
        }
        if let Some(gzip) = gzip {
            files = files.gzip(gzip);
        }
        template = template.copy_files(files);
    }
    Ok(template)
}

/// As the official SDK has it: for everybody goes before for developers.
fn whom(everybody: bool, developers: bool) -> InstallFor {
    match (everybody, developers) {
        (true, _) => InstallFor::Everybody,
        (false, true) => InstallFor::Developers,
        (false, false) => InstallFor::Project,
    }
}

fn needed<T>(py: Python<'_>, name: &str, value: Option<T>) -> PyResult<T> {
    value.ok_or_else(|| errors::invalid(py, format!("{name}: it is needed")))
}

fn wrong(py: Python<'_>, error: &Error) -> PyErr {
    errors::raise(py, error, Subject::Template)
}
