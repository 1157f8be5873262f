//! Which log was forked from which.

use pyo3::prelude::*;

use super::{Root, values};

#[pymethods]
impl Root {
    /// The logs of the directory, parents before their forks; also dropped ones that others
    /// still read.
    ///
    /// >>> import aof2
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> fork = log.fork("trial", at=1)
    /// >>> [(node.name, node.parent_name, node.fork_offset) for node in aof2.Root(".").tree()]
    /// [('events', None, None), ('trial', 'events', 1)]
    fn tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tree = self.call(py, |root| root.tree())?;
        values::tree(py, &tree)
    }
}
