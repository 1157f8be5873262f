//! `CatalogReader`: a catalog that another process may be writing.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::base::{ReadableCatalog, Source};
use crate::error::{bug, to_py};
use crate::path::FsPath;

/// A catalog open for reading, from `Catalog.read`: in any process, beside a writer, after a
/// writer was killed, and on a read-only disk. Takes no lock and writes nothing but the place
/// of a reader of the change feed that has a name. It shows the state as of the last
/// `refresh`. Pickles by its root.
///
/// >>> import aof2
/// >>> reader = aof2.Catalog.read(catalog.root)
/// >>> committed = catalog.register_db("shop", "pages").wait()
/// >>> reader.refresh() >= committed.generation
/// True
/// >>> reader.view().database("shop").name
/// 'shop'
#[pyclass(module = "aof2", frozen, extends = ReadableCatalog)]
pub struct CatalogReader {}

impl CatalogReader {
    pub fn open(py: Python<'_>, root: PathBuf) -> PyResult<Py<Self>> {
        let reader = py.detach(|| aof2_core::CatalogReader::open(&root)).map_err(to_py)?;
        let base = ReadableCatalog::new(root, Source::Reader(Arc::new(reader)));
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self {}))
    }
}

#[pymethods]
impl CatalogReader {
    /// Applies what was decided since, and returns the generation of the state.
    ///
    /// >>> import aof2
    /// >>> with aof2.Catalog.read(catalog.root) as reader:
    /// ...     reader.refresh()
    /// 1
    fn refresh(slf: &Bound<'_, Self>) -> PyResult<u64> {
        match slf.as_super().get().source()? {
            Source::Reader(reader) => slf.py().detach(|| reader.refresh()).map_err(to_py),
            Source::Writer(_) => Err(bug("a reader holds a writer")),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let read = py.import("aof2")?.getattr("Catalog")?.getattr("read")?;
        let root: Bound<'py, PyString> = FsPath(slf.as_super().get().root()).into_pyobject(py)?;
        (read, (root,)).into_pyobject(py)
    }
}
