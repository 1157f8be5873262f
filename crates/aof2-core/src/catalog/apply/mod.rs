//! What each operation does to the tables: one pure function.
//!
//! Ids, times and everything random stand in the operation, so that applying the same
//! operations gives the same tables on any machine, at any time. An operation that cannot
//! hold is refused before anybody writes it down; one that is in the log and refused here
//! means that log and tables are not of one history.

mod assign;
mod chunks;
mod databases;
mod jobs;
mod segments;
mod snapshots;
mod watermarks;

pub(super) use assign::assign;

use super::records::DbRecord;
use super::state::{ReadRows, State, refused};
use super::tables::{self, Table};
use crate::error::{AofError, Result};
use crate::format::operation::{DbStatus, Operation, OperationBody as Body, Phase};

/// Applies an operation to the tables, or refuses it.
pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    check_phase(operation)?;
    match &operation.body {
        Body::EvictToTier1 { .. }
        | Body::PromoteToTier0 { .. }
        | Body::UploadToTier2 { .. }
        | Body::DeleteFromTier2 { .. }
        | Body::CompactRange { .. } => segments::apply(state, operation),
        Body::Trim { .. }
        | Body::SetPolicy { .. }
        | Body::CreateStream { .. }
        | Body::RegisterDb { .. }
        | Body::UpdateDbStatus { .. }
        | Body::ForkDb { .. }
        | Body::RemoveDb { .. }
        | Body::AddNamespace { .. }
        | Body::DropNamespace { .. } => databases::apply(state, operation),
        Body::ReserveJobId { .. }
        | Body::EnqueueJob { .. }
        | Body::LeaseJob { .. }
        | Body::HeartbeatJob { .. }
        | Body::CompleteJob { .. } => jobs::apply(state, operation),
        Body::AppendWalChunk { .. }
        | Body::CheckpointApply { .. }
        | Body::SetResidency { .. }
        | Body::CollectObjects { .. } => chunks::apply(state, operation),
        Body::PublishSnapshot { .. } | Body::DropSnapshot { .. } => {
            snapshots::apply(state, operation)
        }
        Body::Migrate { .. }
        | Body::RecordMetric { .. }
        | Body::AdvanceComponent { .. }
        | Body::AdvanceCursor { .. }
        | Body::ExpireCursor { .. } => watermarks::apply(state, operation),
    }
}

/// Only what changes something outside the tables has an intent and an outcome.
fn check_phase(operation: &Operation) -> Result<()> {
    let has_outcome = segments::is_outside(&operation.body);
    match (operation.phase, operation.intent) {
        (Phase::Intent, None) if has_outcome => Ok(()),
        (Phase::Intent, _) => Err(refused("an intent of what is done as soon as it is durable")),
        (_, Some(_)) if has_outcome => Ok(()),
        (_, Some(_)) => Err(refused("an outcome of what has no intent")),
        (_, None) if segments::needs_intent(&operation.body) => {
            Err(refused("an outcome without its intent"))
        }
        (Phase::Done, None) => Ok(()),
        (_, None) => Err(refused("an outcome without its intent")),
    }
}

/// A database that must exist.
fn db(state: &State<'_>, db_id: u32) -> Result<DbRecord> {
    let row = state.row(Table::Db, &tables::id(db_id))?;
    row.ok_or(AofError::NoSuchDatabase { db: db_id.to_string() })
}

/// A database that is in use.
fn live_db(state: &State<'_>, db_id: u32) -> Result<DbRecord> {
    let row = db(state, db_id)?;
    match row.status {
        DbStatus::Dropped => Err(AofError::NoSuchDatabase { db: row.name }),
        _ => Ok(row),
    }
}

fn put_db(state: &mut State<'_>, db_id: u32, row: &DbRecord) {
    state.put(Table::Db, tables::id(db_id), row);
}
