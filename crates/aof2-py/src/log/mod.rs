//! `ReadableLog`: what a log that is written and one that is only read have in common; and
//! `Reader`, the latter.

mod options;
mod read;
mod reader;
mod scans;
mod source;

use std::path::{Path, PathBuf};

use aof2_core::io::ForkStamp;
use aof2_core::{AofError, SegmentFormat};
use parking_lot::RwLock;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyString;

pub use self::options::{Until, level_and_until};
pub use self::reader::{Reader, open};
pub use self::source::{Source, check_not_forked};
use crate::args::Maybe;
use crate::error::to_py;
use crate::path::FsPath;
use crate::report;
use crate::wait;

/// What `Aof` and `Reader` have in common: everything that reads.
#[pyclass(module = "aof2", frozen, subclass)]
pub struct ReadableLog {
    path: PathBuf,
    name: String,
    stream_id: u64,
    format: SegmentFormat,
    stamp: ForkStamp,
    /// Empty once a reader is closed. A writer knows by itself whether it is.
    source: RwLock<Option<Source>>,
}

impl ReadableLog {
    pub fn new(path: PathBuf, source: Source) -> Self {
        Self {
            path,
            name: source.name().to_owned(),
            stream_id: source.stream_id().as_u64(),
            format: source.format(),
            stamp: ForkStamp::now(),
            source: RwLock::new(Some(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to read from, if the handle may be used.
    pub fn source(&self) -> PyResult<Source> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match &*self.source.read() {
            Some(source) if !source.is_closed() => Ok(source.clone()),
            _ => Err(to_py(AofError::Closed)),
        }
    }
}

impl Drop for ReadableLog {
    /// The last handle of a writer makes everything durable, which takes a while.
    fn drop(&mut self) {
        if let Some(source) = self.source.get_mut().take() {
            let _attached = Python::try_attach(|py| py.detach(|| drop(source)));
        }
    }
}

/// Closes the log. The long part comes first, where Ctrl-C can end it.
fn close_writer(py: Python<'_>, log: &aof2_core::Aof) -> PyResult<()> {
    if !log.is_closed() {
        wait::until_ready(py, None, "a flush", async {
            // Closing meets the same failure, and tells of it.
            let _flushed = log.flush_async().await;
            Ok(())
        })?;
    }
    py.detach(|| log.close()).map_err(to_py)
}

#[pymethods]
impl ReadableLog {
    /// Directory of the log, or its address in an object store.
    #[getter]
    #[pyo3(name = "path")]
    fn path_str<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        FsPath(&self.path).into_pyobject(py)
    }

    /// Name of the stream.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Id of the stream, derived from its name when the log was created.
    #[getter]
    fn stream_id(&self) -> u64 {
        self.stream_id
    }

    /// Record layout: "full" or "compact".
    #[getter]
    fn format(&self) -> &'static str {
        report::format_name(self.format)
    }

    /// Whether the handle was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.stamp.is_forked() || self.source.read().as_ref().is_none_or(Source::is_closed)
    }

    /// Closes the handle. A writer makes everything durable first. Closing twice is fine;
    /// records that were read stay valid. If Ctrl-C ends the wait, it is still open.
    ///
    /// >>> log.close()
    /// >>> log.closed
    /// True
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.stamp.is_forked() {
            // The parent's to close.
            return Ok(());
        }
        let writer = match &*self.source.read() {
            Some(Source::Writer(log)) => Some(log.clone()),
            _ => None,
        };
        match writer {
            Some(log) => close_writer(py, &log),
            None => {
                let reader = self.source.write().take();
                py.detach(|| drop(reader));
                Ok(())
            }
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().source()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Maybe<'_>,
        exc_value: Maybe<'_>,
        traceback: Maybe<'_>,
    ) -> PyResult<()> {
        let _unused = (exc_type, traceback);
        let closed = self.close(py);
        match (closed, exc_value) {
            (Err(error), Some(raised)) if error.is_instance_of::<PyException>(py) => {
                // What went wrong in the block matters more than that closing did, too.
                let note = format!("closing {} failed, too: {error}", self.path.display());
                raised.call_method1("add_note", (note,)).map(drop)
            }
            (closed, _) => closed,
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let log = slf.get();
        let class = slf.get_type().name()?;
        let state = match log.source() {
            Err(_) if log.stamp.is_forked() => "opened before fork()".into(),
            Err(_) => "closed".into(),
            Ok(source) => match slf.py().detach(|| source.watermarks()) {
                Ok(at) => format!("appended {}, durable {}", at.appended, at.durable),
                Err(error) => error.to_string(),
            },
        };
        Ok(format!("<aof2.{class} {:?}, {}: {state}>", log.path, log.format()))
    }
}
