//! Chunks and deltas: what checkpoints make, supersede and let go.
//!
//! A row knows the checkpoints with which it appeared and was superseded. A snapshot or fork
//! at a checkpoint between them reads it. So a snapshot costs one row, and counts change only
//! where something is superseded or released.

use std::collections::BTreeSet;

use super::databases::count_object;
use super::{jobs, live_db, put_db, snapshots};
use crate::catalog::records::{
    ChunkRecord, DbRecord, DeltaRecord, RefcountRecord, WalChunkPointer, WalState,
};
use crate::catalog::state::{ReadRows, ReadTables, State, decode, refused};
use crate::catalog::tables::{self, Table};
use crate::error::Result;
use crate::format::operation::{
    ChunkFields, ChunkMutation, ChunkResidency, DbKind, DeltaFields, JobKind, ObjectName,
    Operation, OperationBody as Body, RemoteObject, Variant,
};

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match &operation.body {
        Body::AppendWalChunk { .. } => append_wal_chunk(state, operation),
        Body::CheckpointApply { .. } => checkpoint(state, operation),
        Body::SetResidency { db_id, object, residency } => {
            live_db(state, *db_id)?;
            update(state, *db_id, object, |place, _| {
                *place = *residency;
                Ok(())
            })
        }
        Body::CollectObjects { db_id, objects } => {
            objects.iter().try_for_each(|object| collect(state, *db_id, object))
        }
        _ => Err(refused("not an operation on chunks")),
    }
}

fn append_wal_chunk(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    let Body::AppendWalChunk { db_id, shard, generation, chunk, upload_job } = &operation.body
    else {
        return Err(refused("not a chunk"));
    };
    let db_id = *db_id;
    if live_db(state, db_id)?.kind != DbKind::Pages {
        return Err(refused("only a page store has chunks"));
    }
    let key = tables::shard(db_id, *shard);
    let mut wal = state.row::<WalState>(Table::WalState, &key)?.unwrap_or_default();
    if chunk.lsn_start < wal.last_sealed_lsn || chunk.lsn_end < chunk.lsn_start {
        let end = wal.last_sealed_lsn;
        return Err(refused(format!("the write-ahead log was sealed up to {end} already")));
    }
    wal.last_sealed_chunk = chunk.chunk_id;
    wal.last_sealed_lsn = chunk.lsn_end;
    state.put(Table::WalState, key, &wal);
    let pointer =
        WalChunkPointer { shard: *shard, lsn_start: chunk.lsn_start, lsn_end: chunk.lsn_end };
    state.put(Table::WalManifest, tables::ids3(db_id, *generation, chunk.chunk_id), &pointer);
    add_chunk(state, db_id, chunk, Variant::WAL, *generation)?;
    match upload_job {
        Some(job_id) => jobs::enqueue_once(state, operation, *job_id, db_id, JobKind::Upload),
        None => Ok(()),
    }
}

fn add_chunk(
    state: &mut State<'_>,
    db_id: u32,
    chunk: &ChunkFields,
    variant: Variant,
    generation: u32,
) -> Result<()> {
    let key = tables::ids(db_id, chunk.chunk_id);
    if state.get(Table::ChunkCatalog, &key)?.is_some() {
        return Err(refused(format!("chunk {} is there already", chunk.chunk_id)));
    }
    let row = ChunkRecord {
        variant,
        generation,
        died: None,
        first_page: chunk.first_page,
        page_count: chunk.page_count,
        size_bytes: chunk.size_bytes,
        crc64: chunk.crc64,
        compression: chunk.compression,
        residency: chunk.residency,
        lsn_start: chunk.lsn_start,
        lsn_end: chunk.lsn_end,
        remote: chunk.remote,
    };
    state.put(Table::ChunkCatalog, key, &row);
    let name = ObjectName { origin_db: db_id, chunk_id: chunk.chunk_id, variant, generation };
    add_object(state, &name, chunk.remote)
}

/// An object of the current state.
pub(super) fn add_object(
    state: &mut State<'_>,
    name: &ObjectName,
    remote: Option<RemoteObject>,
) -> Result<()> {
    let key = tables::object(name);
    let before = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?.unwrap_or_default();
    let row = RefcountRecord { in_use: 1, died: None, ..before };
    state.put(Table::GcRefcounts, key, &row);
    remote.map_or(Ok(()), |remote| count_object(state, remote.namespace_id, true))
}

