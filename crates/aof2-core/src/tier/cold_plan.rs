//! What the object store needs done, and in which order.
//!
//! Every stream gets its turn, whatever the others have waiting, and room on the local
//! disk comes first: with a bucket that is slower than the writers, uploads never end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::archive::{ColdJob, ColdTask};
use super::coordinator::Coordinator;
use super::stream::StreamTiers;
use crate::format::{ColdKey, SegmentId};
use crate::object::Outage;
use crate::planted::{self, StoreBug};
use crate::store::{Change, Residency};
use crate::write::Stream;

/// Deletes of one stream in one plan. A plan is made for every few jobs, and retention
/// may let go of a million segments.
const DELETES_MAX: usize = 64;

/// A stream that is open.
type Open = (Arc<Stream>, Arc<StreamTiers>);

/// What is to be done with the object store.
pub(super) struct ColdPlan {
    /// Most urgent first.
    pub(super) jobs: Vec<ColdJob>,
    /// When something else becomes due, if nobody rings.
    pub(super) next_ms: Option<u64>,
}

/// Tasks of a plan, by stream.
struct Tasks<'a> {
    streams: &'a [Open],
    now_ms: u64,
    due: Vec<(usize, ColdTask)>,
    next_ms: Option<u64>,
    /// Whether the store does not answer, and then the first stream that waits for it.
    outage: Option<Outage>,
    waits: Option<usize>,
}

impl Tasks<'_> {
    /// Something to do from this time on, or a while after it last failed.
    fn add(&mut self, at: usize, task: ColdTask, from_ms: u64) {
        let Some((_, tiers)) = self.streams.get(at) else { return };
        let due_ms = from_ms.max(tiers.cold_backoff.lock().due_ms(&task));
        if due_ms <= self.now_ms && self.outage.is_some() && task.needs_store() {
            self.waits.get_or_insert(at);
        } else if due_ms <= self.now_ms {
            self.due.push((at, task));
        } else if due_ms != u64::MAX {
            self.next_ms = Some(self.next_ms.map_or(due_ms, |next_ms| next_ms.min(due_ms)));
        }
    }

    /// One for all streams, while any of them waits for the store. A look at that time
    /// finds a store that others found to be back, too.
    fn add_probe(&mut self) {
        if let (Some(outage), Some(at)) = (&self.outage, self.waits) {
            self.add(at, ColdTask::Probe, outage.probe_due_ms);
        }
    }
}

impl Coordinator {
    pub(super) fn plan_cold_at(&self, now_ms: u64) -> ColdPlan {
        let Some(cold) = self.cold() else { return ColdPlan { jobs: Vec::new(), next_ms: None } };
        let mut streams = self.open_streams();
        // Read once for each: turns go on while this sorts.
        streams.sort_by_cached_key(|(_, tiers)| tiers.cold_turn.load(Ordering::Relaxed));
        let mut tasks = Tasks {
            streams: &streams,
            now_ms,
            due: Vec::new(),
            next_ms: None,
            outage: cold.outage(),
            waits: None,
        };
        self.warm_to_drop(&mut tasks);
        let urgent = tasks.due.len();
        for at in 0..streams.len() {
            self.stream_tasks(at, &mut tasks);
        }
        tasks.add_probe();
        let Tasks { due, next_ms, .. } = tasks;
        let (urgent, rest) = due.split_at(urgent);
        let in_turn = one_of_each(rest);
        let job = |(at, task): &(usize, ColdTask)| {
            let (stream, tiers) = streams.get(*at)?;
            ColdJob::new(*task, cold, stream, tiers)
        };
        ColdPlan { jobs: urgent.iter().chain(&in_turn).filter_map(job).collect(), next_ms }
    }

    /// What a stream has for the object store.
    fn stream_tasks(&self, at: usize, tasks: &mut Tasks<'_>) {
        let Some((stream, tiers)) = tasks.streams.get(at) else { return };
        if !stream.store().cold().is_reconciled() {
            tasks.add(at, ColdTask::Reconcile, 0);
            return;
        }
        if stream.store().has_manifest_to_upload() {
            tasks.add(at, ColdTask::Chunks, 0);
        }
        let mut uploads = next_uploads(stream, tiers).into_iter();
        if let Some(id) = uploads.next() {
            tasks.add(at, ColdTask::Upload(id), 0);
        }
        if let Some(id) = uploads.next().filter(|&id| !stream.store().is_verified_ahead(id)) {
            tasks.add(at, ColdTask::Verify(id), 0);
        }
        let first = stream.store().table().first().map(|entry| entry.meta.segment_id);
        if let Some(first) = first.filter(|first| *first > stream.store().cold().writer().start()) {
            tasks.add(at, ColdTask::Start(first), 0);
        }
        for (from_ms, task) in self.deletes(stream, tiers) {
            tasks.add(at, task, from_ms);
        }
    }

