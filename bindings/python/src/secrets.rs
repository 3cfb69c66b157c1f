//! Secrets: values go in, and never come out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncebox::{Secret, SecretInfo};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::convert;
use crate::errors::{self, Subject};
use crate::options::{self, Options};
use crate::pending::{Pending, begin};

#[pymethods]
impl Client {
    /// Options: `metadata`.
    fn create_secret(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut create = Secret::create(&self.inner, options::text("name", name)?, options::text("value", value)?);
        for (name, value) in options.pairs("metadata")? {
            create = create.metadata(name, value);
        }
        options.finish()?;
        begin(py, Subject::Secret, async move { create.await }, info)
    }

    /// Options: `metadata`.
    fn update_secret(
        &self,
        py: Python<'_>,
        secret: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut update = Secret::update(&self.inner, options::text("secret", secret)?, options::text("value", value)?);
        for (name, value) in options.pairs("metadata")? {
            update = update.metadata(name, value);
        }
        options.finish()?;
        begin(py, Subject::Secret, async move { update.await }, info)
    }

    fn secret_info(&self, py: Python<'_>, secret: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, secret) = (self.inner.clone(), options::text("secret", secret)?);
        begin(py, Subject::Secret, async move { Secret::info(&client, &secret).await }, info)
    }

    fn secret_exists(&self, py: Python<'_>, secret: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, secret) = (self.inner.clone(), options::text("secret", secret)?);
        begin(py, Subject::Secret, async move { Secret::exists(&client, &secret).await }, convert::flag)
    }

    fn destroy_secret(&self, py: Python<'_>, secret: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, secret) = (self.inner.clone(), options::text("secret", secret)?);
        begin(py, Subject::Secret, async move { Secret::destroy(&client, &secret).await }, convert::flag)
    }

    /// The pages of all secrets. `limit`: so many a page; `token`: the page to begin at.
    fn secrets(&self, limit: Option<&Bound<'_, PyAny>>, token: Option<String>) -> PyResult<SecretPages> {
        let limit = limit.map(|limit| options::count("limit", limit)).transpose()?;
        let (next, has_next) = (Arc::new(Mutex::new(token.unwrap_or_default())), Arc::new(AtomicBool::new(true)));
        Ok(SecretPages { limit, next, has_next })
    }
}

/// The pages of a list of secrets.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct SecretPages {
    limit: Option<u32>,
    /// The next page's token, empty for the first. Whoever asks for a page holds it.
    next: Arc<tokio::sync::Mutex<String>>,
    has_next: Arc<AtomicBool>,
}

#[pymethods]
impl SecretPages {
    /// Whether there is another page.
    #[getter]
    fn has_next(&self) -> bool {
        self.has_next.load(Ordering::Acquire)
    }

    /// The next page's token; `None` before the first and after the last, and while a page is asked for.
    #[getter]
    fn next_token(&self) -> Option<String> {
        let token = self.next.try_lock().ok()?.clone();
        (self.has_next() && !token.is_empty()).then_some(token)
    }

    /// The next page, asked for by this client. After the last one: no secrets.
    fn next(&self, py: Python<'_>, client: &Client) -> PyResult<Pending> {
        let mut list = Secret::list(&client.inner);
        if let Some(limit) = self.limit {
            list = list.page_size(limit);
        }
        let (next, has_next) = (Arc::clone(&self.next), Arc::clone(&self.has_next));
        let page = async move {
            let mut token = next.lock().await;
            if !has_next.load(Ordering::Acquire) {
                return Ok(Vec::new());
            }
            let mut pages = list.next_token(token.as_str()).pages();
            let page = pages.next().await?;
            match pages.next_token() {
                Some(following) => *token = following.to_owned(),
                None => has_next.store(false, Ordering::Release),
            }
            Ok::<_, oncebox::Error>(page.unwrap_or_default())
        };
        begin(py, Subject::Secret, page, |py, page| {
            let list = PyList::empty(py);
            for secret in page {
                list.append(info(py, secret)?)?;
            }
            Ok(list.into_any().unbind())
        })
    }
}

/// What stands for a secret's value, `secret`, or for an identity token, `identity_token`.
#[pyfunction]
pub(crate) fn placeholder(py: Python<'_>, kind: &str, name: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = options::text("secret", name)?;
    let text = if kind == "secret" { Secret::fill(&name) } else { Secret::identity_token(&name) };
    text.map_err(|error| errors::raise(py, &error, Subject::Secret))
}

fn info(py: Python<'_>, secret: SecretInfo) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    dict.set_item("secret_id", secret.id)?;
    dict.set_item("name", secret.name)?;
    dict.set_item("version", secret.version)?;
    dict.set_item("metadata", secret.metadata)?;
    dict.set_item("created_at", secret.created_at.as_microsecond())?;
    dict.set_item("updated_at", secret.updated_at.as_microsecond())?;
    Ok(dict.into_any().unbind())
}
