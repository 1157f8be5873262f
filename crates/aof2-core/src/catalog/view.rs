//! The catalog as it was after one batch: reads that no writer disturbs, and that disturb
//! none.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use redb::{ReadOnlyTable, ReadTransaction};

use super::database::{Applied, Tables, guarded, table_error};
use super::records::{
    ChunkRecord, ComponentKind, ComponentRecord, DbRecord, DeltaRecord, IntentRecord, JobRecord,
    MetricRecord, MigrationRecord, NamespaceRecord, Number, RefcountRecord, Row, SnapshotRecord,
    WalChunkPointer, WalState,
};
use super::state::{ReadRows, ReadTables, Visit, decode};
use super::tables::{self, Table};
use crate::error::{AofError, Result};
use crate::format::operation::{DbStatus, JobKind, ObjectName, OperationId, Variant};

type RedbTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A state of the catalog. It stays as it is while it is held; a view that is held for long
/// keeps the space of what was changed since.
pub struct View {
    tables: [OnceLock<RedbTable>; Table::ALL.len()],
    read: ReadTransaction,
    applied: Applied,
    path: PathBuf,
    /// Closed with the last view, if nobody else has them. Behind what reads them.
    _kept: Option<Arc<Tables>>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("generation", &self.generation()).finish()
    }
}

impl View {
    pub(super) fn new(read: ReadTransaction, applied: Applied, path: PathBuf) -> Self {
        Self { tables: Default::default(), read, applied, path, _kept: None }
    }

    /// The same; the tables stay open with it.
    pub(super) fn keeping(self, tables: Arc<Tables>) -> Self {
        Self { _kept: Some(tables), ..self }
    }

    pub(super) fn applied(&self) -> Applied {
        self.applied
    }

    /// The last batch that it includes.
    pub fn generation(&self) -> u64 {
        self.applied.generation.unwrap_or(0)
    }

    fn table(&self, table: Table) -> Result<&RedbTable> {
        let slot = &self.tables[table.index()];
        if let Some(open) = slot.get() {
            return Ok(open);
        }
        let open = self
            .read
            .open_table(table.definition())
            .map_err(|e| table_error("read the tables", &self.path, e))?;
        Ok(slot.get_or_init(|| open))
    }

    fn all<K, R: Row>(
        &self,
        table: Table,
        prefix: &[u8],
        key: impl Fn(&[u8]) -> K,
    ) -> Result<Vec<(K, R)>> {
        let mut rows = Vec::new();
        self.walk(table, prefix, &mut |bytes, value| {
            rows.push((key(bytes), decode(table, value)?));
            Ok(true)
        })?;
        Ok(rows)
    }

    // ---- databases ----

    /// A log or page store by its number.
    pub fn database(&self, db_id: u32) -> Result<Option<DbRecord>> {
        self.row(Table::Db, &tables::id(db_id))
    }

    /// A log or page store by its name, with its number.
    pub fn database_named(&self, name: &str) -> Result<Option<(u32, DbRecord)>> {
        let Some(Number(id)) = self.row(Table::DbNames, name.as_bytes())? else {
            return Ok(None);
        };
        let db_id = u32::try_from(id).unwrap_or(0);
        Ok(self.database(db_id)?.map(|row| (db_id, row)))
    }

    /// All logs and page stores, the dropped ones included, with their numbers.
    pub fn databases(&self) -> Result<Vec<(u32, DbRecord)>> {
        self.all(Table::Db, &[], |key| tables::u32_of(key, 0))
    }

    /// A place in a bucket.
    pub fn namespace(&self, namespace_id: u32) -> Result<Option<NamespaceRecord>> {
        self.row(Table::RemoteNamespace, &tables::id(namespace_id))
    }

    /// All places in buckets, with their numbers.
    pub fn namespaces(&self) -> Result<Vec<(u32, NamespaceRecord)>> {
        self.all(Table::RemoteNamespace, &[], |key| tables::u32_of(key, 0))
    }

    // ---- chunks ----

