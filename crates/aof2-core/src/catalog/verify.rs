//! Whether the tables agree with each other: what is derived is derived again.

use std::collections::{BTreeMap, BTreeSet};

use super::open::Catalog;
use super::reader::CatalogReader;
use super::records::{
    ChunkRecord, DeltaRecord, JobRecord, Number, RefcountRecord, SnapshotRecord, WalChunkPointer,
};
use super::state::{ReadRows, ReadTables, decode};
use super::tables::{self, Table};
use super::view::{View, object_of};
use crate::error::Result;
use crate::format::operation::{DbStatus, ObjectName, Variant};

/// Two tables that do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogProblem {
    /// The table whose row is wrong.
    pub table: Table,
    /// The row, in words.
    pub row: String,
    /// What the other tables say.
    pub expected: String,
    /// What it says.
    pub found: String,
}

impl std::fmt::Display for CatalogProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { table, row, expected, found } = self;
        write!(f, "{}: {row}: expected {expected}, found {found}", table.name())
    }
}

impl Catalog {
    /// Derives counts and indexes again and compares. Reads all tables.
    pub fn verify(&self) -> Result<Vec<CatalogProblem>> {
        verify(&self.view()?)
    }
}

impl CatalogReader {
    /// Derives counts and indexes again and compares. Reads all tables.
    pub fn verify(&self) -> Result<Vec<CatalogProblem>> {
        verify(&self.view()?)
    }
}

/// What is wrong, gathered.
#[derive(Default)]
struct Problems(Vec<CatalogProblem>);

impl Problems {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        table: Table,
        row: impl std::fmt::Display,
        expected: &T,
        found: &T,
    ) {
        if expected != found {
            self.0.push(CatalogProblem {
                table,
                row: row.to_string(),
                expected: format!("{expected:?}"),
                found: format!("{found:?}"),
            });
        }
    }
}

pub(super) fn verify(view: &View) -> Result<Vec<CatalogProblem>> {
    let mut problems = Problems::default();
    let mut objects_in = BTreeMap::new();
    counts(view, &mut problems, &mut objects_in)?;
    for (id, row) in view.namespaces()? {
        let expected = objects_in.remove(&id).unwrap_or(0);
        problems.compare(Table::RemoteNamespace, id, &expected, &row.object_count);
    }
    for (id, count) in objects_in {
        problems.compare(Table::RemoteNamespace, id, &count, &0);
    }
    names(view, &mut problems)?;
    jobs(view, &mut problems)?;
    wal(view, &mut problems)?;
    Ok(problems.0)
}

/// Counts of what names an object, and of objects in namespaces.
fn counts(view: &View, problems: &mut Problems, objects_in: &mut BTreeMap<u32, u64>) -> Result<()> {
    let mut uploads: BTreeMap<ObjectName, u32> = BTreeMap::new();
    for (_, intent) in view.open_intents()? {
        // Uploads alone are counted while they are under way.
        if let (3, Some(object)) = (intent.operation_type, intent.object) {
            *uploads.entry(object).or_default() += 1;
        }
    }
    let mut holders = Holders { view, known: BTreeMap::new() };
    let mut check = |name: ObjectName, died: Option<u32>| -> Result<()> {
        let expected = RefcountRecord {
            in_use: match died {
                None => 1,
                Some(_) if name.variant == Variant::SEGMENT => 0,
                Some(died) => holders.between(name.origin_db, name.generation, died)?,
            },
            pending_upload: uploads.remove(&name).unwrap_or(0),
            died,
        };
        let found = view.refcount(&name)?.unwrap_or_default();
        problems.compare(Table::GcRefcounts, name, &expected, &found);
        Ok(())
    };
    view.walk(Table::ChunkCatalog, &[], &mut |key, value| {
        let row = decode::<ChunkRecord>(Table::ChunkCatalog, value)?;
        if let Some(remote) = &row.remote {
            *objects_in.entry(remote.namespace_id).or_default() += 1;
        }
        let (origin_db, chunk_id) = (tables::u32_of(key, 0), tables::u32_of(key, 1));
        let (variant, generation) = (row.variant, row.generation);
        check(ObjectName { origin_db, chunk_id, variant, generation }, row.died)?;
        Ok(true)
    })?;
    view.walk(Table::ChunkDeltaIndex, &[], &mut |key, value| {
        let row = decode::<DeltaRecord>(Table::ChunkDeltaIndex, value)?;
        if let Some(remote) = &row.remote {
            *objects_in.entry(remote.namespace_id).or_default() += 1;
        }
        let name = ObjectName {
            origin_db: tables::u32_of(key, 0),
            chunk_id: tables::u32_of(key, 1),
            variant: Variant::delta(row.delta_id),
            generation: tables::u32_of(key, 2),
        };
        check(name, row.died)?;
        Ok(true)
    })?;
    without_chunks(view, problems, &uploads)
}

