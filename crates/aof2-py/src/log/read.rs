//! Reading: how far the log has got, single records, segments.

use aof2_core::Visibility;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::ReadableLog;
use super::options;
use super::source::{At, Source};
use crate::args::{Maybe, unsigned};
use crate::error::to_py;
use crate::record::{Record, RecordId};
use crate::report;

impl ReadableLog {
    fn read_one(
        &self,
        py: Python<'_>,
        at: impl FnOnce() -> PyResult<At>,
        visibility: &Maybe<'_>,
        read: fn(&Source, At, Option<Visibility>) -> aof2_core::Result<aof2_core::Record>,
    ) -> PyResult<Record> {
        let source = self.source()?;
        let at = at()?;
        let visibility = options::visibility_if(visibility)?;
        py.detach(|| read(&source, at, visibility)).map(Into::into).map_err(to_py)
    }
}

#[pymethods]
impl ReadableLog {
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
        self.read_one(py, || Ok(At::Id(RecordId::of("id", id)?)), &visibility, Source::read)
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
        self.read_one(py, || Ok(At::Offset(unsigned("offset", offset)?)), &visibility, Source::read)
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
        self.read_one(py, || Ok(At::Id(RecordId::of("id", id)?)), &visibility, Source::try_read)
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
        self.read_one(
            py,
            || Ok(At::Offset(unsigned("offset", offset)?)),
            &visibility,
            Source::try_read,
        )
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
}
