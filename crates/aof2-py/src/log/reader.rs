//! `Reader`: a log that another process may be writing.

use aof2_core::AofReader;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::{ReadableLog, Source};
use crate::args;
use crate::bucket;
use crate::error::to_py;
use crate::path::FsPath;

/// A log open for reading, from `open`: in any process, while a writer may run. Takes no
/// lock and writes nothing, and always sees what is there now; of a log in an object
/// store, what was there a second ago. Pickles by its path.
///
/// >>> import aof2
/// >>> rid = log.append(b"hello")
/// >>> log.flush()
/// >>> reader = aof2.open(log.path)
/// >>> bytes(reader.read(rid))
/// b'hello'
#[pyclass(module = "aof2", frozen, extends = ReadableLog)]
pub struct Reader {}

impl Reader {
    fn core(slf: &Bound<'_, Self>) -> PyResult<AofReader> {
        match slf.as_super().get().source()? {
            Source::Reader(log) => Ok(log),
            Source::Writer(_) => Err(crate::error::bug("a reader holds a writer")),
        }
    }
}

#[pymethods]
impl Reader {
    /// Process that last opened the log for writing, if its watermark file says so.
    #[getter]
    fn writer_pid(slf: &Bound<'_, Self>) -> PyResult<Option<u32>> {
        let log = Self::core(slf)?;
        Ok(slf.py().detach(|| log.writer_pid()))
    }

    /// Whether the last writer closed the log; None if that is unknown. False while a
    /// writer runs, and after it died.
    #[getter]
    fn closed_cleanly(slf: &Bound<'_, Self>) -> PyResult<Option<bool>> {
        let log = Self::core(slf)?;
        Ok(slf.py().detach(|| log.closed_cleanly()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let open = py.import("aof2")?.getattr("open")?;
        let path: Bound<'py, PyString> = FsPath(slf.as_super().get().path()).into_pyobject(py)?;
        (open, (path,)).into_pyobject(py)
    }
}

/// Opens the log in this directory for reading, in any process, while a writer may run.
///
/// A path that begins with "s3://" is the address of a log that was archived there,
/// s3://bucket/prefix/name: what is in the object store is read, and nothing need be
/// here. Credentials come from the environment and the places where the AWS tools look.
///
/// Raises `NotALog` if there is none, `ColdError` if the object store does not answer.
///
/// >>> import aof2
/// >>> rid = log.append(b"hello")
/// >>> log.flush()
/// >>> with aof2.open(log.path) as reader:
/// ...     [bytes(record) for record in reader.scan()]
/// [b'hello']
#[pyfunction]
pub fn open(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Py<Reader>> {
    let (path, log) = match bucket::url_of(path)? {
        Some(url) => {
            let log = bucket::open_url(py, &url)?;
            (url.into(), log)
        }
        None => {
            let path = args::path("path", path)?;
            let log = py.detach(|| AofReader::open(&path)).map_err(to_py)?;
            (path, log)
        }
    };
    let base = ReadableLog::new(path, Source::Reader(log));
    Py::new(py, PyClassInitializer::from(base).add_subclass(Reader {}))
}