    /// How far a write-ahead log of a page store has got.
    pub fn wal_state(&self, db_id: u32, shard: u16) -> Result<Option<WalState>> {
        self.row(Table::WalState, &tables::shard(db_id, shard))
    }

    /// The chunks of write-ahead logs of a page store in order: generation, chunk.
    pub fn wal_chunks(&self, db_id: u32) -> Result<Vec<((u32, u32), WalChunkPointer)>> {
        let key = |key: &[u8]| (tables::u32_of(key, 1), tables::u32_of(key, 2));
        self.all(Table::WalManifest, &tables::id(db_id), key)
    }

    /// A chunk of a page store, or an archived segment of a log.
    pub fn chunk(&self, db_id: u32, chunk_id: u32) -> Result<Option<ChunkRecord>> {
        self.row(Table::ChunkCatalog, &tables::ids(db_id, chunk_id))
    }

    /// Visits the chunks of a database in order, until the visitor returns `false`.
    pub fn each_chunk(
        &self,
        db_id: u32,
        mut visit: impl FnMut(u32, ChunkRecord) -> bool,
    ) -> Result<()> {
        self.walk(Table::ChunkCatalog, &tables::id(db_id), &mut |key, value| {
            Ok(visit(tables::u32_of(key, 1), decode(Table::ChunkCatalog, value)?))
        })
    }

    /// The chunks that a page store consisted of with a checkpoint.
    pub fn chunks_at(&self, db_id: u32, generation: u32) -> Result<Vec<(u32, ChunkRecord)>> {
        let mut chunks = Vec::new();
        self.each_chunk(db_id, |chunk_id, chunk| {
            let is_there = chunk.variant == Variant::BASE
                && chunk.generation <= generation
                && chunk.died.is_none_or(|died| generation < died);
            if is_there {
                chunks.push((chunk_id, chunk));
            }
            true
        })?;
        Ok(chunks)
    }

    /// The deltas over a chunk, oldest first, by the checkpoint that made them.
    pub fn deltas(&self, db_id: u32, chunk_id: u32) -> Result<Vec<(u32, DeltaRecord)>> {
        let prefix = tables::ids(db_id, chunk_id);
        self.all(Table::ChunkDeltaIndex, &prefix, |key| tables::u32_of(key, 2))
    }

    /// What names an object.
    pub fn refcount(&self, object: &ObjectName) -> Result<Option<RefcountRecord>> {
        self.row(Table::GcRefcounts, &tables::object(object))
    }

    /// Objects of a database that nothing names: their files and objects may be deleted, and
    /// their rows collected. Up to `limit`.
    pub fn unused_objects(&self, db_id: u32, limit: usize) -> Result<Vec<ObjectName>> {
        let mut unused = Vec::new();
        self.walk(Table::GcRefcounts, &tables::id(db_id), &mut |key, value| {
            if decode::<RefcountRecord>(Table::GcRefcounts, value)?.is_unused() {
                unused.extend(object_of(key));
            }
            Ok(unused.len() < limit)
        })?;
        Ok(unused)
    }

    // ---- snapshots ----

    /// The snapshots of a database, and the forks that need it, by number.
    pub fn snapshots(&self, db_id: u32) -> Result<Vec<(u32, SnapshotRecord)>> {
        self.all(Table::SnapshotIndex, &tables::id(db_id), |key| tables::u32_of(key, 1))
    }

    /// A snapshot by its name, with its number.
    pub fn snapshot_named(&self, db_id: u32, name: &str) -> Result<(u32, SnapshotRecord)> {
        let is_it = |row: &SnapshotRecord| row.fork_db.is_none() && row.name == name;
        let found = self.snapshots(db_id)?.into_iter().find(|(_, row)| is_it(row));
        found.ok_or_else(|| AofError::NoSuchSnapshot { name: name.to_owned() })
    }

    // ---- jobs ----

    /// A job.
    pub fn job(&self, job_id: u64) -> Result<Option<JobRecord>> {
        self.row(Table::JobQueue, &tables::job(job_id))
    }

    /// All jobs that are kept: the last of each kind and database.
    pub fn jobs(&self) -> Result<Vec<(u64, JobRecord)>> {
        self.all(Table::JobQueue, &[], tables::u64_of)
    }

