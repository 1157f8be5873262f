//! What is done to segments and objects outside the tables: an intent first, then how it
//! ended. An intent without an outcome is what a crash left; `catalog::intents` ends it.

use super::chunks::{self, add_object, update};
use super::databases::namespace;
use super::{db, live_db};
use crate::catalog::records::{ChunkRecord, DbRecord, IntentRecord, IntentSegment, RefcountRecord};
use crate::catalog::state::{ReadRows, State, refused};
use crate::catalog::tables::{self, Table};
use crate::error::Result;
use crate::format::StreamId;
use crate::format::operation::{
    ChunkCompression, ChunkResidency, DbKind, ObjectName, Operation, OperationBody as Body,
    OperationId, Phase, RemoteObject, SegmentRef, Variant,
};

/// Whether it changes something outside the tables.
pub(super) fn is_outside(body: &Body) -> bool {
    needs_intent(body) || matches!(body, Body::EvictToTier1 { .. } | Body::PromoteToTier0 { .. })
}

/// Whether nobody may do it without having written that down. Directives are done by each
/// node, whose manifest has its own intents.
pub(super) fn needs_intent(body: &Body) -> bool {
    matches!(
        body,
        Body::UploadToTier2 { .. } | Body::DeleteFromTier2 { .. } | Body::CompactRange { .. }
    )
}

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match (operation.phase, operation.intent) {
        (Phase::Intent, _) => begin(state, operation),
        (_, Some(intent)) => end(state, operation, intent),
        // A directive that nobody waits for.
        (_, None) => live_db(state, db_id(&operation.body)).map(drop),
    }
}

fn db_id(body: &Body) -> u32 {
    match body {
        Body::EvictToTier1 { db_id }
        | Body::PromoteToTier0 { db_id }
        | Body::UploadToTier2 { db_id, .. }
        | Body::DeleteFromTier2 { db_id, .. }
        | Body::CompactRange { db_id, .. } => *db_id,
        _ => 0,
    }
}

fn segment_rows(segments: &[SegmentRef]) -> Vec<IntentSegment> {
    let row = |segment: &SegmentRef| IntentSegment {
        segment_id: segment.segment_id.as_u64(),
        crc64: segment.crc64,
        bytes: segment.bytes,
        epoch: segment.epoch,
    };
    segments.iter().map(row).collect()
}

fn begin(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    let db_id = db_id(&operation.body);
    // What a dropped database leaves behind is still deleted.
    let owner = match operation.body {
        Body::DeleteFromTier2 { .. } => db(state, db_id)?,
        _ => live_db(state, db_id)?,
    };
    let mut row = IntentRecord {
        operation_type: operation.body.number(),
        db_id,
        stream_id: operation.stream_id.map_or(0, StreamId::as_u64),
        namespace_id: 0,
        object: None,
        key: String::new(),
        segments: segment_rows(&operation.segments),
        outputs: Vec::new(),
        created_ms: operation.timestamp_ms,
    };
    match &operation.body {
        Body::UploadToTier2 { namespace_id, object, key, .. } => {
            check_object(state, operation, &owner, *namespace_id, object)?;
            begin_upload(state, object)?;
            row.namespace_id = *namespace_id;
            row.object = Some(*object);
            row.key.clone_from(key);
        }
        Body::DeleteFromTier2 { namespace_id, object, key, .. } => {
            check_object(state, operation, &owner, *namespace_id, object)?;
            check_other_copy(state, db_id, object)?;
            row.namespace_id = *namespace_id;
            row.object = Some(*object);
            row.key.clone_from(key);
        }
        Body::CompactRange { .. } if owner.kind != DbKind::Log => {
            return Err(refused("only a log has segments"));
        }
        Body::CompactRange { outputs, .. } => row.outputs = segment_rows(outputs),
        _ => {}
    }
    state.put(Table::Intents, tables::intent(operation.id), &row);
    Ok(())
}

/// Logs have objects of segments; page stores have those of chunks and deltas that are there.
fn check_object(
    state: &State<'_>,
    operation: &Operation,
    owner: &DbRecord,
    namespace_id: u32,
    object: &ObjectName,
) -> Result<()> {
    namespace(state, namespace_id)?;
    if operation.segments.len() != 1 {
        return Err(refused("an object is of one segment or chunk"));
    }
    let db_id = db_id(&operation.body);
    let is_segment = object.variant == Variant::SEGMENT;
    if object.origin_db != db_id || is_segment != (owner.kind == DbKind::Log) {
        return Err(refused(format!("{} has no object {object}", owner.name)));
    }
    match is_segment || chunks::is_there(state, db_id, object)? {
        true => Ok(()),
        false => Err(refused(format!("there is no object {object}"))),
    }
}

/// What is in use and nowhere but in the bucket stays there.
fn check_other_copy(state: &State<'_>, db_id: u32, object: &ObjectName) -> Result<()> {
    let count = state.row::<RefcountRecord>(Table::GcRefcounts, &tables::object(object))?;
    let is_in_use = count.is_some_and(|count| count.in_use > 0);
    let residency = chunks::residency(state, db_id, object)?;
    match is_in_use && residency == Some(ChunkResidency::RemoteArchived) {
        true => Err(refused(format!("object {object} is the only copy of what is in use"))),
        false => Ok(()),
    }
}

