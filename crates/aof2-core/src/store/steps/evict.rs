//! Removing a copy that another tier holds, too.

use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::manifest::Manifest;
use crate::planted::{self, StoreBug};
use crate::segment::Artifact;
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::{ColdCopy, Copies};
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::{evict, evict_warm};

/// The segment file. Readers keep what they have mapped.
pub(in crate::store) struct EvictHot {
    bytes: u64,
    /// Whether the compressed file was made and verified just now, by whoever has the right
    /// to change the segment.
    is_warm_fresh: bool,
}

impl EvictHot {
    pub(in crate::store) fn of(entry: &SegmentEntry, is_warm_fresh: bool) -> Option<Box<dyn Step>> {
        let bytes = entry.record_bytes();
        entry.is_hot().then(|| -> Box<dyn Step> { Box::new(Self { bytes, is_warm_fresh }) })
    }
}

impl Step for EvictHot {
    /// Makes sure of the copy that is left. A compressed file that will be the only copy is
    /// read: it may be old, and `Corrupt` keeps the segment where it is good. A bucket that
    /// will be is asked: what it had once may be gone.
    fn work(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        let copies = entry.copies();
        match (&copies.warm, &copies.cold) {
            (Some(_), _) if planted::in_store(StoreBug::EvictTrustsWarm) => Ok(()),
            (Some(warm), None) if !self.is_warm_fresh => store.verify_warm(warm),
            (None, Some(cold)) if !store.is_in_bucket(entry, cold)? => {
                Err(AofError::LastCopy(entry.meta.segment_id))
            }
            _ => Ok(()),
        }
    }

    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        let path = &entry.path;
        let is_gone = planted::in_store(StoreBug::FileGoneFirst);
        if is_gone {
            store.remove_file(path, "remove segment")?;
        }
        if !entry.leave_hot() {
            return Err(AofError::LastCopy(entry.meta.segment_id));
        }
        if !is_gone && let Err(error) = store.remove_file(path, "remove segment") {
            entry.enter_hot();
            return Err(error);
        }
        store.drop_index(&entry.meta);
        store.sync_names(&store.layout().segments_dir())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        evict(manifest, entry.meta.segment_id, self.bytes)
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied::bytes(self.bytes)
    }
}

/// The compressed file of a segment that is in the bucket.
pub(in crate::store) struct EvictWarm {
    warm: Arc<Artifact>,
    cold: Option<ColdCopy>,
}

impl EvictWarm {
    pub(in crate::store) fn of(copies: &Copies) -> Option<Box<dyn Step>> {
        let warm = copies.warm.as_ref()?;
        Some(Box::new(Self { warm: Arc::clone(warm), cold: copies.cold.clone() }))
    }

    fn bytes(&self) -> u64 {
        self.warm.index().artifact_len()
    }
}

impl Step for EvictWarm {
    /// The bucket confirms that it has the segment: what it had once may be gone.
    fn work(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        let is_archived = match &self.cold {
            _ if planted::in_store(StoreBug::WarmGoneUnconfirmed) => true,
            Some(cold) => store.is_archived_as(entry.meta.segment_id, &self.warm, cold)?,
            None => false,
        };
        match is_archived {
            true => Ok(()),
            false => Err(AofError::LastCopy(entry.meta.segment_id)),
        }
    }

    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        entry.set_copies(|copies| copies.warm = None);
        let path = self.warm.source().name();
        if let Err(error) = store.remove_file(path, "remove compressed segment") {
            entry.set_copies(|copies| copies.warm = Some(Arc::clone(&self.warm)));
            return Err(error);
        }
        store.sync_dir(&store.layout().warm_dir())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        evict_warm(manifest, entry.meta.segment_id, self.bytes())
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied::bytes(self.bytes())
    }
}
