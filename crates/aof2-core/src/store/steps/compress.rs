//! Making the compressed copy of a segment.

use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::manifest::{ManifestEvent, ReasonCode};
use crate::manifest::Manifest;
use crate::segment::{Artifact, ArtifactOptions};
use crate::store::apply::Step;
use crate::store::change::Applied;
use crate::store::copy::Copies;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::compressed;

pub(in crate::store) struct Compress {
    job_id: u32,
    options: ArtifactOptions,
    made: Option<Arc<Artifact>>,
}

impl Compress {
    pub(in crate::store) fn of(store: &Store, copies: &Copies) -> Option<Box<dyn Step>> {
        copies.warm.is_none().then(|| -> Box<dyn Step> {
            let (job_id, options) = store.next_compression();
            Box::new(Self { job_id, options, made: None })
        })
    }

    fn bytes(&self) -> u64 {
        self.made.as_ref().map_or(0, |made| made.index().artifact_len())
    }
}

impl Step for Compress {
    fn intent(&self) -> Option<ManifestEvent<'_>> {
        Some(ManifestEvent::CompressionStarted { job_id: self.job_id })
    }

    fn work(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        self.made = Some(Arc::new(store.compress_file(entry, &self.options)?));
        Ok(())
    }

    fn failure(&self, error: &AofError) -> Option<ManifestEvent<'_>> {
        let reason = match error {
            AofError::Corrupt(_) => ReasonCode::CODEC,
            _ => ReasonCode::TRANSIENT,
        };
        Some(ManifestEvent::CompressionFailed { reason })
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
