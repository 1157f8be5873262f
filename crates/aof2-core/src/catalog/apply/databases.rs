//! Logs, page stores, their forks, and places in buckets.

use super::{chunks, db, live_db, put_db, snapshots};
use crate::catalog::records::{DbRecord, ForkOrigin, JobRecord, NamespaceRecord, Number};
use crate::catalog::state::{ReadRows, ReadTables, State, refused};
use crate::catalog::tables::{self, Counter, Table};
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::operation::{DbKind, DbStatus, Operation, OperationBody as Body, Policy};
use crate::format::validate_name;

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match &operation.body {
        Body::CreateStream { db_id, name, config_hash } => {
            let kind = DbKind::Log;
            register(state, operation, *db_id, name, kind, *config_hash, None)
        }
        Body::RegisterDb { db_id, name, kind, config_hash } => {
            register(state, operation, *db_id, name, *kind, *config_hash, None)
        }
        Body::ForkDb { .. } => fork(state, operation),
        Body::UpdateDbStatus { db_id, status } => update_status(state, operation, *db_id, *status),
        Body::RemoveDb { db_id, job_id } => remove(state, operation, *db_id, *job_id),
        Body::Trim { db_id, before_offset } => {
            let mut row = live_db(state, *db_id)?;
            if row.kind != DbKind::Log {
                return Err(refused("only a log is trimmed"));
            }
            if let Some(holder) = snapshots::holder_before(state, *db_id, *before_offset)? {
                let offset = holder.offset;
                let what = if holder.fork_db.is_some() { "fork" } else { "snapshot" };
                let reason = format!("{what} {} holds the log at {offset}", holder.name);
                return Err(refused(reason));
            }
            row.start_offset = row.start_offset.max(*before_offset);
            put_db(state, *db_id, &row);
            Ok(())
        }
        Body::SetPolicy { db_id, policy } => {
            let mut row = live_db(state, *db_id)?;
            row.policy = *policy;
            put_db(state, *db_id, &row);
            Ok(())
        }
        Body::AddNamespace { namespace_id, url, encryption } => {
            add_namespace(state, *namespace_id, url, encryption.as_ref())
        }
        Body::DropNamespace { namespace_id } => drop_namespace(state, *namespace_id),
        _ => Err(refused("not an operation on databases")),
    }
}

fn register(
    state: &mut State<'_>,
    operation: &Operation,
    db_id: u32,
    name: &str,
    kind: DbKind,
    config_hash: u64,
    origin: Option<ForkOrigin>,
) -> Result<()> {
    validate_name(name)
        .map_err(|e| AofError::InvalidConfig { field: "name", reason: e.to_string() })?;
    if let Some(Number(holder)) = state.row(Table::DbNames, name.as_bytes())? {
        let holder = db(state, u32::try_from(holder).unwrap_or(0))?;
        return Err(AofError::NameTaken {
            name: name.to_owned(),
            url: "the root of the catalog".into(),
            holder: StreamId::from_u64(holder.stream_id),
            remedy: "drop that one, or choose another name",
        });
    }
    if db_id == 0 || state.get(Table::Db, &tables::id(db_id))?.is_some() {
        return Err(refused(format!("the number {db_id} of a database is taken")));
    }
    state.use_number(Counter::Db, u64::from(db_id))?;
    state.put(Table::DbNames, name.as_bytes().to_vec(), &Number(u64::from(db_id)));
    let row = DbRecord {
        name: name.to_owned(),
        kind,
        stream_id: operation.stream_id.map_or(0, StreamId::as_u64),
        status: DbStatus::Active,
        config_hash,
        origin,
        policy: Policy::default(),
        start_offset: 0,
        generation: 0,
        next_snapshot_id: 1,
        created_ms: operation.timestamp_ms,
    };
    put_db(state, db_id, &row);
    Ok(())
}

/// The parent gets a row that holds what the child needs.
fn fork(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    let Body::ForkDb { db_id, name, parent_db, generation, offset, config_hash } = &operation.body
    else {
        return Err(refused("not a fork"));
    };
    let parent = live_db(state, *parent_db)?;
    let origin = ForkOrigin {
        db_id: *parent_db,
        snapshot_id: parent.next_snapshot_id,
        generation: *generation,
        offset: *offset,
    };
    register(state, operation, *db_id, name, parent.kind, *config_hash, Some(origin.clone()))?;
    let hold = snapshots::Hold {
        db_id: *parent_db,
        snapshot_id: origin.snapshot_id,
        name,
        generation: *generation,
        offset: *offset,
        expires_at_ms: None,
        fork_db: Some(*db_id),
    };
    snapshots::hold(state, operation, &hold)
}

