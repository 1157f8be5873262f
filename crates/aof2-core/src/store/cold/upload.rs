//! Putting a segment into the bucket, and deleting objects that nobody reads.

use crate::bucket::{ColdTier, StoredObject};
use crate::error::{AofError, Result};
use crate::format::manifest::{ManifestEvent, ReasonCode};
use crate::format::{ColdKey, SegmentId, first_object_epoch, writer_epoch};
use crate::object::{ObjectBody, ObjectError, ObjectErrorKind, ObjectOp};
use crate::planted::{self, StoreBug};
use crate::segment::Artifact;
use crate::store::Store;
use crate::store::change::Change;
use crate::store::copy::{ColdCopy, Residency};
use crate::store::entry::SegmentEntry;

/// Uploads of one segment that find other bytes under their keys.
const EPOCHS_MAX: u32 = 8;

/// A compressed file that was verified before its turn came.
#[derive(Debug)]
pub(crate) struct Verified {
    segment_id: SegmentId,
    crc64: u64,
}

impl Store {
    /// Puts a compressed file into the bucket.
    pub(in crate::store) fn put_object(
        &self,
        tier: &ColdTier,
        segment_id: SegmentId,
        warm: &Artifact,
    ) -> Result<StoredObject> {
        let mut verified = self.cold().verified.lock();
        let ahead = verified.take_if(|verified| verified.segment_id == segment_id);
        drop(verified);
        let crc64 = match ahead {
            Some(verified) => verified.crc64,
            None => self.verified_crc64(warm)?,
        };
        let body = self.body_of(warm)?;
        self.try_epochs(tier, segment_id, |epoch| {
            tier.upload(warm.index(), body.clone(), crc64, epoch)
        })
    }

    /// Verifies the compressed file that is uploaded next, while another is uploaded.
    pub(crate) fn verify_ahead(&self, segment_id: SegmentId) -> Result<()> {
        let copies = self.sealed_entry(segment_id)?.copies();
        let warm = copies.warm.ok_or(AofError::NoSuchSegment(segment_id))?;
        let crc64 = self.verified_crc64(&warm)?;
        *self.cold().verified.lock() = Some(Verified { segment_id, crc64 });
        Ok(())
    }

    /// Whether that was done for this segment.
    pub(crate) fn is_verified_ahead(&self, segment_id: SegmentId) -> bool {
        self.cold().verified.lock().as_ref().is_some_and(|v| v.segment_id == segment_id)
    }

    /// The checksum of a compressed file that was just verified. The file may be old: what is
    /// damaged must not become the archive. An upload is refused if the file has changed since.
    fn verified_crc64(&self, warm: &Artifact) -> Result<u64> {
        let crc64 = crc64_of(&self.body_of(warm)?, warm)?;
        self.verify_warm(warm)?;
        Ok(crc64)
    }

    /// A compressed file, as it is uploaded.
    fn body_of(&self, warm: &Artifact) -> Result<ObjectBody> {
        let path = warm.source().name();
        ObjectBody::file(self.storage(), path)
            .map_err(AofError::io("open compressed segment", path))
    }

    /// Uploads under the first key of this writer that is free or has the same bytes.
    /// Objects that earlier uploads of the segment may have left are deleted later.
    fn try_epochs(
        &self,
        cold: &ColdTier,
        segment_id: SegmentId,
        upload: impl Fn(u32) -> Result<StoredObject, ObjectError>,
    ) -> Result<StoredObject> {
        let writer = self.cold().writer().claimed_epoch()?;
        let first = self.next_epoch(segment_id, writer);
        // An object that the manifest still names though the segment was taken from it: the
        // crash came before that was recorded. And uploads that others began.
        let mut taken: Vec<String> = self.stored_key(segment_id).into_iter().collect();
        taken.extend(self.begun_keys(segment_id));
        for epoch in first..first.saturating_add(EPOCHS_MAX) {
            if writer_epoch(epoch) != writer {
                break;
            }
            let key = cold.key(self.stream_id(), segment_id, epoch);
            self.begin_upload(segment_id, &key)?;
            match upload(epoch) {
                Ok(done) => {
                    for key in taken.into_iter().filter(|key| *key != done.key) {
                        self.queue_delete(segment_id, &key)?;
                    }
                    return Ok(done);
                }
                Err(error) if error.kind == ObjectErrorKind::Exists => taken.push(key),
                Err(error) => {
                    self.fail_upload(segment_id, &key, error.reason())?;
                    return Err(error.into());
                }
            }
        }
        let reason = format!("{EPOCHS_MAX} keys of segment {segment_id} are taken by other bytes");
        Err(AofError::InvalidConfig { field: "cold", reason })
    }

    /// Keys under which uploads of a segment were begun and not finished.
    fn begun_keys(&self, segment_id: SegmentId) -> Vec<String> {
        let begun = self.look_at_manifest(|index| {
            let of_segment =
                index.pending_uploads().filter(|upload| upload.segment_id == segment_id);
            let keys = of_segment.map(|upload| upload.key.clone());
            keys.filter(|key| ColdKey::parse(key).is_some()).collect()
        });
        begun.unwrap_or_default()
    }

