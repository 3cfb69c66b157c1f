//! One function over many sandboxes: the function is Python's, all else the SDK's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncebox::{Error, FleetProgress, FleetReport};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::errors::{self, Subject};
use crate::options::{self, Options};
use crate::pending::{Pending, begin_with};
use crate::runtime;
use crate::sandbox::{Sandbox, order};

/// A fleet that runs. Dropped, it is given up, and leaves no sandboxes.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    work: Arc<tokio::sync::Mutex<mpsc::Receiver<Work>>>,
    task: AbortHandle,
    /// The process in which it was begun.
    generation: u64,
}

#[derive(Default)]
struct Shared {
    /// How far it is, if that changed since it was told.
    progress: Mutex<Option<FleetProgress>>,
    changed: Notify,
    /// Who waits for the function's end.
    running: Mutex<HashMap<u64, oneshot::Sender<bool>>>,
    next: AtomicU64,
    report: Mutex<Option<FleetReport<(), Failed>>>,
}

/// Why a number has no result.
enum Failed {
    /// Its sandbox could not be made.
    Create(Error),
    /// The function raised; Python has the exception.
    Work,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Create(error)
    }
}

/// A sandbox that waits for the function.
struct Work {
    number: usize,
    token: u64,
    sandbox: oncebox::Sandbox,
}

#[pymethods]
impl Client {
    /// Begins a fleet of `count` sandboxes, `concurrency` of them at a time, each made with these options.
    fn fleet(
        &self,
        py: Python<'_>,
        count: &Bound<'_, PyAny>,
        concurrency: &Bound<'_, PyAny>,
        create: &Bound<'_, PyDict>,
    ) -> PyResult<Fleet> {
        let (count, at_a_time) = (options::count("count", count)?, options::count("concurrency", concurrency)?);
        if at_a_time == 0 {
            return Err(errors::invalid(py, "concurrency: 0 is too few"));
        }
        let create = order(py, oncebox::Sandbox::create(&self.inner), Options::new(Some(create), py)?)?;
        let shared = Arc::new(Shared::default());
        let (give, work) = mpsc::channel(1);
        let fleet = self.inner.fleet().concurrency(at_a_time as usize).create(move |_| create.clone());
        let of_progress = Arc::clone(&shared);
        let fleet = fleet.progress(move |progress| {
            *of_progress.progress.lock() = Some(progress.clone());
            of_progress.changed.notify_one();
        });
        let of_task = Arc::clone(&shared);
        let task = runtime::handle(py)?.spawn(async move {
            let report = fleet.run(count as usize, |sandbox, number| one(&of_task, &give, sandbox, number)).await;
            *of_task.report.lock() = Some(report);
        });
        let work = Arc::new(tokio::sync::Mutex::new(work));
        Ok(Fleet { shared, work, task: task.abort_handle(), generation: runtime::generation(py) })
    }
}

/// Has the function called for one sandbox, and waits for its end.
fn one(
    shared: &Arc<Shared>,
    give: &mpsc::Sender<Work>,
    sandbox: oncebox::Sandbox,
    number: usize,
) -> impl Future<Output = Result<(), Failed>> + Send + use<> {
    let (shared, give) = (Arc::clone(shared), give.clone());
    async move {
        let token = shared.next.fetch_add(1, Ordering::Relaxed);
        let (tell, ended) = oneshot::channel();
        shared.running.lock().insert(token, tell);
        drop(give.send(Work { number, token, sandbox }).await);
        if ended.await.unwrap_or(false) { Ok(()) } else { Err(Failed::Work) }
    }
}

#[pymethods]
impl Fleet {
    /// What happened since the last time: `(progress, [(number, token, sandbox), …])`; `None` when the fleet has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (shared, work) = (Arc::clone(&self.shared), Arc::clone(&self.work));
        let next = async move {
            let mut work = work.lock().await;
            let mut given = Vec::new();
            loop {
                tokio::select! {
                    biased;
                    received = work.recv() => match received {
                        Some(one) => given.push(one),
                        None => {
                            let progress = shared.progress.lock().take();
                            return progress.map(|progress| (Some(progress), given));
                        }
                    },
                    () = shared.changed.notified() => {}
                }
                while let Ok(one) = work.try_recv() {
                    given.push(one);
                }
                let progress = shared.progress.lock().take();
                if progress.is_some() || !given.is_empty() {
                    return Some((progress, given));
                }
            }
        };
        begin_with(py, next, |py, told| {
            let Some((progress, given)) = told else { return Ok(py.None()) };
            let list = PyList::empty(py);
            for Work { number, token, sandbox } in given {
                list.append((number, token, Sandbox::object(py, sandbox)?))?;
            }
            let progress = progress.map(|progress| how_far(py, &progress)).transpose()?;
            Ok((progress, list).into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Says that the function has ended for this sandbox.
    fn done(&self, token: u64, succeeded: bool) {
        let waits = self.shared.running.lock().remove(&token);
        if let Some(waits) = waits {
            // A fleet that was given up does not care.
            let _ = waits.send(succeeded);
        }
    }

    /// What it came to, once it has ended; taken once.
    fn report(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(report) = self.shared.report.lock().take() else { return Ok(py.None()) };
        let dict = PyDict::new(py);
        dict.set_item("text", report.to_string())?;
        dict.set_item("created", report.created())?;
        dict.set_item("adopted", report.adopted())?;
        dict.set_item("lost", report.lost())?;
        dict.set_item("doubled", report.doubled())?;
        dict.set_item("unknown", report.unknown())?;
        dict.set_item("left", report.left())?;
        dict.set_item("limited", report.limited())?;
        dict.set_item("elapsed", report.elapsed().as_secs_f64())?;
        let failures = PyList::empty(py);
        for (number, result) in report.results() {
            if let Err(Failed::Create(error)) = result {
                failures.append((number, errors::raise(py, error, Subject::Sandbox).into_value(py)))?;
            }
        }
        dict.set_item("failures", failures)?;
        Ok(dict.into_any().unbind())
    }

    /// Gives it up. What was made is killed meanwhile.
    fn cancel(&self) {
        self.task.abort();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // In a child process the task is not there to be aborted.
        if Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(false) {
            self.cancel();
        }
    }
}

fn how_far<'py>(py: Python<'py>, progress: &FleetProgress) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("total", progress.total)?;
    dict.set_item("waiting", progress.waiting)?;
    dict.set_item("creating", progress.creating)?;
    dict.set_item("running", progress.running)?;
    dict.set_item("done", progress.done)?;
    dict.set_item("failed", progress.failed)?;
    dict.set_item("unknown", progress.unknown)?;
    dict.set_item("rate", progress.rate)?;
    dict.set_item("elapsed", progress.elapsed().as_secs_f64())?;
    dict.set_item("eta", progress.eta().map(|left| left.as_secs_f64()))?;
    Ok(dict)
}
