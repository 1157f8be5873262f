//! `ReadableLog`: what a log that is written and one that is only read have in common.

use std::path::{Path, PathBuf};

use aof2_core::io::ForkStamp;
use aof2_core::{AofError, SegmentFormat, Start};
use parking_lot::RwLock;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::args::{Maybe, flag_or, timeout, unsigned, unsigned_if};
use crate::arrow_out::{ArrowScan, ArrowSource};
use crate::error::to_py;
use crate::follow::Follow;
use crate::id::RecordId;
use crate::options;
use crate::path::FsPath;
use crate::record::Record;
use crate::report;
use crate::scan::Scan;
use crate::source::{Source, check_not_forked};
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
        let (name, stream_id, format) = match &source {
            Source::Writer(log) => (log.name(), log.stream_id(), log.format()),
            Source::Reader(log) => (log.name(), log.stream_id(), log.format()),
        };
        Self {
            path,
            name: name.to_owned(),
            stream_id: stream_id.as_u64(),
            format,
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
            Some(source) if !is_closed(source) => Ok(source.clone()),
            _ => Err(to_py(AofError::Closed)),
        }
    }
}

fn is_closed(source: &Source) -> bool {
    matches!(source, Source::Writer(log) if log.is_closed())
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
        self.stamp.is_forked() || self.source.read().as_ref().is_none_or(is_closed)
    }

    /// How far the log has got, as next logical offsets: records below `appended` survive
    /// the death of the process, records below `durable` survive a power cut.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.flush()
    /// >>> log.watermarks()
    /// Watermarks(appended=1, durable=1, archived=0)
    fn watermarks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let source = self.source()?;
        let watermarks = py.detach(|| source.watermarks()).map_err(to_py)?;
        report::watermarks(py, watermarks)
    }

    /// First logical offset that still exists; retention moves it.
    ///
    /// >>> log.earliest_offset()
    /// 0
    fn earliest_offset(&self, py: Python<'_>) -> PyResult<u64> {
        let source = self.source()?;
        py.detach(|| source.earliest_offset()).map_err(to_py)
    }

    /// The record with this id.
    ///
    /// The writer's own handle reads what it has appended, other handles only durable
    /// records; visibility="durable" or "appended" says otherwise. Raises
    /// `RecordNotFound`, which says whether the record is only not durable yet, `Trimmed`
    /// or `Corrupt`.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> bytes(log.read(rid))
    /// b'hello'
    #[pyo3(
        signature = (id, *, visibility = None),
        text_signature = "($self, id, *, visibility=None)"
    )]
    fn read(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        visibility: Maybe<'_>,
    ) -> PyResult<Record> {
        let source = self.source()?;
        let id = RecordId::of("id", id)?;
        let visibility = options::visibility_of_read(&visibility, &source)?;
        py.detach(|| source.read(id, visibility)).map(Into::into).map_err(to_py)
    }

    /// The record with this logical offset.
    ///
    /// Sees what `read` sees. Raises `PastEnd`, which says whether the record is only not
    /// durable yet, `Trimmed` or `Corrupt`.
    ///
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> bytes(log.read_offset(1))
    /// b'b'
    #[pyo3(
        signature = (offset, *, visibility = None),
        text_signature = "($self, offset, *, visibility=None)"
    )]
    fn read_offset(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        visibility: Maybe<'_>,
    ) -> PyResult<Record> {
        let source = self.source()?;
        let offset = unsigned("offset", offset)?;
        let visibility = options::visibility_of_read(&visibility, &source)?;
        py.detach(|| source.read_offset(offset, visibility)).map(Into::into).map_err(to_py)
    }

    /// The record with this id, if that costs no wait: it is in a mapped segment, or was
    /// read lately. Otherwise `WouldBlock` with kind "hydration", and what is needed is
    /// fetched: a later try finds it.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.flush()
    /// >>> bytes(log.try_read(rid))
    /// b'hello'
    #[pyo3(
        signature = (id, *, visibility = None),
        text_signature = "($self, id, *, visibility=None)"
    )]
    fn try_read(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        visibility: Maybe<'_>,
    ) -> PyResult<Record> {
        let source = self.source()?;
        let id = RecordId::of("id", id)?;
        let visibility = options::visibility_of_read(&visibility, &source)?;
        py.detach(|| source.try_read(id, visibility)).map(Into::into).map_err(to_py)
    }

    /// `try_read` by logical offset.
    ///
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> log.flush()
    /// >>> bytes(log.try_read_offset(1))
    /// b'b'
    #[pyo3(
        signature = (offset, *, visibility = None),
        text_signature = "($self, offset, *, visibility=None)"
    )]
    fn try_read_offset(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        visibility: Maybe<'_>,
    ) -> PyResult<Record> {
        let source = self.source()?;
        let offset = unsigned("offset", offset)?;
        let visibility = options::visibility_of_read(&visibility, &source)?;
        py.detach(|| source.try_read_offset(offset, visibility)).map(Into::into).map_err(to_py)
    }

    /// Logical offset of the first record stamped at or after this moment; the end of
    /// the log if there is none.
    ///
    /// The moment is an aware datetime, or milliseconds since the epoch.
    ///
    /// >>> for ms in (1_000, 2_000, 3_000):
    /// ...     _ = log.append(b"x", timestamp_ms=ms)
    /// >>> log.flush()
    /// >>> log.offset_at(1_500)
    /// 1
    #[pyo3(
        signature = (timestamp, *, visibility = None),
        text_signature = "($self, timestamp, *, visibility='durable')"
    )]
    fn offset_at(
        &self,
        py: Python<'_>,
        timestamp: &Bound<'_, PyAny>,
        visibility: Maybe<'_>,
    ) -> PyResult<u64> {
        let source = self.source()?;
        let timestamp_ms = options::timestamp("timestamp", timestamp)?;
        let visibility = options::visibility(&visibility)?;
        py.detach(|| source.offset_at(timestamp_ms, visibility)).map_err(to_py)
    }

    /// The records from `start` up to but not including `end`, in order.
    ///
    /// Both are an offset, a `RecordId` or an aware datetime; `start` may be "earliest"
    /// or "latest", `end` "now". Whatever the end, the scan ends behind the last record that
    /// is visible when it starts, also if its consumer appends to the same log; `follow`
    /// goes on. Only durable records are visible unless visibility is "appended".
    ///
    /// Damaged records raise `Corrupt`, or are passed over with on_corruption="skip". Those
    /// that a repair left a gap for are always passed over. Both are counted: `skipped` of
    /// the scan, `skipped_ranges` for which.
    ///
    /// Segments that are warm or cold are read where they are with hydrate="never"; with
    /// "always" they come back to the hot tier first, within its budget; with "auto" one
    /// that is read again comes back where there is room.
    ///
    /// >>> ids = log.append_many([b"a", b"b", b"c", b"d"])
    /// >>> log.flush()
    /// >>> [bytes(record) for record in log.scan(1, 3)]
    /// [b'b', b'c']
    #[pyo3(
        signature = (start = None, end = None, *, visibility = None, on_corruption = None, verify_checksums = None, hydrate = None),
        text_signature = "($self, start='earliest', end=None, *, visibility='durable', on_corruption='fail', verify_checksums=True, hydrate='auto')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn scan(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        end: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
        verify_checksums: Maybe<'_>,
        hydrate: Maybe<'_>,
    ) -> PyResult<Scan> {
        let source = self.source()?;
        let first = options::start(&start, Start::Earliest)?;
        let mut options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        options.verify_checksums = flag_or("verify_checksums", &verify_checksums, true)?;
        options.hydrate = options::hydrate(&hydrate)?;
        py.detach(|| Scan::open(&source, options)).map_err(to_py)
    }

    /// The records from `start` on, and then those that come: waits at the end.
    ///
    /// Ends at `end`, or when no record came for `timeout` seconds. It goes on when a
    /// writer closes the log and another one opens it, but with until_closed=True it ends
    /// when the log is closed and everything was read. One that the writer's own handle
    /// made ends when that handle is closed. Works with `for` and with `async for`.
    ///
    /// >>> follow = log.follow(timeout=10)
    /// >>> rid = log.append(b"news")
    /// >>> bytes(next(follow))
    /// b'news'
    #[pyo3(
        signature = (start = None, end = None, *, timeout = None, until_closed = None, visibility = None, on_corruption = None),
        text_signature = "($self, start='latest', end=None, *, timeout=None, until_closed=False, visibility='durable', on_corruption='fail')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn follow(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        end: Maybe<'_>,
        timeout: Maybe<'_>,
        until_closed: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
    ) -> PyResult<Follow> {
        let source = self.source()?;
        let first = options::start(&start, Start::Latest)?;
        let options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        let timeout = self::timeout(&timeout)?;
        let until_closed = flag_or("until_closed", &until_closed, false)?;
        py.detach(|| Follow::open(&source, options, timeout, until_closed)).map_err(to_py)
    }

    /// The records as Arrow record batches, for anything that takes an Arrow stream.
    ///
    /// The columns, in the order asked for: stream, segment_id, offset, record_id,
    /// timestamp, flags, payload; by default all but stream. Only these are computed. What
    /// is read, and what is passed over, is as in `scan`.
    ///
    /// >>> import pyarrow
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> log.flush()
    /// >>> table = pyarrow.table(log.scan_arrow(columns=["offset", "payload"]))
    /// >>> table.to_pylist()
    /// [{'offset': 0, 'payload': b'a'}, {'offset': 1, 'payload': b'b'}]
    #[pyo3(
        signature = (start = None, end = None, *, columns = None, visibility = None, on_corruption = None, verify_checksums = None, batch_bytes = None, batch_records = None, hydrate = None),
        text_signature = "($self, start='earliest', end=None, *, columns=None, visibility='durable', on_corruption='fail', verify_checksums=True, batch_bytes=1048576, batch_records=65536, hydrate='auto')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn scan_arrow(
        &self,
        start: Maybe<'_>,
        end: Maybe<'_>,
        columns: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
        verify_checksums: Maybe<'_>,
        batch_bytes: Maybe<'_>,
        batch_records: Maybe<'_>,
        hydrate: Maybe<'_>,
    ) -> PyResult<ArrowScan> {
        let source = match self.source()? {
            Source::Writer(log) => ArrowSource::Writer(log),
            Source::Reader(log) => ArrowSource::Reader(log),
        };
        let first = options::start(&start, Start::Earliest)?;
        let mut options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        options.verify_checksums = flag_or("verify_checksums", &verify_checksums, true)?;
        options.hydrate = options::hydrate(&hydrate)?;
        if let Some(bytes) = unsigned_if("batch_bytes", &batch_bytes)? {
            options.batch_bytes = bytes;
        }
        if let Some(records) = unsigned_if("batch_records", &batch_records)? {
            options.batch_records = records;
        }
        ArrowScan::new(source, options, options::columns(&columns)?)
    }

    /// The segments, oldest first.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.seal()
    /// >>> [(s.first_offset, s.record_count, s.is_sealed) for s in log.segments()]
    /// [(0, 1, True)]
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let source = self.source()?;
        let infos = py.detach(|| source.segments()).map_err(to_py)?;
        report::segments(py, &infos)
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
