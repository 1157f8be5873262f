//! Recording what happens to segments, in the critical section of each change.

use super::State;
use crate::error::AofError;
use crate::error::Result;
use crate::format::SegmentId;
use crate::format::manifest::EVICTED_WARM;
use crate::format::manifest::ManifestEvent;
use crate::manifest::Manifest;
use crate::segment::SegmentMeta;
use crate::store::info::SealedInfo;
use crate::store::state::Store;
use crate::store::state::Unsealed;

impl Store {
    /// Records that the active segment, and the one that waits for its footer, exist,
    /// once their files have names.
    pub(crate) fn tell_opened(&self) {
        self.tell_opened_in(&mut self.transitions.state.lock());
    }

    pub(super) fn tell_opened_in(&self, state: &mut State) {
        if state.manifest.is_none() {
            return;
        }
        for Unsealed { meta, .. } in self.unsealed().into_iter().filter(|u| u.is_named) {
            // An empty segment that turns out too small for a record is replaced by one
            // with the same number and base: for the manifest it is the same segment.
            if meta.segment_id >= state.next_opened {
                state.next_opened = meta.segment_id.next();
                self.tell(state, |manifest| record_opened(manifest, &meta));
            }
        }
    }

    /// Seals a segment and records it.
    pub(crate) fn while_sealing(
        &self,
        meta: &SegmentMeta,
        seal: impl FnOnce() -> Result<SealedInfo>,
    ) -> Result<()> {
        let mut state = self.transitions.state.lock();
        self.tell_opened_in(&mut state);
        let info = seal()?;
        let doubtful = state.doubtful.contains(&meta.segment_id);
        self.tell(&mut state, |manifest| self.record_sealed(manifest, meta, &info, doubtful));
        Ok(())
    }

    /// Changes which tiers hold a segment and records it. `change` may fail half way;
    /// then the next opening records what the files show.
    pub(crate) fn while_moving<T>(
        &self,
        change: impl FnOnce() -> Result<T>,
        record: impl FnOnce(&Manifest, &T) -> Result<()>,
    ) -> Result<T> {
        let mut state = self.transitions.state.lock();
        if state.is_stopped {
            return Err(AofError::Closed);
        }
        let changed = change()?;
        self.tell(&mut state, |manifest| record(manifest, &changed));
        Ok(changed)
    }

    /// Records that the empty active segment was removed.
    pub(crate) fn tell_taken_back(&self, taken_back: SegmentId) {
        let mut state = self.transitions.state.lock();
        if taken_back < state.next_opened {
            state.next_opened = taken_back;
            self.tell(&mut state, |manifest| evict(manifest, taken_back, 0));
        }
    }

    /// Records something that concerns other tiers, and makes it durable if asked to.
    pub(crate) fn tell_tiers(
        &self,
        segment_id: SegmentId,
        offset: u64,
        event: ManifestEvent<'_>,
        is_urgent: bool,
    ) -> Result<()> {
        self.while_moving(
            || Ok(()),
            |manifest, ()| {
                manifest.record(segment_id, offset, event)?;
                if is_urgent { manifest.commit() } else { Ok(()) }
            },
        )
    }

    pub(crate) fn record_event(
        &self,
        segment: Option<SegmentId>,
        schema_id: u32,
        blob: &[u8],
    ) -> Result<u64> {
        let newest = || self.table().last().map(|entry| entry.meta.segment_id);
        let owner = self.owner()?;
        let segment = segment.or_else(newest).unwrap_or_else(|| owner.next_segment());
        if segment.as_u64() > u64::from(u32::MAX) {
            let reason = format!("segment {segment} cannot exist: segments count to {}", u32::MAX);
            return Err(AofError::InvalidRecord { reason });
        }
        let offset = owner.appended_count();
        self.with_manifest(|manifest| {
            manifest.record(segment, offset, ManifestEvent::CustomEvent { schema_id, blob })
        })
    }
}

pub(crate) fn evict(manifest: &Manifest, segment: SegmentId, bytes: u64) -> Result<()> {
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
    manifest.record(segment, bytes, evicted).map(drop)
}

pub(crate) fn evict_warm(manifest: &Manifest, segment: SegmentId, bytes: u64) -> Result<()> {
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
    manifest.record_flagged(segment, bytes, EVICTED_WARM, evicted).map(drop)
}

pub(crate) fn compressed(compressed_bytes: u64) -> ManifestEvent<'static> {
    ManifestEvent::CompressionDone { compressed_bytes, dictionary_id: 0 }
}

pub(super) fn record_opened(manifest: &Manifest, meta: &SegmentMeta) -> Result<()> {
    // The epoch tells uploads of one segment apart once a segment can be written twice.
    let opened = ManifestEvent::SegmentOpened { base_offset: meta.base_offset, epoch: 0 };
    manifest.record(meta.segment_id, meta.first_offset, opened).map(drop)
}
