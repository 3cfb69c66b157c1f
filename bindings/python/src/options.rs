//! Arguments from Python, checked before anything is sent. Each error names the option.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::DeserializeOwned;

use crate::errors::invalid;

/// Named arguments, of which each is taken once and none may be left.
pub(crate) struct Options<'py> {
    given: Bound<'py, PyDict>,
}

impl<'py> Options<'py> {
    /// A copy, so that the caller's own stays as it is.
    pub(crate) fn new(given: Option<&Bound<'py, PyDict>>, py: Python<'py>) -> PyResult<Self> {
        Ok(Self { given: given.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())? })
    }

    /// What was given under this name; `None` counts as not given.
    pub(crate) fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.given.get_item(name)?;
        if value.is_some() {
            self.given.del_item(name)?;
        }
        Ok(value.filter(|value| !value.is_none()))
    }

    pub(crate) fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.take(name)?.map(|value| text(name, &value)).transpose()
    }

    pub(crate) fn count(&self, name: &str) -> PyResult<Option<u32>> {
        self.take(name)?.map(|value| count(name, &value)).transpose()
    }

    pub(crate) fn seconds(&self, name: &str) -> PyResult<Option<Duration>> {
        self.take(name)?.map(|value| seconds(name, &value)).transpose()
    }

    pub(crate) fn flag(&self, name: &str) -> PyResult<Option<bool>> {
        self.take(name)?.map(|value| flag(name, &value)).transpose()
    }

    pub(crate) fn pairs(&self, name: &str) -> PyResult<Vec<(String, String)>> {
        self.take(name)?.map_or_else(|| Ok(Vec::new()), |value| pairs(name, &value))
    }

    /// Texts and paths, or one of them; not given: none.
    pub(crate) fn words(&self, name: &str) -> PyResult<Vec<String>> {
        self.take(name)?.map_or_else(|| Ok(Vec::new()), |value| words(name, &value))
    }

    /// A text, or a path.
    pub(crate) fn path(&self, name: &str) -> PyResult<Option<String>> {
        self.take(name)?.map(|value| path(name, &value)).transpose()
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.given.py()
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> PyResult<()> {
        match self.given.keys().iter().next() {
            None => Ok(()),
            Some(name) => Err(invalid(name.py(), format!("{name}: there is no such option"))),
        }
    }
}

/// A whole number that is not negative. `True` is no number here.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let wrong = || invalid(value.py(), format!("{name}: {} is no whole number from 0 on", shown(value)));
    if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
        return Err(wrong());
    }
    value.extract().map_err(|_| wrong())
}

/// A number of seconds that is not negative, fractions allowed.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let wrong = || invalid(value.py(), format!("{name}: {} is no number of seconds from 0 on", shown(value)));
    if value.is_instance_of::<PyBool>() || !(value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()) {
        return Err(wrong());
    }
    let number: f64 = value.extract().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number).map_err(|_| wrong())
}

pub(crate) fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = value.is_instance_of::<PyBool>();
    if is { value.extract() } else { Err(invalid(value.py(), format!("{name}: {} is no bool", shown(value)))) }
}

pub(crate) fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is = value.is_instance_of::<PyString>();
    // Its value is not shown: it may be a secret of another type.
    let wrong = || invalid(value.py(), format!("{name}: a str is wanted, not {}", type_name(value)));
    if is { value.extract().map_err(|_| wrong()) } else { Err(wrong()) }
}

/// A text, or what Python takes for a path.
pub(crate) fn path(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyString>() || !value.hasattr("__fspath__")? {
        return text(name, value);
    }
    text(name, &value.call_method0("__fspath__")?)
}

/// A list of texts and paths, or one of them.
pub(crate) fn words(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value.try_iter()?.map(|one| path(name, &one?)).collect();
    }
    Ok(vec![path(name, value)?])
}

/// Texts by name, in the order of the dict.
pub(crate) fn pairs(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let Ok(dict) = value.cast::<PyDict>() else {
        return Err(invalid(value.py(), format!("{name}: a dict of str to str is wanted, not {}", type_name(value))));
    };
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let key = text(&format!("{name}: a key"), &key)?;
        let value = text(&format!("{name}[{key:?}]"), &value)?;
        Ok((key, value))
    };
    dict.iter().map(pair).collect()
}

/// What the protocol has as JSON.
pub(crate) fn json<T: DeserializeOwned>(name: &str, text: &str, py: Python<'_>) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| invalid(py, format!("{name}: {error}")))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "this".into(), |name| name.to_string())
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| type_name(value), |repr| repr.to_string())
}
