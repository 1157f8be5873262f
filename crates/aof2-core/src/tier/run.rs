//! What running each task means. There is one way for jobs, users and scrubs, so all of
//! them are counted alike; only a job remembers how it went, for when to try again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::stream::StreamTiers;
use super::task::{Job, Lane, Task};
use crate::check::scrub_next;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::store::{Applied, Change, Residency, SegmentEntry};
use crate::write::Stream;

impl Job {
    /// Does it on this thread. Failures are counted, recorded in the manifest and tried
    /// again later.
    pub(crate) fn run(self) {
        let Self { task, stream, tiers } = &self;
        tiers.take_turn(*task);
        let outcome = run(stream, tiers, *task);
        tiers.note(stream, *task, &outcome);
        if let Task::Hydrate(segment_id) = *task {
            // What is back must be counted before it is not waited for any more.
            tiers.measure(stream);
            tiers.activations.lock().finish(segment_id, outcome);
        }
        match task.lane() {
            Lane::Moves => tiers.moved(stream),
            Lane::Cold => tiers.coordinator.notify(),
            // It says itself when it changed something.
            Lane::Scrub => {}
        }
    }
}

impl StreamTiers {
    /// Does what a user asks for on this thread. The user hears of a failure, and nobody
    /// tries again.
    pub(crate) fn run_now(&self, stream: &Arc<Stream>, task: Task) -> Result<u64> {
        let outcome = run(stream, self, task);
        self.moved(stream);
        outcome
    }

    /// Puts a segment and those before it into the object store: a later one alone would be
    /// behind a hole if the machine was lost now. Returns the bytes of the objects.
    pub(crate) fn upload_through(
        &self,
        stream: &Arc<Stream>,
        segment_id: SegmentId,
    ) -> Result<u64> {
        let store = stream.store();
        store.sealed_entry(segment_id)?;
        store.reconcile()?;
        let is_before = |entry: &Arc<SegmentEntry>| entry.meta.segment_id < segment_id;
        let before = store.table().snapshot().into_iter().take_while(is_before);
        let before = before.filter(|entry| entry.damage.is_none()).map(|e| e.meta.segment_id);
        let upload = |bytes, id| Ok(bytes + run(stream, self, Task::Upload(id))?);
        let uploaded = before.chain([segment_id]).try_fold(0, upload);
        self.moved(stream);
        uploaded
    }

    /// Writes down whose turn it was, where streams have turns.
    fn take_turn(&self, task: Task) {
        match (task, task.lane()) {
            (Task::Compress(_), _) => self.coordinator.had_turn(&self.compress_turn),
            (_, Lane::Cold) => self.coordinator.had_turn(&self.cold_turn),
            (_, Lane::Moves | Lane::Scrub) => {}
        }
    }
}

/// Does it. Returns the bytes of the copy that came or went; 0 if there was nothing to do.
pub(super) fn run(stream: &Arc<Stream>, tiers: &StreamTiers, task: Task) -> Result<u64> {
    let (store, coordinator) = (stream.store(), &tiers.coordinator);
    let change = |change| make(stream, tiers, &change);
    match task {
        Task::Compress(id) => return change(Change::Compress(id)),
        Task::Hydrate(id) => return change(Change::Hydrate(id)),
        Task::Evict(id) => {
            return match change(Change::Evict(id, Residency::Hot)) {
                // No other tier has it for sure.
                Err(AofError::LastCopy(_) | AofError::Cold(_)) => {
                    compress_and_evict(stream, tiers, id)
                }
                evicted => evicted,
            };
        }
        Task::Upload(id) => {
            if store.sealed_entry(id)?.copies().compressed().is_none() {
                change(Change::Compress(id))?;
            }
            return change(Change::Upload(id));
        }
        Task::Delete(id, epoch) => return change(Change::Delete(id, epoch)),
        Task::DropWarm(id) => {
            let dropped = u64::from(store.drop_warm(id)?);
            tiers.counters.warm_evictions.fetch_add(dropped, Ordering::Relaxed);
        }
        Task::Seal => drop(stream.seal_until(&mut false, None)?),
        Task::Reconcile => store.reconcile()?,
        Task::UploadManifest => {
            store.upload_manifest();
            if store.has_manifest_to_upload() {
                // Why is in the manifest's own metrics and log.
                return Err(AofError::Timeout { what: "the upload of the manifest" });
            }
        }
        Task::VerifyAhead(id) => store.verify_ahead(id)?,
        Task::PublishStart(id) => store.publish_start(id)?,
        Task::Probe => coordinator.cold().iter().for_each(|cold| cold.ask_if_due()),
        Task::Scrub => scrub_next(stream, tiers, coordinator.config().scrub_bytes_per_second),
    }
    Ok(0)
}

/// Makes a change of the store and counts it.
fn make(stream: &Stream, tiers: &StreamTiers, change: &Change) -> Result<u64> {
    let (store, start) = (stream.store(), Instant::now());
    let entry = store.table().find(change.segment_id().as_u32());
    let applied = store.apply(change)?;
    Ok(count(stream, tiers, change, entry.as_deref(), applied, start.elapsed()))
}

/// Compresses a segment and evicts its segment file in one turn.
fn compress_and_evict(stream: &Stream, tiers: &StreamTiers, id: SegmentId) -> Result<u64> {
    let (store, start) = (stream.store(), Instant::now());
    let entry = store.sealed_entry(id)?;
    let (compressed, evicted) = store.compress_and_evict(id)?;
    let elapsed = start.elapsed();
    count(stream, tiers, &Change::Compress(id), Some(&entry), compressed, elapsed);
    let evict = Change::Evict(id, Residency::Hot);
    Ok(count(stream, tiers, &evict, Some(&entry), evicted, elapsed))
}

/// Counts a change that was made. Returns its bytes; 0 if there was nothing to do.
fn count(
    stream: &Stream,
    tiers: &StreamTiers,
    change: &Change,
    entry: Option<&SegmentEntry>,
    applied: Applied,
    elapsed: Duration,
) -> u64 {
    if !applied.is_done {
        return 0;
    }
    let (counters, bytes) = (&tiers.counters, applied.bytes);
    let (stream, segment) = (stream.store().name(), change.segment_id().as_u64());
    match change {
        Change::Compress(_) => {
            let raw_bytes = entry.map_or(0, |entry| entry.record_bytes());
            counters.compressed(raw_bytes, bytes, elapsed);
        }
        Change::Hydrate(_) => {
            counters.hydrated(elapsed);
            tracing::info!(stream, segment, bytes, ?elapsed, "segment came back to the hot tier");
        }
        Change::Evict(_, Residency::Hot) => {
            counters.evictions.fetch_add(1, Ordering::Relaxed);
            tracing::info!(stream, segment, bytes, ?elapsed, "segment left the hot tier");
        }
        Change::Upload(_) => {
            let key = applied.key.unwrap_or_default();
            counters.uploaded(bytes, elapsed);
            tracing::info!(stream, segment, bytes, key, ?elapsed, "segment archived");
        }
        Change::Delete(..) => {
            counters.deletes.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    bytes
}
