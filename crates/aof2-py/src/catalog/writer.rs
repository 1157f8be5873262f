//! `Catalog`: a catalog open for writing.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::base::{ReadableCatalog, Source};
use super::options::Options;
use super::pending::Pending;
use super::reader::CatalogReader;
use super::reports;
use crate::args::{self, Maybe, unsigned};
use crate::error::{bug, to_py};
use crate::report::Built;
use crate::wait;

/// A catalog open for writing, from `Catalog.open`: what was decided about the logs and page
/// stores of a directory. One process at a time has it; `Catalog.read` reads in any process.
///
/// Every call that decides something returns a `Pending` at once. Threads may share it.
///
/// >>> import aof2
/// >>> with aof2.Catalog.open("data", actor="alice") as catalog:
/// ...     shop = catalog.register_db("shop", "pages").wait()
/// ...     catalog.view().database("shop").db_id == shop.value
/// True
#[pyclass(module = "aof2", frozen, extends = ReadableCatalog)]
pub struct Catalog {}

impl Catalog {
    /// The catalog, if it may be used.
    pub fn core(slf: &Bound<'_, Self>) -> PyResult<aof2_core::Catalog> {
        match slf.as_super().get().source()? {
            Source::Writer(catalog) => Ok(catalog),
            Source::Reader(_) => Err(bug("a writer holds a reader")),
        }
    }

    fn made(
        py: Python<'_>,
        root: std::path::PathBuf,
        catalog: aof2_core::Catalog,
    ) -> PyResult<Py<Self>> {
        let base = ReadableCatalog::new(root, Source::Writer(catalog));
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self {}))
    }
}

