//! Replacing a damaged copy of a sealed segment by a good one, as far as the log is
//! concerned: the table stops naming the copy, its file goes to `quarantine/`, and the
//! manifest says so. Making the copy again is an ordinary move. Who calls this has
//! verified that another copy is good.
//!
//! What a crash leaves:
//!
//! ```text
//! table no longer names the copy   nothing happened; the next check finds it again
//! file moved to quarantine/        the segment is in its other tiers; opening records it
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::away::{list_dir, store_cold_tail};
use super::quarantine::Quarantine;
use super::store::Store;
use super::table::SegmentEntry;
use super::transitions::{evict, evict_warm};
use crate::error::{AofError, Result};
use crate::format::{SegmentId, WarmFileName};
use crate::segment::Artifact;

/// What became of a copy that was to be set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It is in `quarantine/` under this name; `None` if there was no file any more.
    Taken(Option<PathBuf>),
    /// It is not there, or not what it was when it was checked.
    Changed,
}

impl Store {
    /// Moves a damaged segment file out of the log. From then on the segment is read
    /// from its other tiers; whoever has it mapped keeps the map. `is_damaged` is asked
    /// once nobody else can move the segment.
    pub(crate) fn set_aside_hot(
        &self,
        segment_id: SegmentId,
        is_damaged: impl FnOnce(&SegmentEntry) -> Result<bool>,
    ) -> Result<Aside> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        if !entry.is_hot() || !is_damaged(&entry)? {
            return Ok(Aside::Changed);
        }
        let bytes = entry.sealed_info().map_or(0, |info| u64::from(info.durable_bytes));
        self.while_moving(
            || {
                if !entry.leave_damaged() {
                    return Err(AofError::LastCopy(segment_id));
                }
                let taken = self.quarantine(&entry.path).inspect_err(|_| {
                    if self.storage().exists(&entry.path).unwrap_or(false) {
                        entry.enter_hot();
                    }
                })?;
                self.drop_index(&entry.meta);
                Ok(Aside::Taken(taken))
            },
            |manifest, _| evict(manifest, segment_id, bytes),
        )
    }

    /// Moves a segment file out of the log that opening passed over because it is
    /// damaged and another tier holds the segment.
    pub(crate) fn set_aside_passed_over(&self, segment_id: SegmentId) -> Result<Aside> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let path = &entry.path;
        let is_there = self.storage().exists(path).map_err(AofError::io("look for", path))?;
        if entry.is_hot() || !is_there {
            return Ok(Aside::Changed);
        }
        self.while_moving(|| Ok(Aside::Taken(self.quarantine(path)?)), |_, _| Ok(()))
    }

    /// Moves a damaged compressed file out of the log. `LastCopy` if there is no other.
    pub(crate) fn set_aside_warm(
        &self,
        segment_id: SegmentId,
        damaged: &Arc<Artifact>,
    ) -> Result<Aside> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let Some(warm) = copies.warm.as_ref().filter(|warm| Arc::ptr_eq(warm, damaged)) else {
            return Ok(Aside::Changed);
        };
        if !entry.is_hot() && copies.cold.is_none() {
            return Err(AofError::LastCopy(segment_id));
        }
        let (path, bytes) = (warm.source().name(), warm.index().artifact_len());
        self.while_moving(
            || {
                entry.set_away(|away| away.warm = None);
                self.table().forget_windows(segment_id.as_u32());
                let taken = self.quarantine(path).inspect_err(|_| {
                    if self.storage().exists(path).unwrap_or(false) {
                        entry.set_away(|away| away.warm = Some(Arc::clone(warm)));
                    }
                })?;
                Ok(Aside::Taken(taken))
            },
            |manifest, _| evict_warm(manifest, segment_id, bytes),
        )
    }

    /// Compressed files of a segment that its entry does not name: opening passed over
    /// them because they are damaged, or a later one counts.
    pub(crate) fn warm_passed_over(&self, entry: &SegmentEntry) -> Result<Vec<PathBuf>> {
        let known = entry.away_copies().warm.map(|warm| WarmFileName::of(&warm.index().summary));
        let names = list_dir(self.storage(), self.layout().warm_dir(), WarmFileName::parse)?;
        let of_segment = names.into_iter().filter(|n| n.segment_id == entry.meta.segment_id);
        let others = of_segment.filter(|name| Some(*name) != known);
        Ok(others.map(|name| self.layout().warm_path(&name)).collect())
    }

    /// Moves a compressed file out of the log that no entry names.
    pub(crate) fn set_aside_warm_passed_over(
        &self,
        segment_id: SegmentId,
        path: &Path,
    ) -> Result<Aside> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        if !self.warm_passed_over(&entry)?.iter().any(|other| other == path) {
            return Ok(Aside::Changed);
        }
        self.while_moving(|| Ok(Aside::Taken(self.quarantine(path)?)), |_, _| Ok(()))
    }

    /// Keeps the end of the cold artifact again, as it is known in memory.
    pub(crate) fn restore_tail(&self, segment_id: SegmentId) -> Result<()> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let Some(cold) = &copies.cold else { return Ok(()) };
        let name = copies.cold_name(cold);
        let store = || store_cold_tail(self.storage(), self.layout(), &name, cold.index());
        self.while_moving(store, |_, ()| Ok(()))
    }

    fn quarantine(&self, path: &Path) -> Result<Option<PathBuf>> {
        if !self.storage().exists(path).map_err(AofError::io("look for", path))? {
            return Ok(None);
        }
        let quarantine = Quarantine { storage: self.storage(), layout: self.layout() };
        quarantine.take(path).map(Some)
    }
}
