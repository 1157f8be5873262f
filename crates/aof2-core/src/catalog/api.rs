//! The typed calls: one for each thing that can be decided.
//!
//! Each returns a [`Guard`] at once, unless the writer's queue is full. The guard resolves
//! when the operation is durable, or was refused.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::engine::{Group, Request};
use super::guard::{Guard, Promise};
use super::open::Catalog;
use super::records::JobRecord;
use super::state::refused;
use super::writer::Message;
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::operation::{
    ChunkFields, ChunkMutation, ChunkResidency, DbKind, DbStatus, JobKind, JobOutcome, ObjectName,
    Operation, OperationBody as Body, OperationId, Phase, Policy, SegmentRef,
};

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// What it is about; 0 for the whole catalog.
    pub db_id: u32,
    /// What it does.
    pub kind: JobKind,
    /// What it needs to know.
    pub payload: Vec<u8>,
    /// Not to be run before this time, UTC milliseconds; 0 for at once.
    pub not_before_ms: u64,
    /// Runs that may fail before it is given up. 10 by default.
    pub attempts_max: u32,
}

impl JobSpec {
    /// A job that may run at once.
    pub fn new(db_id: u32, kind: JobKind) -> Self {
        Self { db_id, kind, payload: Vec::new(), not_before_ms: 0, attempts_max: 10 }
    }
}

/// A checkpoint of a page store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSpec {
    /// The page store.
    pub db_id: u32,
    /// Which of its write-ahead logs; 0 if it has one.
    pub shard: u16,
    /// Generation of the checkpoint: one more than the last.
    pub generation: u32,
    /// Position of the write-ahead log up to which it holds everything.
    pub applied_lsn: u64,
    /// What it did.
    pub mutations: Vec<ChunkMutation>,
    /// Deltas over a chunk after which a merge job is enqueued.
    pub deltas_max: u16,
}

/// A snapshot to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Log or page store.
    pub db_id: u32,
    /// Its name.
    pub name: String,
    /// Checkpoint that it holds: the current one, or one that another snapshot holds. 0 for
    /// logs.
    pub generation: u32,
    /// Offset of the log behind what it holds.
    pub offset: u64,
    /// When it may go by itself, UTC milliseconds.
    pub expires_at_ms: Option<u64>,
}

/// A fork to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkSpec {
    /// Its name.
    pub name: String,
    /// What it begins as.
    pub parent_db: u32,
    /// Checkpoint that it begins with; 0 for logs.
    pub generation: u32,
    /// Offset of the parent's log behind what it begins with.
    pub offset: u64,
    /// Checksum of its configuration.
    pub config_hash: u64,
    /// Its stream id, if it has a log.
    pub stream_id: Option<StreamId>,
}

/// An object that is put into a bucket or deleted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSpec {
    /// Log or page store that it belongs to.
    pub db_id: u32,
    /// Where it is.
    pub namespace_id: u32,
    /// What it holds.
    pub object: ObjectName,
    /// Its key below the namespace.
    pub key: String,
    /// Its length and checksum.
    pub segment: SegmentRef,
}

/// How long the first retry of a job waits; each one after that twice as long.
const RETRY_MS: u64 = 1_000;
const RETRY_MS_MAX: u64 = 3_600_000;

fn nothing(_: &Operation) {}

/// What nobody but the catalog knows: its version, and where the cursors are.
fn is_of_the_catalog(body: &Body) -> bool {
    matches!(body, Body::Migrate { .. } | Body::AdvanceCursor { .. } | Body::ExpireCursor { .. })
}

fn db_id(operation: &Operation) -> u32 {
    match operation.body {
        Body::CreateStream { db_id, .. }
        | Body::RegisterDb { db_id, .. }
        | Body::ForkDb { db_id, .. } => db_id,
        _ => 0,
    }
}

fn job_id(operation: &Operation) -> u64 {
    match operation.body {
        Body::ReserveJobId { job_id } | Body::EnqueueJob { job_id, .. } => job_id,
        _ => 0,
    }
}

fn run(operation: &Operation) -> u32 {
    match operation.body {
        Body::LeaseJob { run, .. } => run,
        _ => 0,
    }
}