    /// The key of the object that holds a segment, as the manifest knows it.
    fn stored_key(&self, segment_id: SegmentId) -> Option<String> {
        self.look_at_manifest(|index| index.get(segment_id)?.cold_key.clone()).flatten()
    }

    /// The epoch of an upload that this writer began, or one that was never used.
    fn next_epoch(&self, segment_id: SegmentId, writer: u32) -> u32 {
        let known = self.look_at_manifest(|index| {
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
            let stored =
                index.get(segment_id).and_then(|segment| epoch_of(segment.cold_key.as_ref()?));
            let step = if planted::in_store(StoreBug::KeyReused) { 0 } else { 1 };
            doomed.chain(stored).max().map(|epoch| epoch.saturating_add(step))
        });
        known.flatten().unwrap_or(first_object_epoch(writer))
    }

    /// Publishes where the log begins now, so that whoever claims it counts on nothing
    /// before that; then older objects may be deleted.
    pub(crate) fn publish_start(&self, start: SegmentId) -> Result<()> {
        let cold = self.cold().require_tier()?;
        let writer = self.cold().writer();
        let (stream_id, epoch) = (self.stream_id(), writer.claimed_epoch()?);
        cold.publish_start(stream_id, epoch, start)?;
        self.check_claim(cold)?;
        for object in writer.claim().map(|claim| claim.view.standing()).unwrap_or_default() {
            if object.segment_id < start && object.segment_id >= writer.start() {
                self.queue_delete_of(cold, &object)?;
            }
        }
        writer.set_start(start);
        if let Err(error) = cold.remove_older_starts(stream_id, epoch, start) {
            tracing::warn!(%error, "older statements of where the log begins stay");
        }
        Ok(())
    }

    /// Evicts a compressed file. If the bucket does not have the segment after all, it is
    /// uploaded again from this file, which is all there may be. Whether the file is gone.
    pub(crate) fn drop_warm(&self, segment_id: SegmentId) -> Result<bool> {
        let copies = self.sealed_entry(segment_id)?.copies();
        let (Some(warm), Some(cold)) = (&copies.warm, &copies.cold) else { return Ok(false) };
        match self.apply(&Change::Evict(segment_id, Residency::Warm)) {
            Err(AofError::LastCopy(_)) => {}
            evicted => return evicted.map(|applied| applied.is_done),
        }
        self.verify_warm(warm)?;
        // Somebody else may have uploaded it again meanwhile: that object is another one.
        let is_same = |entry: &SegmentEntry| {
            Ok(entry.copies().cold.is_some_and(|now| now.epoch == cold.epoch))
        };
        let forgotten = self.apply_if(&Change::Forget(segment_id), &is_same)?;
        if let Some(key) = forgotten.key.filter(|_| forgotten.is_done) {
            let segment = segment_id.as_u64();
            tracing::error!(segment, key, "an archived segment was not in the bucket");
            self.cold().note_missing();
        }
        Ok(false)
    }

    /// Whether the bucket holds the object that a segment is read from. A compressed file
    /// with the same bytes tells that by one small request. Any other says nothing about
    /// the object: it was compressed again, with other options or by another version. Then
    /// the object is read. If it arrives damaged, that is an error and no verdict, because
    /// it may have been damaged on its way: the file stays, and a scrub decides.
    pub(in crate::store) fn is_archived_as(
        &self,
        segment_id: SegmentId,
        warm: &Artifact,
        object: &ColdCopy,
    ) -> Result<bool> {
        let tier = self.cold().require_tier()?;
        let key = tier.key(self.stream_id(), segment_id, object.epoch);
        let body = self.body_of(warm)?;
        let crc64 = crc64_of(&body, warm)?;
        let Some(head) = tier.head(&key)? else { return Ok(false) };
        if head.holds(body.len(), crc64) {
            return Ok(true);
        }
        if head.len != object.len() {
            return Ok(false);
        }
        let index = object.artifact.index();
        let stored = Artifact::with_index(tier.source(index, object.epoch), index.clone());
        match stored.verify_with_end(&mut |_| {}) {
            Err(AofError::Corrupt(damage)) => {
                let kind = ObjectErrorKind::Corrupt;
                Err(ObjectError::new(kind, ObjectOp::Get, &key, &damage.reason).into())
            }
            verified => verified.map(|()| true),
        }
    }

    /// Records that an upload begins, before an object can be there.
    fn begin_upload(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        let base_offset = self.sealed_entry(segment_id)?.meta.base_offset;
        self.tell_tiers(segment_id, base_offset, ManifestEvent::UploadStarted { key }, true)
    }

    /// Records why an upload failed. It stays pending.
    fn fail_upload(&self, segment_id: SegmentId, key: &str, reason: ReasonCode) -> Result<()> {
        self.tell_tiers(segment_id, 0, ManifestEvent::UploadFailed { key, reason }, false)
    }

    /// Records that an object is to be deleted, and makes that durable.
    pub(crate) fn queue_delete(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        self.tell_tiers(segment_id, 0, ManifestEvent::Tier2DeleteQueued { key }, true)
    }
}

fn crc64_of(body: &ObjectBody, warm: &Artifact) -> Result<u64> {
    body.crc64().map_err(AofError::io("read compressed segment", warm.source().name()))
}
