//! Secrets: values go in, and never come out.

use oncebox::{Secret, SecretInfo};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::convert;
use crate::errors::{self, Subject};
use crate::options::{self, Options};
use crate::pages::{Pages, Place, Turn};
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
        begin(py, Subject::Secret, async move { create.await }, one)
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
        begin(py, Subject::Secret, async move { update.await }, one)
    }

    fn secret_info(&self, py: Python<'_>, secret: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, secret) = (self.inner.clone(), options::text("secret", secret)?);
        begin(py, Subject::Secret, async move { Secret::info(&client, &secret).await }, one)
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
        let turner = Turner { client: self.inner.clone(), limit, token: token.unwrap_or_default(), has_next: true };
        Ok(SecretPages(Pages::new(turner, Subject::Secret)))
    }
}

/// Asks for one page after the other, each with the client of its asker.
struct Turner {
    client: oncebox::Client,
    limit: Option<u32>,
    /// The next page's; empty for the first.
    token: String,
    has_next: bool,
}

impl Turn for Turner {
    type Item = SecretInfo;

    async fn turn(&mut self) -> Result<Option<Vec<SecretInfo>>, oncebox::Error> {
        if !self.has_next {
            return Ok(None);
        }
        let mut list = Secret::list(&self.client);
        if let Some(limit) = self.limit {
            list = list.page_size(limit);
        }
        let mut pages = list.next_token(self.token.as_str()).pages();
        let page = pages.next().await?;
        self.has_next = pages.next_token().is_some();
        self.token = pages.next_token().unwrap_or_default().to_owned();
        Ok(page)
    }

    fn place(&self) -> Place {
        Place { has_next: self.has_next, next_token: Some(self.token.clone()).filter(|token| !token.is_empty()) }
    }

    fn ask_with(&mut self, client: &oncebox::Client) {
        self.client = client.clone();
    }
}

/// The pages of a list of secrets.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct SecretPages(Pages<Turner>);

#[pymethods]
impl SecretPages {
    /// Whether there is another page.
    #[getter]
    fn has_next(&self) -> bool {
        self.0.place().has_next
    }

    /// The next page's token; `None` before the first and after the last.
    #[getter]
    fn next_token(&self) -> Option<String> {
        self.0.place().next_token
    }

    /// The next page, asked for by this client. After the last one: no secrets.
    fn next(&self, py: Python<'_>, client: &Client) -> PyResult<Pending> {
        self.0.next(py, client, info)
    }
}

/// What stands for a secret's value, `secret`, or for an identity token, `identity_token`.
#[pyfunction]
pub(crate) fn placeholder(py: Python<'_>, kind: &str, name: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = options::text("secret", name)?;
    let text = if kind == "secret" { Secret::fill(&name) } else { Secret::identity_token(&name) };
    text.map_err(|error| errors::raise(py, &error, Subject::Secret))
}

fn one(py: Python<'_>, secret: SecretInfo) -> PyResult<Py<PyAny>> {
    Ok(info(py, secret)?.into_any().unbind())
}

fn info(py: Python<'_>, secret: SecretInfo) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("secret_id", secret.id)?;
    dict.set_item("name", secret.name)?;
    dict.set_item("version", secret.version)?;
    dict.set_item("metadata", secret.metadata)?;
    dict.set_item("created_at", secret.created_at.as_microsecond())?;
    dict.set_item("updated_at", secret.updated_at.as_microsecond())?;
    Ok(dict)
}
