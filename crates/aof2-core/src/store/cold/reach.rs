//! The segment store of a log that is read, or written without tiers: it moves nothing,
//! and reaches what an earlier writer put into an object store.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;

use super::bucket::ColdTier;
use super::place;
use crate::error::{AofError, Result};
use crate::format::{ArtifactIndex, ColdTailName, StreamId};
use crate::io::Storage;
use crate::segment::ArtifactSource;
use crate::store::host::SegmentStore;
use crate::store::layout::Layout;

/// Opens the object store that the log names when the first cold segment is found; a log
/// without any never asks.
#[derive(Debug)]
pub(crate) struct ReachStore {
    storage: Arc<dyn Storage>,
    layout: Layout,
    tier: Mutex<Option<Arc<ColdTier>>>,
}

impl ReachStore {
    pub(crate) fn new(storage: Arc<dyn Storage>, root: &std::path::Path) -> Arc<Self> {
        Arc::new(Self { storage, layout: Layout::new(root), tier: Mutex::default() })
    }

    /// One whose object store is known.
    pub(crate) fn with_tier(
        storage: Arc<dyn Storage>,
        root: &std::path::Path,
        tier: Arc<ColdTier>,
    ) -> Arc<Self> {
        let tier = Mutex::new(Some(tier));
        Arc::new(Self { storage, layout: Layout::new(root), tier })
    }

    fn tier(&self) -> Result<Arc<ColdTier>> {
        let mut tier = self.tier.lock();
        if let Some(tier) = &*tier {
            return Ok(Arc::clone(tier));
        }
        let location = place::load(&*self.storage, &self.layout)?;
        let location = location.ok_or_else(|| AofError::NotALog {
            path: self.layout.root().to_owned(),
            reason: "it has segments in the cold tier, and cold/location is missing".into(),
        })?;
        let opened = ColdTier::open(&place::config(&location)?)?;
        *tier = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

impl SegmentStore for ReachStore {
    fn cold_source(&self, index: &ArtifactIndex, epoch: u32) -> Result<Arc<dyn ArtifactSource>> {
        Ok(self.tier()?.source(index, epoch))
    }

    fn cold_index(&self, stream_id: StreamId, name: &ColdTailName) -> Option<ArtifactIndex> {
        self.tier().ok()?.index_named(stream_id, name)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