fn checkpoint(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    let Body::CheckpointApply {
        db_id,
        shard,
        generation,
        applied_lsn,
        mutations,
        deltas_max,
        merge_job,
        gc_job,
    } = &operation.body
    else {
        return Err(refused("not a checkpoint"));
    };
    let (db_id, generation) = (*db_id, *generation);
    let mut db = live_db(state, db_id)?;
    if db.kind != DbKind::Pages || generation != db.generation.saturating_add(1) {
        let next = db.generation.saturating_add(1);
        return Err(refused(format!("the next checkpoint of {} is {next}", db.name)));
    }
    db.generation = generation;
    put_db(state, db_id, &db);
    let mut unused = false;
    let mut patched = BTreeSet::new();
    for mutation in mutations {
        match mutation {
            ChunkMutation::Full { chunk, supersedes } => {
                add_chunk(state, db_id, chunk, Variant::BASE, generation)?;
                if let Some(old) = supersedes {
                    unused |= supersede(state, db_id, *old, generation)?;
                }
            }
            ChunkMutation::Delta(delta) => {
                add_delta(state, db_id, delta, generation)?;
                patched.insert(delta.base_chunk_id);
            }
        }
    }
    unused |= apply_wal(state, db_id, *shard, generation, *applied_lsn)?;
    for chunk_id in patched {
        if live_deltas(state, db_id, chunk_id)?.len() > usize::from(*deltas_max) {
            jobs::enqueue_once(state, operation, *merge_job, db_id, JobKind::Merge)?;
        }
    }
    match unused {
        true => jobs::enqueue_once(state, operation, *gc_job, db_id, JobKind::Gc),
        false => Ok(()),
    }
}

fn add_delta(
    state: &mut State<'_>,
    db_id: u32,
    delta: &DeltaFields,
    generation: u32,
) -> Result<()> {
    let base = tables::ids(db_id, delta.base_chunk_id);
    let base = state.row::<ChunkRecord>(Table::ChunkCatalog, &base)?;
    if base.is_none_or(|base| base.died.is_some()) {
        return Err(refused(format!("chunk {} is not there to be patched", delta.base_chunk_id)));
    }
    let key = tables::ids3(db_id, delta.base_chunk_id, generation);
    if state.get(Table::ChunkDeltaIndex, &key)?.is_some() {
        return Err(refused("a checkpoint has one delta for each chunk"));
    }
    let row = DeltaRecord {
        delta_id: delta.delta_id,
        died: None,
        dirty_pages: delta.dirty_pages.clone(),
        size_bytes: delta.size_bytes,
        crc64: delta.crc64,
        compression: delta.compression,
        residency: delta.residency,
        remote: delta.remote,
    };
    state.put(Table::ChunkDeltaIndex, key, &row);
    let name = delta_name(db_id, delta.base_chunk_id, delta.delta_id, generation);
    add_object(state, &name, delta.remote)
}

fn delta_name(db_id: u32, chunk_id: u32, delta_id: u16, generation: u32) -> ObjectName {
    ObjectName { origin_db: db_id, chunk_id, variant: Variant::delta(delta_id), generation }
}

fn live_deltas(state: &State<'_>, db_id: u32, chunk_id: u32) -> Result<Vec<(u32, DeltaRecord)>> {
    let prefix = tables::ids(db_id, chunk_id);
    let rows = state.rows::<DeltaRecord>(Table::ChunkDeltaIndex, &prefix)?;
    let live = rows.into_iter().filter(|(_, row)| row.died.is_none());
    Ok(live.map(|(key, row)| (tables::u32_of(&key, 2), row)).collect())
}

/// A chunk and its deltas are not part of the current state any more. Whether nothing reads
/// one of them.
fn supersede(state: &mut State<'_>, db_id: u32, chunk_id: u32, died: u32) -> Result<bool> {
    let key = tables::ids(db_id, chunk_id);
    let Some(mut chunk) = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)? else {
        return Err(refused(format!("there is no chunk {chunk_id} to be superseded")));
    };
    if chunk.died.is_some() {
        return Err(refused(format!("chunk {chunk_id} was superseded already")));
    }
    chunk.died = Some(died);
    state.put(Table::ChunkCatalog, key, &chunk);
    let name = ObjectName {
        origin_db: db_id,
        chunk_id,
        variant: chunk.variant,
        generation: chunk.generation,
    };
    let mut unused = retire(state, &name, died)?;
    for (generation, mut delta) in live_deltas(state, db_id, chunk_id)? {
        delta.died = Some(died);
        state.put(Table::ChunkDeltaIndex, tables::ids3(db_id, chunk_id, generation), &delta);
        let name = delta_name(db_id, chunk_id, delta.delta_id, generation);
        unused |= retire(state, &name, died)?;
    }
    Ok(unused)
}

