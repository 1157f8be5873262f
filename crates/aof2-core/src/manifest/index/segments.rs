//! Segments by id, cheap for the ids that records are about.
//!
//! Ids of a stream are consecutive, and records are mostly about young segments. So
//! those live in a window of slots, one per id, found by subtraction. What would make
//! the window sparse, single old segments that stay when their neighbours are gone or
//! an id far ahead, moves to an ordered map.
//!
//! Invariants: ids in `old` are below `base`; slot `i` of the window is `base + i`; the
//! first and the last slot are occupied; the window has at most `SKIP_MAX + 1` slots for
//! each segment in it, and [`EMPTY_SLOTS_FREE`] more.

use std::collections::{BTreeMap, VecDeque};

use crate::format::SegmentId;
use crate::format::manifest::ManifestSegment;

/// Ids skipped at a time that the window bridges with empty slots. Small, because a
/// hostile snapshot can skip that many with every entry.
const SKIP_MAX: u64 = 8;
/// Empty slots that are not worth tidying up.
const EMPTY_SLOTS_FREE: usize = 64;

/// Segments by id.
#[derive(Clone, Debug, Default)]
pub struct SegmentTable {
    old: BTreeMap<u64, ManifestSegment>,
    base: u64,
    window: VecDeque<Option<ManifestSegment>>,
    /// Occupied slots of the window.
    occupied: usize,
}

impl SegmentTable {
    pub fn len(&self) -> usize {
        self.old.len() + self.occupied
    }

    /// All segments, by id.
    pub fn iter(&self) -> impl Iterator<Item = &ManifestSegment> {
        self.old.values().chain(self.window.iter().flatten())
    }

    #[inline]
    fn slot(&self, id: u64) -> Option<usize> {
        id.checked_sub(self.base).and_then(|slot| usize::try_from(slot).ok())
    }

    pub fn get(&self, segment_id: SegmentId) -> Option<&ManifestSegment> {
        let id = segment_id.as_u64();
        match self.slot(id) {
            Some(slot) => self.window.get(slot)?.as_ref(),
            None => self.old.get(&id),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, segment_id: SegmentId) -> Option<&mut ManifestSegment> {
        let id = segment_id.as_u64();
        match self.slot(id) {
            Some(slot) => self.window.get_mut(slot)?.as_mut(),
            None => self.old.get_mut(&id),
        }
    }

    /// Puts a segment in, in place of one with the same id.
    #[inline]
    pub fn insert(&mut self, segment: ManifestSegment) {
        let id = segment.segment_id.as_u64();
        if id > self.base && id - self.base == self.window.len() as u64 {
            // The next id, as nearly always.
            self.occupied += 1;
            self.window.push_back(Some(segment));
        } else {
            self.insert_anywhere(id, segment);
        }
    }

    #[cold]
    fn insert_anywhere(&mut self, id: u64, segment: ManifestSegment) {
        if id < self.base {
            self.old.insert(id, segment);
            return;
        }
        let len = self.window.len() as u64;
        let skipped = (id - self.base).saturating_sub(len);
        if len == 0 || skipped > SKIP_MAX {
            self.retire_window();
            self.base = id;
        }
        // At most SKIP_MAX behind the window's end.
        let slot = (id - self.base) as usize;
        while self.window.len() < slot {
            self.window.push_back(None);
        }
        match self.window.get_mut(slot) {
            Some(place) => {
                self.occupied += usize::from(place.is_none());
                *place = Some(segment);
            }
            None => {
                self.occupied += 1;
                self.window.push_back(Some(segment));
            }
        }
    }

    pub fn remove(&mut self, segment_id: SegmentId) {
        let id = segment_id.as_u64();
        match self.slot(id) {
            Some(slot) => {
                if let Some(place) = self.window.get_mut(slot)
                    && place.is_some()
                {
                    // In place: taking it out would copy it.
                    *place = None;
                    self.occupied -= 1;
                    self.tidy();
                }
            }
            None => {
                self.old.remove(&id);
            }
        }
    }

    /// Restores the invariants about empty slots.
    fn tidy(&mut self) {
        while matches!(self.window.back(), Some(None)) {
            self.window.pop_back();
        }
        self.skip_empty();
        while self.window.len() > 2 * self.occupied + EMPTY_SLOTS_FREE {
            self.retire_first();
            self.skip_empty();
        }
    }

    fn skip_empty(&mut self) {
        while matches!(self.window.front(), Some(None)) {
            self.retire_first();
        }
    }

    /// Moves the first slot out of the window.
    fn retire_first(&mut self) {
        if let Some(slot) = self.window.pop_front() {
            if let Some(segment) = slot {
                self.occupied -= 1;
                self.old.insert(self.base, segment);
            }
            self.base = self.base.saturating_add(1);
        }
    }

    fn retire_window(&mut self) {
        while !self.window.is_empty() {
            self.retire_first();
        }
    }
}

#[cfg(test)]
impl SegmentTable {
    pub(super) fn check_invariants(&self) {
        assert!(self.old.keys().all(|&id| id < self.base));
        assert!(!matches!(self.window.front(), Some(None)));
        assert!(!matches!(self.window.back(), Some(None)));
        let occupied = self.window.iter().flatten().count();
        assert_eq!(occupied, self.occupied);
        let slots_max = (SKIP_MAX as usize + 1) * occupied + EMPTY_SLOTS_FREE;
        assert!(self.window.len() <= slots_max, "{} of {}", occupied, self.window.len());
        for (slot, segment) in self.window.iter().enumerate() {
            if let Some(segment) = segment {
                assert_eq!(segment.segment_id.as_u64(), self.base + slot as u64);
            }
        }
    }
}
