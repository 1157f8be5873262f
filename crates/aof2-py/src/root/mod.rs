//! `Root`: a directory of logs, with their forks and snapshots. Its methods by what they are
//! about; `of_log` has those of a log that is open.

mod dropping;
mod expiry;
mod forks;
mod name;
mod of_log;
mod place;
mod snapshots;
mod tree;
mod values;

use std::path::PathBuf;

use aof2_core::{LogRoot, Result};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::args::{self, text};
use crate::error::to_py;
use crate::path::FsPath;
use crate::wait;

/// A directory of logs: their forks and snapshots, and dropping them. It holds nothing open
/// and takes no lock between two calls; any number of processes may have one.
///
/// >>> import aof2
/// >>> with aof2.Aof.open("data/events") as events:
/// ...     ids = events.append_many([b"a", b"b", b"c"])
/// >>> root = aof2.Root("data")
/// >>> trial = root.fork("events", "trial", at=2)
/// >>> with aof2.Aof.open(trial.path) as log:
/// ...     rid = log.append(b"another c")
/// ...     log.flush()
/// ...     [bytes(record) for record in log.scan()]
/// [b'a', b'b', b'another c']
#[pyclass(module = "aof2", frozen)]
pub struct Root {
    /// As it was given, made absolute.
    dir: PathBuf,
    root: LogRoot,
}

impl Root {
    fn at(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        let root = py.detach(|| LogRoot::open(&dir)).map_err(to_py)?;
        Ok(Self { dir, root })
    }

    /// Does something with the directory. It may have to read what only a bucket holds, or
    /// to copy much, so a signal need not wait for it: it goes on then.
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&LogRoot) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let root = self.root.clone();
        wait::left_alone(py, "aof2-root", move || work(&root), || {})?.map_err(to_py)
    }
}

#[pymethods]
impl Root {
    #[new]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::at(py, args::path("path", path)?)
    }

    /// The directory.
    #[getter]
    fn dir<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        FsPath(&self.dir).into_pyobject(py)
    }

    /// Where the log of this name is, or would be.
    ///
    /// >>> import os, aof2
    /// >>> os.mkdir("data")
    /// >>> os.path.relpath(aof2.Root("data").path("events"))
    /// 'data/events'
    fn path<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyString>> {
        let name = text("name", "str", name)?;
        let path = self.root.path_of(&name).map_err(to_py)?;
        FsPath(&path).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("<aof2.Root {:?}>", self.dir)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyString>,))> {
        Ok((py.get_type::<Self>(), (self.dir(py)?,)))
    }
}