/// Counts of objects that no chunk or delta has: only an upload that is under way.
fn without_chunks(
    view: &View,
    problems: &mut Problems,
    uploads: &BTreeMap<ObjectName, u32>,
) -> Result<()> {
    view.walk(Table::GcRefcounts, &[], &mut |key, value| {
        let Some(name) = object_of(key) else { return Ok(true) };
        let has_row = match name.variant {
            Variant::BASE | Variant::WAL | Variant::SEGMENT => view
                .chunk(name.origin_db, name.chunk_id)?
                .is_some_and(|row| row.generation == name.generation),
            _ => {
                let key = tables::ids3(name.origin_db, name.chunk_id, name.generation);
                view.get(Table::ChunkDeltaIndex, &key)?.is_some()
            }
        };
        if !has_row {
            let pending_upload = uploads.get(&name).copied().unwrap_or(0);
            let expected = RefcountRecord { pending_upload, ..Default::default() };
            let found = decode::<RefcountRecord>(Table::GcRefcounts, value)?;
            let is_told = pending_upload > 0 && expected == found;
            if !is_told {
                let expected = "no row";
                problems.compare(
                    Table::GcRefcounts,
                    name,
                    &expected.to_owned(),
                    &format!("{found:?}"),
                );
            }
        }
        Ok(true)
    })
}

/// Checkpoints that snapshots and forks of a database hold.
struct Holders<'v> {
    view: &'v View,
    known: BTreeMap<u32, Vec<u32>>,
}

impl Holders<'_> {
    fn between(&mut self, db_id: u32, born: u32, died: u32) -> Result<u32> {
        if !self.known.contains_key(&db_id) {
            let rows: Vec<(_, SnapshotRecord)> =
                self.view.rows(Table::SnapshotIndex, &tables::id(db_id))?;
            let held = rows.into_iter().map(|(_, row)| row.generation).collect();
            self.known.insert(db_id, held);
        }
        let held = self.known.get(&db_id).map_or(&[][..], |held| held);
        Ok(held.iter().filter(|held| (born..died).contains(held)).count() as u32)
    }
}

/// Every database in use has its name, and no other name leads anywhere.
fn names(view: &View, problems: &mut Problems) -> Result<()> {
    let mut expected = BTreeMap::new();
    for (id, row) in view.databases()? {
        if row.status != DbStatus::Dropped {
            expected.insert(row.name.into_bytes(), u64::from(id));
        }
    }
    let found: BTreeMap<Vec<u8>, u64> = view
        .rows::<Number>(Table::DbNames, &[])?
        .into_iter()
        .map(|(name, Number(id))| (name, id))
        .collect();
    let all: BTreeSet<&Vec<u8>> = expected.keys().chain(found.keys()).collect();
    for name in all {
        let shown = String::from_utf8_lossy(name);
        problems.compare(Table::DbNames, shown, &expected.get(name), &found.get(name));
    }
    Ok(())
}

/// Every job is the last of its kind.
fn jobs(view: &View, problems: &mut Problems) -> Result<()> {
    let mut expected = BTreeMap::new();
    for (key, job) in view.rows::<JobRecord>(Table::JobQueue, &[])? {
        expected.insert(tables::pending(job.db_id, job.kind), tables::u64_of(&key));
    }
    for (key, Number(found)) in view.rows::<Number>(Table::JobPendingIndex, &[])? {
        let job = expected.remove(&key);
        let kind = format!("kind {} of database {}", u16_of(&key), tables::u32_of(&key, 0));
        problems.compare(Table::JobPendingIndex, kind, &job, &Some(found));
    }
    for (_, job) in expected {
        problems.compare(Table::JobPendingIndex, format!("job {job}"), &Some(job), &None);
    }
    Ok(())
}

fn u16_of(key: &[u8]) -> u16 {
    key.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Every chunk of a write-ahead log is where its place says.
fn wal(view: &View, problems: &mut Problems) -> Result<()> {
    for (key, pointer) in view.rows::<WalChunkPointer>(Table::WalManifest, &[])? {
        let (db_id, chunk_id) = (tables::u32_of(&key, 0), tables::u32_of(&key, 2));
        let chunk = view.chunk(db_id, chunk_id)?;
        let found = chunk.map(|chunk| (chunk.lsn_start, chunk.lsn_end));
        let expected = Some((pointer.lsn_start, pointer.lsn_end));
        problems.compare(Table::WalManifest, format!("chunk {chunk_id}"), &expected, &found);
    }
    Ok(())
}
