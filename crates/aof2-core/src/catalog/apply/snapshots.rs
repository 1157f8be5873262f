//! Snapshots, and forks as their parents see them: one row holds everything that was there
//! at a checkpoint.

use super::{chunks, live_db, put_db};
use crate::catalog::records::SnapshotRecord;
use crate::catalog::state::{ReadRows, ReadTables, State, check_number, refused};
use crate::catalog::tables::{self, Table};
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::operation::{DbKind, Operation, OperationBody as Body};
use crate::format::validate_name;

/// A row that holds a state of a database.
pub(super) struct Hold<'a> {
    pub(super) db_id: u32,
    pub(super) snapshot_id: u32,
    pub(super) name: &'a str,
    pub(super) generation: u32,
    pub(super) offset: u64,
    pub(super) expires_at_ms: Option<u64>,
    pub(super) fork_db: Option<u32>,
}

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match &operation.body {
        Body::PublishSnapshot { db_id, snapshot_id, name, generation, offset, expires_at_ms } => {
            validate_name(name)
                .map_err(|e| AofError::InvalidConfig { field: "name", reason: e.to_string() })?;
            let hold = Hold {
                db_id: *db_id,
                snapshot_id: *snapshot_id,
                name,
                generation: *generation,
                offset: *offset,
                expires_at_ms: *expires_at_ms,
                fork_db: None,
            };
            hold_named(state, operation, &hold)
        }
        Body::DropSnapshot { db_id, snapshot_id, job_id } => {
            let key = tables::ids(*db_id, *snapshot_id);
            let row = state.row::<SnapshotRecord>(Table::SnapshotIndex, &key)?;
            let no_such = AofError::NoSuchSnapshot { name: snapshot_id.to_string() };
            match row.ok_or(no_such)?.fork_db {
                None => release(state, operation, *db_id, *snapshot_id, *job_id),
                Some(fork) => Err(refused(format!("fork {fork} needs it; drop the fork"))),
            }
        }
        _ => Err(refused("not an operation on snapshots")),
    }
}

fn hold_named(state: &mut State<'_>, operation: &Operation, new: &Hold<'_>) -> Result<()> {
    let db = live_db(state, new.db_id)?;
    let rows = state.rows::<SnapshotRecord>(Table::SnapshotIndex, &tables::id(new.db_id))?;
    if rows.iter().any(|(_, row)| row.fork_db.is_none() && row.name == new.name) {
        return Err(AofError::NameTaken {
            name: new.name.to_owned(),
            url: format!("the snapshots of {}", db.name),
            holder: StreamId::from_u64(0),
            remedy: "drop that snapshot, or choose another name",
        });
    }
    hold(state, operation, new)
}

/// Adds a row that holds. What it holds must be there: the current checkpoint, or one that
/// another row holds.
pub(super) fn hold(state: &mut State<'_>, operation: &Operation, new: &Hold<'_>) -> Result<()> {
    let mut db = live_db(state, new.db_id)?;
    let key = tables::ids(new.db_id, new.snapshot_id);
    if new.snapshot_id == 0 || state.get(Table::SnapshotIndex, &key)?.is_some() {
        return Err(refused(format!("the number {} of a snapshot is taken", new.snapshot_id)));
    }
    if new.snapshot_id == u32::MAX {
        return Err(refused("there are no numbers of snapshots left"));
    }
    check_number(u64::from(new.snapshot_id), u64::from(db.next_snapshot_id))?;
    if db.kind == DbKind::Log && new.offset < db.start_offset {
        return Err(AofError::Trimmed { earliest: db.start_offset });
    }
    if db.kind == DbKind::Pages && new.generation != db.generation {
        if holders(state, new.db_id, |generation| generation == new.generation)? == 0 {
            return Err(AofError::Trimmed { earliest: u64::from(db.generation) });
        }
        chunks::count_holders(state, new.db_id, new.generation, true)?;
    }
    db.next_snapshot_id = db.next_snapshot_id.max(new.snapshot_id.saturating_add(1));
    put_db(state, new.db_id, &db);
    let row = SnapshotRecord {
        name: new.name.to_owned(),
        generation: new.generation,
        offset: new.offset,
        created_ms: operation.timestamp_ms,
        expires_at_ms: new.expires_at_ms,
        fork_db: new.fork_db,
    };
    state.put(Table::SnapshotIndex, key, &row);
    Ok(())
}

/// Removes a row that holds, and lets go what it was the last to hold.
pub(super) fn release(
    state: &mut State<'_>,
    operation: &Operation,
    db_id: u32,
    snapshot_id: u32,
    job_id: u64,
) -> Result<()> {
    let key = tables::ids(db_id, snapshot_id);
    let Some(row) = state.row::<SnapshotRecord>(Table::SnapshotIndex, &key)? else {
        return Err(AofError::NoSuchSnapshot { name: snapshot_id.to_string() });
    };
    state.delete(Table::SnapshotIndex, key);
    if chunks::count_holders(state, db_id, row.generation, false)? {
        super::jobs::enqueue_once(
            state,
            operation,
            job_id,
            db_id,
            crate::format::operation::JobKind::Gc,
        )?;
    }
    Ok(())
}

/// How many rows hold a checkpoint of which this is true.
pub(super) fn holders(state: &State<'_>, db_id: u32, is_held: impl Fn(u32) -> bool) -> Result<u32> {
    let rows = state.rows::<SnapshotRecord>(Table::SnapshotIndex, &tables::id(db_id))?;
    Ok(rows.iter().filter(|(_, row)| is_held(row.generation)).count() as u32)
}

/// A snapshot or fork whose offset is before this one.
pub(super) fn holder_before(
    state: &State<'_>,
    db_id: u32,
    offset: u64,
) -> Result<Option<SnapshotRecord>> {
    let rows = state.rows::<SnapshotRecord>(Table::SnapshotIndex, &tables::id(db_id))?;
    Ok(rows.into_iter().map(|(_, row)| row).find(|row| row.offset < offset))
}