/// From here on only snapshots and forks count.
fn retire(state: &mut State<'_>, name: &ObjectName, died: u32) -> Result<bool> {
    let born = name.generation;
    let in_use = snapshots::holders(state, name.origin_db, |held| (born..died).contains(&held))?;
    let key = tables::object(name);
    let before = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?.unwrap_or_default();
    let row = RefcountRecord { in_use, died: Some(died), ..before };
    state.put(Table::GcRefcounts, key, &row);
    Ok(row.is_unused())
}

/// The chunks of a write-ahead log that a checkpoint includes are superseded by it.
fn apply_wal(
    state: &mut State<'_>,
    db_id: u32,
    shard: u16,
    generation: u32,
    applied_lsn: u64,
) -> Result<bool> {
    let key = tables::shard(db_id, shard);
    let mut wal = state.row::<WalState>(Table::WalState, &key)?.unwrap_or_default();
    wal.last_applied_lsn = wal.last_applied_lsn.max(applied_lsn);
    wal.last_checkpoint_generation = generation;
    state.put(Table::WalState, key, &wal);
    let mut applied = Vec::new();
    for (key, pointer) in state.rows::<WalChunkPointer>(Table::WalManifest, &tables::id(db_id))? {
        let chunk_id = tables::u32_of(&key, 2);
        let row = state.row::<ChunkRecord>(Table::ChunkCatalog, &tables::ids(db_id, chunk_id))?;
        let is_live = row.is_some_and(|chunk| chunk.died.is_none());
        if pointer.shard == shard && pointer.lsn_end <= applied_lsn && is_live {
            applied.push(chunk_id);
        }
    }
    let mut unused = false;
    for chunk_id in applied {
        unused |= supersede(state, db_id, chunk_id, generation)?;
    }
    Ok(unused)
}

/// A dropped database has no current state: what is left is what snapshots and forks hold.
pub(super) fn retire_all(
    state: &mut State<'_>,
    operation: &Operation,
    db_id: u32,
    db: &DbRecord,
) -> Result<()> {
    if db.kind != DbKind::Pages {
        return Ok(());
    }
    let died = db.generation.saturating_add(1);
    let mut live = Vec::new();
    state.walk(Table::ChunkCatalog, &tables::id(db_id), &mut |key, value| {
        if decode::<ChunkRecord>(Table::ChunkCatalog, value)?.died.is_none() {
            live.push(tables::u32_of(key, 1));
        }
        Ok(true)
    })?;
    let mut unused = false;
    for chunk_id in live {
        unused |= supersede(state, db_id, chunk_id, died)?;
    }
    match unused {
        true => {
            let job_id = state.next(tables::Counter::Job)?;
            jobs::enqueue_once(state, operation, job_id, db_id, JobKind::Gc)
        }
        false => Ok(()),
    }
}

/// One holder of a checkpoint more, or one less. Whether something is unused now.
pub(super) fn count_holders(
    state: &mut State<'_>,
    db_id: u32,
    held: u32,
    is_new: bool,
) -> Result<bool> {
    let mut changed = Vec::new();
    state.walk(Table::GcRefcounts, &tables::id(db_id), &mut |key, value| {
        let row = decode::<RefcountRecord>(Table::GcRefcounts, value)?;
        let born = tables::u32_of(key, 3);
        if row.died.is_some_and(|died| (born..died).contains(&held)) {
            changed.push((key.to_vec(), row));
        }
        Ok(true)
    })?;
    let mut unused = false;
    for (key, mut row) in changed {
        row.in_use = match is_new {
            true => row.in_use.saturating_add(1),
            false => row.in_use.saturating_sub(1),
        };
        unused |= row.is_unused();
        state.put(Table::GcRefcounts, key, &row);
    }
    Ok(unused)
}