/// What is dropped stays so; its name is free at once, and its rows go when nobody reads
/// them any more.
fn update_status(
    state: &mut State<'_>,
    operation: &Operation,
    db_id: u32,
    status: DbStatus,
) -> Result<()> {
    let mut row = live_db(state, db_id)?;
    row.status = status;
    put_db(state, db_id, &row);
    if status == DbStatus::Dropped {
        state.delete(Table::DbNames, row.name.as_bytes().to_vec());
        chunks::retire_all(state, operation, db_id, &row)?;
    }
    Ok(())
}

fn remove(state: &mut State<'_>, operation: &Operation, db_id: u32, job_id: u64) -> Result<()> {
    let row = db(state, db_id)?;
    if row.status != DbStatus::Dropped {
        return Err(refused(format!("{} is not dropped", row.name)));
    }
    for (table, why) in [
        (Table::SnapshotIndex, "snapshots or forks hold it"),
        (Table::GcRefcounts, "its objects were not collected yet"),
    ] {
        let mut is_empty = true;
        state.walk(table, &tables::id(db_id), &mut |_, _| {
            is_empty = false;
            Ok(false)
        })?;
        if !is_empty {
            return Err(refused(format!("{} stays: {why}", row.name)));
        }
    }
    for table in [Table::WalState, Table::WalManifest] {
        for key in keys(state, table, db_id)? {
            state.delete(table, key);
        }
    }
    for key in keys(state, Table::JobPendingIndex, db_id)? {
        if let Some(Number(job)) = state.row(Table::JobPendingIndex, &key)? {
            state.delete(Table::JobQueue, tables::job(job));
        }
        state.delete(Table::JobPendingIndex, key);
    }
    state.delete(Table::Db, tables::id(db_id));
    match row.origin {
        Some(origin) => {
            snapshots::release(state, operation, origin.db_id, origin.snapshot_id, job_id)
        }
        None => Ok(()),
    }
}

fn keys(state: &State<'_>, table: Table, db_id: u32) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    state.walk(table, &tables::id(db_id), &mut |key, _| {
        keys.push(key.to_vec());
        Ok(true)
    })?;
    Ok(keys)
}

fn add_namespace(
    state: &mut State<'_>,
    namespace_id: u32,
    url: &str,
    encryption: Option<&String>,
) -> Result<()> {
    let key = tables::id(namespace_id);
    if namespace_id == 0 || state.get(Table::RemoteNamespace, &key)?.is_some() {
        return Err(refused(format!("the number {namespace_id} of a namespace is taken")));
    }
    if url.is_empty() {
        return Err(refused("a namespace needs a bucket"));
    }
    state.use_number(Counter::Namespace, u64::from(namespace_id))?;
    let row =
        NamespaceRecord { url: url.to_owned(), encryption: encryption.cloned(), object_count: 0 };
    state.put(Table::RemoteNamespace, key, &row);
    Ok(())
}

fn drop_namespace(state: &mut State<'_>, namespace_id: u32) -> Result<()> {
    let row = namespace(state, namespace_id)?;
    if row.object_count > 0 {
        let count = row.object_count;
        return Err(refused(format!("namespace {namespace_id} stays: {count} objects are there")));
    }
    state.delete(Table::RemoteNamespace, tables::id(namespace_id));
    Ok(())
}

pub(super) fn namespace(state: &State<'_>, namespace_id: u32) -> Result<NamespaceRecord> {
    let row = state.row(Table::RemoteNamespace, &tables::id(namespace_id))?;
    row.ok_or_else(|| refused(format!("there is no namespace {namespace_id}")))
}

/// One object more, or one less, is in a namespace.
pub(super) fn count_object(state: &mut State<'_>, namespace_id: u32, is_new: bool) -> Result<()> {
    let mut row = namespace(state, namespace_id)?;
    row.object_count = match is_new {
        true => row.object_count.saturating_add(1),
        false => row.object_count.saturating_sub(1),
    };
    state.put(Table::RemoteNamespace, tables::id(namespace_id), &row);
    Ok(())
}

/// A job of a database that may be about none.
pub(super) fn check_job_db(state: &State<'_>, job: &JobRecord) -> Result<()> {
    match job.db_id {
        0 => Ok(()),
        db_id => db(state, db_id).map(drop),
    }
}
