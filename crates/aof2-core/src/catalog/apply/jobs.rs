//! Jobs: one unfinished of a kind for each database, leased, retried, completed once.

use super::databases::check_job_db;
use crate::catalog::records::{JobRecord, JobState, Number};
use crate::catalog::state::{ReadRows, ReadTables, State, refused};
use crate::catalog::tables::{self, Counter, Table};
use crate::error::{AofError, Result};
use crate::format::operation::{JobKind, JobOutcome, Operation, OperationBody as Body};
use crate::planted::{self, CatalogBug};

/// Runs of a job that the catalog enqueues by itself.
const ATTEMPTS_MAX: u32 = 10;

pub(super) fn apply(state: &mut State<'_>, operation: &Operation) -> Result<()> {
    match &operation.body {
        Body::ReserveJobId { job_id } => {
            if *job_id < state.next(Counter::Job)? {
                return Err(refused(format!("the number {job_id} of a job is taken")));
            }
            state.use_number(Counter::Job, *job_id)
        }
        Body::EnqueueJob { job_id, db_id, kind, payload, not_before_ms, attempts_max } => {
            let job = JobRecord {
                payload: payload.clone(),
                not_before_ms: *not_before_ms,
                attempts_max: (*attempts_max).max(1),
                ..new_job(operation, *db_id, *kind)
            };
            enqueue(state, *job_id, &job)
        }
        Body::LeaseJob { job_id, owner, until_ms } => {
            lease(state, operation, *job_id, owner, *until_ms)
        }
        Body::HeartbeatJob { job_id, owner, until_ms } => {
            heartbeat(state, operation, *job_id, owner, *until_ms)
        }
        Body::CompleteJob { job_id, outcome, message, retry_at_ms } => {
            complete(state, operation, *job_id, *outcome, message, *retry_at_ms)
        }
        _ => Err(refused("not an operation on jobs")),
    }
}

fn new_job(operation: &Operation, db_id: u32, kind: JobKind) -> JobRecord {
    JobRecord {
        db_id,
        kind,
        payload: Vec::new(),
        state: JobState::Pending,
        not_before_ms: 0,
        runs: 0,
        failures: 0,
        attempts_max: ATTEMPTS_MAX,
        created_ms: operation.timestamp_ms,
        updated_ms: operation.timestamp_ms,
        message: String::new(),
    }
}

/// The last job of this kind, if it is not finished.
fn unfinished(state: &State<'_>, db_id: u32, kind: JobKind) -> Result<Option<u64>> {
    let Some(Number(job_id)) = state.row(Table::JobPendingIndex, &tables::pending(db_id, kind))?
    else {
        return Ok(None);
    };
    let job = state.row::<JobRecord>(Table::JobQueue, &tables::job(job_id))?;
    Ok(job.is_some_and(|job| !job.is_finished()).then_some(job_id))
}

fn enqueue(state: &mut State<'_>, job_id: u64, job: &JobRecord) -> Result<()> {
    check_job_db(state, job)?;
    if job_id == 0 || state.get(Table::JobQueue, &tables::job(job_id))?.is_some() {
        return Err(refused(format!("the number {job_id} of a job is taken")));
    }
    let is_known = |pending: &u64| {
        !planted::in_catalog(CatalogBug::UniqueJobInMemory) || *pending >= state.opened_at
    };
    if let Some(job_id) = unfinished(state, job.db_id, job.kind)?.filter(is_known) {
        return Err(AofError::JobPending { job_id });
    }
    // The finished one before has told what it had to tell.
    let key = tables::pending(job.db_id, job.kind);
    if let Some(Number(last)) = state.row(Table::JobPendingIndex, &key)? {
        state.delete(Table::JobQueue, tables::job(last));
    }
    state.use_number(Counter::Job, job_id)?;
    state.put(Table::JobPendingIndex, key, &Number(job_id));
    state.put(Table::JobQueue, tables::job(job_id), job);
    Ok(())
}

/// Enqueues a job that has nothing to be told, unless one is there already.
pub(super) fn enqueue_once(
    state: &mut State<'_>,
    operation: &Operation,
    job_id: u64,
    db_id: u32,
    kind: JobKind,
) -> Result<()> {
    match unfinished(state, db_id, kind)? {
        Some(_) => Ok(()),
        None => enqueue(state, job_id, &new_job(operation, db_id, kind)),
    }
}

fn job(state: &State<'_>, job_id: u64) -> Result<JobRecord> {
    let row = state.row(Table::JobQueue, &tables::job(job_id))?;
    row.ok_or_else(|| refused(format!("there is no job {job_id}")))
}

fn put(state: &mut State<'_>, operation: &Operation, job_id: u64, mut job: JobRecord) {
    job.updated_ms = operation.timestamp_ms;
    state.put(Table::JobQueue, tables::job(job_id), &job);
}

fn lease(
    state: &mut State<'_>,
    operation: &Operation,
    job_id: u64,
    owner: &str,
    until_ms: u64,
) -> Result<()> {
    let mut row = job(state, job_id)?;
    if !row.is_due(operation.timestamp_ms) {
        return Err(AofError::JobPending { job_id });
    }
    row.runs = row.runs.saturating_add(1);
    row.state = JobState::Leased { owner: owner.to_owned(), until_ms, heartbeats: 0 };
    put(state, operation, job_id, row);
    Ok(())
}

fn heartbeat(
    state: &mut State<'_>,
    operation: &Operation,
    job_id: u64,
    owner: &str,
    until_ms: u64,
) -> Result<()> {
    let mut row = job(state, job_id)?;
    match &mut row.state {
        JobState::Leased { owner: holder, until_ms: until, heartbeats } if holder == owner => {
            *until = until_ms;
            *heartbeats = heartbeats.saturating_add(1);
        }
        _ => return Err(refused(format!("{owner} does not have job {job_id} any more"))),
    }
    put(state, operation, job_id, row);
    Ok(())
}

/// Completing twice is the same as once, also when the job's row is long gone.
fn complete(
    state: &mut State<'_>,
    operation: &Operation,
    job_id: u64,
    outcome: JobOutcome,
    message: &str,
    retry_at_ms: u64,
) -> Result<()> {
    let Some(mut row) = state.row::<JobRecord>(Table::JobQueue, &tables::job(job_id))? else {
        return match job_id != 0 && job_id < state.next(Counter::Job)? {
            true => Ok(()),
            false => Err(refused(format!("there is no job {job_id}"))),
        };
    };
    if row.is_finished() {
        return Ok(());
    }
    row.message = message.to_owned();
    match outcome {
        JobOutcome::Done => row.state = JobState::Done,
        JobOutcome::Failed => {
            row.failures = row.failures.saturating_add(1);
            row.not_before_ms = retry_at_ms;
            row.state = match row.failures >= row.attempts_max {
                true => JobState::Failed,
                false => JobState::Pending,
            };
        }
    }
    put(state, operation, job_id, row);
    Ok(())
}
