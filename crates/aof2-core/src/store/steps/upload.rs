//! Putting the compressed copy of a segment into the bucket, or taking up an object that is
//! there already.
//!
//! The key of an object is new: its epoch is that of the writer's claim and a number that
//! this writer never used for the segment. Each try records its key before the object can
//! be there, so that whatever a crash leaves in the bucket is known by its key.

use std::sync::Arc;

use crate::bucket::StoredObject;
use crate::error::{AofError, Result};
use crate::format::manifest::ManifestEvent;
use crate::format::{ArtifactIndex, SegmentId};
use crate::manifest::Manifest;
use crate::planted::{self, TierBug};
use crate::segment::Artifact;
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::{ColdCopy, Copies};
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;

pub(in crate::store) struct Upload {
    segment_id: SegmentId,
    index: ArtifactIndex,
    /// The compressed file; `None` for an object that is there.
    warm: Option<Arc<Artifact>>,
    object: Option<StoredObject>,
}

impl Upload {
    pub(in crate::store) fn of(
        segment_id: SegmentId,
        copies: &Copies,
    ) -> Result<Option<Box<dyn Step>>> {
        if copies.cold.is_some() {
            return Ok(None);
        }
        let warm = copies.warm.clone().ok_or(AofError::NoSuchSegment(segment_id))?;
        let index = warm.index().clone();
        Ok(Some(Box::new(Self { segment_id, index, warm: Some(warm), object: None })))
    }

    fn object(&self) -> Result<&StoredObject> {
        self.object.as_ref().ok_or(AofError::NoSuchSegment(self.segment_id))
    }
}

impl Store {
    /// An object that is in the bucket holds the segment from now on.
    pub(in crate::store) fn adopt_object(
        &self,
        segment_id: SegmentId,
        index: &ArtifactIndex,
        object: StoredObject,
    ) -> Result<()> {
        let (index, object) = (index.clone(), Some(object));
        self.adopt(Box::new(Upload { segment_id, index, warm: None, object }), segment_id)
    }
}

impl Step for Upload {
    fn work(&mut self, store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        let Some(warm) = &self.warm else { return Ok(()) };
        let tier = store.cold().require_tier()?;
        if planted::in_tier(TierBug::CheckBeforePut) {
            store.check_claim(tier)?;
        }
        self.object = Some(store.put_object(tier, self.segment_id, warm)?);
        // Only now: an object that is put after another writer claimed the log is void.
        if !planted::in_tier(TierBug::NoCheckAfterPut) && !planted::in_tier(TierBug::CheckBeforePut)
        {
            store.check_claim(tier)?;
        }
        Ok(())
    }

    fn is_of_objects(&self) -> bool {
        self.warm.is_some()
    }

    /// The segment was dropped while it was uploaded: its object is deleted, too.
    fn abandon(&mut self, store: &Store) -> Result<()> {
        match &self.object {
            Some(object) => store.queue_delete(self.segment_id, &object.key),
            None => Ok(()),
        }
    }

    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        let epoch = self.object()?.epoch;
        let source = store.cold().source(&self.index, epoch)?;
        let artifact = Arc::new(Artifact::with_index(source, self.index.clone()));
        let cold = ColdCopy { artifact, epoch };
        let name = cold.index_name();
        store.keep_index(&name, &self.index)?;
        let before = entry.copies();
        entry.set_copies(|copies| copies.cold = Some(cold));
        // An earlier object of the segment is no longer read.
        let old = before.cold.map(|cold| cold.index_name());
        old.filter(|old| *old != name).map_or(Ok(()), |old| store.remove_kept_index(&old))?;
        store.table().forget_windows(self.segment_id.as_u32());
        Ok(())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let StoredObject { key, etag, .. } = self.object()?;
        let done = ManifestEvent::UploadDone { key, etag };
        manifest.record(self.segment_id, entry.meta.base_offset, done)?;
        manifest.commit()
    }

    fn applied(self: Box<Self>) -> Applied {
        let bytes = self.index.artifact_len();
        Applied { key: self.object.map(|object| object.key), ..Applied::bytes(bytes) }
    }
}
