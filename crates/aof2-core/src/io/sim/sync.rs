//! From page cache to disk: by sync, by the kernel's own whim, or not at all.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::frozen::{DirtyPage, Frozen};
use super::inode::{Contents, Lie, Volatile};
use super::page::{PAGE_LEN, diff, page_count, sectors_of};
use super::rng::Rng;

impl Contents {
    /// All of the file, as a range for `sync`.
    pub(super) fn whole(&self) -> Range<usize> {
        0..self.len
    }

    /// Makes the pages of a byte range durable, and the length, without which they
    /// could not be found. Sectors that a failed sync left behind stay behind.
    pub(super) fn sync(&mut self, range: &Range<usize>, now_ns: u64) -> io::Result<()> {
        let dirty_pages = self.dirty_pages(range)?;
        for dirty in &dirty_pages {
            self.durable.copy_sectors(dirty.index, dirty.mask & !dirty.lies, &dirty.page);
            self.modified_ns = now_ns;
        }
        self.end_lies(range, &dirty_pages);
        self.commit_len();
        Ok(())
    }

    /// What a sync that failed leaves: nothing of the range reached the disk, and
    /// nobody will try again.
    pub(super) fn fail_sync(&mut self, range: &Range<usize>) -> io::Result<()> {
        for dirty in self.dirty_pages(range)? {
            self.lies.insert(dirty.index, Lie { mask: dirty.mask, page: dirty.page });
        }
        Ok(())
    }

    /// The kernel writes some of what is dirty, in any order, whenever it likes.
    pub(super) fn write_back(&mut self, rng: &mut Rng) -> io::Result<()> {
        let chance = rng.pick([10, 50, 90]);
        for dirty in self.dirty_pages(&self.whole())? {
            let chosen = sectors_of(dirty.mask & !dirty.lies)
                .filter(|_| rng.percent(chance))
                .fold(0, |mask, sector| mask | 1 << sector);
            self.durable.copy_sectors(dirty.index, chosen, &dirty.page);
            if let Some(lie) = self.lies.get_mut(&dirty.index) {
                lie.mask &= !chosen;
            }
        }
        if rng.percent(50) {
            self.commit_len();
        }
        Ok(())
    }

    /// Everything a power cut could work with.
    pub(super) fn freeze(&self) -> Frozen {
        let dirty = match &self.volatile {
            Volatile::Stored(changed) => changed.clone(),
            Volatile::Loaded(_) => self.loaded_dirty_pages(&self.whole()),
        };
        Frozen {
            len: self.len,
            durable: self.durable.clone(),
            durable_len: self.durable_len,
            dirty,
            allocated: self.allocated.clone(),
            durable_allocated: self.durable_allocated.clone(),
            modified_ns: self.modified_ns,
        }
    }

    fn dirty_pages(&mut self, range: &Range<usize>) -> io::Result<Vec<DirtyPage>> {
        if matches!(&self.volatile, Volatile::Stored(changed) if changed.is_empty()) {
            return Ok(Vec::new());
        }
        self.load()?;
        Ok(self.loaded_dirty_pages(range))
    }

    /// Pages of the range whose two versions differ. Other threads may be storing
    /// meanwhile: the comparison that counts is the one of the copy.
    fn loaded_dirty_pages(&self, range: &Range<usize>) -> Vec<DirtyPage> {
        let Volatile::Loaded(region) = &self.volatile else { return Vec::new() };
        let pages = range.start / PAGE_LEN..page_count(range.end.min(self.len));
        pages
            .filter(|&index| region.diff(index, self.durable.get(index)) != 0)
            .map(|index| {
                let page = Arc::new(region.snapshot(index));
                let mask = diff(&page, self.durable.get(index));
                let lies = self
                    .lies
                    .get(&index)
                    .map_or(0, |lie| lie.mask & mask & !diff(&page, &lie.page));
                DirtyPage { index, mask, lies, page }
            })
            .collect()
    }

    /// Only sectors that were lies until now still are: a sector of the range that
    /// was stored to since its sync failed has just been written.
    fn end_lies(&mut self, range: &Range<usize>, dirty_pages: &[DirtyPage]) {
        if self.lies.is_empty() {
            return;
        }
        let pages = range.start / PAGE_LEN..page_count(range.end);
        for (index, lie) in self.lies.range_mut(pages) {
            let dirty = dirty_pages.binary_search_by_key(index, |dirty| dirty.index);
            lie.mask &= dirty.map_or(0, |at| dirty_pages[at].lies);
        }
        self.lies.retain(|_, lie| lie.mask != 0);
    }

    fn commit_len(&mut self) {
        self.durable_len = self.len;
        self.durable_allocated.clone_from(&self.allocated);
    }
}