/// Changes where a chunk, segment or delta is, and keeps count of objects in namespaces.
pub(super) fn update(
    state: &mut State<'_>,
    db_id: u32,
    object: &ObjectName,
    change: impl FnOnce(&mut ChunkResidency, &mut Option<RemoteObject>) -> Result<()>,
) -> Result<()> {
    let no_such = || refused(format!("there is no object {object}"));
    let (before, after) = if is_delta(object.variant) {
        let key = tables::ids3(db_id, object.chunk_id, object.generation);
        let row = state.row::<DeltaRecord>(Table::ChunkDeltaIndex, &key)?;
        let is_it = |row: &DeltaRecord| Variant::delta(row.delta_id) == object.variant;
        let mut row = row.filter(is_it).ok_or_else(no_such)?;
        let before = row.remote;
        change(&mut row.residency, &mut row.remote)?;
        check_residency(row.residency, row.remote.as_ref())?;
        state.put(Table::ChunkDeltaIndex, key, &row);
        (before, row.remote)
    } else {
        let key = tables::ids(db_id, object.chunk_id);
        let row = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)?;
        let is_it = |row: &ChunkRecord| {
            row.variant == object.variant && row.generation == object.generation
        };
        let mut row = row.filter(is_it).ok_or_else(no_such)?;
        let before = row.remote;
        change(&mut row.residency, &mut row.remote)?;
        check_residency(row.residency, row.remote.as_ref())?;
        state.put(Table::ChunkCatalog, key, &row);
        (before, row.remote)
    };
    if let Some(remote) = before {
        count_object(state, remote.namespace_id, false)?;
    }
    after.map_or(Ok(()), |remote| count_object(state, remote.namespace_id, true))
}

/// What is in a bucket has an object there.
fn check_residency(residency: ChunkResidency, remote: Option<&RemoteObject>) -> Result<()> {
    let in_bucket =
        matches!(residency, ChunkResidency::LocalAndRemote | ChunkResidency::RemoteArchived);
    match in_bucket && remote.is_none() {
        true => Err(refused("what is in a bucket was uploaded first")),
        false => Ok(()),
    }
}

/// Whether a page store has this chunk or delta.
pub(super) fn is_there(state: &State<'_>, db_id: u32, object: &ObjectName) -> Result<bool> {
    Ok(residency(state, db_id, object)?.is_some())
}

/// Where a chunk, segment or delta is, if it has a row.
pub(super) fn residency(
    state: &State<'_>,
    db_id: u32,
    object: &ObjectName,
) -> Result<Option<ChunkResidency>> {
    if is_delta(object.variant) {
        let key = tables::ids3(db_id, object.chunk_id, object.generation);
        let row = state.row::<DeltaRecord>(Table::ChunkDeltaIndex, &key)?;
        let row = row.filter(|row| Variant::delta(row.delta_id) == object.variant);
        return Ok(row.map(|row| row.residency));
    }
    let key = tables::ids(db_id, object.chunk_id);
    let row = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)?;
    let named = (object.variant, object.generation);
    Ok(row.filter(|row| (row.variant, row.generation) == named).map(|row| row.residency))
}

pub(super) fn is_delta(variant: Variant) -> bool {
    !matches!(variant, Variant::BASE | Variant::WAL | Variant::SEGMENT)
}

/// Files and objects that nothing named are gone: so are their rows.
fn collect(state: &mut State<'_>, db_id: u32, object: &ObjectName) -> Result<()> {
    let key = tables::object(object);
    let row = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?;
    match row {
        Some(row) if row.is_unused() && object.origin_db == db_id => {}
        Some(_) => return Err(refused(format!("object {object} is still named"))),
        None => return Err(refused(format!("there is no object {object}"))),
    }
    state.delete(Table::GcRefcounts, key);
    remove_row(state, db_id, object)
}

/// Removes the row of a chunk, segment or delta.
pub(super) fn remove_row(state: &mut State<'_>, db_id: u32, object: &ObjectName) -> Result<()> {
    let remote = if is_delta(object.variant) {
        let key = tables::ids3(db_id, object.chunk_id, object.generation);
        let row = state.row::<DeltaRecord>(Table::ChunkDeltaIndex, &key)?;
        state.delete(Table::ChunkDeltaIndex, key);
        row.and_then(|row| row.remote)
    } else {
        let key = tables::ids(db_id, object.chunk_id);
        let row = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)?;
        state.delete(Table::ChunkCatalog, key);
        let pointer = tables::ids3(db_id, object.generation, object.chunk_id);
        if object.variant == Variant::WAL {
            state.delete(Table::WalManifest, pointer);
        }
        row.and_then(|row| row.remote)
    };
    remote.map_or(Ok(()), |remote| count_object(state, remote.namespace_id, false))
}
