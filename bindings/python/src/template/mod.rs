//! Templates: recipes, builds, names and tags.

mod build;
mod recipe;

pub(crate) use build::Build;
pub(crate) use recipe::{Recipe, ready_command};

use oncebox::{AssignedTags, TemplateTag};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::client::Client;
use crate::convert;
use crate::errors::Subject;
use crate::options;
use crate::pending::{Pending, begin};

#[pymethods]
impl Client {
    /// Whether there is a template of this name.
    fn template_exists(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, name) = (self.inner.clone(), options::text("name", name)?);
        begin(py, Subject::Template, async move { client.templates().exists(&name).await }, convert::flag)
    }

    fn assign_tags(&self, py: Python<'_>, target: String, tags: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, tags) = (self.inner.clone(), options::words("tags", tags)?);
        let assigned = async move { client.templates().assign_tags(&target, tags).await };
        begin(py, Subject::Template, assigned, |py, AssignedTags { tags, build_id, .. }| {
            let dict = PyDict::new(py);
            dict.set_item("build_id", build_id)?;
            dict.set_item("tags", tags)?;
            Ok(dict.into_any().unbind())
        })
    }

    fn remove_tags(&self, py: Python<'_>, name: String, tags: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, tags) = (self.inner.clone(), options::words("tags", tags)?);
        let removed = async move { client.templates().remove_tags(&name, tags).await };
        begin(py, Subject::Template, removed, |py, ()| Ok(py.None()))
    }

    fn template_tags(&self, py: Python<'_>, template: String) -> PyResult<Pending> {
        let client = self.inner.clone();
        let listed = async move { client.templates().tags(&template).await };
        begin(py, Subject::Template, listed, |py, tags: Vec<TemplateTag>| {
            let list = PyList::empty(py);
            for tag in tags {
                let dict = PyDict::new(py);
                dict.set_item("tag", tag.tag)?;
                dict.set_item("build_id", tag.build_id)?;
                dict.set_item("created_at", tag.created_at.as_microsecond())?;
                list.append(dict)?;
            }
            Ok(list.into_any().unbind())
        })
    }
}
