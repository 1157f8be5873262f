//! Making the segment file of a segment again.

use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::manifest::{ManifestEvent, ReasonCode};
use crate::manifest::Manifest;
use crate::segment::{Artifact, hydrate};
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::Copies;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;

pub(in crate::store) struct Hydrate {
    source: Arc<Artifact>,
    source_tier: u64,
    bytes: u64,
}

impl Hydrate {
    pub(in crate::store) fn of(entry: &SegmentEntry, copies: &Copies) -> Option<Box<dyn Step>> {
        let source = copies.compressed().filter(|_| !entry.is_hot())?;
        Some(Box::new(Self {
            source: Arc::clone(source),
            source_tier: if copies.warm.is_some() { 1 } else { 2 },
            bytes: entry.record_bytes(),
        }))
    }
}

impl Step for Hydrate {
    fn intent(&self) -> Option<ManifestEvent<'_>> {
        Some(ManifestEvent::HydrationStarted { source_tier: self.source_tier })
    }

    fn work(&mut self, store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        hydrate(store.storage(), &self.source, &store.layout().segments_dir()).map(drop)
    }

    fn failure(&self, error: &AofError) -> Option<ManifestEvent<'_>> {
        let reason = match error {
            AofError::NoSuchSegment(_) => ReasonCode::MISSING,
            _ => ReasonCode::TRANSIENT,
        };
        Some(ManifestEvent::HydrationFailed { reason })
    }

    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        entry.enter_hot();
        store.table().forget_windows(entry.meta.segment_id.as_u32());
        Ok(())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let done = ManifestEvent::HydrationDone { resident_bytes: self.bytes };
        manifest.record(entry.meta.segment_id, entry.meta.base_offset, done).map(drop)
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied::bytes(self.bytes)
    }
}
