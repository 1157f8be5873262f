//! An object that is not in the bucket, or damaged there: the segment is no longer read from
//! it, and is uploaded again under another key.

use std::sync::Arc;

use crate::error::Result;
use crate::format::ColdTailName;
use crate::format::manifest::ManifestEvent;
use crate::manifest::Manifest;
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;

pub(in crate::store) struct Forget {
    index: ColdTailName,
    key: String,
}

impl Forget {
    pub(in crate::store) fn of(store: &Store, entry: &SegmentEntry) -> Option<Box<dyn Step>> {
        let copies = entry.copies();
        let cold = copies.cold.as_ref()?;
        Some(Box::new(Self { index: cold.index_name(), key: store.cold_key(entry)? }))
    }
}

impl Step for Forget {
    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        entry.set_copies(|copies| copies.cold = None);
        store.remove_kept_index(&self.index)
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let queued = ManifestEvent::Tier2DeleteQueued { key: &self.key };
        manifest.record(entry.meta.segment_id, 0, queued)?;
        manifest.commit()
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied { is_done: true, key: Some(self.key), ..Applied::default() }
    }
}
