//! Snapshots: places with a name.

use aof2_core::{ForkAt, SnapshotInfo};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Root;
use super::expiry::expiry;
use super::name::{OpenLog, Which};
use super::place::place;
use super::values;
use crate::args::{Maybe, text};
use crate::log::Source;
use crate::report;

impl Root {
    /// Takes a snapshot of a log that this process has open.
    pub(super) fn snapshot_open(
        &self,
        py: Python<'_>,
        log: OpenLog,
        name: String,
        at: ForkAt,
        expires: Option<u64>,
    ) -> PyResult<SnapshotInfo> {
        log.flush(py)?;
        self.call(py, move |root| match &log.source {
            Source::Writer(writer) => root.snapshot_from(writer, &log.dir, &name, &at, expires),
            Source::Reader(reader) => root.snapshot_from(reader, &log.dir, &name, &at, expires),
        })
    }
}

#[pymethods]
impl Root {
    /// Gives a place of a log a name, and keeps the records before it from retention until
    /// the snapshot is dropped or expires.
    ///
    /// `log` is a name or an open log, `at` as in `fork`; `expires` is a timedelta from now
    /// on or an aware datetime. Raises `NameTaken`, `NotALog`, `PastEnd`, `Trimmed`.
    ///
    /// >>> import aof2, datetime
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> root = aof2.Root(".")
    /// >>> taken = root.snapshot(log, "before", expires=datetime.timedelta(days=7))
    /// >>> taken.name, taken.offset, taken.expires_at_ms > taken.created_at_ms
    /// ('before', 2, True)
    #[pyo3(
        signature = (log, name, at = None, expires = None),
        text_signature = "($self, log, name, at=None, expires=None)"
    )]
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        log: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
        at: Maybe<'py>,
        expires: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log = Which::of("log", log)?;
        let name = text("name", "str", name)?;
        let (at, expires) = (place(&at)?, expiry(&expires)?);
        let taken = match log {
            Which::Named(log) => {
                self.call(py, move |root| root.snapshot(&log, &name, &at, expires))?
            }
            Which::Open(log) => self.snapshot_open(py, log, name, at, expires)?,
        };
        values::snapshot(py, &taken)
    }

    /// The snapshots of a log, by name. Those that expired are left out.
    ///
    /// >>> import aof2
    /// >>> taken = log.snapshot("before")
    /// >>> [(taken.name, taken.offset) for taken in aof2.Root(".").snapshots("events")]
    /// [('before', 0)]
    fn snapshots<'py>(
        &self,
        py: Python<'py>,
        log: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let log = Which::of("log", log)?.name_in(py, self)?;
        let found = self.call(py, move |root| root.snapshots(&log))?;
        report::list(py, &found, values::snapshot)
    }

    /// Drops a snapshot; `NoSuchSnapshot` if there is none. Forks that were made from it stay
    /// as they are.
    ///
    /// >>> import aof2
    /// >>> taken = log.snapshot("before")
    /// >>> root = aof2.Root(".")
    /// >>> root.drop_snapshot("events", "before")
    /// >>> root.snapshots("events")
    /// []
    fn drop_snapshot(
        &self,
        py: Python<'_>,
        log: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let log = Which::of("log", log)?.name_in(py, self)?;
        let name = text("name", "str", name)?;
        self.call(py, move |root| root.drop_snapshot(&log, &name))
    }
}
