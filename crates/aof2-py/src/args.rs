//! Arguments as Python gives them. Every error names the argument.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::error::to_py;

/// An argument that may be left out or `None`.
pub type Maybe<'py> = Option<Bound<'py, PyAny>>;

/// `TypeError: name must be expected, not type`.
pub fn wrong_type(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let kind = given.get_type().qualname().map_or("?".into(), |n| n.to_string());
    PyTypeError::new_err(format!("{name} must be {expected}, not {kind}"))
}

/// `ValueError: name must be expected, not value`.
pub fn wrong_value(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let value = given.repr().map_or("that".into(), |r| r.to_string());
    PyValueError::new_err(format!("{name} must be {expected}, not {value}"))
}

/// A low and a high limit of which each may be left out: one alone moves the other's
/// default out of its way.
pub fn limits(low: Option<u64>, high: Option<u64>, defaults: (u64, u64)) -> (u64, u64) {
    let low = low.unwrap_or(defaults.0.min(high.unwrap_or(u64::MAX)));
    (low, high.unwrap_or(defaults.1.max(low)))
}

/// A whole number that fits `T`; anything with `__index__` but `bool`.
pub fn unsigned<T>(name: &str, given: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    if given.is_instance_of::<PyBool>() {
        return Err(wrong_type(name, "an int", given));
    }
    given.extract::<T>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            let bits = 8 * size_of::<T>();
            return wrong_value(name, &format!("from 0 to 2**{bits} - 1"), given);
        }
        if error.is_instance_of::<PyTypeError>(given.py()) {
            return wrong_type(name, "an int", given);
        }
        error
    })
}

/// [`unsigned`] of an argument that was given.
pub fn unsigned_if<T>(name: &str, given: &Maybe<'_>) -> PyResult<Option<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    given.as_ref().map(|given| unsigned(name, given)).transpose()
}

/// A time to wait in seconds; `None` waits for ever.
pub fn timeout(given: &Maybe<'_>) -> PyResult<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    let expected = "a number of seconds or None";
    if given.is_instance_of::<PyBool>() {
        return Err(wrong_type("timeout", expected, given));
    }
    let seconds: f64 = given.extract().map_err(|_| wrong_type("timeout", expected, given))?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(wrong_value("timeout", "at least 0 seconds", given));
    }
    // Longer than a duration can say is for ever.
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// `True` or `False`, NumPy's too, and nothing that only counts as such.
pub fn flag_or(name: &str, given: &Maybe<'_>, default: bool) -> PyResult<bool> {
    let Some(given) = given else { return Ok(default) };
    given.extract().map_err(|_| wrong_type(name, "a bool", given))
}

/// Text that is Unicode; `str` can also hold halves of surrogate pairs.
pub fn text(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = given.cast::<PyString>().map_err(|_| wrong_type(name, expected, given))?;
    text.to_cow()
        .map(Into::into)
        .map_err(|_| wrong_value(name, "text that can be written as UTF-8", given))
}

/// [`text`] of an argument that was given.
pub fn text_if(name: &str, expected: &str, given: &Maybe<'_>) -> PyResult<Option<String>> {
    given.as_ref().map(|given| text(name, expected, given)).transpose()
}

/// One of a few words.
pub fn word<T: Copy>(name: &str, given: &Bound<'_, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let expected = || {
        let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        quoted.join(" or ")
    };
    let Ok(text) = given.cast::<PyString>() else {
        return Err(wrong_type(name, &expected(), given));
    };
    let text = text.to_string_lossy();
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| wrong_value(name, &expected(), given))
}

/// [`word`] with a default.
pub fn word_or<T: Copy>(
    name: &str,
    given: &Maybe<'_>,
    words: &[(&str, T)],
    default: T,
) -> PyResult<T> {
    given.as_ref().map_or(Ok(default), |given| word(name, given, words))
}

/// A directory, made absolute: a handle goes on to mean it when the process changes
/// its working directory, or another one unpickles it.
pub fn path(name: &str, given: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path: PathBuf = given.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyTypeError>(given.py()) {
            return wrong_type(name, "str or os.PathLike[str]", given);
        }
        error
    })?;
    if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(wrong_value(name, "the path of a directory", given));
    }
    // Before it is made absolute: then nobody could tell.
    aof2_core::refuse_address(&path).map_err(to_py)?;
    Ok(std::path::absolute(path)?)
}

/// Raises what `Aof.open` raises for an address.
#[pyfunction]
pub fn refuse_address(path: PathBuf) -> PyResult<()> {
    aof2_core::refuse_address(path).map_err(to_py)
}

/// Whether this is an address, such as s3://bucket/prefix/name, and no directory.
#[pyfunction]
pub fn is_address(path: PathBuf) -> bool {
    aof2_core::is_address(path)
}

/// A callable, or nothing.
pub fn callable(name: &str, given: &Maybe<'_>) -> PyResult<Option<Py<PyAny>>> {
    match given {
        Some(given) if !given.is_callable() => Err(wrong_type(name, "callable or None", given)),
        Some(given) => Ok(Some(given.clone().unbind())),
        None => Ok(None),
    }
}