    /// The unfinished job of a kind, if there is one.
    pub fn pending_job(&self, db_id: u32, kind: JobKind) -> Result<Option<(u64, JobRecord)>> {
        let Some(Number(id)) = self.row(Table::JobPendingIndex, &tables::pending(db_id, kind))?
        else {
            return Ok(None);
        };
        Ok(self.job(id)?.filter(|job| !job.is_finished()).map(|job| (id, job)))
    }

    // ---- watermarks ----

    /// A figure.
    pub fn metric(&self, scope: u32, metric: u32) -> Result<Option<MetricRecord>> {
        self.row(Table::Metrics, &tables::ids(scope, metric))
    }

    /// All figures, by scope and metric.
    pub fn metrics(&self) -> Result<Vec<((u32, u32), MetricRecord)>> {
        self.all(Table::Metrics, &[], |key| (tables::u32_of(key, 0), tables::u32_of(key, 1)))
    }

    /// How far components and readers of the feed have got, by number.
    pub fn components(&self) -> Result<Vec<(u32, ComponentRecord)>> {
        self.all(Table::GenerationWatermarks, &[], |key| tables::u32_of(key, 0))
    }

    /// How far a component has got; `None` if it has told nothing.
    pub fn component(&self, name: &str) -> Result<Option<ComponentRecord>> {
        let is_it =
            |row: &ComponentRecord| row.name == name && row.kind == ComponentKind::Component;
        Ok(self.components()?.into_iter().map(|(_, row)| row).find(is_it))
    }

    // ---- the catalog itself ----

    /// What was going to be done outside the tables and has no outcome yet.
    pub fn open_intents(&self) -> Result<Vec<(OperationId, IntentRecord)>> {
        self.all(Table::Intents, &[], |key| OperationId {
            generation: tables::u64_of(key),
            index: tables::u32_of(key, 2),
        })
    }

    /// The steps by which the tables got their version.
    pub fn migrations(&self) -> Result<Vec<(u32, MigrationRecord)>> {
        self.all(Table::Migrations, &[], |key| tables::u32_of(key, 0))
    }

    /// The version of the tables; 0 if nothing was written yet.
    pub fn tables_version(&self) -> Result<u32> {
        Ok(self.migrations()?.last().map_or(0, |(version, _)| *version))
    }

    /// Rows of a table.
    pub fn row_count(&self, table: Table) -> Result<u64> {
        use redb::ReadableTableMetadata;
        guarded(&self.path, || {
            let fail = |e| table_error("read the tables", &self.path, e);
            self.table(table)?.len().map_err(fail)
        })
    }

    /// Databases that are in use.
    pub(super) fn live_databases(&self) -> Result<Vec<(u32, DbRecord)>> {
        let mut rows = self.databases()?;
        rows.retain(|(_, row)| row.status != DbStatus::Dropped);
        Ok(rows)
    }
}

/// The object that a key of `gc_refcounts` stands for.
pub(super) fn object_of(key: &[u8]) -> Option<ObjectName> {
    Some(ObjectName {
        origin_db: tables::u32_of(key, 0),
        chunk_id: tables::u32_of(key, 1),
        variant: Variant::from_number(tables::u32_of(key, 2))?,
        generation: tables::u32_of(key, 3),
    })
}

impl ReadTables for View {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        guarded(&self.path, || {
            let found = self.table(table)?.get(key);
            let found = found.map_err(|e| table_error("read the tables", &self.path, e))?;
            Ok(found.map(|value| value.value().to_vec()))
        })
    }

    fn walk(&self, table: Table, prefix: &[u8], visit: Visit<'_>) -> Result<()> {
        guarded(&self.path, || {
            let fail = |e| table_error("read the tables", &self.path, e);
            let rows = self.table(table)?.range(prefix..).map_err(fail)?;
            for row in rows {
                let (key, value) = row.map_err(fail)?;
                if !key.value().starts_with(prefix) || !visit(key.value(), value.value())? {
                    break;
                }
            }
            Ok(())
        })
    }
}
