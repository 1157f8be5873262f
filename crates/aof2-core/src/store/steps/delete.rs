//! Deleting an object that no segment is read from. That it is to be deleted was recorded
//! when the segment was dropped or uploaded again.

use std::sync::Arc;

use crate::bucket::ColdTier;
use crate::error::Result;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::manifest::Manifest;
use crate::planted::{self, StoreBug};
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;

pub(in crate::store) struct Delete {
    tier: Arc<ColdTier>,
    key: String,
}

impl Delete {
    pub(in crate::store) fn of(
        store: &Store,
        segment_id: SegmentId,
        epoch: u32,
    ) -> Result<Box<dyn Step>> {
        let tier = Arc::clone(store.cold().require_tier()?);
        let key = tier.key(store.stream_id(), segment_id, epoch);
        Ok(Box::new(Self { tier, key }))
    }
}

impl Step for Delete {
    fn work(&mut self, store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        // From here on nothing will name the object again, whatever a crash leaves.
        if !planted::in_store(StoreBug::DeleteBeforeTombstone) {
            store.commit_manifest()?;
        }
        Ok(self.tier.delete(&self.key)?)
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let deleted = ManifestEvent::Tier2Deleted { key: &self.key };
        manifest.record(entry.meta.segment_id, 0, deleted).map(drop)
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied { is_done: true, key: Some(self.key), ..Applied::default() }
    }
}
