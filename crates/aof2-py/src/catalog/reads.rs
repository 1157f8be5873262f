//! Typed reads of a `CatalogView`: rows as the dataclasses of `aof2.catalog`.

use aof2_core::catalog::{ObjectName, Table};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::view::CatalogView;
use super::{TYPES, inputs};
use crate::args::{self, Maybe, unsigned};
use crate::error::to_py;
use crate::report::{Built, Fields};

#[pymethods]
impl CatalogView {
    // ---- databases ----

    /// A log or page store by its name or number; None if there is none.
    ///
    /// >>> view.database("app").kind
    /// 'pages'
    fn database<'py>(&self, py: Python<'py>, db: &Bound<'py, PyAny>) -> Built<'py> {
        let number = match self.db(py, db) {
            Ok(number) => number,
            Err(error) if is_no_database(py, &error) => return Ok(py.None().into_bound(py)),
            Err(error) => return Err(error),
        };
        self.typed_one(py, "Database", Table::Db, &[number])
    }

    /// All logs and page stores, the dropped ones included.
    ///
    /// >>> [(db.db_id, db.name, db.status) for db in view.databases()]
    /// [(1, 'app', 'active')]
    fn databases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Database", Table::Db, &[])
    }

    /// Places in buckets.
    ///
    /// >>> view.namespaces()
    /// []
    fn namespaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Namespace", Table::RemoteNamespace, &[])
    }

    /// The snapshots of a database, and the forks that need it.
    ///
    /// >>> view.snapshots("app")
    /// []
    fn snapshots<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let db = self.db(py, db)?;
        self.typed(py, "Snapshot", Table::SnapshotIndex, &[db])
    }

    /// A snapshot by its name. Raises `NoSuchSnapshot`.
    ///
    /// >>> import aof2
    /// >>> try:
    /// ...     view.snapshot("app", "monday")
    /// ... except aof2.NoSuchSnapshot as error:
    /// ...     print(error)
    /// there is no snapshot monday
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
    ) -> Built<'py> {
        let db = self.db(py, db)?;
        let name = args::text("name", "a str", name)?;
        let view = self.live()?;
        let db_id = u32::try_from(db).unwrap_or(0);
        let (id, _) = py.detach(|| view.snapshot_named(db_id, &name)).map_err(to_py)?;
        self.typed_one(py, "Snapshot", Table::SnapshotIndex, &[db, id.into()])
    }

    // ---- chunks ----

    /// The chunks of a page store, or the archived segments of a log; with `at_checkpoint`,
    /// those chunks that the page store consisted of then.
    ///
    /// >>> view.chunks("app")
    /// []
    #[pyo3(
        signature = (db, *, at_checkpoint = None),
        text_signature = "($self, db, *, at_checkpoint=None)"
    )]
    fn chunks<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        at_checkpoint: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let db = self.db(py, db)?;
        let Some(at) = at_checkpoint else {
            return self.typed(py, "Chunk", Table::ChunkCatalog, &[db]);
        };
        let (view, at) = (self.live()?, unsigned("at_checkpoint", &at)?);
        let db_id = u32::try_from(db).unwrap_or(0);
        let chunks = py.detach(|| view.chunks_at(db_id, at)).map_err(to_py)?;
        let found = PyList::empty(py);
        for (chunk_id, _) in chunks {
            let key = [db, chunk_id.into()];
            found.append(self.typed_one(py, "Chunk", Table::ChunkCatalog, &key)?)?;
        }
        Ok(found)
    }

    /// A chunk of a page store, or an archived segment of a log; None if there is none.
    ///
    /// >>> view.chunk("app", 7) is None
    /// True
    fn chunk<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        chunk_id: &Bound<'py, PyAny>,
    ) -> Built<'py> {
        let key = [self.db(py, db)?, unsigned("chunk_id", chunk_id)?];
        self.typed_one(py, "Chunk", Table::ChunkCatalog, &key)
    }

    /// The deltas over a chunk, oldest first.
    ///
    /// >>> view.deltas("app", 7)
    /// []
    fn deltas<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        chunk_id: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let key = [self.db(py, db)?, unsigned("chunk_id", chunk_id)?];
        self.typed(py, "Delta", Table::ChunkDeltaIndex, &key)
    }

    /// The chunks of the write-ahead logs of a page store, in order.
    ///
    /// >>> view.wal_chunks("app")
    /// []
    fn wal_chunks<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let db = self.db(py, db)?;
        self.typed(py, "WalChunk", Table::WalManifest, &[db])
    }

    /// How far a write-ahead log of a page store has got; None if it has not begun.
    ///
    /// >>> view.wal_state("app") is None
    /// True
    #[pyo3(signature = (db, shard = None), text_signature = "($self, db, shard=0)")]
    fn wal_state<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        shard: Maybe<'py>,
    ) -> Built<'py> {
        let shard: u16 = args::unsigned_if("shard", &shard)?.unwrap_or(0);
        let key = [self.db(py, db)?, shard.into()];
        self.typed_one(py, "WalState", Table::WalState, &key)
    }

    /// Objects of a database that nothing names any more: their files may be deleted, and
    /// then their rows with `Catalog.collect_objects`.
    ///
    /// >>> view.unused_objects("app")
    /// []
    #[pyo3(signature = (db, limit = None), text_signature = "($self, db, limit=1000)")]
    fn unused_objects<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        limit: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let limit = args::unsigned_if("limit", &limit)?.unwrap_or(1000);
        let db_id = u32::try_from(self.db(py, db)?).unwrap_or(0);
        let view = self.live()?;
        let unused = py.detach(|| view.unused_objects(db_id, limit)).map_err(to_py)?;
        let unused: Vec<_> = unused.iter().map(|name| object(py, name)).collect::<PyResult<_>>()?;
        PyList::new(py, unused)
    }

    // ---- jobs ----

    /// The jobs that are kept: the last of each kind and database.
    ///
    /// >>> view.jobs()
    /// []
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Job", Table::JobQueue, &[])
    }

    /// A job; None if there is none of this number.
    ///
    /// >>> view.job(1) is None
    /// True
    fn job<'py>(&self, py: Python<'py>, job_id: &Bound<'py, PyAny>) -> Built<'py> {
        self.typed_one(py, "Job", Table::JobQueue, &[unsigned("job_id", job_id)?])
    }

    /// The unfinished job of a kind; None if there is none. The number 0 stands for the whole
    /// catalog.
    ///
    /// >>> view.pending_job(0, "gc") is None
    /// True
    fn pending_job<'py>(
        &self,
        py: Python<'py>,
        db: &Bound<'py, PyAny>,
        kind: &Bound<'py, PyAny>,
    ) -> Built<'py> {
        let (view, kind) = (self.live()?, inputs::job_kind("kind", kind)?);
        let db = match db.extract::<u32>() {
            Ok(0) => 0,
            _ => u32::try_from(self.db(py, db)?).unwrap_or(0),
        };
        match py.detach(|| view.pending_job(db, kind)).map_err(to_py)? {
            Some((job_id, _)) => self.typed_one(py, "Job", Table::JobQueue, &[job_id]),
            None => Ok(py.None().into_bound(py)),
        }
    }

    // ---- figures and the catalog itself ----

    /// Figures that were recorded, by scope and metric.
    ///
    /// >>> view.metrics()
    /// []
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Figure", Table::Metrics, &[])
    }

    /// A figure; None if it was never recorded.
    ///
    /// >>> view.metric(1, 7) is None
    /// True
    fn metric<'py>(
        &self,
        py: Python<'py>,
        scope: &Bound<'py, PyAny>,
        metric: &Bound<'py, PyAny>,
    ) -> Built<'py> {
        let key = [unsigned("scope", scope)?, unsigned("metric", metric)?];
        self.typed_one(py, "Figure", Table::Metrics, &key)
    }

    /// How far components and readers of the change feed have got.
    ///
    /// >>> view.components()
    /// []
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Component", Table::GenerationWatermarks, &[])
    }

    /// What was going to be done outside the tables and has no outcome yet.
    ///
    /// >>> view.open_intents()
    /// []
    fn open_intents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Intent", Table::Intents, &[])
    }

    /// The steps by which the tables got their version.
    ///
    /// >>> [(step.version, step.generation) for step in view.migrations()]
    /// [(1, 0)]
    fn migrations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.typed(py, "Migration", Table::Migrations, &[])
    }
}

fn is_no_database(py: Python<'_>, error: &PyErr) -> bool {
    error.get_type(py).name().is_ok_and(|name| name.to_string_lossy() == "NoSuchDatabase")
}

fn object<'py>(py: Python<'py>, name: &ObjectName) -> Built<'py> {
    Fields::new(py)
        .set("origin_db", name.origin_db)?
        .set("chunk_id", name.chunk_id)?
        .set("variant", name.variant.to_string())?
        .set("generation", name.generation)?
        .build_in(TYPES, "ObjectName")
}
