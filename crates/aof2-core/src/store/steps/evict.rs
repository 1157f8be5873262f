//! Removing a copy that another tier holds, too.

use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::manifest::Manifest;
use crate::planted::{self, StoreBug};
use crate::segment::Artifact;
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::{Copies, Residency};
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::{evict, evict_warm};

impl Store {
    /// Makes sure of the copy that is left when a tier loses its own. A compressed file that
    /// will be the only copy is read: it may be old, and `Corrupt` keeps the segment where
    /// it is good. A bucket that will be is asked: what it had once may be gone.
    pub(in crate::store) fn check_left(
        &self,
        entry: &SegmentEntry,
        copies: &Copies,
        tier: Residency,
    ) -> Result<()> {
        let is_left = match (tier, &copies.warm, &copies.cold) {
            (Residency::Hot, Some(_), _) if planted::in_store(StoreBug::EvictTrustsWarm) => true,
            (Residency::Hot, Some(warm), None) => self.verify_warm(warm).map(|()| true)?,
            (Residency::Hot, None, Some(cold)) => self.is_in_bucket(entry, cold)?,
            (Residency::Warm, ..) if planted::in_store(StoreBug::WarmGoneUnconfirmed) => true,
            (Residency::Warm, Some(warm), Some(cold)) => {
                self.is_archived_as(entry.meta.segment_id, warm, cold)?
            }
            // Two are left, or none, which the objections say.
            _ => true,
        };
        match is_left {
            true => Ok(()),
            false => Err(AofError::LastCopy(entry.meta.segment_id)),
        }
    }

    /// The same with the right in hand, if the copies are not those that were confirmed
    /// before it was taken.
    fn check_left_again(
        &self,
        entry: &SegmentEntry,
        confirmed: Option<&Copies>,
        tier: Residency,
    ) -> Result<()> {
        let copies = entry.copies();
        match confirmed.is_some_and(|confirmed| confirmed.are(&copies)) {
            true => Ok(()),
            false => self.check_left(entry, &copies, tier),
        }
    }
}

/// The segment file. Readers keep what they have mapped.
pub(in crate::store) struct EvictHot {
    bytes: u64,
    confirmed: Option<Copies>,
}

impl EvictHot {
    pub(in crate::store) fn of(
        entry: &SegmentEntry,
        confirmed: Option<Copies>,
    ) -> Option<Box<dyn Step>> {
        let bytes = entry.record_bytes();
        entry.is_hot().then(|| -> Box<dyn Step> { Box::new(Self { bytes, confirmed }) })
    }
}

impl Step for EvictHot {
    fn work(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        store.check_left_again(entry, self.confirmed.as_ref(), Residency::Hot)
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
    confirmed: Option<Copies>,
}

impl EvictWarm {
    pub(in crate::store) fn of(
        copies: &Copies,
        confirmed: Option<Copies>,
    ) -> Option<Box<dyn Step>> {
        let warm = copies.warm.as_ref()?;
        Some(Box::new(Self { warm: Arc::clone(warm), confirmed }))
    }

    fn bytes(&self) -> u64 {
        self.warm.index().artifact_len()
    }
}

impl Step for EvictWarm {
    fn work(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        store.check_left_again(entry, self.confirmed.as_ref(), Residency::Warm)
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
