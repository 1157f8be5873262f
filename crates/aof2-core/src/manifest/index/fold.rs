//! Folding one record into the index.
//!
//! What each event does to its segment stands in [`apply`]; the rules around it:
//!
//! * **Order.** Records are folded by ordinal. A record that was folded before changes
//!   nothing, so replaying a stretch twice is harmless.
//! * **Objects.** Uploads and deletions are tracked by object key, whatever segment the
//!   record names, from the moment they are recorded: a coordinator that restarts must
//!   find its queue. A key that [`StoredChunkName::parse`] recognises is a chunk of the
//!   manifest itself and touches no segment.
//! * **Unopened segments.** A record about a segment with an id that has not been
//!   reached yet waits for its `SegmentOpened`. The queue is bounded; what does not fit
//!   is counted and dropped.
//! * **Forgotten segments.** Segments are opened in the order of their ids. A record
//!   about a smaller id that is not in the index is about a segment that no tier holds
//!   any more: counted, otherwise ignored.

use crate::format::SegmentId;
use crate::format::manifest::{
    EVICTED_WARM, ManifestEvent, ManifestRecord, ManifestSegment, PendingDelete, PendingUpload,
    ReasonCode, StoredChunkName, UnresolvedRecord,
};

use super::{ManifestIndex, UNRESOLVED_BYTES_MAX, UNRESOLVED_COUNT_MAX};

/// What folding a record did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folded {
    /// It changed the state.
    Applied,
    /// It had been folded before.
    Already,
    /// It holds no state: a marker or a custom event.
    Passed,
    /// Its type is unknown: skipped and counted.
    Unknown,
    /// Its segment has not been opened: it waits.
    Queued,
    /// Its segment has not been opened and the queue is full: dropped and counted.
    Dropped,
    /// Its segment was forgotten: counted.
    Late,
}

impl ManifestIndex {
    /// Folds the record with this ordinal in.
    #[inline]
    pub fn fold(&mut self, ordinal: u64, record: &ManifestRecord<'_>) -> Folded {
        if ordinal < self.next_record {
            return Folded::Already;
        }
        self.next_record = ordinal.saturating_add(1);
        match record.event {
            ManifestEvent::SegmentOpened { base_offset, epoch } => {
                self.open(ordinal, record, base_offset, epoch)
            }
            ManifestEvent::SnapshotMarker { .. } | ManifestEvent::CustomEvent { .. } => {
                Folded::Passed
            }
            ManifestEvent::Unknown { .. } => {
                count(&mut self.counts.unknown_records);
                self.counts.unknown_flags |= record.flags;
                Folded::Unknown
            }
            ManifestEvent::UploadStarted { key }
            | ManifestEvent::UploadDone { key, .. }
            | ManifestEvent::UploadFailed { key, .. }
            | ManifestEvent::Tier2DeleteQueued { key }
            | ManifestEvent::Tier2Deleted { key } => self.fold_object(ordinal, record, key),
            _ => self.fold_segment(ordinal, record, None),
        }
    }

    fn open(
        &mut self,
        ordinal: u64,
        record: &ManifestRecord<'_>,
        base_offset: u64,
        epoch: u32,
    ) -> Folded {
        let segment_id = record.segment_id;
        self.opened_end = self.opened_end.max(segment_id.next().as_u64());
        match self.segments.get_mut(segment_id) {
            // The same incarnation told again, by a writer that was restarted: what is
            // known about it stays true.
            Some(known) if known.base_offset == base_offset && known.epoch == epoch => {
                known.hot = true;
                touch(known, ordinal, record);
            }
            Some(known) => *known = opened(ordinal, record, base_offset, epoch),
            None => self.segments.insert(opened(ordinal, record, base_offset, epoch)),
        }
        if !self.unresolved.is_empty() {
            self.resolve(segment_id);
        }
        Folded::Applied
    }

    /// Applies what has been waiting for this segment. Keys were dealt with when the
    /// records arrived.
    fn resolve(&mut self, segment_id: SegmentId) {
        let first = (segment_id, 0);
        while let Some(entry) = self.unresolved.range(first..=(segment_id, u64::MAX)).next() {
            let Some(waiting) = self.unresolved.remove(&entry.0.clone()) else { break };
            self.unresolved_bytes -= waiting.bytes.len();
            // Verified when it was queued or loaded.
            let Ok(record) = waiting.record() else { continue };
            if let Some(segment) = self.segments.get_mut(segment_id) {
                apply(segment, waiting.ordinal, &record, None);
            }
        }
        self.forget_without_copy(segment_id);
    }

