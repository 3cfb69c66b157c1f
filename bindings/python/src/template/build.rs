//! Building a template, and asking how far a build is.

use futures_util::TryStreamExt;
use oncebox::{BuildEvent, BuildLogEntry, BuildStatusInfo, BuildTemplate, Error, TemplateBuild};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::sync::mpsc;

use super::Recipe;
use crate::client::Client;
use crate::errors::{self, Subject};
use crate::feed::Feed;
use crate::options::{self, Options};
use crate::pending::{Pending, begin};

/// A build under way. Dropped, nobody watches it any more; once started, it goes on.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Build {
    feed: Feed<Event>,
}

/// What a build tells.
enum Event {
    /// What became of files to copy.
    Files {
        from: String,
        sent: bool,
    },
    Started(TemplateBuild),
    Log(BuildLogEntry),
    Failed(Error),
}

#[pymethods]
impl Client {
    /// Begins to build. Options: `tags`, `cpu_count`, `memory_mb`, `min_free_disk_mb`, `skip_cache`, and `wait`: whether the
    /// build is watched to its end.
    fn build(
        &self,
        py: Python<'_>,
        recipe: &Recipe,
        name: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Build> {
        let options = Options::new(options, py)?;
        let mut build = self.inner.templates().build(&recipe.template(), name);
        for tag in options.words("tags")? {
            build = build.tag(tag);
        }
        type Set = fn(BuildTemplate, u32) -> BuildTemplate;
        let numbers: [(&str, Set); 3] = [
            ("cpu_count", BuildTemplate::cpu_count),
            ("memory_mb", BuildTemplate::memory_mb),
            ("min_free_disk_mb", BuildTemplate::min_free_disk_mb),
        ];
        for (name, set) in numbers {
            if let Some(number) = options.count(name)? {
                build = set(build, number);
            }
        }
        if options.flag("skip_cache")? == Some(true) {
            build = build.skip_cache();
        }
        let wait = options.flag("wait")?.unwrap_or(true);
        options.finish()?;
        let feed = Feed::begin(py, |tell| async move {
            if let Err(error) = watch(build, wait, &tell).await {
                drop(tell.send(Event::Failed(error)).await);
            }
        })?;
        Ok(Build { feed })
    }

    /// How far a build is, with its log from the `offset`-th entry on.
    fn build_status(
        &self,
        py: Python<'_>,
        template_id: String,
        build_id: String,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let offset = offset.map(|offset| options::count("logs_offset", offset)).transpose()?.unwrap_or_default();
        let build = self.inner.templates().known_build(&template_id, &build_id);
        begin(py, Subject::Build, async move { build.status(offset as usize).await }, status)
    }
}

#[pymethods]
impl Build {
    /// What it told since the last time, at the end perhaps what it `failed` of; empty when it has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        self.feed.next(py, |py, told| {
            let list = PyList::empty(py);
            for event in told {
                list.append(shown(py, event)?)?;
            }
            Ok(list.into_any().unbind())
        })
    }
}

/// Uploads, starts and watches it.
async fn watch(build: BuildTemplate, wait: bool, tell: &mpsc::Sender<Event>) -> Result<(), Error> {
    // Two for each thing to copy at most.
    let (note, mut notes) = mpsc::unbounded_channel();
    let build = build.on_event(move |event| {
        let event = match event {
            BuildEvent::AlreadyThere { from } => Event::Files { from, sent: false },
            BuildEvent::Uploading { from, sent, of } if sent == of => Event::Files { from, sent: true },
            _ => return,
        };
        drop(note.send(event));
    });
    let mut start = std::pin::pin!(build.start());
    let started = loop {
        tokio::select! {
            biased;
            Some(event) = notes.recv() => drop(tell.send(event).await),
            started = &mut start => break started?,
        }
    };
    while let Ok(event) = notes.try_recv() {
        drop(tell.send(event).await);
    }
    drop(tell.send(Event::Started(started.clone())).await);
    if wait {
        let mut log = std::pin::pin!(started.logs());
        while let Some(entry) = log.try_next().await? {
            drop(tell.send(Event::Log(entry)).await);
        }
    }
    Ok(())
}

fn shown(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    match event {
        Event::Files { from, sent } => {
            dict.set_item("from", from)?;
            dict.set_item("sent", sent)?;
        }
        Event::Started(build) => {
            dict.set_item("template_id", build.template_id())?;
            dict.set_item("build_id", build.build_id())?;
            dict.set_item("names", build.names())?;
            dict.set_item("tags", build.tags())?;
        }
        Event::Log(entry) => return self::entry(py, &entry),
        Event::Failed(error) => {
            dict.set_item("failed", errors::raise(py, &error, Subject::Build).into_value(py))?;
        }
    }
    Ok(dict)
}

fn status(py: Python<'_>, info: BuildStatusInfo) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    dict.set_item("template_id", info.template_id)?;
    dict.set_item("build_id", info.build_id)?;
    dict.set_item("status", info.status.as_str())?;
    dict.set_item("logs", info.logs.unwrap_or_default())?;
    dict.set_item("log_entries", entries(py, &info.log_entries)?)?;
    if let Some(why) = info.reason {
        let reason = PyDict::new(py);
        reason.set_item("message", why.message)?;
        reason.set_item("step", why.step)?;
        reason.set_item("log_entries", entries(py, &why.log_entries.unwrap_or_default())?)?;
        dict.set_item("reason", reason)?;
    }
    Ok(dict.into_any().unbind())
}

fn entries<'py>(py: Python<'py>, entries: &[BuildLogEntry]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for one in entries {
        list.append(entry(py, one)?)?;
    }
    Ok(list)
}

fn entry<'py>(py: Python<'py>, entry: &BuildLogEntry) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("timestamp", entry.timestamp.as_microsecond())?;
    dict.set_item("level", entry.level.as_str())?;
    dict.set_item("message", &entry.message)?;
    Ok(dict)
}
