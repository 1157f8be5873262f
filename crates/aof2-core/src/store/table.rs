//! The segments of a stream, as its readers find them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use super::entry::{KeptOpen, Opened, SegmentEntry};
use super::windows::cache::WindowCache;
use super::windows::fetch::WindowFetcher;
use crate::error::{AofError, Result};
use crate::io::{OpenLimit, Storage};
use crate::segment::{Artifact, Segment};

/// All segments, oldest first. Locks are held for lookups only, never across I/O
/// (opening a map aside, which only its own entry waits for).
#[derive(Debug)]
pub(crate) struct SegmentTable {
    entries: RwLock<VecDeque<Arc<SegmentEntry>>>,
    /// Entries with an open map, oldest opening first.
    open: Mutex<VecDeque<Weak<SegmentEntry>>>,
    open_max: usize,
    windows: Arc<WindowCache>,
    fetcher: Arc<WindowFetcher>,
    /// Logical offset below which everything was trimmed, when no segment is left
    /// to tell.
    floor: RwLock<u64>,
}

impl SegmentTable {
    pub(crate) fn new(open_max: usize) -> Self {
        let windows = Arc::new(WindowCache::default());
        Self {
            fetcher: WindowFetcher::new(Arc::clone(&windows)),
            entries: RwLock::default(),
            open: Mutex::default(),
            open_max,
            windows,
            floor: RwLock::new(0),
        }
    }

    pub(crate) fn push(&self, entry: SegmentEntry) {
        self.entries.write().push_back(Arc::new(entry));
    }

    /// Replaces everything by `kept` and `new`; an unsealed entry that is still
    /// unsealed keeps its map.
    pub(crate) fn replace(&self, kept: Vec<Arc<SegmentEntry>>, new: Vec<SegmentEntry>) {
        let mut entries = self.entries.write();
        let mut merged: VecDeque<_> = kept.into();
        for entry in new {
            let index = entry.meta.segment_id.as_u32();
            let same = find_in(&entries, index).filter(|known| {
                known.path == entry.path
                    && known.sealed_info().is_none()
                    && entry.sealed_info().is_none()
            });
            merged.push_back(same.map_or_else(|| Arc::new(entry), Arc::clone));
        }
        *entries = merged;
    }

    pub(crate) fn find(&self, segment_index: u32) -> Option<Arc<SegmentEntry>> {
        find_in(&self.entries.read(), segment_index).cloned()
    }

    /// First entry whose id is larger.
    pub(crate) fn after(&self, segment_index: u32) -> Option<Arc<SegmentEntry>> {
        let entries = self.entries.read();
        let at = entries.partition_point(|e| e.meta.segment_id.as_u32() <= segment_index);
        entries.get(at).cloned()
    }

    /// The segment that would hold this logical offset: the last that starts at or
    /// before it.
    pub(crate) fn find_offset(&self, offset: u64) -> Option<Arc<SegmentEntry>> {
        let entries = self.entries.read();
        let at = entries.partition_point(|e| e.meta.first_offset <= offset);
        at.checked_sub(1).and_then(|i| entries.get(i)).cloned()
    }

    pub(crate) fn first(&self) -> Option<Arc<SegmentEntry>> {
        self.entries.read().front().cloned()
    }

    pub(crate) fn last(&self) -> Option<Arc<SegmentEntry>> {
        self.entries.read().back().cloned()
    }

    pub(crate) fn snapshot(&self) -> Vec<Arc<SegmentEntry>> {
        self.entries.read().iter().cloned().collect()
    }

    /// What is kept open of all segments, those being written included.
    pub(crate) fn kept_open(&self) -> KeptOpen {
        self.entries.read().iter().fold(KeptOpen::default(), |sum, entry| {
            let of_entry = entry.kept_open();
            KeptOpen { maps: sum.maps + of_entry.maps, files: sum.files + of_entry.files }
        })
    }

    /// First logical offset that still exists.
    pub(crate) fn earliest(&self) -> u64 {
        self.first().map_or_else(|| *self.floor.read(), |e| e.meta.first_offset)
    }

    pub(crate) fn set_floor(&self, offset: u64) {
        *self.floor.write() = offset;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.read().len()
    }

    /// Forgets the newest segment, if it is this one.
    pub(crate) fn remove_last(&self, segment_index: u32) {
        let mut entries = self.entries.write();
        if entries.back().is_some_and(|e| e.meta.segment_id.as_u32() == segment_index) {
            entries.pop_back();
        }
    }

