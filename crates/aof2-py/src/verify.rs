//! `verify` and `repair`.

use std::ops::ControlFlow;
use std::sync::Arc;

use aof2_core::VerifyProgress;
use aof2_core::io::{OsStorage, Storage, SystemClock};
use pyo3::prelude::*;

use crate::args::{self, Maybe};
use crate::aside::Work;
use crate::bucket;
use crate::error::to_py;
use crate::report;

/// Tells Python how far the work has got, and lets its signal handlers run.
struct Progress {
    callback: Option<Py<PyAny>>,
    /// What the callback or a signal handler raised.
    raised: Option<PyErr>,
}

impl Progress {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, raised: None }
    }

    fn tell(&mut self, at: VerifyProgress) -> ControlFlow<()> {
        let told = Python::attach(|py| {
            py.check_signals()?;
            tell(py, self.callback.as_ref(), at)
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        }
    }

    /// The result, or what was raised on the way.
    fn finish<T>(self, result: aof2_core::Result<T>) -> PyResult<T> {
        match self.raised {
            Some(raised) => Err(raised),
            None => result.map_err(to_py),
        }
    }
}

fn tell(py: Python<'_>, callback: Option<&Py<PyAny>>, at: VerifyProgress) -> PyResult<()> {
    let Some(callback) = callback else { return Ok(()) };
    callback.call1(py, (report::progress(py, at)?,)).map(drop)
}

/// Checks every byte of the log in this directory: checksums, order, counters, names.
///
/// A path that begins with "s3://" is the address of a log that was archived there,
/// s3://bucket/prefix/name: every object of it is read, and nothing need be here.
///
/// Writes nothing and takes no lock; while a writer runs, only what is durable is judged.
/// `progress` is called with a `VerifyProgress` before each segment and at the end.
///
/// >>> import aof2
/// >>> rid = log.append(b"hello")
/// >>> log.close()
/// >>> report = aof2.verify(log.path)
/// >>> report.is_healthy, report.record_count
/// (True, 1)
#[pyfunction]
#[pyo3(
    signature = (path, *, progress = None),
    text_signature = "(path, *, progress=None)"
)]
pub fn verify<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    progress: Maybe<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let callback = args::callable("progress", &progress)?;
    if let Some(url) = bucket::url_of(path)? {
        let work =
            Work::start("aof2-verify", move |progress| aof2_core::verify_url(&url, progress))?;
        let found = work.watch(py, |py, at| tell(py, callback.as_ref(), at))?;
        return report::verify(py, &found);
    }
    let root = args::path("path", path)?;
    let report = py.detach(|| {
        let storage: Arc<dyn Storage> = Arc::new(OsStorage);
        let mut progress = Progress::new(callback);
        let result = aof2_core::verify_with(&storage, &root, &mut |at| progress.tell(at));
        progress.finish(result)
    })?;
    report::verify(py, &report)
}

/// Repairs the log in this directory, and says which records are gone.
///
/// Takes the writer's lock. Originals of replaced files are kept in `quarantine/`; intact
/// records keep their ids and offsets. A healthy log is left as it is. An interrupt or an
/// error of `progress` ends it while it looks; once it has begun to write it goes through.
///
/// >>> import aof2
/// >>> log.close()
/// >>> report = aof2.repair(log.path)
/// >>> report.lost, report.verify.is_healthy
/// ([], True)
#[pyfunction]
#[pyo3(
    signature = (path, *, progress = None),
    text_signature = "(path, *, progress=None)"
)]
pub fn repair<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    progress: Maybe<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let root = args::path("path", path)?;
    let callback = args::callable("progress", &progress)?;
    let report = py.detach(|| {
        let storage: Arc<dyn Storage> = Arc::new(OsStorage);
        let mut progress = Progress::new(callback);
        let result =
            aof2_core::repair_with(&storage, &SystemClock, &root, &mut |at| progress.tell(at));
        progress.finish(result)
    })?;
    report::repair(py, &report)
}
