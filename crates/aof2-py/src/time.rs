//! Milliseconds since the epoch and Python's `datetime`.

use aof2_core::TIMESTAMP_MS_MAX;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDateTime, PyDelta, PyTzInfo};

static EPOCH: PyOnceLock<Py<PyDateTime>> = PyOnceLock::new();

const DAY_MS: u64 = 86_400_000;

fn epoch<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyDateTime>> {
    let made = EPOCH.get_or_try_init(py, || {
        let utc = PyTzInfo::utc(py)?;
        PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc)).map(Bound::unbind)
    })?;
    Ok(made.bind(py))
}

/// The moment as an aware `datetime` in UTC. The last one that a record can be given
/// stands for all later ones, which writers took once.
pub fn to_datetime(py: Python<'_>, timestamp_ms: u64) -> PyResult<Bound<'_, PyAny>> {
    let timestamp_ms = timestamp_ms.min(TIMESTAMP_MS_MAX);
    let days = (timestamp_ms / DAY_MS) as i32;
    let rest_ms = (timestamp_ms % DAY_MS) as i32;
    let delta = PyDelta::new(py, days, rest_ms / 1000, rest_ms % 1000 * 1000, false)?;
    epoch(py)?.add(delta)
}

/// The first millisecond at or after this moment: a record stamped in milliseconds is
/// at or after the moment exactly when it is at or after this. 0 before the epoch.
pub fn from_datetime(name: &str, moment: &Bound<'_, PyDateTime>) -> PyResult<u64> {
    let py = moment.py();
    if moment.call_method0("utcoffset")?.is_none() {
        return Err(PyValueError::new_err(format!(
            "{name} must be an aware datetime; give it a tzinfo, for example datetime.UTC"
        )));
    }
    let since = moment.sub(epoch(py)?)?;
    let days: i64 = since.getattr("days")?.extract()?;
    let seconds: i64 = since.getattr("seconds")?.extract()?;
    let microseconds: i64 = since.getattr("microseconds")?.extract()?;
    let us = (days * 86_400 + seconds) * 1_000_000 + microseconds;
    Ok(u64::try_from(us).unwrap_or(0).div_ceil(1000))
}
