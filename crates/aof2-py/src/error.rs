//! Errors of the core as the exceptions of `aof2._errors`.
//!
//! Those are Python classes, so that they pickle and can be subclassed; this is the
//! only place that knows which error becomes which class.

use std::path::Path;

use aof2_core::AofError;
use aof2_core::object::ObjectErrorKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

use crate::path::FsPath;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The exception that stands for an error of the core.
pub fn to_py(error: AofError) -> PyErr {
    Python::attach(|py| build(py, &error, &error.to_string()).unwrap_or_else(|failed| failed))
}

/// The same with other words.
pub fn to_py_saying(error: &AofError, message: &str) -> PyErr {
    Python::attach(|py| build(py, error, message).unwrap_or_else(|failed| failed))
}

fn build(py: Python<'_>, error: &AofError, message: &str) -> PyResult<PyErr> {
    let attributes = PyDict::new(py);
    let class = describe(error, &attributes)?;
    let module = ERRORS.get_or_try_init(py, || py.import("aof2._errors").map(Bound::unbind))?;
    let exception = module.bind(py).getattr(class)?.call((message,), Some(&attributes))?;
    Ok(PyErr::from_value(exception))
}

/// Name of the class, and what its instances carry.
fn describe(error: &AofError, attributes: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let set_path = |path: &Path| attributes.set_item("path", FsPath(path));
    Ok(match error {
        AofError::Io { op, path, source } => {
            attributes.set_item("operation", op)?;
            attributes.set_item("errno", source.raw_os_error())?;
            attributes.set_item("filename", FsPath(path))?;
            "IoError"
        }
        AofError::WouldBlock(kind) => {
            attributes.set_item("kind", kind.to_string())?;
            "WouldBlock"
        }
        AofError::Timeout { .. } => "Timeout",
        AofError::InvalidRecord { .. } => "InvalidRecord",
        AofError::Corrupt(damage) => {
            set_path(&damage.path)?;
            attributes.set_item("offset", damage.offset)?;
            let end = Some(damage.records.end).filter(|end| *end != u64::MAX);
            attributes.set_item("records", (damage.records.start, end))?;
            "Corrupt"
        }
        AofError::Trimmed { earliest } => {
            attributes.set_item("earliest", earliest)?;
            "Trimmed"
        }
        AofError::NoSuchRecord(_) => "RecordNotFound",
        AofError::NotDurable(_) => {
            attributes.set_item("is_appended", true)?;
            "RecordNotFound"
        }
        AofError::NoSuchSegment(segment_id) => {
            attributes.set_item("segment_id", segment_id.as_u64())?;
            "SegmentNotFound"
        }
        AofError::LastCopy(segment_id) => {
            attributes.set_item("segment_id", segment_id.as_u64())?;
            "LastCopy"
        }
        AofError::Shared { segment_id, origin } => {
            attributes.set_item("segment_id", segment_id.as_u64())?;
            attributes.set_item("origin", origin)?;
            "Shared"
        }
        AofError::Held { path, holders } => {
            set_path(path)?;
            attributes.set_item("holders", holders)?;
            "Held"
        }
        AofError::PastEnd { offset, end, is_appended } => {
            attributes.set_item("offset", offset)?;
            attributes.set_item("end", end)?;
            attributes.set_item("is_appended", is_appended)?;
            "PastEnd"
        }
        AofError::Locked { path, pid } => {
            set_path(path)?;
            attributes.set_item("pid", pid)?;
            "Locked"
        }
        AofError::Poisoned { .. } => "Poisoned",
        AofError::Closed => "Closed",
        AofError::Forked => "ForkedHandle",
        AofError::NotALog { path, .. } => {
            set_path(path)?;
            "NotALog"
        }
        AofError::Foreign { path, .. } => {
            set_path(path)?;
            "ForeignFile"
        }
        AofError::NameTaken { name, url, holder, .. } => {
            attributes.set_item("name", name)?;
            attributes.set_item("url", url)?;
            attributes.set_item("stream_id", holder.as_u64())?;
            "NameTaken"
        }
        AofError::Fenced { path, writer } => {
            set_path(path)?;
            attributes.set_item("writer", writer)?;
            "Fenced"
        }
        AofError::Diverged(diverged) => {
            set_path(&diverged.path)?;
            attributes.set_item("url", &diverged.url)?;
            attributes.set_item("offset", diverged.offset)?;
            "Diverged"
        }
        AofError::Cold(refused) => {
            attributes.set_item("kind", cold_kind(refused.kind))?;
            attributes.set_item("operation", refused.op.name())?;
            attributes.set_item("key", &refused.key)?;
            "ColdError"
        }
        AofError::NoSuchDatabase { db } => {
            attributes.set_item("db", db)?;
            "NoSuchDatabase"
        }
        AofError::NoSuchSnapshot { name } => {
            attributes.set_item("name", name)?;
            "NoSuchSnapshot"
        }
        AofError::JobPending { job_id } => {
            attributes.set_item("job_id", job_id)?;
            "JobPending"
        }
        AofError::FeedReset { cursor, next, earliest } => {
            attributes.set_item("cursor", cursor)?;
            attributes.set_item("next", next)?;
            attributes.set_item("earliest", earliest)?;
            "FeedReset"
        }
        AofError::Refused { .. } => "Refused",
        AofError::NewerVersion { what, found, known } => {
            attributes.set_item("what", what)?;
            attributes.set_item("found", found)?;
            attributes.set_item("known", known)?;
            "NewerVersion"
        }
        AofError::InvalidConfig { field, .. } => {
            attributes.set_item("field", field)?;
            "InvalidConfig"
        }
        _ => "Error",
    })
}

/// What kind of failure of the object store it was, in a word.
fn cold_kind(kind: ObjectErrorKind) -> &'static str {
    match kind {
        ObjectErrorKind::NotFound => "not_found",
        ObjectErrorKind::NoSuchBucket => "no_such_bucket",
        ObjectErrorKind::Exists => "exists",
        ObjectErrorKind::Denied => "denied",
        ObjectErrorKind::Throttled => "throttled",
        ObjectErrorKind::Unavailable => "unavailable",
        ObjectErrorKind::Timeout => "timeout",
        ObjectErrorKind::Corrupt => "corrupt",
        ObjectErrorKind::InvalidRequest => "invalid_request",
        _ => "other",
    }
}

/// For what cannot happen unless this module has a bug.
pub fn bug(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{what}; please report this"))
}
