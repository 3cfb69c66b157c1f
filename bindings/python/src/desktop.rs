//! The desktop of a sandbox.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{DesktopStream, DesktopUrl, Error, MouseButton, ScrollDirection};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::runtime::Handle;

use crate::convert;
use crate::errors::{Subject, invalid};
use crate::options::{self, Options};
use crate::pending::{Pending, begin};
use crate::runtime;
use crate::sandbox::Sandbox;

/// A display of a sandbox.
#[pyclass(frozen, module = "oncebox._core")]
#[derive(Clone)]
pub(crate) struct Desktop {
    sandbox: oncebox::Sandbox,
    display: Option<String>,
}

/// A desktop that is streamed.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct DesktopView {
    inner: Arc<DesktopStream>,
}

/// Refuses what is no display, before there is anything to put one on.
#[pyfunction]
pub(crate) fn check_display(
    py: Python<'_>,
    display: &Bound<'_, PyAny>,
    width: &Bound<'_, PyAny>,
    height: &Bound<'_, PyAny>,
    dpi: &Bound<'_, PyAny>,
) -> PyResult<()> {
    options::text("display", display)?;
    for (name, value) in [("resolution", width), ("resolution", height), ("dpi", dpi)] {
        if options::count(name, value)? == 0 {
            return Err(invalid(py, format!("{name}: 0 is too little")));
        }
    }
    Ok(())
}

#[pymethods]
impl Sandbox {
    /// A display; `None` is the default one.
    fn desktop(&self, display: Option<&Bound<'_, PyAny>>) -> PyResult<Desktop> {
        let display = display.map(|display| options::text("display", display)).transpose()?;
        Ok(Desktop { sandbox: self.inner.clone(), display })
    }
}

impl Desktop {
    fn of(&self) -> oncebox::Desktop<'_> {
        match &self.display {
            Some(display) => self.sandbox.desktop().display(display),
            None => self.sandbox.desktop(),
        }
    }

    /// Begins what has no result.
    fn begin<F>(&self, py: Python<'_>, work: impl FnOnce(Self) -> F) -> PyResult<Pending>
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        begin(py, Subject::Process, work(self.clone()), |py, ()| Ok(py.None()))
    }
}

/// A sandbox that is killed unless its desktop starts and somebody is told so: whoever waited may have gone between the two.
struct Unfinished {
    sandbox: Option<oncebox::Sandbox>,
    handle: Handle,
}

impl Unfinished {
    async fn kill(mut self) {
        if let Some(sandbox) = &self.sandbox {
            // What went wrong is told; that it could not be killed either adds nothing.
            drop(sandbox.kill().await);
        }
        // Not before: who goes away meanwhile has it killed all the same.
        self.sandbox = None;
    }

    fn keep(mut self) {
        self.sandbox = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.handle.spawn(async move { sandbox.kill().await });
        }
    }
}

#[pymethods]
impl Desktop {
    /// Starts it, and kills the sandbox where that does not succeed.
    fn start(
        &self,
        py: Python<'_>,
        width: &Bound<'_, PyAny>,
        height: &Bound<'_, PyAny>,
        dpi: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let (width, height) = (options::count("resolution", width)?, options::count("resolution", height)?);
        let (desktop, dpi) = (self.clone(), options::count("dpi", dpi)?);
        let unfinished = Unfinished { sandbox: Some(self.sandbox.clone()), handle: runtime::handle(py)? };
        let started = async move {
            match desktop.of().start(width, height, dpi).await {
                Ok(has_session) => Ok((has_session, unfinished)),
                Err(error) => {
                    unfinished.kill().await;
                    Err(error)
                }
            }
        };
        begin(py, Subject::Process, started, |py, (has_session, unfinished)| {
            unfinished.keep();
            convert::flag(py, has_session)
        })
    }

    fn screenshot(&self, py: Python<'_>) -> PyResult<Pending> {
        let desktop = self.clone();
        begin(py, Subject::Process, async move { desktop.of().screenshot().await }, |py, picture| {
            Ok(PyBytes::new(py, &picture).into_any().unbind())
        })
    }