    /// Uploads and deletions: first the object, then the segment it belongs to.
    fn fold_object(&mut self, ordinal: u64, record: &ManifestRecord<'_>, key: &str) -> Folded {
        let mut owned_key = None;
        match record.event {
            ManifestEvent::UploadStarted { .. } => self.start_upload(ordinal, record, key),
            ManifestEvent::UploadFailed { reason, .. } => {
                self.fail_upload(ordinal, record, key, reason);
            }
            ManifestEvent::UploadDone { .. } => {
                owned_key = self.pending_uploads.take(key).map(|upload| upload.key);
            }
            // Whoever deletes an object gives up uploading it.
            ManifestEvent::Tier2DeleteQueued { .. } => {
                self.pending_uploads.take(key);
                self.queue_delete(ordinal, record, key);
            }
            ManifestEvent::Tier2Deleted { .. } => {
                self.pending_uploads.take(key);
                self.pending_deletes.take(key);
            }
            _ => {}
        }
        if StoredChunkName::parse(key).is_some() {
            return Folded::Applied;
        }
        self.fold_segment(ordinal, record, owned_key)
    }

    fn start_upload(&mut self, ordinal: u64, record: &ManifestRecord<'_>, key: &str) {
        let known = self.pending_uploads.take(key);
        let mut upload = known.unwrap_or_else(|| new_upload(record, key));
        upload.attempts = upload.attempts.saturating_add(1);
        upload.failure = None;
        upload.updated_at_ms = record.timestamp_ms;
        upload.last_record = ordinal;
        self.pending_uploads.insert(upload);
    }

    /// A failed upload stays pending: somebody will try again, or give up knowingly by
    /// deleting what may be there.
    fn fail_upload(
        &mut self,
        ordinal: u64,
        record: &ManifestRecord<'_>,
        key: &str,
        reason: ReasonCode,
    ) {
        let known = self.pending_uploads.take(key);
        let mut upload = known.unwrap_or_else(|| new_upload(record, key));
        upload.failure = Some(reason);
        upload.updated_at_ms = record.timestamp_ms;
        upload.last_record = ordinal;
        self.pending_uploads.insert(upload);
    }

    fn queue_delete(&mut self, ordinal: u64, record: &ManifestRecord<'_>, key: &str) {
        let known = self.pending_deletes.take(key);
        let mut delete = known.unwrap_or_else(|| PendingDelete {
            key: key.to_owned(),
            segment_id: record.segment_id,
            queued_at_ms: record.timestamp_ms,
            last_record: ordinal,
        });
        delete.last_record = ordinal;
        self.pending_deletes.insert(delete);
    }

    #[inline]
    fn fold_segment(
        &mut self,
        ordinal: u64,
        record: &ManifestRecord<'_>,
        owned_key: Option<String>,
    ) -> Folded {
        let segment_id = record.segment_id;
        let Some(segment) = self.segments.get_mut(segment_id) else {
            return self.fold_stray(ordinal, record);
        };
        apply(segment, ordinal, record, owned_key);
        if !segment.has_copy() {
            self.segments.remove(segment_id);
        }
        Folded::Applied
    }

    fn forget_without_copy(&mut self, segment_id: SegmentId) {
        if self.segments.get(segment_id).is_some_and(|segment| !segment.has_copy()) {
            self.segments.remove(segment_id);
        }
    }

    /// A record about a segment that is not in the index.
    #[cold]
    fn fold_stray(&mut self, ordinal: u64, record: &ManifestRecord<'_>) -> Folded {
        if record.segment_id.as_u64() < self.opened_end {
            count(&mut self.counts.late_records);
            return Folded::Late;
        }
        let len = record.encoded_len();
        let has_space = self.unresolved.len() < UNRESOLVED_COUNT_MAX
            && self.unresolved_bytes.saturating_add(len) <= UNRESOLVED_BYTES_MAX;
        let mut bytes = Vec::with_capacity(if has_space { len } else { 0 });
        if !has_space || record.encode(&mut bytes).is_err() {
            count(&mut self.counts.unresolved_dropped);
            return Folded::Dropped;
        }
        self.unresolved_bytes += bytes.len();
        let segment_id = record.segment_id;
        let waiting = UnresolvedRecord { segment_id, ordinal, bytes };
        self.unresolved.insert((segment_id, ordinal), waiting);
        Folded::Queued
    }
}

