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
            state.use_number(Counter::Job, *job_id)?;
            state.put(Table::Counters, tables::reserved_job(*job_id), &Number(*job_id));
            Ok(())
        }
        Body::EnqueueJob { job_id, db_id, kind, payload, not_before_ms, attempts_max } => {
            let job = JobRecord {
                payload: payload.clone(),
                not_before_ms: *not_before_ms,
                attempts_max: (*attempts_max).max(1),
                ..new_job(operation, *db_id, *kind)
            };
            if *job_id != state.next(Counter::Job)? && !is_reserved(state, *job_id)? {
                return Err(refused(format!("the number {job_id} of a job was not reserved")));
            }
            enqueue(state, *job_id, &job)?;
            state.delete(Table::Counters, tables::reserved_job(*job_id));
            Ok(())
        }
        Body::LeaseJob { job_id, run, owner, until_ms } => {
            let lease = Lease { job_id: *job_id, run: *run, owner, until_ms: *until_ms };
            begin_run(state, operation, &lease)
        }
        Body::HeartbeatJob { job_id, run, owner, until_ms } => {
            let lease = Lease { job_id: *job_id, run: *run, owner, until_ms: *until_ms };
            heartbeat(state, operation, &lease)
        }
        Body::CompleteJob { job_id, run, outcome, message, retry_at_ms } => {
            let ended = Ended { run: *run, outcome: *outcome, message, retry_at_ms: *retry_at_ms };
            complete(state, operation, *job_id, &ended)
        }
        _ => Err(refused("not an operation on jobs")),
    }
}

/// Whether a number was taken for a job that is not enqueued yet.
pub(super) fn is_reserved(state: &State<'_>, job_id: u64) -> Result<bool> {
    Ok(state.get(Table::Counters, &tables::reserved_job(job_id))?.is_some())
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

/// A worker has a run of a job for a time. The number of the run tells it from a worker that
/// had the job before, also if both have the same name.
struct Lease<'a> {
    job_id: u64,
    run: u32,
    owner: &'a str,
    until_ms: u64,
}

fn begin_run(state: &mut State<'_>, operation: &Operation, lease: &Lease<'_>) -> Result<()> {
    let job_id = lease.job_id;
    let mut row = job(state, job_id)?;
    if !row.is_due(operation.timestamp_ms) {
        return Err(AofError::JobPending { job_id });
    }
    let next = row.runs.checked_add(1);
    if next != Some(lease.run) {
        return Err(refused(format!("run {} of job {job_id} is not the next one", lease.run)));
    }
    row.runs = lease.run;
    row.state =
        JobState::Leased { owner: lease.owner.to_owned(), until_ms: lease.until_ms, heartbeats: 0 };
    put(state, operation, job_id, row);
    Ok(())
}

fn heartbeat(state: &mut State<'_>, operation: &Operation, lease: &Lease<'_>) -> Result<()> {
    let Lease { job_id, run, owner, until_ms } = lease;
    let mut row = job(state, *job_id)?;
    let is_its_run = row.runs == *run;
    match &mut row.state {
        JobState::Leased { owner: holder, until_ms: until, heartbeats }
            if is_its_run && holder == owner =>
        {
            *until = *until_ms;
            *heartbeats = heartbeats.saturating_add(1);
        }
        _ => return Err(refused(format!("{owner} does not have job {job_id} any more"))),
    }
    put(state, operation, *job_id, row);
    Ok(())
}

/// How a run ended.
struct Ended<'a> {
    run: u32,
    outcome: JobOutcome,
    message: &'a str,
    retry_at_ms: u64,
}

/// Completing a run twice is the same as once, also when the job's row is long gone. A run
/// that is not the last one has nothing to say any more.
fn complete(
    state: &mut State<'_>,
    operation: &Operation,
    job_id: u64,
    ended: &Ended<'_>,
) -> Result<()> {
    let Some(mut row) = state.row::<JobRecord>(Table::JobQueue, &tables::job(job_id))? else {
        return match job_id != 0 && job_id < state.next(Counter::Job)? {
            true => Ok(()),
            false => Err(refused(format!("there is no job {job_id}"))),
        };
    };
    if row.runs != ended.run {
        let (run, last) = (ended.run, row.runs);
        return Err(refused(format!("run {run} of job {job_id} is over: the last one is {last}")));
    }
    let has_ended = row.runs > 0 && row.state == JobState::Pending;
    if row.is_finished() || has_ended {
        return Ok(());
    }
    ended.message.clone_into(&mut row.message);
    match ended.outcome {
        JobOutcome::Done => row.state = JobState::Done,
        JobOutcome::Failed => {
            row.failures = row.failures.saturating_add(1);
            row.not_before_ms = ended.retry_at_ms;
            row.state = match row.failures >= row.attempts_max {
                true => JobState::Failed,
                false => JobState::Pending,
            };
        }
    }
    put(state, operation, job_id, row);
    Ok(())
}