    fn move_mouse(&self, py: Python<'_>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (x, y) = (options::count("x", x)?, options::count("y", y)?);
        self.begin(py, move |desktop| async move { desktop.of().move_mouse(x, y).await })
    }

    fn click(
        &self,
        py: Python<'_>,
        button: &Bound<'_, PyAny>,
        x: Option<&Bound<'_, PyAny>>,
        y: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let (button, at) = (self::button(button)?, place(py, x, y)?);
        self.begin(py, move |desktop| async move { desktop.of().click(button, at).await })
    }

    fn double_click(
        &self,
        py: Python<'_>,
        x: Option<&Bound<'_, PyAny>>,
        y: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let at = place(py, x, y)?;
        self.begin(py, move |desktop| async move { desktop.of().double_click(at).await })
    }

    fn mouse_press(&self, py: Python<'_>, button: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let button = self::button(button)?;
        self.begin(py, move |desktop| async move { desktop.of().mouse_press(button).await })
    }

    fn mouse_release(&self, py: Python<'_>, button: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let button = self::button(button)?;
        self.begin(py, move |desktop| async move { desktop.of().mouse_release(button).await })
    }

    fn drag(&self, py: Python<'_>, fr: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (from, to) = (point("fr", fr)?, point("to", to)?);
        self.begin(py, move |desktop| async move { desktop.of().drag(from, to).await })
    }

    fn scroll(&self, py: Python<'_>, direction: &Bound<'_, PyAny>, amount: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let amount = options::count("amount", amount)?;
        let direction = match options::text("direction", direction)?.as_str() {
            "up" => ScrollDirection::Up,
            "down" => ScrollDirection::Down,
            other => return Err(invalid(py, format!("direction: {other:?} is neither up nor down"))),
        };
        self.begin(py, move |desktop| async move { desktop.of().scroll(direction, amount).await })
    }

    fn write(&self, py: Python<'_>, text: &Bound<'_, PyAny>, delay_in_ms: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let text = options::text("text", text)?;
        let delay = Duration::from_millis(options::count("delay_in_ms", delay_in_ms)?.into());
        self.begin(py, move |desktop| async move { desktop.of().write_with_delay(&text, delay).await })
    }

    fn press(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let keys = options::words("key", key)?;
        self.begin(py, move |desktop| async move {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            desktop.of().press(&keys).await
        })
    }

    fn cursor_position(&self, py: Python<'_>) -> PyResult<Pending> {
        let desktop = self.clone();
        begin(py, Subject::Process, async move { desktop.of().cursor_position().await }, two)
    }

    fn screen_size(&self, py: Python<'_>) -> PyResult<Pending> {
        let desktop = self.clone();
        begin(py, Subject::Process, async move { desktop.of().screen_size().await }, two)
    }

    fn current_window_id(&self, py: Python<'_>) -> PyResult<Pending> {
        let desktop = self.clone();
        begin(py, Subject::Process, async move { desktop.of().current_window_id().await }, text)
    }

    fn application_windows(&self, py: Python<'_>, application: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (desktop, application) = (self.clone(), options::text("application", application)?);
        let found = async move { desktop.of().application_windows(&application).await };
        begin(py, Subject::Process, found, |py, ids| Ok(ids.into_pyobject(py)?.into_any().unbind()))
    }

    fn window_title(&self, py: Python<'_>, window_id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (desktop, id) = (self.clone(), options::text("window_id", window_id)?);
        begin(py, Subject::Process, async move { desktop.of().window_title(&id).await }, text)
    }

    fn open(&self, py: Python<'_>, file_or_url: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let what = options::text("file_or_url", file_or_url)?;
        self.begin(py, move |desktop| async move { desktop.of().open(&what).await })
    }

    fn launch(
        &self,
        py: Python<'_>,
        application: &Bound<'_, PyAny>,
        uri: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let application = options::text("application", application)?;
        let uri = uri.map(|uri| options::text("uri", uri)).transpose()?;
        self.begin(py, move |desktop| async move { desktop.of().launch(&application, uri.as_deref()).await })
    }

