//! Forks and snapshots of a log that is open.

use pyo3::prelude::*;

use super::expiry::expiry;
use super::name::{OpenLog, new_name};
use super::place::place;
use super::{Root, values};
use crate::args::{self, Maybe, text};
use crate::log::ReadableLog;

/// The root that was given, or the directory that the log is in.
fn root_of(py: Python<'_>, log: &OpenLog, given: &Maybe<'_>) -> PyResult<Root> {
    let dir = match given {
        Some(given) => args::path("root", given)?,
        None => log.dir.parent().unwrap_or(&log.dir).to_owned(),
    };
    Root::at(py, dir)
}

#[pymethods]
impl ReadableLog {
    /// Makes the log `to`, which begins with the records of this one before this place, and
    /// then goes its own way. Nothing is copied, and a writer is not stopped; what this
    /// handle appended is made durable first.
    ///
    /// `to` is a name beside this log, or a path. `at` is a logical offset, a `RecordId`, an
    /// aware datetime, or the name of a snapshot; by default the end. Both logs must be in
    /// `root`, which is the directory that this log is in unless it is given. See `Root.fork`.
    ///
    /// >>> import aof2
    /// >>> ids = log.append_many([b"a", b"b", b"c"])
    /// >>> fork = log.fork("trial", at=ids[2])
    /// >>> [bytes(record) for record in aof2.open(fork.path).scan()]
    /// [b'a', b'b']
    #[pyo3(
        signature = (to, at = None, *, root = None),
        text_signature = "($self, to, at=None, *, root=None)"
    )]
    fn fork<'py>(
        &self,
        py: Python<'py>,
        to: &Bound<'py, PyAny>,
        at: Maybe<'py>,
        root: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log = OpenLog::of(self)?;
        let at = place(&at)?;
        let root = root_of(py, &log, &root)?;
        let to = new_name(py, &root, to)?;
        values::forked(py, &root.fork_open(py, log, to, at)?)
    }

    /// Gives a place of this log a name, and keeps the records before it from retention until
    /// the snapshot is dropped or expires. See `Root.snapshot`; `Root.snapshots` lists them,
    /// `Root.drop_snapshot` drops one.
    ///
    /// >>> ids = log.append_many([b"a", b"b", b"c"])
    /// >>> taken = log.snapshot("before", at=2)
    /// >>> [bytes(record) for record in log.scan(end=taken.offset)]
    /// [b'a', b'b']
    #[pyo3(
        signature = (name, at = None, expires = None),
        text_signature = "($self, name, at=None, expires=None)"
    )]
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        at: Maybe<'py>,
        expires: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log = OpenLog::of(self)?;
        let name = text("name", "str", name)?;
        let (at, expires) = (place(&at)?, expiry(&expires)?);
        let root = root_of(py, &log, &None)?;
        values::snapshot(py, &root.snapshot_open(py, log, name, at, expires)?)
    }
}
