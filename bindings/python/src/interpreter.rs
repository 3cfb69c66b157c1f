//! Code in a sandbox, and the kernels that run it.

use oncebox::{CodeContext, CodeEvent, CodeOutput, CodeResult, Error};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{self, Subject};
use crate::feed::Feed;
use crate::options::{self, Options};
use crate::pending::{Pending, begin};
use crate::sandbox::Sandbox;

/// Code that runs. Dropped, nobody follows it any more.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct CodeRun {
    feed: Feed<Event>,
}

enum Event {
    Came(CodeEvent),
    /// It has ended, with its number in its kernel.
    Ended(Option<u64>),
    Failed(Error),
}

#[pymethods]
impl Sandbox {
    /// Sends code. Options: `language`, `context` (an id), `envs`, `timeout`.
    fn run_code(&self, py: Python<'_>, code: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<CodeRun> {
        let options = Options::new(Some(options), py)?;
        let mut run = self.inner.run_code(options::text("code", code)?);
        if let Some(language) = options.text("language")? {
            run = run.language(language);
        }
        if let Some(id) = options.text("context")? {
            run = run.context(&CodeContext { id, language: String::new(), cwd: String::new() });
        }
        for (name, value) in options.pairs("envs")? {
            run = run.env(name, value);
        }
        if let Some(timeout) = options.seconds("timeout")? {
            run = run.timeout(timeout);
        }
        options.finish()?;
        let feed = Feed::begin(py, |tell| async move {
            let followed = async {
                let mut run = run.start().await?;
                while let Some(event) = run.next().await {
                    if tell.send(Event::Came(event?)).await.is_err() {
                        break;
                    }
                }
                Ok::<_, Error>(run.execution_count())
            };
            let end = followed.await.map_or_else(Event::Failed, Event::Ended);
            drop(tell.send(end).await);
        })?;
        Ok(CodeRun { feed })
    }

    /// Starts a kernel. Options: `language`, `cwd`.
    fn create_code_context(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let mut create = self.inner.create_code_context();
        if let Some(language) = options.text("language")? {
            create = create.language(language);
        }
        if let Some(cwd) = options.path("cwd")? {
            create = create.cwd(cwd);
        }
        options.finish()?;
        begin(py, Subject::Process, async move { create.await }, |py, made| Ok(context(py, made)?.into_any().unbind()))
    }

    fn code_contexts(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Process, async move { sandbox.list_code_contexts().await }, |py, all| {
            crate::convert::list(py, all, context)
        })
    }

    /// `False`: there is no such context (any more).
    fn remove_code_context(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (sandbox, id) = (self.inner.clone(), options::text("context", id)?);
        let removed = async move { sandbox.remove_code_context(&id).await };
        begin(py, Subject::Process, removed, crate::convert::flag)
    }

    fn restart_code_context(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (sandbox, id) = (self.inner.clone(), options::text("context", id)?);
        let restarted = async move { sandbox.restart_code_context(&id).await };
        begin(py, Subject::Process, restarted, |py, ()| Ok(py.None()))
    }
}

#[pymethods]
impl CodeRun {
    /// Stops following it. The code may go on.
    fn give_up(&self) {
        self.feed.give_up();
    }

    /// What came since the last time: `(kind, what)` each, at the end `("end", number)` or `("failed", exception)`. Empty when
    /// it has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        self.feed.next(py, |py, told| {
            let list = PyList::empty(py);
            for event in told {
                match event {
                    Event::Came(CodeEvent::Stdout(output)) => list.append(("stdout", written(output)))?,
                    Event::Came(CodeEvent::Stderr(output)) => list.append(("stderr", written(output)))?,
                    Event::Came(CodeEvent::Result(value)) => list.append(("result", result(py, *value)?))?,
                    Event::Came(CodeEvent::Error(error)) => {
                        list.append(("error", (error.name, error.value, error.traceback)))?;
                    }
                    // Of a kind that is newer than this package.
                    Event::Came(_) => {}
                    Event::Ended(number) => list.append(("end", number))?,
                    Event::Failed(error) => {
                        list.append(("failed", errors::raise(py, &error, Subject::Process).into_value(py)))?;
                    }
                }
            }
            Ok(list.into_any().unbind())
        })
    }
}

fn written(output: CodeOutput) -> (String, u64) {
    (output.text, output.timestamp)
}

/// All its forms; what is structured is JSON.
fn result(py: Python<'_>, value: CodeResult) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("is_main_result", value.is_main_result)?;
    let texts = [
        ("text", value.text),
        ("html", value.html),
        ("markdown", value.markdown),
        ("svg", value.svg),
        ("png", value.png),
        ("jpeg", value.jpeg),
        ("pdf", value.pdf),
        ("latex", value.latex),
        ("javascript", value.javascript),
    ];
    for (name, text) in texts {
        dict.set_item(name, text)?;
    }
    let structured = [
        ("json", value.json),
        ("data", value.data),
        ("chart", value.chart.map(|chart| chart.to_json())),
        ("extra", (!value.extra.is_empty()).then(|| value.extra.into_iter().collect())),
    ];
    for (name, value) in structured {
        dict.set_item(name, value.map(|value: serde_json::Value| value.to_string()))?;
    }
    Ok(dict)
}

fn context(py: Python<'_>, context: CodeContext) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", context.id)?;
    dict.set_item("language", context.language)?;
    dict.set_item("cwd", context.cwd)?;
    Ok(dict)
}