    /// Options: `vnc_port`, `port`, `require_auth`, `window_id`.
    fn stream(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let (vnc_port, page_port) = (port(&options, "vnc_port")?, port(&options, "port")?);
        let (auth, window) = (options.flag("require_auth")?.unwrap_or(false), options.text("window_id")?);
        options.finish()?;
        let desktop = self.clone();
        let started = async move {
            let mut start = desktop.of().stream().require_auth(auth);
            if let Some(port) = vnc_port {
                start = start.vnc_port(port);
            }
            if let Some(port) = page_port {
                start = start.port(port);
            }
            if let Some(window) = window {
                start = start.window_id(window);
            }
            start.await
        };
        begin(py, Subject::Process, started, |py, stream| {
            Ok(Py::new(py, DesktopView { inner: Arc::new(stream) })?.into_any())
        })
    }

    /// Where a stream is seen. Options: `port`, `auto_connect`, `view_only`, `resize`, `auth_key`.
    fn stream_url(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<String> {
        let options = Options::new(Some(options), py)?;
        let url = self.of().stream_url(port(&options, "port")?);
        built(url, options)
    }
}

#[pymethods]
impl DesktopView {
    /// What its page asks for; `None`: nothing.
    #[getter]
    fn auth_key(&self) -> Option<&str> {
        self.inner.auth_key().map(|key| key.expose())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Pending> {
        let stream = Arc::clone(&self.inner);
        begin(py, Subject::Process, async move { stream.stop().await }, |py, ()| Ok(py.None()))
    }
}

fn built(mut url: DesktopUrl, options: Options<'_>) -> PyResult<String> {
    if let Some(auto) = options.flag("auto_connect")? {
        url = url.auto_connect(auto);
    }
    if let Some(view_only) = options.flag("view_only")? {
        url = url.view_only(view_only);
    }
    if let Some(resize) = options.text("resize")? {
        url = url.resize(resize);
    }
    if let Some(key) = options.text("auth_key")? {
        url = url.auth_key(key);
    }
    options.finish()?;
    Ok(url.build())
}

fn port(options: &Options<'_>, name: &str) -> PyResult<Option<u16>> {
    let wrong = || invalid(options.py(), format!("{name}: there is no such port; give one from 1 to 65535"));
    let number = options.count(name)?;
    number.map(|number| u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(wrong)).transpose()
}

fn button(value: &Bound<'_, PyAny>) -> PyResult<MouseButton> {
    match options::text("button", value)?.as_str() {
        "left" => Ok(MouseButton::Left),
        "middle" => Ok(MouseButton::Middle),
        "right" => Ok(MouseButton::Right),
        other => Err(invalid(value.py(), format!("button: {other:?} is none of left, middle, right"))),
    }
}

/// Where to click; nothing: where the mouse is.
fn place(py: Python<'_>, x: Option<&Bound<'_, PyAny>>, y: Option<&Bound<'_, PyAny>>) -> PyResult<Option<(u32, u32)>> {
    match (x, y) {
        (Some(x), Some(y)) => Ok(Some((options::count("x", x)?, options::count("y", y)?))),
        (None, None) => Ok(None),
        _ => Err(invalid(py, "x, y: one without the other is no place; give both, or none")),
    }
}

fn point(name: &str, value: &Bound<'_, PyAny>) -> PyResult<(u32, u32)> {
    let two: (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        value.extract().map_err(|_| invalid(value.py(), format!("{name}: a tuple of x and y is wanted")))?;
    Ok((options::count(name, &two.0)?, options::count(name, &two.1)?))
}

fn two(py: Python<'_>, two: (u32, u32)) -> PyResult<Py<PyAny>> {
    Ok(two.into_pyobject(py)?.into_any().unbind())
}

fn text(py: Python<'_>, text: String) -> PyResult<Py<PyAny>> {
    Ok(text.into_pyobject(py)?.into_any().unbind())
}
