//! What is done with the object store: uploads, deletes, compressed copies that may go,
//! the manifest's chunks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::jobs::Job;
use super::outage;
use super::stream::StreamTiers;
use crate::bucket::ColdTier;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::store::{Change, SegmentEntry};
use crate::write::Stream;

/// One thing to do with the object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ColdTask {
    /// Before the first upload: who writes, what was left unfinished, what is missing.
    Reconcile,
    /// The manifest's sealed chunks.
    Chunks,
    /// A sealed segment.
    Upload(SegmentId),
    /// Verifies the compressed file that is uploaded next, while another is on its way.
    Verify(SegmentId),
    /// The compressed file of a segment that the object store holds.
    DropWarm(SegmentId),
    /// Where the log begins, before anything older is deleted.
    Start(SegmentId),
    /// An object that was let go, by segment and epoch.
    Delete(SegmentId, u32),
    /// Asks a store that does not answer whether it is back, for all streams.
    Probe,
}

/// A task of one stream; it holds the stream open for as long as it runs, and is not
/// planned again until it is gone.
#[derive(Debug)]
pub(crate) struct ColdJob {
    task: ColdTask,
    cold: Arc<ColdTier>,
    stream: Arc<Stream>,
    tiers: Arc<StreamTiers>,
}

/// How many sealed segments are not in the object store.
pub(super) fn uploads_pending(stream: &Stream) -> u64 {
    let entries = stream.store().table().snapshot();
    let is_waiting = |entry: &&Arc<SegmentEntry>| {
        entry.sealed_info().is_some() && entry.damage.is_none() && entry.copies().cold.is_none()
    };
    entries.iter().filter(is_waiting).count() as u64
}

impl ColdJob {
    /// `None` if it is being done.
    pub(super) fn new(
        task: ColdTask,
        cold: &Arc<ColdTier>,
        stream: &Arc<Stream>,
        tiers: &Arc<StreamTiers>,
    ) -> Option<Self> {
        let is_new = tiers.cold_running.lock().insert(task);
        is_new.then(|| Self {
            task,
            cold: Arc::clone(cold),
            stream: Arc::clone(stream),
            tiers: Arc::clone(tiers),
        })
    }

    /// Does it. Failures are counted, recorded in the manifest and tried again later.
    pub(crate) fn run(self) {
        let Self { task, cold, stream, tiers } = &self;
        tiers.coordinator.had_turn(&tiers.cold_turn);
        let outcome = match *task {
            ColdTask::Reconcile => stream.store().reconcile(),
            ColdTask::Chunks => {
                stream.store().upload_manifest();
                match stream.store().has_manifest_to_upload() {
                    // Why is in the manifest's own metrics and log.
                    true => Err(AofError::Timeout { what: "the upload of the manifest" }),
                    false => Ok(()),
                }
            }
            ColdTask::Upload(id) => upload_now(stream, tiers, id).map(drop),
            ColdTask::Verify(id) => stream.store().verify_ahead(id),
            ColdTask::DropWarm(id) => stream.store().drop_warm(id).map(|dropped| {
                tiers.counters.warm_evictions.fetch_add(u64::from(dropped), Ordering::Relaxed);
            }),
            ColdTask::Start(id) => stream.store().publish_start(id),
            ColdTask::Delete(id, epoch) => {
                stream.store().apply(&Change::Delete(id, epoch)).map(|_| {
                    tiers.counters.deletes.fetch_add(1, Ordering::Relaxed);
                })
            }
            ColdTask::Probe => {
                cold.ask_if_due();
                Ok(())
            }
        };
        self.note(outcome);
        tiers.coordinator.ring();
    }

    fn note(&self, outcome: Result<()>) {
        let Self { task, cold, stream, tiers } = self;
        let mut backoff = tiers.cold_backoff.lock();
        let Err(error) = outcome else {
            backoff.succeed(task);
            tiers.set_cold_error(*task, None);
            return;
        };
        match &error {
            // Gone, or going: nothing to try again.
            AofError::Closed | AofError::NoSuchSegment(_) | AofError::Forked => {
                backoff.succeed(task);
                return;
            }
            // Due when the store is back, which is known for all streams at once.
            error if outage::is_outage(error, cold) => {
                backoff.succeed(task);
                tiers.set_cold_error(*task, None);
                return;
            }
            // Damaged here, or refused for good.
            AofError::Corrupt(_) | AofError::LastCopy(_) | AofError::InvalidConfig { .. } => {
                backoff.give_up(*task);
            }
            // The stream does nothing more.
            AofError::Fenced { .. } | AofError::Diverged(_) | AofError::NameTaken { .. } => {
                backoff.give_up(*task);
            }
            error => {
                backoff.fail_for(*task, tiers.coordinator.now_ms(), outage::pause_max_ms(error))
            }
        }
        tiers.counters.cold_failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, stream = %stream.store().identity().name, ?task, "the cold tier failed");
        tiers.set_cold_error(*task, Some(error.to_string()));
    }
}

impl Drop for ColdJob {
    fn drop(&mut self) {
        self.tiers.cold_running.lock().remove(&self.task);
    }
}

/// Puts a segment and those before it into the object store: a later one alone would be
/// behind a hole if the machine was lost now. Returns the bytes of the objects.
pub(crate) fn upload_through(
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    segment_id: SegmentId,
) -> Result<u64> {
    let store = stream.store();
    store.sealed_entry(segment_id)?;
    store.reconcile()?;
    let is_before = |entry: &Arc<SegmentEntry>| entry.meta.segment_id < segment_id;
    let mut bytes = 0;
    for entry in store.table().snapshot().into_iter().take_while(is_before) {
        if entry.damage.is_none() {
            bytes += upload_now(stream, tiers, entry.meta.segment_id)?;
        }
    }
    Ok(bytes + upload_now(stream, tiers, segment_id)?)
}

/// Puts a segment into the object store, compressing it first if need be. Returns the
/// bytes of the object; 0 if it was there.
pub(crate) fn upload_now(
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    segment_id: SegmentId,
) -> Result<u64> {
    let (store, start) = (stream.store(), Instant::now());
    let copies = store.sealed_entry(segment_id)?.copies();
    if copies.cold.is_none() && copies.warm.is_none() {
        Job::compress_now(stream, tiers, segment_id)?;
    }
    let uploaded = store.apply(&Change::Upload(segment_id))?;
    let (true, bytes) = (uploaded.is_done, uploaded.bytes) else { return Ok(0) };
    let key = uploaded.key.unwrap_or_default();
    tiers.counters.uploaded(bytes, start.elapsed());
    tracing::info!(
        stream = %store.name(), segment = segment_id.as_u64(), bytes, key,
        elapsed = ?start.elapsed(), "segment archived"
    );
    Ok(bytes)
}
