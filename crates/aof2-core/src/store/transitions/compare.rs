//! Comparing the manifest with the files.

use super::State;
use crate::error::Result;
use crate::format::SegmentId;
use crate::manifest::Divergence;
use crate::manifest::ManifestMode;
use crate::manifest::ScannedSegment;
use crate::manifest::find_divergences;
use crate::segment::SegmentMeta;
use crate::store::state::Store;
use crate::store::survey::Survey;
use std::time::Duration;

/// How long after something was recorded a shadow is compared with the files. The
/// comparison looks at every segment file, so a burst of seals gets one of them.
pub(super) const SHADOW_COMPARE_MS: u64 = 10_000;

impl Store {
    /// Compares a shadow with the files when it is time, for the gauge. Says when it will
    /// be; `None` as long as nothing is recorded.
    pub(super) fn compare_shadow_if_due(&self) -> Option<Duration> {
        let mut state = self.transitions.state.lock();
        if state.mode != ManifestMode::Shadow || state.manifest.is_none() {
            return None;
        }
        let wait_ms = state.compare_at_ms?.saturating_sub(self.now_ms());
        if wait_ms > 0 {
            return Some(Duration::from_millis(wait_ms));
        }
        state.compare_at_ms = None;
        match self.compare_in(&mut state) {
            Ok(found) => {
                for divergence in &found {
                    tracing::warn!(%divergence, "the manifest does not agree with the files");
                }
            }
            Err(error) => tracing::warn!(%error, "the manifest was not compared with the files"),
        }
        None
    }

    /// What the manifest says that the files do not, and the other way round. No segment
    /// is sealed or let go meanwhile.
    pub(crate) fn compare_manifest(&self) -> Result<Vec<Divergence>> {
        self.compare_in(&mut *self.lock_transitions()?)
    }

    pub(super) fn compare_in(&self, state: &mut State) -> Result<Vec<Divergence>> {
        // A segment that comes back has its file before it is recorded. Whatever begins
        // later cannot record anything until we are done.
        let moving = self.busy.segments();
        let survey = Survey::take(self.storage(), self.layout(), self.cold())?;
        let mut files: Vec<ScannedSegment> = survey
            .found
            .iter()
            .filter(|found| !found.is_blank() || self.is_unsealed(found.name.segment_id))
            .filter(|found| found.copies.is_hot)
            .map(ScannedSegment::of_file)
            .collect();
        self.tell_opened_in(state);
        // A file has its name in the directory a moment before that is durable, and is
        // recorded only then; and a flush may have named one since the files were listed.
        let next_opened = state.next_opened;
        files.retain(|f| f.segment_id < next_opened || !self.is_unsealed(f.segment_id));
        let listed_until = files.last().map(|f| f.segment_id);
        if let Some(active) = self.table().last().filter(|e| {
            let id = e.meta.segment_id;
            e.is_hot() && id < state.next_opened && listed_until < Some(id)
        }) {
            files.push(unsealed(&active.meta));
        }
        let manifest = state.manifest()?;
        let mut found = manifest.with_index(|index| find_divergences(index, &files));
        let still_moving = self.busy.segments();
        found.retain(|divergence| {
            let id = &divergence.segment_id;
            !moving.contains(id) && !still_moving.contains(id)
        });
        manifest.set_shadow_divergence(found.len() as u64);
        Ok(found)
    }

    pub(super) fn is_unsealed(&self, id: SegmentId) -> bool {
        self.unsealed().iter().any(|u| u.meta.segment_id == id)
    }
}

/// A segment without a footer, as the manifest compares it.
pub(super) fn unsealed(meta: &SegmentMeta) -> ScannedSegment {
    ScannedSegment {
        segment_id: meta.segment_id,
        base_offset: meta.base_offset,
        durable_bytes: None,
        segment_crc64: None,
        ext_id: None,
    }
}
