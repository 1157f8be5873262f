//! `ReadableCatalog`: what a catalog that is written and one that is only read have in
//! common.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aof2_core::catalog::{Audit, CatalogProblem, Feed, OperationLogReport, View};
use aof2_core::io::ForkStamp;
use aof2_core::{AofError, Catalog, CatalogReader, Result};
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::feed::CatalogFeed;
use super::operations::CatalogOperations;
use super::reports;
use super::view::{CatalogView, state_at};
use crate::args::{self, Maybe, unsigned_if};
use crate::error::{to_py, to_py_saying};
use crate::log::check_not_forked;
use crate::path::FsPath;
use crate::report::Built;

/// The two handles of the core; what they have in common is a method of this.
#[derive(Clone, Debug)]
pub enum Source {
    Writer(Catalog),
    Reader(Arc<CatalogReader>),
}

macro_rules! both {
    ($($method:ident($($name:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self $(, $name: $ty)*) -> Result<$result> {
            match self {
                Self::Writer(catalog) => catalog.$method($($name),*),
                Self::Reader(reader) => reader.$method($($name),*),
            }
        }
    )*};
}

impl Source {
    both! {
        view() -> View;
        feed(name: &str) -> Feed;
        feed_from(name: &str, generation: u64) -> Feed;
        changes_from(generation: u64) -> Feed;
        audit(generation: u64) -> Audit;
        generations() -> std::ops::Range<u64>;
        verify() -> Vec<CatalogProblem>;
        verify_operations() -> OperationLogReport;
    }

    fn is_closed(&self) -> bool {
        matches!(self, Self::Writer(catalog) if catalog.is_closed())
    }
}

/// What `Catalog` and `CatalogReader` have in common: everything that reads.
#[pyclass(module = "aof2", frozen, subclass)]
pub struct ReadableCatalog {
    root: PathBuf,
    stamp: ForkStamp,
    /// Empty once it is closed.
    source: RwLock<Option<Source>>,
}

impl ReadableCatalog {
    pub fn new(root: PathBuf, source: Source) -> Self {
        Self { root, stamp: ForkStamp::now(), source: RwLock::new(Some(source)) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What to read from, if the handle may be used.
    pub fn source(&self) -> PyResult<Source> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match &*self.source.read() {
            Some(source) if !source.is_closed() => Ok(source.clone()),
            _ => Err(to_py(AofError::Closed)),
        }
    }
}

impl Drop for ReadableCatalog {
    /// The last handle of a writer ends its threads.
    fn drop(&mut self) {
        if let Some(source) = self.source.get_mut().take() {
            let _attached = Python::try_attach(|py| py.detach(|| drop(source)));
        }
    }
}

#[pymethods]
impl ReadableCatalog {
    /// Directory of the logs and page stores.
    #[getter]
    #[pyo3(name = "root")]
    fn root_str<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        FsPath(&self.root).into_pyobject(py)
    }

    /// Whether the handle was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.stamp.is_forked() || self.source.read().as_ref().is_none_or(Source::is_closed)
    }

    /// The state now; of a reader, as of its last `refresh`. With `at`, the state after that
    /// generation: raises `Trimmed` if it is not kept any more, `PastEnd` if it is not there
    /// yet.
    ///
    /// >>> view = catalog.view()
    /// >>> view.generation, catalog.view(at=0).databases()
    /// (1, [])
    #[pyo3(signature = (*, at = None), text_signature = "($self, *, at=None)")]
    fn view(&self, py: Python<'_>, at: Maybe<'_>) -> PyResult<CatalogView> {
        let source = self.source()?;
        let view = match at {
            Some(at) => state_at(py, &self.root, &at)?,
            None => py.detach(|| source.view()).map_err(to_py)?,
        };
        Ok(CatalogView::new(view, self.root.clone()))
    }

    /// The batches that the operation log has: the first generation, and the one behind the
    /// last.
    ///
    /// >>> catalog.generations()
    /// (0, 2)
    fn generations(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let source = self.source()?;
        let range = py.detach(|| source.generations()).map_err(to_py)?;
        Ok((range.start, range.end))
    }

    /// The change feed for the reader of this name, from where it acknowledged last, or from
    /// `start`. A new reader begins with the first batch that there is. Iterating ends when
    /// nothing comes for `timeout` seconds; by default it waits for ever. Raises `FeedReset`
    /// if changes that the reader has not seen are gone, `Locked` if another one has the name.
    ///
    /// >>> feed = catalog.feed("search", timeout=0)
    /// >>> for batch in feed:
    /// ...     feed.acknowledge(batch.generation)
    /// >>> feed.close()
    #[pyo3(
        signature = (name, *, start = None, timeout = None),
        text_signature = "($self, name, *, start=None, timeout=None)"
    )]
    fn feed(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        start: Maybe<'_>,
        timeout: Maybe<'_>,
    ) -> PyResult<CatalogFeed> {
        let source = self.source()?;
        let name = args::text("name", "a str", name)?;
        let (start, timeout) = (unsigned_if("start", &start)?, args::timeout(&timeout)?);
        let feed = py.detach(|| match start {
            Some(start) => source.feed_from(&name, start),
            None => source.feed(&name),
        });
        Ok(CatalogFeed::new(feed.map_err(to_py)?, timeout))
    }

    /// Changes from a generation on, for a reader that keeps its place itself; by default from
    /// the first batch that there is. Writes nothing.
    ///
    /// >>> [batch.generation for batch in catalog.changes(timeout=0)]
    /// [0, 1]
    #[pyo3(
        signature = (*, start = None, timeout = None),
        text_signature = "($self, *, start=None, timeout=None)"
    )]
    fn changes(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        timeout: Maybe<'_>,
    ) -> PyResult<CatalogFeed> {
        let source = self.source()?;
        let (start, timeout) = (unsigned_if("start", &start)?, args::timeout(&timeout)?);
        let feed = py.detach(|| {
            let start = match start {
                Some(start) => start,
                None => source.generations()?.start,
            };
            source.changes_from(start)
        });
        Ok(CatalogFeed::new(feed.map_err(to_py)?, timeout))
    }

    /// The operations of the operation log from generation `start` to the one before `end`, in
    /// order; by default all that there are. Raises `Trimmed` if `start` is not kept any more.
    ///
    /// >>> [(str(operation.id), operation.type) for operation in catalog.operations(1)]
    /// [('1.0', 'RegisterDb')]
    #[pyo3(
        signature = (start = None, end = None),
        text_signature = "($self, start=None, end=None)"
    )]
    fn operations(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        end: Maybe<'_>,
    ) -> PyResult<CatalogOperations> {
        let source = self.source()?;
        let (start, end) = (unsigned_if("start", &start)?, unsigned_if("end", &end)?);
        let generations = py.detach(|| source.generations()).map_err(to_py)?;
        let earliest = generations.start;
        if let Some(start) = start.filter(|start| *start < earliest) {
            let message = format!(
                "operations of generation {start} are not kept any more; the first one that is \
                 there is {earliest}"
            );
            return Err(to_py_saying(&AofError::Trimmed { earliest }, &message));
        }
        let start = start.unwrap_or(earliest);
        // A start behind the end is an empty range, as it is for any other scan.
        let end = if start < generations.end { end } else { Some(0) };
        let audit = py.detach(|| source.audit(start.min(generations.end)));
        Ok(CatalogOperations::new(audit.map_err(to_py)?, end))
    }

    /// Who did what and when, oldest first, as far back as the operation log goes.
    ///
    /// >>> [(operation.actor, operation.type) for operation in catalog.audit()][-1]
    /// ('alice', 'RegisterDb')
    #[pyo3(signature = (start = None), text_signature = "($self, start=0)")]
    fn audit(&self, py: Python<'_>, start: Maybe<'_>) -> PyResult<CatalogOperations> {
        let source = self.source()?;
        let start = unsigned_if("start", &start)?.unwrap_or(0);
        let audit = py.detach(|| source.audit(start)).map_err(to_py)?;
        Ok(CatalogOperations::new(audit, None))
    }

    /// Derives all counts and indexes again and lists every row that differs: none, if the
    /// tables agree with each other.
    ///
    /// >>> catalog.verify()
    /// []
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let source = self.source()?;
        let found = py.detach(|| source.verify()).map_err(to_py)?;
        reports::problems(py, &found)
    }

    /// Reads the whole operation log and checks that each batch follows from the one before.
    /// Raises `Corrupt` where it does not.
    ///
    /// >>> catalog.verify_operations().operations
    /// 2
    fn verify_operations<'py>(&self, py: Python<'py>) -> Built<'py> {
        let source = self.source()?;
        let report = py.detach(|| source.verify_operations()).map_err(to_py)?;
        reports::operation_log(py, &report)
    }

    /// Closes the handle. Closing twice is fine.
    ///
    /// >>> catalog.close()
    /// >>> catalog.closed
    /// True
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.stamp.is_forked() {
            // The parent's to close.
            return Ok(());
        }
        let source = self.source.write().take();
        py.detach(|| match source {
            Some(Source::Writer(catalog)) => catalog.close(),
            _ => Ok(()),
        })
        .map_err(to_py)
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
        match (self.close(py), exc_value) {
            (Err(error), Some(raised)) => {
                // What went wrong in the block matters more than that closing did, too.
                let note = format!("closing the catalog failed, too: {error}");
                raised.call_method1("add_note", (note,)).map(drop)
            }
            (closed, _) => closed,
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let catalog = slf.get();
        let class = slf.get_type().name()?;
        let state = match catalog.source() {
            Err(_) if catalog.stamp.is_forked() => "opened before fork()".into(),
            Err(_) => "closed".into(),
            Ok(source) => match slf.py().detach(|| source.view()) {
                Ok(view) => format!("generation {}", view.generation()),
                Err(error) => error.to_string(),
            },
        };
        Ok(format!("<aof2.{class} {:?}: {state}>", catalog.root))
    }
}
