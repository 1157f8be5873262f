//! Numbers for what is new: 0 in an operation asks for the next one.
//!
//! This happens once, when an operation is decided. The log has the numbers themselves.

use super::jobs::is_reserved;
use crate::catalog::records::{ComponentKind, ComponentRecord, DbRecord, JobRecord};
use crate::catalog::state::{ReadRows, State, refused};
use crate::catalog::tables::{self, Counter, Table};
use crate::error::Result;
use crate::format::operation::OperationBody as Body;

fn next_u32(state: &State<'_>, counter: Counter) -> Result<u32> {
    u32::try_from(state.next(counter)?).map_err(|_| refused("there are no numbers left"))
}

/// Fills in the numbers that an operation leaves open.
pub(in crate::catalog) fn assign(state: &State<'_>, body: &mut Body) -> Result<()> {
    match body {
        Body::CreateStream { db_id, .. }
        | Body::RegisterDb { db_id, .. }
        | Body::ForkDb { db_id, .. }
            if *db_id == 0 =>
        {
            *db_id = next_u32(state, Counter::Db)?;
        }
        Body::AddNamespace { namespace_id, .. } if *namespace_id == 0 => {
            *namespace_id = next_u32(state, Counter::Namespace)?;
        }
        Body::PublishSnapshot { db_id, snapshot_id, .. } if *snapshot_id == 0 => {
            let db = state.row::<DbRecord>(Table::Db, &tables::id(*db_id))?;
            *snapshot_id = db.map_or(1, |db| db.next_snapshot_id);
        }
        Body::ReserveJobId { job_id }
        | Body::EnqueueJob { job_id, .. }
        | Body::RemoveDb { job_id, .. }
        | Body::DropSnapshot { job_id, .. }
        | Body::AppendWalChunk { upload_job: Some(job_id), .. }
            if *job_id == 0 =>
        {
            *job_id = state.next(Counter::Job)?;
        }
        // Only who reserved a number may give one.
        Body::EnqueueJob { job_id, .. } if !is_reserved(state, *job_id)? => {
            return Err(refused(format!("the number {job_id} of a job was not reserved")));
        }
        Body::LeaseJob { job_id, run, .. } if *run == 0 => {
            let job = state.row::<JobRecord>(Table::JobQueue, &tables::job(*job_id))?;
            *run = job.map_or(0, |job| job.runs).saturating_add(1);
        }
        Body::CheckpointApply { merge_job, gc_job, .. } => {
            let next = state.next(Counter::Job)?;
            if *merge_job == 0 {
                *merge_job = next;
            }
            if *gc_job == 0 {
                *gc_job = next.saturating_add(1);
            }
        }
        Body::AdvanceComponent { component_id, name, .. } if *component_id == 0 => {
            *component_id = component(state, name, false)?;
        }
        Body::AdvanceCursor { component_id, name, .. } if *component_id == 0 => {
            *component_id = component(state, name, true)?;
        }
        _ => {}
    }
    Ok(())
}

/// The number of a component or cursor of this name, or the next one.
fn component(state: &State<'_>, name: &str, is_cursor: bool) -> Result<u32> {
    let rows = state.rows::<ComponentRecord>(Table::GenerationWatermarks, &[])?;
    let is_it = |row: &ComponentRecord| {
        row.name == name && (row.kind != ComponentKind::Component) == is_cursor
    };
    match rows.iter().find(|(_, row)| is_it(row)) {
        Some((key, _)) => Ok(tables::u32_of(key, 0)),
        None => next_u32(state, Counter::Component),
    }
}
