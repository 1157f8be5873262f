//! Deciding about chunks and deltas of page stores.

use aof2_core::catalog::CheckpointSpec;
use pyo3::prelude::*;

use super::inputs;
use super::pending::Pending;
use super::writer::Catalog;
use crate::args::{self, Maybe, unsigned, unsigned_if};
use crate::error::to_py;

/// Deltas over a chunk after which it is merged, unless told otherwise.
const DELTAS_MAX: u16 = 8;

#[pymethods]
impl Catalog {
    /// Registers a sealed chunk of a write-ahead log of a page store, and enqueues its upload
    /// if asked to.
    ///
    /// >>> from aof2.catalog import ChunkFields
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, lsn_start=0, lsn_end=10)
    /// >>> committed = catalog.append_wal_chunk("app", chunk).wait()
    /// >>> catalog.view().wal_state("app").last_sealed_lsn
    /// 10
    #[pyo3(
        signature = (db, chunk, *, shard = None, generation = None, upload = None),
        text_signature = "($self, db, chunk, *, shard=0, generation=0, upload=False)"
    )]
    fn append_wal_chunk(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        chunk: &Bound<'_, PyAny>,
        shard: Maybe<'_>,
        generation: Maybe<'_>,
        upload: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let chunk = inputs::chunk("chunk", chunk)?;
        let shard = unsigned_if("shard", &shard)?.unwrap_or(0);
        let generation = unsigned_if("generation", &generation)?.unwrap_or(0);
        let upload = args::flag_or("upload", &upload, false)?;
        let guard =
            slf.py().detach(|| catalog.append_wal_chunk(db, shard, generation, chunk, upload));
        Ok(Pending::new("append_wal_chunk", guard.map_err(to_py)?))
    }

    /// Registers what a checkpoint of a page store wrote: `ChunkFields` for a chunk that is new
    /// or replaces another, `DeltaFields` for a delta over one. `generation` is one more than
    /// the last; `applied_lsn` is how far the write-ahead log is in it. More than `deltas_max`
    /// deltas over a chunk enqueue a merge job.
    ///
    /// >>> from aof2.catalog import ChunkFields
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [chunk]).wait()
    /// >>> [chunk.page_count for chunk in catalog.view().chunks("app", at_checkpoint=1)]
    /// [16]
    #[pyo3(
        signature = (db, generation, mutations, *, applied_lsn = None, shard = None,
            deltas_max = None),
        text_signature = "($self, db, generation, mutations, *, applied_lsn=0, shard=0, deltas_max=8)"
    )]
    fn checkpoint_apply(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        generation: &Bound<'_, PyAny>,
        mutations: &Bound<'_, PyAny>,
        applied_lsn: Maybe<'_>,
        shard: Maybe<'_>,
        deltas_max: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let checkpoint = CheckpointSpec {
            db_id: inputs::db(slf.py(), &catalog, db)?,
            shard: unsigned_if("shard", &shard)?.unwrap_or(0),
            generation: unsigned("generation", generation)?,
            applied_lsn: unsigned_if("applied_lsn", &applied_lsn)?.unwrap_or(0),
            mutations: inputs::several("mutations", mutations, inputs::mutation)?,
            deltas_max: unsigned_if("deltas_max", &deltas_max)?.unwrap_or(DELTAS_MAX),
        };
        let guard = slf.py().detach(|| catalog.checkpoint_apply(checkpoint));
        Ok(Pending::new("checkpoint_apply", guard.map_err(to_py)?))
    }

    /// Notes where a chunk or delta is now: "local", "local_and_remote", "remote_archived" or
    /// "evicted".
    ///
    /// >>> from aof2.catalog import ChunkFields, ObjectName
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [chunk]).wait()
    /// >>> name = ObjectName(origin_db=1, chunk_id=1, generation=1)
    /// >>> committed = catalog.set_residency("app", name, "evicted").wait()
    /// >>> catalog.view().chunk("app", 1).residency
    /// 'evicted'
    fn set_residency(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        residency: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let object = inputs::object("object", object)?;
        let residency = inputs::residency("residency", residency)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.set_residency(db, object, residency));
        Ok(Pending::new("set_residency", guard.map_err(to_py)?))
    }

    /// Removes the rows of objects that nothing names, after their files were deleted.
    ///
    /// >>> from aof2.catalog import ChunkFields
    /// >>> first = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> second = ChunkFields(2, size_bytes=4096, crc64=8, page_count=16, supersedes=1)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [first]).wait()
    /// >>> committed = catalog.checkpoint_apply("app", 2, [second]).wait()
    /// >>> unused = catalog.view().unused_objects("app")
    /// >>> [str(name) for name in unused]
    /// ['00000001/00000001/base:00000001']
    /// >>> committed = catalog.collect_objects("app", unused).wait()
    /// >>> [chunk.chunk_id for chunk in catalog.view().chunks("app")]
    /// [2]
    fn collect_objects(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        objects: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let objects = inputs::several("objects", objects, inputs::object)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.collect_objects(db, objects));
        Ok(Pending::new("collect_objects", guard.map_err(to_py)?))
    }
}
