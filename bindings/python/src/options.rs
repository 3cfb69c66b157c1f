//! Arguments from Python, checked before anything is sent. Each error names the option.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use oncebox_policy::MAX_TIMEOUT;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
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

    /// A whole number that is one of these.
    pub(crate) fn whole<T: TryFrom<u64>>(&self, name: &str, range: RangeInclusive<u64>) -> PyResult<Option<T>> {
        self.take(name)?.map(|value| whole(name, &value, range)).transpose()
    }

    /// A number of bytes.
    pub(crate) fn size(&self, name: &str) -> PyResult<Option<usize>> {
        self.whole(name, 0..=isize::MAX as u64)
    }

    /// A number from 0 to 1.
    pub(crate) fn fraction(&self, name: &str) -> PyResult<Option<f64>> {
        self.take(name)?.map(|value| fraction(name, &value)).transpose()
    }

    /// The value that goes by the given word.
    pub(crate) fn choice<T: Clone>(&self, name: &str, known: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(word) = self.text(name)? else { return Ok(None) };
        if let Some((_, value)) = known.iter().find(|(known, _)| *known == word) {
            return Ok(Some(value.clone()));
        }
        let known: Vec<_> = known.iter().map(|(known, _)| format!("{known:?}")).collect();
        Err(invalid(self.py(), format!("{name}: {:?} is none of {}", short(&word), known.join(", "))))
    }

    /// Bytes, or a text's.
    pub(crate) fn bytes(&self, name: &str) -> PyResult<Option<Vec<u8>>> {
        self.take(name)?.map(|value| bytes(name, &value)).transpose()
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

    /// Headers, in the order of the dict. The values may be secrets.
    pub(crate) fn headers(&self, name: &str) -> PyResult<Vec<(String, String)>> {
        let pairs = self.pairs(name)?;
        let is_one = |header: &str, value: &str| {
            HeaderName::from_bytes(header.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
        };
        match pairs.iter().find(|(header, value)| !is_one(header, value)) {
            None => Ok(pairs),
            Some((header, _)) => {
                Err(invalid(self.py(), format!("{name}: {:?} and its value make no header", short(header))))
            }
        }
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
    whole(name, value, 0..=u32::MAX.into())
}

/// A whole number that is one of these, none of which is more than `T` has. `True` is no number here.
pub(crate) fn whole<T: TryFrom<u64>>(name: &str, value: &Bound<'_, PyAny>, range: RangeInclusive<u64>) -> PyResult<T> {
    let wrong = || {
        let (least, most) = (range.start(), range.end());
        invalid(value.py(), format!("{name}: {} is not a whole number from {least} to {most}", shown(value)))
    };
    if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
        return Err(wrong());
    }
    let number: u64 = value.extract().map_err(|_| wrong())?;
    if range.contains(&number) { T::try_from(number).map_err(|_| wrong()) } else { Err(wrong()) }
}

/// A number of seconds that is not negative, fractions allowed.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let time = number(value).and_then(|number| Duration::try_from_secs_f64(number).ok());
    time.filter(|time| *time <= MAX_TIMEOUT).ok_or_else(|| {
        let most = MAX_TIMEOUT.as_secs();
        invalid(value.py(), format!("{name}: {} is not a number of seconds from 0 to {most}", shown(value)))
    })
}

/// A number from 0 to 1.
pub(crate) fn fraction(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let is_one = |number: &f64| (0.0..=1.0).contains(number);
    let wrong = || invalid(value.py(), format!("{name}: {} is not a fraction from 0 to 1", shown(value)));
    number(value).filter(is_one).ok_or_else(wrong)
}

/// `None` for what is no number, `True` among it.
fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    let is = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    if is && !value.is_instance_of::<PyBool>() { value.extract().ok() } else { None }
}

pub(crate) fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let wrong = || invalid(value.py(), format!("{name}: {} is neither True nor False", shown(value)));
    if value.is_instance_of::<PyBool>() { value.extract() } else { Err(wrong()) }
}

pub(crate) fn bytes(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(text(name, value)?.into_bytes());
    }
    Err(invalid(value.py(), format!("{name}: bytes or a str are wanted, not {}", type_name(value))))
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
    value.repr().map_or_else(|_| type_name(value), |repr| short(&repr.to_string()))
}

/// What somebody gave, where a message tells it: what is long was a mistake, and its beginning says which.
fn short(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
