//! `verify` and `repair`.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::{Layout, VerifyProgress};
use pyo3::prelude::*;

use crate::args::{self, Maybe};
use crate::error::to_py;
use crate::report;

/// Tells Python how far the work has got, and lets its signal handlers run.
struct Progress {
    callback: Option<Py<PyAny>>,
    /// Numbers of the segments there were at the start.
    segment_ids: Vec<u64>,
    /// What the callback or a signal handler raised.
    raised: Option<PyErr>,
}

impl Progress {
    fn new(root: &Path, callback: Option<Py<PyAny>>) -> Self {
        // What is wrong with the directory is for verifying to find.
        let listing = Layout::new(root).list(&OsStorage).unwrap_or_default();
        let segment_ids = listing.segments.iter().map(|name| name.segment_id.as_u64()).collect();
        Self { callback, segment_ids, raised: None }
    }

    fn tell(&mut self, at: VerifyProgress) -> ControlFlow<()> {
        let told = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else { return Ok(()) };
            let total = self.segment_ids.len();
            let before = self.segment_ids.iter().filter(|id| **id < at.segment_id).count();
            let done = if at.bytes_done >= at.bytes_total { total } else { before };
            callback.call1(py, (report::progress(py, at, done, total)?,)).map(drop)
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

/// Checks every byte of the log in this directory: checksums, order, counters, names.
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
    let root = args::path("path", path)?;
    let callback = args::callable("progress", &progress)?;
    let report = py.detach(|| {
        let storage: Arc<dyn Storage> = Arc::new(OsStorage);
        let mut progress = Progress::new(&root, callback);
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
        let mut progress = Progress::new(&root, callback);
        let result =
            aof2_core::repair_with(&storage, &SystemClock, &root, &mut |at| progress.tell(at));
        progress.finish(result)
    })?;
    report::repair(py, &report)
}