/// A count from a hostile snapshot must not overflow.
fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[inline(always)]
fn opened(
    ordinal: u64,
    record: &ManifestRecord<'_>,
    base_offset: u64,
    epoch: u32,
) -> ManifestSegment {
    ManifestSegment {
        opened_at_ms: record.timestamp_ms,
        updated_at_ms: record.timestamp_ms,
        last_record: ordinal,
        ..ManifestSegment::opened(record.segment_id, base_offset, epoch)
    }
}

fn new_upload(record: &ManifestRecord<'_>, key: &str) -> PendingUpload {
    PendingUpload {
        key: key.to_owned(),
        segment_id: record.segment_id,
        logical_offset: record.logical_offset,
        started_at_ms: record.timestamp_ms,
        updated_at_ms: record.timestamp_ms,
        last_record: 0,
        attempts: 0,
        failure: None,
    }
}

/// Notes that there was a record, unless a newer one has been noted.
#[inline]
fn touch(segment: &mut ManifestSegment, ordinal: u64, record: &ManifestRecord<'_>) {
    if ordinal >= segment.last_record {
        segment.last_record = ordinal;
        segment.updated_at_ms = record.timestamp_ms;
    }
}

/// What a record does to its segment. `owned_key` is the record's key where somebody
/// had a copy to give away.
fn apply(
    segment: &mut ManifestSegment,
    ordinal: u64,
    record: &ManifestRecord<'_>,
    owned_key: Option<String>,
) {
    touch(segment, ordinal, record);
    match record.event {
        ManifestEvent::SealSegment {
            durable_bytes,
            segment_crc64,
            ext_id,
            coordinator_watermark,
            flush_failure,
        } => {
            segment.durable_bytes = Some(durable_bytes);
            segment.segment_crc64 = Some(segment_crc64);
            segment.ext_id = Some(ext_id);
            segment.watermark = Some(coordinator_watermark);
            segment.flush_failure = Some(flush_failure);
            segment.sealed_at_ms = Some(record.timestamp_ms);
            if segment.hot {
                segment.resident_bytes = durable_bytes;
            }
        }
        ManifestEvent::CompressionStarted { job_id } => segment.compression_job = Some(job_id),
        ManifestEvent::CompressionDone { compressed_bytes, dictionary_id } => {
            segment.warm_bytes = Some(compressed_bytes);
            segment.dictionary_id = Some(dictionary_id);
            segment.compression_job = None;
            segment.compression_failure = None;
        }
        ManifestEvent::CompressionFailed { reason } => {
            segment.compression_job = None;
            segment.compression_failure = Some(reason.0);
        }
        ManifestEvent::UploadDone { key, etag } => {
            segment.cold_key = Some(owned_key.unwrap_or_else(|| key.to_owned()));
            segment.cold_etag = Some(etag.to_owned());
            segment.upload_failure = None;
        }
        ManifestEvent::UploadFailed { reason, .. } => segment.upload_failure = Some(reason.0),
        ManifestEvent::Tier2Deleted { key } => {
            // The segment may have been uploaded again under another key.
            if segment.cold_key.as_deref() == Some(key) {
                segment.cold_key = None;
                segment.cold_etag = None;
            }
        }
        ManifestEvent::HydrationStarted { source_tier } => {
            segment.hydration_source = Some(source_tier);
        }
        ManifestEvent::HydrationDone { resident_bytes } => {
            segment.hot = true;
            segment.resident_bytes = resident_bytes;
            segment.hydration_source = None;
            segment.hydration_failure = None;
        }
        ManifestEvent::HydrationFailed { reason } => {
            segment.hydration_source = None;
            segment.hydration_failure = Some(reason.0);
        }
        ManifestEvent::LocalEvicted { reclaimed_bytes } => {
            evict(segment, reclaimed_bytes, record.flags & EVICTED_WARM != 0);
        }
        // The object's business, not the segment's.
        ManifestEvent::UploadStarted { .. } | ManifestEvent::Tier2DeleteQueued { .. } => {}
        // Never about a known segment; see `fold`.
        ManifestEvent::SegmentOpened { .. }
        | ManifestEvent::SnapshotMarker { .. }
        | ManifestEvent::CustomEvent { .. }
        | ManifestEvent::Unknown { .. } => {}
    }
}

/// One eviction takes one local copy away: the hot one, or the warm one when the record
/// says so or the hot one has gone before.
fn evict(segment: &mut ManifestSegment, reclaimed_bytes: u64, is_warm: bool) {
    segment.reclaimed_bytes = segment.reclaimed_bytes.saturating_add(reclaimed_bytes);
    if segment.hot && !is_warm {
        segment.hot = false;
        segment.resident_bytes = 0;
    } else {
        segment.warm_bytes = None;
        segment.dictionary_id = None;
    }
}