#[pymethods]
impl Catalog {
    /// Opens the catalog of a directory for writing, creating it if there is none. `actor` is
    /// who decides, for the audit: machine and process by default. Raises `Locked` if another
    /// writer has it, `NotALog` if its operation log is gone (see `rebuild`), `NewerVersion`,
    /// `Corrupt`, `InvalidConfig`.
    ///
    /// >>> import aof2
    /// >>> catalog = aof2.Catalog.open("data", actor="alice", checkpoint_operations=1000)
    /// >>> catalog.close()
    #[staticmethod]
    #[pyo3(
        signature = (root, *, actor = None, queue_max = None, batch_bytes = None,
            linger_us = None, checkpoint_operations = None, segment_bytes = None,
            cursor_batches_max = None, cursor_age_ms_max = None),
        text_signature = "(root, *, actor=None, queue_max=None, batch_bytes=None, linger_us=None, checkpoint_operations=None, segment_bytes=None, cursor_batches_max=None, cursor_age_ms_max=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        root: &Bound<'_, PyAny>,
        actor: Maybe<'_>,
        queue_max: Maybe<'_>,
        batch_bytes: Maybe<'_>,
        linger_us: Maybe<'_>,
        checkpoint_operations: Maybe<'_>,
        segment_bytes: Maybe<'_>,
        cursor_batches_max: Maybe<'_>,
        cursor_age_ms_max: Maybe<'_>,
    ) -> PyResult<Py<Self>> {
        let options = Options {
            actor,
            queue_max,
            batch_bytes,
            linger_us,
            checkpoint_operations,
            segment_bytes,
            cursor_batches_max,
            cursor_age_ms_max,
        };
        let config = options.config(root)?;
        let root = config.root_dir.clone();
        let catalog = py.detach(|| aof2_core::Catalog::open(config)).map_err(to_py)?;
        Self::made(py, root, catalog)
    }

    /// Opens the catalog of a directory for reading, in any process, while a writer may run.
    /// Raises `NotALog` if there is none.
    ///
    /// >>> import aof2
    /// >>> with aof2.Catalog.read(catalog.root) as reader:
    /// ...     reader.view().database("app").kind
    /// 'pages'
    #[staticmethod]
    fn read(py: Python<'_>, root: &Bound<'_, PyAny>) -> PyResult<Py<CatalogReader>> {
        CatalogReader::open(py, args::path("root", root)?)
    }

    /// Starts a catalog again whose operation log is gone: sets aside what is left of it and
    /// adopts the logs of the directory. Returns the catalog, and what was adopted, set aside
    /// and lost. Raises `Refused` while the operation log is there.
    ///
    /// >>> import aof2, shutil
    /// >>> catalog.close()
    /// >>> shutil.rmtree(f"{catalog.root}/.aof2/segment_store.log")
    /// >>> again, report = aof2.Catalog.rebuild(catalog.root)
    /// >>> report.adopted.logs, "policies" in report.lost
    /// ([], True)
    /// >>> again.close()
    #[staticmethod]
    #[pyo3(signature = (root, *, actor = None), text_signature = "(root, *, actor=None)")]
    fn rebuild<'py>(
        py: Python<'py>,
        root: &Bound<'py, PyAny>,
        actor: Maybe<'py>,
    ) -> PyResult<(Py<Self>, Bound<'py, PyAny>)> {
        let root = args::path("root", root)?;
        let mut config = aof2_core::CatalogConfig::new(&root);
        config.actor = args::text_if("actor", "a str or None", &actor)?;
        let (catalog, report) = py.detach(|| aof2_core::Catalog::rebuild(config)).map_err(to_py)?;
        let report = reports::rebuilt(py, &report)?;
        Ok((Self::made(py, root, catalog)?, report))
    }

    /// The same catalog for somebody else, who is named in the audit. Closing either closes
    /// both.
    ///
    /// >>> committed = catalog.acting_as("bob").record_metric(1, 7, 250).wait()
    /// >>> list(catalog.audit())[-1].actor
    /// 'bob'
    fn acting_as(slf: &Bound<'_, Self>, actor: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let actor = args::text("actor", "a str", actor)?;
        let catalog = Self::core(slf)?.acting_as(actor);
        Self::made(slf.py(), slf.as_super().get().root().to_owned(), catalog)
    }

    /// What opening it found: where the tables came from, and what was passed over.
    #[getter]
    fn recovery<'py>(slf: &Bound<'py, Self>) -> Built<'py> {
        reports::recovery(slf.py(), Self::core(slf)?.recovery())
    }

    /// Waits until views show a generation; False when `timeout` seconds are over.
    ///
    /// >>> catalog.wait_generation(1, timeout=60)
    /// True
    #[pyo3(
        signature = (generation, timeout = None),
        text_signature = "($self, generation, timeout=None)"
    )]
    fn wait_generation(
        slf: &Bound<'_, Self>,
        generation: &Bound<'_, PyAny>,
        timeout: Maybe<'_>,
    ) -> PyResult<bool> {
        let catalog = Self::core(slf)?;
        let generation = unsigned("generation", generation)?;
        let shown = wait::until(slf.py(), args::timeout(&timeout)?, |slice| {
            Ok(catalog.wait_generation(generation, Some(slice))?.then_some(()))
        })?;
        Ok(shown.is_some())
    }

    /// Writes a checkpoint now and lets the operation log go behind it. Returns its generation.
    ///
    /// >>> catalog.checkpoint()
    /// 1
    fn checkpoint(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let catalog = Self::core(slf)?;
        let work = move || catalog.checkpoint();
        wait::left_alone(slf.py(), "aof2-checkpoint", work, || ())?.map_err(to_py)
    }

    /// Figures of the catalog, by name.
    ///
    /// >>> catalog.metrics()["databases"]
    /// 1
    fn metrics<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let catalog = Self::core(slf)?;
        let figures = slf.py().detach(|| catalog.metrics()).map_err(to_py)?;
        reports::metrics(slf.py(), &figures)
    }

    /// The figures in the Prometheus text format, with the label `root`.
    ///
    /// >>> "aof2_catalog_databases" in catalog.metrics_text()
    /// True
    fn metrics_text(slf: &Bound<'_, Self>) -> PyResult<String> {
        let catalog = Self::core(slf)?;
        let root = slf.as_super().get().root().to_string_lossy().into_owned();
        let figures = slf.py().detach(|| catalog.metrics()).map_err(to_py)?;
        Ok(figures.to_prometheus(&root))
    }

    /// Adds an observation of a figure, for a scope and a metric that the caller numbers.
    ///
    /// >>> committed = catalog.record_metric(1, 7, 250).wait()
    /// >>> catalog.view().metric(1, 7).sum
    /// 250
    fn record_metric(
        slf: &Bound<'_, Self>,
        scope: &Bound<'_, PyAny>,
        metric: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let (scope, metric) = (unsigned("scope", scope)?, unsigned("metric", metric)?);
        let value = unsigned("value", value)?;
        let guard = slf.py().detach(|| catalog.record_metric(scope, metric, value));
        Ok(Pending::new("record_metric", guard.map_err(to_py)?))
    }

    /// Notes that a component has got to a generation of the catalog.
    ///
    /// >>> committed = catalog.advance_component("search", 1).wait()
    /// >>> catalog.view().components()[0].generation
    /// 1
    fn advance_component(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        generation: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let name = args::text("name", "a str", name)?;
        let generation = unsigned("generation", generation)?;
        let guard = slf.py().detach(|| catalog.advance_component(&name, generation));
        Ok(Pending::new("advance_component", guard.map_err(to_py)?))
    }
}
