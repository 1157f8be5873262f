//! Forking.

use aof2_core::{ForkAt, ForkedLog};
use pyo3::prelude::*;

use super::Root;
use super::name::{OpenLog, Which};
use super::place::place;
use super::values;
use crate::args::{Maybe, text};
use crate::log::Source;

impl Root {
    /// Forks a log that this process has open, with everything that it appended.
    pub(super) fn fork_open(
        &self,
        py: Python<'_>,
        log: OpenLog,
        to: String,
        at: ForkAt,
    ) -> PyResult<ForkedLog> {
        log.flush(py)?;
        self.call(py, move |root| match &log.source {
            Source::Writer(writer) => root.fork_from(writer, &log.dir, &to, &at),
            Source::Reader(reader) => root.fork_from(reader, &log.dir, &to, &at),
        })
    }
}

#[pymethods]
impl Root {
    /// Makes the log `to`, which begins with the records of `from_` before this place, under
    /// the same offsets, ids and timestamps, and then goes its own way. Nothing is copied,
    /// and the other log is not stopped.
    ///
    /// `from_` is a name or an open log; what an open log appended is made durable first.
    /// `at` is a logical offset, a `RecordId`, an aware datetime, or the name of a snapshot;
    /// by default the end of what is durable. Raises `NameTaken`, `NotALog`, `PastEnd`,
    /// `Trimmed`, `NoSuchSnapshot`, `InvalidConfig`.
    ///
    /// >>> import aof2
    /// >>> ids = log.append_many([b"a", b"b", b"c"])
    /// >>> fork = aof2.Root(".").fork(log, "trial", at=2)
    /// >>> fork.name, fork.offset
    /// ('trial', 2)
    /// >>> [bytes(record) for record in aof2.open(fork.path).scan()]
    /// [b'a', b'b']
    #[pyo3(signature = (from_, to, at = None), text_signature = "($self, from_, to, at=None)")]
    fn fork<'py>(
        &self,
        py: Python<'py>,
        from_: &Bound<'py, PyAny>,
        to: &Bound<'py, PyAny>,
        at: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let from = Which::of("from_", from_)?;
        let to = text("to", "str", to)?;
        let at = place(&at)?;
        let made = match from {
            Which::Named(name) => self.call(py, move |root| root.fork(&name, &to, &at))?,
            Which::Open(log) => self.fork_open(py, log, to, at)?,
        };
        values::forked(py, &made)
    }
}
