//! Copying an object back to a compressed file.

use std::sync::Arc;

use crate::error::Result;
use crate::manifest::Manifest;
use crate::segment::Artifact;
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::Copies;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::compressed;

pub(in crate::store) struct Fetch {
    cold: Arc<Artifact>,
    made: Option<Arc<Artifact>>,
}

impl Fetch {
    pub(in crate::store) fn of(copies: &Copies) -> Option<Box<dyn Step>> {
        let cold = copies.cold.as_ref().filter(|_| copies.warm.is_none())?;
        Some(Box::new(Self { cold: Arc::clone(&cold.artifact), made: None }))
    }

    fn bytes(&self) -> u64 {
        self.made.as_ref().map_or(0, |made| made.index().artifact_len())
    }
}

impl Step for Fetch {
    fn work(&mut self, store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        self.made = Some(Arc::new(store.warm_files().copy_exactly(&self.cold)?));
        Ok(())
    }

    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        if let Some(made) = &self.made {
            entry.enter_warm(Arc::clone(made), store.now_ms());
        }
        Ok(())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let meta = &entry.meta;
        manifest.record(meta.segment_id, meta.base_offset, compressed(self.bytes())).map(drop)
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied::bytes(self.bytes())
    }
}
