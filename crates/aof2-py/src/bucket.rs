//! `restore` and `archived`: logs in an object store, with nothing of them here.

use std::path::PathBuf;

use aof2_core::{
    AofReader, MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, Result,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::args::{self, Maybe};
use crate::error::to_py;
use crate::report::{Built, Fields, list, range};
use crate::wait::{self, Progress};

/// The address of something in an object store, if that is what was given. A path object
/// is a path.
pub fn url_of(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(text) = given.cast::<PyString>() else { return Ok(None) };
    match text.to_string_lossy().starts_with("s3://") {
        true => address("path", given).map(Some),
        false => Ok(None),
    }
}

pub fn url(given: &Bound<'_, PyAny>) -> PyResult<String> {
    match given.is_instance_of::<PyString>() {
        true => address("url", given),
        false => Err(args::wrong_type("url", "a str like s3://bucket/prefix", given)),
    }
}

/// An address as text. From a command line it is decoded as a path is, by the locale, and
/// the keys of an object store are UTF-8.
fn address(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let wrong = || args::wrong_value(name, "text that can be written as UTF-8", given);
    let bytes: PathBuf = given.extract().map_err(|_| wrong())?;
    bytes.into_os_string().into_string().map_err(|_| wrong())
}

/// Asks an object store, which may take long.
fn asked<T: Send + 'static>(
    py: Python<'_>,
    ask: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    wait::left_alone(py, "aof2-bucket", ask, || ())?.map_err(to_py)
}

/// Opens a stream of an object store.
pub fn open_url(py: Python<'_>, url: &str) -> PyResult<AofReader> {
    let url = url.to_owned();
    asked(py, move || AofReader::open_url(&url))
}

/// The names of the streams that were archived below `s3://bucket/prefix`, in order. Each
/// opens with `open(f"{url}/{name}")`. Credentials and endpoint are found as for
/// `Tiers(cold=…)`. Raises `ColdError`.
#[pyfunction]
#[pyo3(text_signature = "(url)")]
pub fn archived(py: Python<'_>, url: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let url = self::url(url)?;
    let streams = asked(py, move || aof2_core::archived_streams(&url))?;
    Ok(streams.into_iter().map(|stream| stream.name).collect())
}

/// Rebuilds the directory of a log from `s3://bucket/prefix/name` alone, and returns a
/// `RestoreReport`.
///
/// With download (the default) the compressed segments come too, each verified; without,
/// they are read from the object store when somebody asks. A target that holds another
/// log is refused with `InvalidConfig`; one that holds this log gets what it lacks, so a
/// restore that was interrupted is run again. A damaged or missing object is told in the
/// report, and the others are restored. `progress` is called with a `RestoreProgress`.
/// Raises `NotALog`, `Locked`, `ColdError`.
#[pyfunction]
#[pyo3(
    signature = (url, target, *, download = None, progress = None),
    text_signature = "(url, target, *, download=True, progress=None)"
)]
pub fn restore<'py>(
    py: Python<'py>,
    url: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    download: Maybe<'py>,
    progress: Maybe<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (url, target) = (self::url(url)?, args::path("target", target)?);
    let default = RestoreOptions::default();
    let options =
        RestoreOptions { download: args::flag_or("download", &download, default.download)? };
    let progress = Progress::of(&progress, progress_of)?;
    let report = wait::aside(py, "aof2-restore", &progress, move |report| {
        aof2_core::restore(&url, &target, &options, report)
    })?;
    restored(py, &report.map_err(to_py)?)
}

fn progress_of(py: Python<'_>, at: RestoreProgress) -> Built<'_> {
    Fields::new(py)
        .set("segments_done", at.segments_done)?
        .set("segments_total", at.segments_total)?
        .set("bytes_done", at.bytes_done)?
        .set("bytes_total", at.bytes_total)?
        .build("RestoreProgress")
}

fn restored<'py>(py: Python<'py>, report: &RestoreReport) -> Built<'py> {
    Fields::new(py)
        .set("name", &report.name)?
        .set("stream_id", report.stream_id.as_u64())?
        .set("segments", report.segments)?
        .set("records", report.records)?
        .set("bytes", report.bytes)?
        .set("first_offset", report.first_offset)?
        .set("next_offset", report.next_offset)?
        .set("missing", list(py, &report.missing, missing)?)?
        .build("RestoreReport")
}

fn missing<'py>(py: Python<'py>, segment: &MissingSegment) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", segment.segment_id)?
        .set("records", range(&segment.records))?
        .set("reason", &segment.reason)?
        .build("MissingSegment")
}