impl Catalog {
    /// Decides several things together: all of them, or none. `Refused` for what only the
    /// catalog decides: steps of its version, and the places of cursors.
    ///
    /// ```
    /// use aof2_core::catalog::{OperationBody, Request};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// let metric = |value| Request::new(OperationBody::RecordMetric { scope: 1, metric: 2, value });
    /// catalog.submit(vec![metric(10), metric(20)])?.wait()?;
    /// assert_eq!(catalog.view()?.metric(1, 2)?.map(|m| m.sum), Some(30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit(&self, requests: Vec<Request>) -> Result<Guard<()>> {
        self.submit_for(requests, nothing)
    }

    fn submit_for<T>(
        &self,
        requests: Vec<Request>,
        value: fn(&Operation) -> T,
    ) -> Result<Guard<T>> {
        self.check_not_forked()?;
        if let Some(own) = requests.iter().find(|request| is_of_the_catalog(&request.body)) {
            let name = own.body.name();
            return Err(refused(format!("{name} is decided by the catalog itself")));
        }
        let (promise, completion) = Promise::new();
        let group = Group { actor: self.actor.clone(), requests, promise };
        let queued = &self.shared.core.counters.queued;
        queued.fetch_add(1, Relaxed);
        if self.shared.sender.send(Message::Commit(group)).is_err() {
            queued.fetch_sub(1, Relaxed);
            return Err(AofError::Closed);
        }
        Ok(Guard::new(completion, value, self.shared.stamp))
    }

    fn decide<T>(&self, body: Body, value: fn(&Operation) -> T) -> Result<Guard<T>> {
        self.submit_for(vec![Request::new(body)], value)
    }

    // ---- databases ----

    /// Registers a page store, or a log that has no stream id yet. The guard gives its
    /// number; `NameTaken` if the name is in use.
    pub fn register_db(&self, name: &str, kind: DbKind, config_hash: u64) -> Result<Guard<u32>> {
        self.decide(Body::RegisterDb { db_id: 0, name: name.to_owned(), kind, config_hash }, db_id)
    }

    /// Registers a log. Nothing is written into the log.
    pub fn create_stream(
        &self,
        name: &str,
        stream_id: StreamId,
        config_hash: u64,
    ) -> Result<Guard<u32>> {
        let body = Body::CreateStream { db_id: 0, name: name.to_owned(), config_hash };
        let request = Request { stream_id: Some(stream_id), ..Request::new(body) };
        self.submit_for(vec![request], db_id)
    }

    /// Registers a fork, and holds what it begins with.
    pub fn fork_db(&self, fork: ForkSpec) -> Result<Guard<u32>> {
        let ForkSpec { name, parent_db, generation, offset, config_hash, stream_id } = fork;
        let body = Body::ForkDb { db_id: 0, name, parent_db, generation, offset, config_hash };
        self.submit_for(vec![Request { stream_id, ..Request::new(body) }], db_id)
    }

    /// Changes the state of a database. A dropped one frees its name at once; what snapshots
    /// and forks hold of it stays.
    pub fn update_db_status(&self, db_id: u32, status: DbStatus) -> Result<Guard<()>> {
        self.decide(Body::UpdateDbStatus { db_id, status }, nothing)
    }

    /// Removes the rows of a dropped database that nobody reads any more.
    pub fn remove_db(&self, db_id: u32) -> Result<Guard<()>> {
        self.decide(Body::RemoveDb { db_id, job_id: 0 }, nothing)
    }

    /// Sets what may go of a database.
    pub fn set_policy(&self, db_id: u32, policy: Policy) -> Result<Guard<()>> {
        self.decide(Body::SetPolicy { db_id, policy }, nothing)
    }

    /// Notes that records of a log before an offset go.
    pub fn trim(&self, db_id: u32, before_offset: u64) -> Result<Guard<()>> {
        self.decide(Body::Trim { db_id, before_offset }, nothing)
    }

    /// Registers a place in a bucket. The guard gives its number.
    pub fn add_namespace(&self, url: &str, encryption: Option<&str>) -> Result<Guard<u32>> {
        let (url, encryption) = (url.to_owned(), encryption.map(str::to_owned));
        self.decide(Body::AddNamespace { namespace_id: 0, url, encryption }, |operation| {
            match operation.body {
                Body::AddNamespace { namespace_id, .. } => namespace_id,
                _ => 0,
            }
        })
    }

    /// Forgets a place in a bucket, if no object is there.
    pub fn drop_namespace(&self, namespace_id: u32) -> Result<Guard<()>> {
        self.decide(Body::DropNamespace { namespace_id }, nothing)
    }

    // ---- jobs ----

    /// Takes a number for a job.
    pub fn reserve_job_id(&self) -> Result<Guard<u64>> {
        self.decide(Body::ReserveJobId { job_id: 0 }, job_id)
    }

    /// Enqueues a job. The guard gives its number; `JobPending` if an unfinished one does the
    /// same.
    pub fn enqueue_job(&self, job: JobSpec) -> Result<Guard<u64>> {
        self.enqueue_job_as(0, job)
    }

    /// Enqueues a job under a number that [`Catalog::reserve_job_id`] gave and that no job
    /// has had yet. `Refused` for any other.
    pub fn enqueue_job_as(&self, number: u64, job: JobSpec) -> Result<Guard<u64>> {
        let JobSpec { db_id, kind, payload, not_before_ms, attempts_max } = job;
        let body =
            Body::EnqueueJob { job_id: number, db_id, kind, payload, not_before_ms, attempts_max };
        self.decide(body, job_id)
    }

    /// Takes a job of one of these kinds that is due, for a time. `None` if there is none.
    /// Its `runs` is the number of this run: who heartbeats or completes it has to say it.
    ///
    /// ```
    /// use aof2_core::catalog::{JobKind, JobOutcome, JobSpec};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// catalog.enqueue_job(JobSpec::new(0, JobKind::Gc))?.wait()?;
    /// let lease = Duration::from_secs(60);
    /// while let Some((job_id, job)) = catalog.lease_job("worker", &[JobKind::Gc], lease)? {
    ///     println!("{job:?}"); // do it, in a way that may be done twice
    ///     catalog.complete_job(job_id, job.runs, JobOutcome::Done, "")?.wait()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lease_job(
        &self,
        owner: &str,
        kinds: &[JobKind],
        lease: Duration,
    ) -> Result<Option<(u64, JobRecord)>> {
        let jobs = self.view()?.jobs()?;
        for (job_id, job) in jobs {
            let now_ms = self.shared.core.now_ms();
            if !kinds.contains(&job.kind) || !job.is_due(now_ms) {
                continue;
            }
            let until_ms = now_ms.saturating_add(lease.as_millis() as u64);
            let body = Body::LeaseJob { job_id, run: 0, owner: owner.to_owned(), until_ms };
            match self.decide(body, run)?.wait() {
                Ok(leased) => {
                    let job = self.view()?.job(job_id)?.filter(|job| job.runs == leased.value);
                    if let Some(job) = job {
                        return Ok(Some((job_id, job)));
                    }
                    // The lease was so short that somebody else has the job by now.
                }
                // Somebody else was faster.
                Err(AofError::JobPending { .. } | AofError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Keeps a run of a job for more time. `Refused` if another run began since, whoever has
    /// it.
    pub fn heartbeat_job(
        &self,
        job_id: u64,
        run: u32,
        owner: &str,
        lease: Duration,
    ) -> Result<Guard<()>> {
        let until_ms = self.shared.core.now_ms().saturating_add(lease.as_millis() as u64);
        self.decide(Body::HeartbeatJob { job_id, run, owner: owner.to_owned(), until_ms }, nothing)
    }

    /// Ends a run of a job; `run` is the `runs` of the job as it was leased, or 0 for a job
    /// that nobody leased. One that failed runs again, after a time that doubles with each
    /// failure, until its attempts are used up. Completing a run twice is the same as once;
    /// `Refused` if another run began since.
    pub fn complete_job(
        &self,
        job_id: u64,
        run: u32,
        outcome: JobOutcome,
        message: &str,
    ) -> Result<Guard<()>> {
        let failures = self.view()?.job(job_id)?.map_or(0, |job| job.failures);
        let wait_ms = RETRY_MS.saturating_mul(1 << failures.min(20)).min(RETRY_MS_MAX);
        let retry_at_ms = self.shared.core.now_ms().saturating_add(wait_ms);
        let message = message.to_owned();
        self.decide(Body::CompleteJob { job_id, run, outcome, message, retry_at_ms }, nothing)
    }

    // ---- chunks ----

    /// Registers a sealed chunk of a write-ahead log, and enqueues its upload if asked to.
    pub fn append_wal_chunk(
        &self,
        db_id: u32,
        shard: u16,
        generation: u32,
        chunk: ChunkFields,
        upload: bool,
    ) -> Result<Guard<()>> {
        let upload_job = upload.then_some(0);
        self.decide(Body::AppendWalChunk { db_id, shard, generation, chunk, upload_job }, nothing)
    }

    /// Registers what a checkpoint of a page store wrote. What it supersedes goes when no
    /// snapshot or fork reads it: a job says so.
    pub fn checkpoint_apply(&self, checkpoint: CheckpointSpec) -> Result<Guard<()>> {
        let CheckpointSpec { db_id, shard, generation, applied_lsn, mutations, deltas_max } =
            checkpoint;
        let body = Body::CheckpointApply {
            db_id,
            shard,
            generation,
            applied_lsn,
            mutations,
            deltas_max,
            merge_job: 0,
            gc_job: 0,
        };
        self.decide(body, nothing)
    }

    /// Notes that a chunk or delta is somewhere else.
    pub fn set_residency(
        &self,
        db_id: u32,
        object: ObjectName,
        residency: ChunkResidency,
    ) -> Result<Guard<()>> {
        self.decide(Body::SetResidency { db_id, object, residency }, nothing)
    }

    /// Removes the rows of objects that nothing names, after their files and objects were
    /// deleted.
    pub fn collect_objects(&self, db_id: u32, objects: Vec<ObjectName>) -> Result<Guard<()>> {
        self.decide(Body::CollectObjects { db_id, objects }, nothing)
    }

    // ---- snapshots ----

    /// Names and holds a state of a database. The guard gives its number; `NameTaken` if the
    /// database has a snapshot of this name, `Trimmed` if that state is not there any more.
    pub fn publish_snapshot(&self, snapshot: SnapshotSpec) -> Result<Guard<u32>> {
        let SnapshotSpec { db_id, name, generation, offset, expires_at_ms } = snapshot;
        let body = Body::PublishSnapshot {
            db_id,
            snapshot_id: 0,
            name,
            generation,
            offset,
            expires_at_ms,
        };
        self.decide(body, |operation| match operation.body {
            Body::PublishSnapshot { snapshot_id, .. } => snapshot_id,
            _ => 0,
        })
    }

    /// Lets a snapshot go. `NoSuchSnapshot` if there is none.
    pub fn drop_snapshot(&self, db_id: u32, snapshot_id: u32) -> Result<Guard<()>> {
        self.decide(Body::DropSnapshot { db_id, snapshot_id, job_id: 0 }, nothing)
    }

    // ---- what is done outside the tables ----

    /// Writes down that an object is going to be put. The guard gives the intent, which
    /// [`Catalog::end_intent`] ends.
    pub fn begin_upload(&self, upload: ObjectSpec) -> Result<Guard<OperationId>> {
        let ObjectSpec { db_id, namespace_id, object, key, segment } = upload;
        self.begin(Body::UploadToTier2 { db_id, namespace_id, object, key }, vec![segment])
    }

    /// Writes down that an object is going to be deleted.
    pub fn begin_delete(&self, delete: ObjectSpec) -> Result<Guard<OperationId>> {
        let ObjectSpec { db_id, namespace_id, object, key, segment } = delete;
        self.begin(Body::DeleteFromTier2 { db_id, namespace_id, object, key }, vec![segment])
    }

    /// Writes down that segments are going to be replaced.
    pub fn begin_compaction(
        &self,
        db_id: u32,
        segments: Vec<SegmentRef>,
        outputs: Vec<SegmentRef>,
    ) -> Result<Guard<OperationId>> {
        self.begin(Body::CompactRange { db_id, outputs }, segments)
    }

    /// Writes down that segments are to leave the hot tier of every node.
    pub fn direct_evict(&self, db_id: u32, segments: Vec<SegmentRef>) -> Result<Guard<()>> {
        let request = Request { segments, ..Request::new(Body::EvictToTier1 { db_id }) };
        self.submit_for(vec![request], nothing)
    }

    /// Writes down that segments are to come back to the hot tier of every node.
    pub fn direct_promote(&self, db_id: u32, segments: Vec<SegmentRef>) -> Result<Guard<()>> {
        let request = Request { segments, ..Request::new(Body::PromoteToTier0 { db_id }) };
        self.submit_for(vec![request], nothing)
    }

    fn begin(&self, body: Body, segments: Vec<SegmentRef>) -> Result<Guard<OperationId>> {
        let request = Request { phase: Phase::Intent, segments, ..Request::new(body) };
        self.submit_for(vec![request], |operation| operation.id)
    }

    // ---- figures and watermarks ----

    /// Adds an observation of a figure.
    pub fn record_metric(&self, scope: u32, metric: u32, value: u64) -> Result<Guard<()>> {
        self.decide(Body::RecordMetric { scope, metric, value }, nothing)
    }

    /// Notes that a component has got to a generation of the catalog.
    pub fn advance_component(&self, name: &str, generation: u64) -> Result<Guard<()>> {
        let name = name.to_owned();
        self.decide(Body::AdvanceComponent { component_id: 0, name, generation }, nothing)
    }
}
