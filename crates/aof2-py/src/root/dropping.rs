//! Logs that go, and forks that come to stand for themselves.

use pyo3::prelude::*;

use super::{Root, values};
use crate::args::text;

#[pymethods]
impl Root {
    /// Drops a log. Its name is free at once; what forks read of it stays until they go.
    /// Returns who that is. Raises `Locked` while somebody writes it.
    ///
    /// >>> import aof2
    /// >>> rid = log.append(b"hello")
    /// >>> fork = log.fork("trial")
    /// >>> log.close()
    /// >>> aof2.Root(".").drop("events")
    /// ['fork "trial"']
    /// >>> [bytes(record) for record in aof2.open(fork.path).scan()]
    /// [b'hello']
    fn drop(&self, py: Python<'_>, log: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let log = text("log", "str", log)?;
        self.call(py, move |root| root.drop_log(&log))
    }

    /// Drops a log that no fork reads and that has no snapshots, with all its files; `Held`
    /// otherwise, which names them. Raises `Locked` while somebody writes it.
    ///
    /// >>> import aof2
    /// >>> log.close()
    /// >>> root = aof2.Root(".")
    /// >>> root.purge("events")
    /// >>> root.tree().logs
    /// []
    fn purge(&self, py: Python<'_>, log: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = text("log", "str", log)?;
        self.call(py, move |root| root.purge(&log))
    }

    /// Copies what a fork shares with other logs into the fork, which then needs them no
    /// more. Its records, their offsets, ids and timestamps stay as they are. Returns how
    /// many were copied. Raises `Locked` while somebody writes the fork. If Ctrl-C ends the
    /// wait, the work goes on.
    ///
    /// >>> import aof2
    /// >>> rid = log.append(b"hello")
    /// >>> fork = log.fork("trial")
    /// >>> log.close()
    /// >>> root = aof2.Root(".")
    /// >>> root.detach("trial")
    /// 1
    /// >>> root.purge("events")
    /// >>> [bytes(record) for record in aof2.open(fork.path).scan()]
    /// [b'hello']
    fn detach(&self, py: Python<'_>, log: &Bound<'_, PyAny>) -> PyResult<u64> {
        let log = text("log", "str", log)?;
        self.call(py, move |root| root.detach(&log))
    }

    /// Takes away what crashes left, and what nobody reads any more of dropped logs.
    ///
    /// >>> import aof2
    /// >>> aof2.Root(".").sweep()                   # of a directory with the log events
    /// Swept(holds=0, segments=0, directories=0)
    fn sweep<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let swept = self.call(py, |root| root.sweep())?;
        values::swept(py, swept)
    }
}