    /// Forgets the oldest segment, if it is this one.
    pub(crate) fn remove_first(&self, segment_index: u32) {
        let mut entries = self.entries.write();
        if entries.front().is_some_and(|e| e.meta.segment_id.as_u32() == segment_index) {
            entries.pop_front();
        }
    }

    /// The segment's map, opened if need be. Opening one too many of this log lets go of
    /// the one opened longest ago, one too many of the process of the one that was not used
    /// for longest; whoever reads it keeps it alive.
    pub(crate) fn open(&self, storage: &dyn Storage, entry: &Arc<SegmentEntry>) -> Result<Opened> {
        self.open_copy(storage, entry, true)
    }

    fn open_copy(
        &self,
        storage: &dyn Storage,
        entry: &Arc<SegmentEntry>,
        by_windows: bool,
    ) -> Result<Opened> {
        if let Some(damage) = &entry.damage {
            return Err(AofError::Corrupt(Box::new(damage.clone())));
        }
        entry.touch();
        let (opened, is_new) = entry.open(storage, by_windows)?;
        if is_new {
            self.note_opened(entry);
        }
        Ok(opened)
    }

    /// The map of a segment that is certainly not in another tier.
    pub(crate) fn open_whole(
        &self,
        storage: &dyn Storage,
        entry: &Arc<SegmentEntry>,
    ) -> Result<Arc<Segment>> {
        match self.open_copy(storage, entry, false)? {
            Opened::Whole(segment) => Ok(segment),
            Opened::ByWindows(_) => Err(AofError::Trimmed { earliest: self.earliest() }),
        }
    }

    /// One window of an artifact, from the cache if it was read lately.
    pub(crate) fn window(&self, artifact: &Artifact, frame: usize) -> Result<Arc<Segment>> {
        let segment_index = artifact.meta().segment_id.as_u32();
        if let Some(window) = self.kept_window(artifact, frame) {
            return Ok(window);
        }
        let window = artifact.windows(frame..frame + 1)?.into_iter().next().map(Arc::new);
        let window = window.ok_or(AofError::NoSuchRecord(artifact.meta().record_id(0)))?;
        self.windows.put(segment_index, frame, Arc::clone(&window));
        Ok(window)
    }

    /// A window that was read lately. One of a copy that was compressed differently is
    /// none of this artifact's.
    pub(crate) fn kept_window(&self, artifact: &Artifact, frame: usize) -> Option<Arc<Segment>> {
        let place = artifact.index().frames.get(frame)?;
        let window = self.windows.get(artifact.meta().segment_id.as_u32(), frame)?;
        let range = window.window_range();
        ((range.start, range.end - range.start) == (place.position, place.len)).then_some(window)
    }

    /// Has a window read in the background. The error is that of the last try.
    pub(crate) fn fetch_window(&self, artifact: &Arc<Artifact>, frame: usize) -> Result<()> {
        self.fetcher.ask(artifact, frame)
    }

    /// Forgets what was kept of a segment's windows.
    pub(crate) fn forget_windows(&self, segment_index: u32) {
        self.windows.forget(segment_index);
    }

    fn note_opened(&self, entry: &Arc<SegmentEntry>) {
        let evicted = {
            let mut open = self.open.lock();
            open.push_back(Arc::downgrade(entry));
            if open.len() > self.open_max { open.pop_front() } else { None }
        };
        if let Some(entry) = evicted.and_then(|weak| weak.upgrade()) {
            entry.forget_map();
        }
        if entry.sealed_info().is_some() {
            OpenLimit::process().keep(entry);
        }
    }
}

fn find_in(
    entries: &VecDeque<Arc<SegmentEntry>>,
    segment_index: u32,
) -> Option<&Arc<SegmentEntry>> {
    // Ids are consecutive unless a file is missing, so the guess is nearly always right.
    let first = entries.front()?.meta.segment_id.as_u32();
    let guess = segment_index.checked_sub(first)? as usize;
    if let Some(entry) = entries.get(guess)
        && entry.meta.segment_id.as_u32() == segment_index
    {
        return Some(entry);
    }
    entries
        .binary_search_by_key(&segment_index, |e| e.meta.segment_id.as_u32())
        .ok()
        .and_then(|i| entries.get(i))
}
