//! `restore` and `archived`: logs in an object store, with nothing of them here.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use aof2_core::{
    AofError, AofReader, MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, Result,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::args::{self, Maybe};
use crate::error::to_py;
use crate::report::{Built, Fields, list, range};
use crate::wait;

/// How long an interrupt waits for a restore to notice, so that it can be run again.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The address of something in an object store, if that is what was given. A path object
/// is a path.
pub fn url_of(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(text) = given.cast::<PyString>() else { return Ok(None) };
    match text.to_string_lossy().starts_with("s3://") {
        true => args::text("path", "str", given).map(Some),
        false => Ok(None),
    }
}

fn url(given: &Bound<'_, PyAny>) -> PyResult<String> {
    args::text("url", "a str like s3://bucket/prefix", given)
}

/// Does something that may take long in a thread, so that a signal need not wait for it.
fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = channel();
    thread::Builder::new().name("aof2-bucket".into()).spawn(move || {
        let _ = done.send(work());
    })?;
    let ended = wait::until(py, None, move |slice| match outcome.recv_timeout(slice) {
        Ok(result) => result.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(AofError::Cancelled),
    })?;
    ended.ok_or_else(|| to_py(AofError::Cancelled))
}

/// Opens a stream of an object store.
pub fn open_url(py: Python<'_>, url: &str) -> PyResult<AofReader> {
    let url = url.to_owned();
    apart(py, move || AofReader::open_url(&url))
}

/// The names of the streams that were archived below `s3://bucket/prefix`, in order. Each
/// opens with `open(f"{url}/{name}")`. Credentials and endpoint are found as for
/// `Tiers(cold=…)`. Raises `ColdError`.
#[pyfunction]
#[pyo3(text_signature = "(url)")]
pub fn archived(py: Python<'_>, url: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let url = self::url(url)?;
    let streams = apart(py, move || aof2_core::archived_streams(&url))?;
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
    let options = RestoreOptions { download: args::flag_or("download", &download, true)? };
    let callback = args::callable("progress", &progress)?;
    let work = Work::start(url, target, options)?;
    let report = work.watch(py, callback.as_ref())?;
    restored(py, &report)
}

/// A restore in a thread of its own.
struct Work {
    events: Receiver<Event>,
    is_cancelled: Arc<AtomicBool>,
}

enum Event {
    At(RestoreProgress),
    Done(Result<RestoreReport>),
}

impl Work {
    fn start(url: String, target: PathBuf, options: RestoreOptions) -> PyResult<Self> {
        let (say, events) = channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        thread::Builder::new().name("aof2-restore".into()).spawn(move || {
            let result = aof2_core::restore(&url, &target, &options, &mut |at| {
                let is_heard = say.send(Event::At(at)).is_ok();
                match is_heard && !cancelled.load(Ordering::Acquire) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            let _ = say.send(Event::Done(result));
        })?;
        Ok(Self { events, is_cancelled })
    }

    /// Hands progress on until it is done. What the callback or a signal handler raises
    /// ends it.
    fn watch(self, py: Python<'_>, callback: Option<&Py<PyAny>>) -> PyResult<RestoreReport> {
        let Self { events, is_cancelled } = self;
        let mut events = events;
        let ended = loop {
            let next = wait::until(py, None, |slice| receive(&mut events, slice));
            let told = match next {
                Ok(Some(Event::Done(result))) => break result.map_err(to_py),
                Ok(Some(Event::At(at))) => tell(py, callback, at),
                Ok(None) => Ok(()),
                Err(raised) => Err(raised),
            };
            if let Err(raised) = told {
                break Err(raised);
            }
        };
        if ended.is_err() {
            is_cancelled.store(true, Ordering::Release);
            // The lock on the target goes with the thread.
            py.detach(move || {
                let deadline = std::time::Instant::now() + END_WITHIN;
                while let Some(left) = deadline.checked_duration_since(std::time::Instant::now()) {
                    if events.recv_timeout(left).is_err() {
                        break;
                    }
                }
            });
        }
        ended
    }
}

fn receive(events: &mut Receiver<Event>, slice: Duration) -> Result<Option<Event>> {
    match events.recv_timeout(slice) {
        Ok(event) => Ok(Some(event)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(AofError::Cancelled),
    }
}

fn tell(py: Python<'_>, callback: Option<&Py<PyAny>>, at: RestoreProgress) -> PyResult<()> {
    py.check_signals()?;
    let Some(callback) = callback else { return Ok(()) };
    let progress = Fields::new(py)
        .set("segments_done", at.segments_done)?
        .set("segments_total", at.segments_total)?
        .set("bytes_done", at.bytes_done)?
        .set("bytes_total", at.bytes_total)?
        .build("RestoreProgress")?;
    callback.call1(py, (progress,)).map(drop)
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
