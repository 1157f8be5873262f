//! Moving sealed segments to and from the object store, as far as the log is concerned:
//! which copies the table names, what is kept in `cold/`, what the manifest says. The
//! transfers themselves are the tiers' business; the log only hears how they ended.
//!
//! What a crash leaves:
//!
//! ```text
//! UploadStarted committed        a pending upload in the manifest; it is tried again
//! object stored                  the same; the second try finds its own bytes there
//! end of the artifact kept       the segment is cold; opening records it
//! UploadDone recorded            done
//!
//! table no longer names it       nothing happened
//! warm file removed              the segment is cold only; opening records it
//!
//! local copies removed           the object is there and nobody's: opening brings the
//!                                segment back, and retention lets it go again
//! Tier2DeleteQueued committed    the object will be deleted, by this writer or a later
//! object deleted                 the same; deleting it again is fine
//! Tier2Deleted recorded          done
//! ```

use std::sync::Arc;

use super::away::store_cold_tail;
use super::store::Store;
use super::transitions::evict_warm;
use crate::error::{AofError, Result};
use crate::format::manifest::{ManifestEvent, ReasonCode};
use crate::format::{ArtifactIndex, ColdTailName, SegmentId, WarmFileName};
use crate::segment::Artifact;

/// An object that holds a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColdObject<'a> {
    pub(crate) key: &'a str,
    pub(crate) etag: &'a str,
    pub(crate) epoch: u32,
    pub(crate) index: &'a ArtifactIndex,
}

impl Store {
    /// Writes down that an upload begins, before an object can be there.
    pub(crate) fn begin_upload(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        let entry = self.sealed_entry(segment_id)?;
        self.tell_tiers(
            segment_id,
            entry.meta.base_offset,
            ManifestEvent::UploadStarted { key },
            true,
        )
    }

    /// Writes down why an upload failed. It stays pending.
    pub(crate) fn fail_upload(
        &self,
        segment_id: SegmentId,
        key: &str,
        reason: ReasonCode,
    ) -> Result<()> {
        self.tell_tiers(segment_id, 0, ManifestEvent::UploadFailed { key, reason }, false)
    }

    /// An object holds the segment from now on. An earlier object of it, if there was
    /// one, is to be deleted.
    pub(crate) fn finish_upload(
        &self,
        segment_id: SegmentId,
        object: ColdObject<'_>,
    ) -> Result<()> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let source = self.cold().source(object.index, object.epoch)?;
        let artifact = Arc::new(Artifact::with_index(source, object.index.clone()));
        let name = WarmFileName::of(&object.index.summary);
        let name = ColdTailName { artifact: name, epoch: object.epoch };
        let ColdObject { key, etag, .. } = object;
        self.while_moving(
            || {
                store_cold_tail(self.storage(), self.layout(), &name, object.index)?;
                let before = entry.away_copies();
                entry.set_away(|away| {
                    away.cold = Some(artifact);
                    away.cold_epoch = object.epoch;
                });
                let old = before.cold.as_ref().map(|cold| before.cold_name(cold));
                old.filter(|old| *old != name).map_or(Ok(()), |old| self.remove_tail(&old))
            },
            |manifest, ()| {
                let done = ManifestEvent::UploadDone { key, etag };
                manifest.record(segment_id, entry.meta.base_offset, done)?;
                manifest.commit()
            },
        )?;
        self.table().forget_windows(segment_id.as_u32());
        self.note_archived();
        Ok(())
    }

    /// The object is gone or not what it should be: the segment is read from its other
    /// copies, and uploaded again. `LastCopy` if there is none.
    pub(crate) fn lose_cold(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let Some(cold) = &copies.cold else { return Ok(()) };
        if !entry.is_hot() && copies.warm.is_none() {
            return Err(AofError::LastCopy(segment_id));
        }
        let name = copies.cold_name(cold);
        self.while_moving(
            || {
                entry.set_away(|away| away.cold = None);
                self.remove_tail(&name)
            },
            |manifest, ()| {
                manifest.record(segment_id, 0, ManifestEvent::Tier2DeleteQueued { key })?;
                manifest.commit()
            },
        )
    }

    fn remove_tail(&self, name: &ColdTailName) -> Result<()> {
        let path = self.layout().cold_path(name);
        match self.storage().remove(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(AofError::io("remove", &path)(e));
            }
            _ => {}
        }
        let dir = self.layout().cold_dir();
        self.storage().sync_dir(&dir).map_err(AofError::io("sync directory", &dir))
    }

    /// Removes the compressed file of a segment that the object store holds. Returns its
    /// bytes; 0 if there was none.
    pub(crate) fn evict_warm(&self, segment_id: SegmentId) -> Result<u64> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let Some(warm) = &copies.warm else { return Ok(0) };
        if copies.cold.is_none() {
            return Err(AofError::LastCopy(segment_id));
        }
        let (path, bytes) = (warm.source().name(), warm.index().artifact_len());
        self.while_moving(
            || {
                entry.set_away(|away| away.warm = None);
                match self.storage().remove(path) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        entry.set_away(|away| away.warm = Some(Arc::clone(warm)));
                        return Err(AofError::io("remove compressed segment", path)(e));
                    }
                    _ => {}
                }
                let dir = self.layout().warm_dir();
                self.storage().sync_dir(&dir).map_err(AofError::io("sync directory", &dir))?;
                Ok(bytes)
            },
            |manifest, bytes| evict_warm(manifest, segment_id, *bytes),
        )
    }

    /// Brings the compressed file of a segment back from the object store. Returns its
    /// bytes; 0 if it was there.
    pub(crate) fn fetch_warm(&self, segment_id: SegmentId) -> Result<u64> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let (None, Some(cold)) = (&copies.warm, &copies.cold) else { return Ok(0) };
        let artifact = self.copy_to_warm(cold)?;
        let bytes = artifact.index().artifact_len();
        self.while_moving(
            || {
                entry.enter_warm(Arc::new(artifact), self.now_ms());
                Ok(())
            },
            |manifest, ()| {
                let done = crate::store::transitions::compressed(bytes);
                manifest.record(segment_id, entry.meta.base_offset, done).map(drop)
            },
        )?;
        Ok(bytes)
    }

    /// Writes down that an object is to be deleted, and makes that durable.
    pub(crate) fn queue_delete(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        self.tell_tiers(segment_id, 0, ManifestEvent::Tier2DeleteQueued { key }, true)
    }

    /// Writes down that an object is gone.
    pub(crate) fn finish_delete(&self, segment_id: SegmentId, key: &str) -> Result<()> {
        self.tell_tiers(segment_id, 0, ManifestEvent::Tier2Deleted { key }, false)
    }
}
