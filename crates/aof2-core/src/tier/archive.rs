//! What is done with the object store: uploads, deletes, compressed copies that may go,
//! the manifest's chunks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::jobs::Job;
use super::outage;
use super::reconcile::{queue_delete, reconcile_once};
use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::{ColdKey, SegmentId, first_object_epoch, writer_epoch};
use crate::object::{ObjectBody, ObjectErrorKind};
use crate::planted;
use crate::planted::TierBug;
use crate::segment::Artifact;
use crate::store::{ColdObject, SegmentEntry};
use crate::store::{ColdTier, Upload};
use crate::write::Stream;

/// Uploads of one segment that find other bytes under their keys.
const EPOCHS_MAX: u32 = 8;

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

/// A compressed file that was verified before its turn came.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) segment_id: SegmentId,
    crc64: u64,
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
    let entries = stream.table.snapshot();
    let is_waiting = |entry: &&Arc<SegmentEntry>| {
        entry.sealed_info().is_some()
            && entry.damage.is_none()
            && entry.away_copies().cold.is_none()
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
            ColdTask::Reconcile => reconcile_once(cold, stream, tiers),
            ColdTask::Chunks => {
                stream.tend_manifest_store();
                match stream.has_manifest_to_upload() {
                    // Why is in the manifest's own metrics and log.
                    true => Err(AofError::Timeout { what: "the upload of the manifest" }),
                    false => Ok(()),
                }
            }
            ColdTask::Upload(id) => upload_now(cold, stream, tiers, id).map(drop),
            ColdTask::Verify(id) => verify_ahead(stream, tiers, id),
            ColdTask::DropWarm(id) => drop_warm(cold, stream, tiers, id),
            ColdTask::Start(id) => publish_start(cold, stream, tiers, id),
            ColdTask::Delete(id, epoch) => delete(cold, stream, tiers, id, epoch),
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
        tracing::warn!(%error, stream = %stream.identity.name, ?task, "the cold tier failed");
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
pub(super) fn upload_through(
    cold: &ColdTier,
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    segment_id: SegmentId,
) -> Result<u64> {
    stream.sealed_entry(segment_id)?;
    reconcile_once(cold, stream, tiers)?;
    let is_before = |entry: &Arc<SegmentEntry>| entry.meta.segment_id < segment_id;
    let mut bytes = 0;
    for entry in stream.table.snapshot().into_iter().take_while(is_before) {
        if entry.damage.is_none() {
            bytes += upload_now(cold, stream, tiers, entry.meta.segment_id)?;
        }
    }
    Ok(bytes + upload_now(cold, stream, tiers, segment_id)?)
}

/// Puts a segment into the object store, compressing it first if need be. Returns the
/// bytes of the object; 0 if it was there.
pub(crate) fn upload_now(
    cold: &ColdTier,
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    segment_id: SegmentId,
) -> Result<u64> {
    let start = Instant::now();
    let entry = stream.sealed_entry(segment_id)?;
    if entry.away_copies().cold.is_some() {
        return Ok(0);
    }
    if entry.away_copies().warm.is_none() {
        Job::compress_now(stream, tiers, segment_id)?;
    }
    let warm = entry.away_copies().warm.ok_or(AofError::NoSuchSegment(segment_id))?;
    let ahead = tiers.verified.lock().take_if(|verified| verified.segment_id == segment_id);
    let crc64 = match ahead {
        Some(verified) => verified.crc64,
        None => verified_crc64(stream, &warm)?,
    };
    let body = body_of(stream, &warm)?;
    if planted::in_tier(TierBug::CheckBeforePut) {
        tiers.check_claim(cold, stream)?;
    }
    let upload = try_epochs(cold, stream, tiers, segment_id, |epoch| {
        cold.upload(warm.index(), body.clone(), crc64, epoch)
    })?;
    // Only now: an object that is put after another writer claimed the log is void.
    if !planted::in_tier(TierBug::NoCheckAfterPut) && !planted::in_tier(TierBug::CheckBeforePut) {
        tiers.check_claim(cold, stream)?;
    }
    let object = ColdObject {
        key: &upload.key,
        etag: &upload.etag,
        epoch: upload.epoch,
        index: warm.index(),
    };
    match stream.finish_upload(segment_id, object) {
        // Let go while it was on its way: the object goes, too.
        Err(error @ AofError::NoSuchSegment(_)) => {
            stream.queue_delete(segment_id, &upload.key)?;
            return Err(error);
        }
        finished => finished?,
    }
    let bytes = warm.index().artifact_len();
    tiers.counters.uploaded(bytes, start.elapsed());
    tracing::info!(
        stream = %stream.identity.name, segment = segment_id.as_u64(), bytes, key = upload.key,
        elapsed = ?start.elapsed(), "segment archived"
    );
    Ok(bytes)
}

/// The checksum of a compressed file that was just verified. The file may be old: what is
/// damaged must not become the archive. An upload is refused if the file has changed since.
fn verified_crc64(stream: &Stream, warm: &Artifact) -> Result<u64> {
    let crc64 = crc64_of(&body_of(stream, warm)?, warm)?;
    stream.verify_warm(warm)?;
    Ok(crc64)
}

/// A compressed file, as it is uploaded.
fn body_of(stream: &Stream, warm: &Artifact) -> Result<ObjectBody> {
    let path = warm.source().name();
    ObjectBody::file(&*stream.storage, path).map_err(AofError::io("open compressed segment", path))
}

fn crc64_of(body: &ObjectBody, warm: &Artifact) -> Result<u64> {
    body.crc64().map_err(AofError::io("read compressed segment", warm.source().name()))
}

fn verify_ahead(stream: &Stream, tiers: &StreamTiers, segment_id: SegmentId) -> Result<()> {
    let entry = stream.sealed_entry(segment_id)?;
    let warm = entry.away_copies().warm.ok_or(AofError::NoSuchSegment(segment_id))?;
    let crc64 = verified_crc64(stream, &warm)?;
    *tiers.verified.lock() = Some(Verified { segment_id, crc64 });
    Ok(())
}

/// Uploads under the first key of this writer that is free or has the same bytes. What
/// earlier uploads of the segment may have left is let go of.
fn try_epochs(
    cold: &ColdTier,
    stream: &Stream,
    tiers: &StreamTiers,
    segment_id: SegmentId,
    upload: impl Fn(u32) -> Result<Upload, crate::object::ObjectError>,
) -> Result<Upload> {
    let writer = tiers.writer.claimed_epoch()?;
    let first = next_epoch(stream, segment_id, writer);
    // An object that the manifest still names though the segment was taken from it: the
    // crash came before that was written down. And uploads that others began.
    let mut taken: Vec<String> = stored_key(stream, segment_id).into_iter().collect();
    taken.extend(begun_keys(stream, segment_id));
    for epoch in first..first.saturating_add(EPOCHS_MAX) {
        if writer_epoch(epoch) != writer {
            break;
        }
        let key = cold.key(stream.identity.stream_id, segment_id, epoch);
        stream.begin_upload(segment_id, &key)?;
        match upload(epoch) {
            Ok(done) => {
                for key in taken.into_iter().filter(|key| *key != done.key) {
                    stream.queue_delete(segment_id, &key)?;
                }
                return Ok(done);
            }
            Err(error) if error.kind == ObjectErrorKind::Exists => taken.push(key),
            Err(error) => {
                stream.fail_upload(segment_id, &key, error.reason())?;
                return Err(error.into());
            }
        }
    }
    let reason = format!("{EPOCHS_MAX} keys of segment {segment_id} are taken by other bytes");
    Err(AofError::InvalidConfig { field: "cold", reason })
}

/// Keys under which uploads of a segment were begun and not finished.
fn begun_keys(stream: &Stream, segment_id: SegmentId) -> Vec<String> {
    let begun = stream.look_at_manifest(|index| {
        let of_segment = index.pending_uploads().filter(|upload| upload.segment_id == segment_id);
        let keys = of_segment.map(|upload| upload.key.clone());
        keys.filter(|key| ColdKey::parse(key).is_some()).collect()
    });
    begun.unwrap_or_default()
}

/// The key of the object that holds a segment, as the manifest knows it.
fn stored_key(stream: &Stream, segment_id: SegmentId) -> Option<String> {
    stream.look_at_manifest(|index| index.get(segment_id)?.cold_key.clone()).flatten()
}

/// The epoch of an upload that this writer began, or one that was never used.
fn next_epoch(stream: &Stream, segment_id: SegmentId, writer: u32) -> u32 {
    let known = stream.look_at_manifest(|index| {
        let epoch_of = |key: &str| {
            let epoch = ColdKey::parse(key)?.epoch();
            (writer_epoch(epoch) == writer).then_some(epoch)
        };
        let begun = index.pending_uploads().filter(|upload| upload.segment_id == segment_id);
        if let Some(epoch) = begun.filter_map(|upload| epoch_of(&upload.key)).max() {
            return Some(epoch);
        }
        let doomed = index.pending_deletes().filter(|delete| delete.segment_id == segment_id);
        let doomed = doomed.filter_map(|delete| epoch_of(&delete.key));
        let stored = index.get(segment_id).and_then(|segment| epoch_of(segment.cold_key.as_ref()?));
        doomed.chain(stored).max().map(|epoch| epoch.saturating_add(1))
    });
    known.flatten().unwrap_or(first_object_epoch(writer))
}

/// Says where the log begins now, so that whoever claims it counts on nothing before that;
/// then what lies before may be deleted.
fn publish_start(
    cold: &ColdTier,
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    start: SegmentId,
) -> Result<()> {
    let (stream_id, epoch) = (stream.identity.stream_id, tiers.writer.claimed_epoch()?);
    cold.publish_start(stream_id, epoch, start)?;
    tiers.check_claim(cold, stream)?;
    for object in tiers.writer.claim().map(|claim| claim.view.standing()).unwrap_or_default() {
        if object.segment_id < start && object.segment_id >= tiers.writer.start() {
            queue_delete(cold, stream, &object)?;
        }
    }
    tiers.writer.set_start(start);
    if let Err(error) = cold.remove_older_starts(stream_id, epoch, start) {
        tracing::warn!(%error, "what was said about the start of the log before stays");
    }
    Ok(())
}

/// Removes a compressed file once the object store was asked whether it really has the
/// same bytes.
fn drop_warm(
    cold: &ColdTier,
    stream: &Stream,
    tiers: &StreamTiers,
    segment_id: SegmentId,
) -> Result<()> {
    let entry = stream.sealed_entry(segment_id)?;
    let copies = entry.away_copies();
    let (Some(warm), Some(_)) = (&copies.warm, &copies.cold) else { return Ok(()) };
    let body = body_of(stream, warm)?;
    let crc64 = crc64_of(&body, warm)?;
    let key = cold.key(stream.identity.stream_id, segment_id, copies.cold_epoch);
    if !cold.holds(&key, body.len(), Some(crc64))? {
        // Which of the two changed? A good object must not be let go for a bad file.
        stream.verify_warm(warm)?;
        tracing::error!(
            segment = segment_id.as_u64(),
            key,
            "an archived segment is not in the bucket"
        );
        tiers.counters.cold_missing.fetch_add(1, Ordering::Relaxed);
        return stream.lose_cold(segment_id, &key);
    }
    if stream.evict_warm(segment_id)? > 0 {
        tiers.counters.warm_evictions.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn delete(
    cold: &ColdTier,
    stream: &Stream,
    tiers: &StreamTiers,
    segment_id: SegmentId,
    epoch: u32,
) -> Result<()> {
    let key = cold.key(stream.identity.stream_id, segment_id, epoch);
    // From here on nothing will name the object again, whatever a crash leaves.
    stream.commit_manifest()?;
    cold.delete(&key)?;
    stream.finish_delete(segment_id, &key)?;
    tiers.counters.deletes.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
