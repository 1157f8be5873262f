//! `verify` and `repair`.

use std::sync::Arc;

use aof2_core::io::{OsStorage, Storage, SystemClock};
use pyo3::prelude::*;

use crate::args::{self, Maybe};
use crate::bucket;
use crate::error::to_py;
use crate::report;
use crate::wait::{self, Progress};

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
    let progress = Progress::of(&progress, report::progress)?;
    let found = match bucket::url_of(path)? {
        Some(url) => wait::aside(py, "aof2-verify", &progress, move |report| {
            aof2_core::verify_url(&url, report)
        }),
        None => {
            let root = args::path("path", path)?;
            let storage: Arc<dyn Storage> = Arc::new(OsStorage);
            wait::here(py, &progress, |report| aof2_core::verify_with(&storage, &root, report))
        }
    };
    report::verify(py, &found?.map_err(to_py)?)
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
    let progress = Progress::of(&progress, report::progress)?;
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    let repaired = wait::here(py, &progress, |report| {
        aof2_core::repair_with(&storage, &SystemClock, &root, report)
    });
    report::repair(py, &repaired?.map_err(to_py)?)
}