/// One upload of an object at a time.
fn begin_upload(state: &mut State<'_>, object: &ObjectName) -> Result<()> {
    let key = tables::object(object);
    let mut row = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?.unwrap_or_default();
    if row.pending_upload > 0 {
        return Err(refused(format!("object {object} is being uploaded already")));
    }
    row.pending_upload = 1;
    state.put(Table::GcRefcounts, key, &row);
    Ok(())
}

fn end(state: &mut State<'_>, operation: &Operation, id: OperationId) -> Result<()> {
    let key = tables::intent(id);
    let Some(intent) = state.row::<IntentRecord>(Table::Intents, &key)? else {
        return Err(refused(format!("intent {id} is not open")));
    };
    if intent.operation_type != operation.body.number() || intent.db_id != db_id(&operation.body) {
        return Err(refused(format!("intent {id} was to do something else")));
    }
    state.delete(Table::Intents, key);
    let is_done = operation.phase == Phase::Done;
    match &operation.body {
        Body::UploadToTier2 { .. } => end_upload(state, &intent, is_done),
        Body::DeleteFromTier2 { .. } if is_done => end_delete(state, &intent),
        Body::CompactRange { .. } if is_done => end_compaction(state, &intent),
        _ => Ok(()),
    }
}

fn end_upload(state: &mut State<'_>, intent: &IntentRecord, is_done: bool) -> Result<()> {
    let (Some(object), Some(segment)) = (intent.object, intent.segments.first()) else {
        return Err(refused("the intent of an upload names no object"));
    };
    let key = tables::object(&object);
    let mut count = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?.unwrap_or_default();
    count.pending_upload = count.pending_upload.saturating_sub(1);
    // Nothing names what was never put.
    let is_forgotten = !is_done && count.is_unused() && count.died.is_none();
    match is_forgotten {
        true => state.delete(Table::GcRefcounts, key),
        false => state.put(Table::GcRefcounts, key, &count),
    }
    if !is_done {
        return Ok(());
    }
    let remote = RemoteObject { namespace_id: intent.namespace_id, name: object };
    if object.variant == Variant::SEGMENT {
        return add_segment(state, intent.db_id, &object, segment, remote);
    }
    update(state, intent.db_id, &object, |residency, place| {
        if *residency == ChunkResidency::Local {
            *residency = ChunkResidency::LocalAndRemote;
        }
        *place = Some(remote);
        Ok(())
    })
}

/// A segment is archived, maybe again and under another key.
fn add_segment(
    state: &mut State<'_>,
    db_id: u32,
    object: &ObjectName,
    segment: &IntentSegment,
    remote: RemoteObject,
) -> Result<()> {
    let key = tables::ids(db_id, object.chunk_id);
    if let Some(before) = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)? {
        let before = ObjectName { generation: before.generation, ..*object };
        chunks::remove_row(state, db_id, &before)?;
        state.delete(Table::GcRefcounts, tables::object(&before));
    }
    let row = ChunkRecord {
        variant: Variant::SEGMENT,
        generation: object.generation,
        died: None,
        first_page: 0,
        page_count: 0,
        size_bytes: segment.bytes,
        crc64: segment.crc64,
        compression: ChunkCompression::Zstd,
        residency: ChunkResidency::LocalAndRemote,
        lsn_start: 0,
        lsn_end: 0,
        remote: Some(remote),
    };
    state.put(Table::ChunkCatalog, key, &row);
    add_object(state, object, Some(remote))
}

fn end_delete(state: &mut State<'_>, intent: &IntentRecord) -> Result<()> {
    let Some(object) = intent.object else {
        return Err(refused("the intent of a delete names no object"));
    };
    if object.variant == Variant::SEGMENT {
        let key = tables::ids(intent.db_id, object.chunk_id);
        let row = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)?;
        // An object of which the tables say nothing was garbage.
        if row.is_some_and(|row| row.generation == object.generation) {
            chunks::remove_row(state, intent.db_id, &object)?;
            state.delete(Table::GcRefcounts, tables::object(&object));
        }
        return Ok(());
    }
    // What was collected meanwhile has nothing to be noted.
    if !chunks::is_there(state, intent.db_id, &object)? {
        return Ok(());
    }
    update(state, intent.db_id, &object, |residency, place| {
        *residency = match *residency {
            ChunkResidency::LocalAndRemote | ChunkResidency::Local => ChunkResidency::Local,
            _ => ChunkResidency::Evicted,
        };
        *place = None;
        Ok(())
    })
}

/// Nothing names the objects of segments that were replaced. They are deleted next.
fn end_compaction(state: &mut State<'_>, intent: &IntentRecord) -> Result<()> {
    for segment in &intent.segments {
        let chunk_id = u32::try_from(segment.segment_id).unwrap_or(u32::MAX);
        let key = tables::ids(intent.db_id, chunk_id);
        let Some(mut row) = state.row::<ChunkRecord>(Table::ChunkCatalog, &key)? else {
            continue;
        };
        row.died = Some(row.generation.saturating_add(1));
        state.put(Table::ChunkCatalog, key, &row);
        let name = ObjectName {
            origin_db: intent.db_id,
            chunk_id,
            variant: Variant::SEGMENT,
            generation: row.generation,
        };
        let key = tables::object(&name);
        let count = state.row::<RefcountRecord>(Table::GcRefcounts, &key)?.unwrap_or_default();
        state.put(Table::GcRefcounts, key, &RefcountRecord { in_use: 0, died: row.died, ..count });
    }
    Ok(())
}
