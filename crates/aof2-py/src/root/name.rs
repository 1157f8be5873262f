//! Which log is meant: by its name in the root, or by a handle.

use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use aof2_core::AofError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Root;
use crate::args::{self, text, wrong_type};
use crate::error::to_py;
use crate::log::{ReadableLog, Source};
use crate::wait;

const EXPECTED: &str = "the name of a log or an open log";

/// A log of a root.
pub enum Which {
    Named(String),
    Open(OpenLog),
}

/// A log that this process has open.
pub struct OpenLog {
    pub dir: PathBuf,
    pub source: Source,
}

impl Which {
    /// The log in an argument.
    pub fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        match given.cast::<ReadableLog>() {
            Ok(log) => OpenLog::of(log.get()).map(Self::Open),
            Err(_) => text(name, EXPECTED, given).map(Self::Named),
        }
    }

    /// Its name in this root.
    pub fn name_in(self, py: Python<'_>, root: &Root) -> PyResult<String> {
        match self {
            Self::Named(name) => Ok(name),
            Self::Open(log) => py.detach(|| relative(&root.dir, &log.dir, "log")).map_err(to_py),
        }
    }
}

impl OpenLog {
    /// The log of a handle that may be used.
    pub fn of(log: &ReadableLog) -> PyResult<Self> {
        let source = log.source()?;
        aof2_core::refuse_address(log.path()).map_err(to_py)?;
        Ok(Self { dir: log.path().to_owned(), source })
    }

    /// Makes everything durable that this process appended: only that can be shared.
    pub fn flush(&self, py: Python<'_>) -> PyResult<()> {
        match &self.source {
            Source::Writer(log) => wait::until_ready(py, None, "a flush", log.flush_async()),
            Source::Reader(_) => Ok(()),
        }
    }
}

/// The name of a new log in an argument: a name, or the path of a directory in the root. A
/// path is what is not text, or has a separator.
pub fn new_name(py: Python<'_>, root: &Root, given: &Bound<'_, PyAny>) -> PyResult<String> {
    if given.is_instance_of::<PyString>() {
        let name = text("to", "a name or a path", given)?;
        if !name.contains('/') {
            return Ok(name);
        }
    }
    let path =
        args::path("to", given).map_err(|error| match error.is_instance_of::<PyTypeError>(py) {
            true => wrong_type("to", "a name or a path", given),
            false => error,
        })?;
    py.detach(|| relative(&root.dir, &path, "to")).map_err(to_py)
}

/// What a directory, which need not exist, is called in the root.
fn relative(root: &Path, dir: &Path, field: &'static str) -> aof2_core::Result<String> {
    let found = |path: &Path| canonicalize(path).unwrap_or(path.to_owned());
    let parent = found(dir.parent().unwrap_or(dir));
    let whole = dir.file_name().map_or(found(dir), |last| parent.join(last));
    let below = whole.strip_prefix(found(root)).ok().and_then(Path::to_str);
    let name = below.filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| AofError::InvalidConfig {
        field,
        reason: format!("{} is not in the directory {}", dir.display(), root.display()),
    })
}