    /// Objects that were let go, each with the time when it is due; the soonest.
    ///
    /// Not those of a segment that waits to be uploaded again: their keys must be known to
    /// be taken until it has a new one, or a delete could hit the new object. Not those
    /// that are read, because another writer kept what this one wanted to let go. Not those
    /// before the log's start before the bucket says that it starts later. Not those of a
    /// prefix that the log had before: they are out of reach.
    fn deletes(&self, stream: &Stream, tiers: &StreamTiers) -> Vec<(u64, ColdTask)> {
        let Some(cold) = self.cold() else { return Vec::new() };
        let after_ms = self.config().cold_delete_after_ms;
        let first =
            stream.store().table().first().map_or(SegmentId::from_u64(0), |e| e.meta.segment_id);
        let stays = |id: SegmentId, epoch: u32| match stream.store().table().find(id.as_u32()) {
            _ if stream.store().cold().writer().is_leftover(id, epoch) => false,
            Some(entry) => entry.copies().cold.is_none_or(|cold| cold.epoch == epoch),
            None => id < first && id >= stream.store().cold().writer().start(),
        };
        let queued = stream.store().look_at_manifest(|index| {
            let backoff = tiers.cold_backoff.lock();
            let known = index.pending_deletes().filter_map(|delete| {
                let key = ColdKey::parse(&delete.key)?;
                let (id, epoch) = (key.segment_id(), key.epoch());
                let is_ours =
                    cold.key(stream.store().identity().stream_id, id, epoch) == delete.key;
                if !is_ours || stays(id, epoch) {
                    return None;
                }
                let task = ColdTask::Delete(id, epoch);
                let from_ms = delete.queued_at_ms.saturating_add(after_ms);
                Some((from_ms.max(backoff.due_ms(&task)), task))
            });
            let mut known: Vec<(u64, ColdTask)> = known.collect();
            if known.len() > DELETES_MAX {
                known.select_nth_unstable(DELETES_MAX);
                known.truncate(DELETES_MAX);
            }
            known.sort_unstable();
            known
        });
        queued.unwrap_or_default()
    }

    /// Compressed files over the budget that the object store holds: beside a mapped
    /// segment first, then those used longest ago. What must stay for a while is due then.
    fn warm_to_drop(&self, tasks: &mut Tasks<'_>) {
        let Some(limit) = self.config().warm_bytes else { return };
        let mut total = 0;
        let mut candidates = Vec::new();
        for (at, (stream, _)) in tasks.streams.iter().enumerate() {
            for entry in stream.store().table().snapshot() {
                let copies = entry.copies();
                let Some(warm) = &copies.warm else { continue };
                let bytes = warm.index().artifact_len();
                total += bytes;
                let stays_ms = entry.warm_since_ms().saturating_add(self.config().warm_min_ms);
                let id = entry.meta.segment_id;
                let change = Change::Evict(id, Residency::Warm);
                let objections = stream.store().objections(&change, &entry);
                if !objections.is_last_copy && !objections.is_pinned {
                    let waits_ms = if stays_ms <= tasks.now_ms { 0 } else { stays_ms };
                    candidates.push((waits_ms, !entry.is_hot(), entry.last_read(), at, id, bytes));
                }
            }
        }
        candidates.sort_unstable();
        for (waits_ms, _, _, at, id, bytes) in candidates {
            if total <= limit {
                break;
            }
            total -= bytes;
            tasks.add(at, ColdTask::DropWarm(id), waits_ms);
        }
    }

    /// What should be done with the object store now, most urgent first.
    #[cfg(test)]
    pub(crate) fn plan_cold(&self) -> Vec<ColdJob> {
        self.plan_cold_at(self.now_ms()).jobs
    }

    /// Everything of it that is due, on this thread, until nothing is.
    #[cfg(test)]
    #[allow(clippy::panic)]
    pub(crate) fn settle_cold(&self) {
        for _ in 0..10_000 {
            let jobs = self.plan_cold();
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(ColdJob::run);
        }
        panic!("the cold tier is never done");
    }
}

/// The first task of every stream, then the second of every stream, and so on.
fn one_of_each(by_stream: &[(usize, ColdTask)]) -> Vec<(usize, ColdTask)> {
    let mut ranked = Vec::with_capacity(by_stream.len());
    for of_one in by_stream.chunk_by(|(left, _), (right, _)| left == right) {
        ranked.extend(of_one.iter().enumerate().map(|(rank, &(at, task))| (rank, at, task)));
    }
    ranked.sort_by_key(|&(rank, at, _)| (rank, at));
    ranked.into_iter().map(|(_, at, task)| (at, task)).collect()
}

/// The oldest sealed segment that the object store does not hold, once it is compressed,
/// and the one behind it.
///
/// They are uploaded one at a time and in order, also while one keeps failing: a machine
/// that is lost then leaves a bucket without a hole, whose end is what was archived. Only a
/// segment that can never be uploaded, because it is damaged here, is passed over.
fn next_uploads(stream: &Stream, tiers: &StreamTiers) -> Vec<SegmentId> {
    let mut found = Vec::with_capacity(2);
    for entry in stream.store().table().snapshot() {
        let (id, copies) = (entry.meta.segment_id, entry.copies());
        if entry.sealed_info().is_none() || found.len() == 2 {
            break;
        }
        if entry.damage.is_some()
            || copies.cold.is_some()
            || id < stream.store().cold().writer().start()
        {
            continue;
        }
        let is_hopeless = match copies.warm {
            Some(_) if planted::in_store(StoreBug::UploadsOvertake) => {
                !tiers.cold_backoff.lock().is_due(&ColdTask::Upload(id), tiers.coordinator.now_ms())
            }
            Some(_) => tiers.cold_backoff.lock().is_given_up(&ColdTask::Upload(id)),
            None => tiers.backoff.lock().is_given_up(&id),
        };
        match (is_hopeless, copies.warm) {
            (true, _) => {}
            (false, Some(_)) => found.push(id),
            (false, None) => break,
        }
    }
    found
}
