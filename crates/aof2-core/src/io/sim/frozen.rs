//! One file of a crash image, and what it can come back as.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::disk::Disk;
use super::fate::{FileFate, SectorFate};
use super::inode::{Contents, Inode, Lie, Volatile};
use super::page::{Page, Pages, page_count, sector_words, sectors_of};

/// A page whose two versions differ.
#[derive(Clone)]
pub(super) struct DirtyPage {
    pub(super) index: usize,
    /// Sectors that differ.
    pub(super) mask: u8,
    /// Those of them that the kernel will never write, because it tried and failed.
    pub(super) lies: u8,
    /// The version the machine sees.
    pub(super) page: Arc<Page>,
}

/// A file at the instant of a crash: what the disk holds, and the difference to
/// what the machine saw, found once for all outcomes that are made of it.
pub(super) struct Frozen {
    pub(super) len: usize,
    pub(super) durable: Pages,
    pub(super) durable_len: usize,
    pub(super) dirty: Vec<DirtyPage>,
    pub(super) allocated: Vec<bool>,
    pub(super) durable_allocated: Vec<bool>,
    pub(super) modified_ns: u64,
}

impl Frozen {
    pub(super) fn dirty_sector_count(&self) -> usize {
        self.dirty.iter().map(|dirty| dirty.mask.count_ones() as usize).sum()
    }

    pub(super) fn is_len_pending(&self) -> bool {
        self.len != self.durable_len
    }

    /// The file as the next process finds it when only this one died: nothing is
    /// lost, nothing became durable, and lies are still lies.
    pub(super) fn thaw(&self, disk: Arc<Disk>) -> Inode {
        let lies: BTreeMap<usize, Lie> = self
            .dirty
            .iter()
            .filter(|dirty| dirty.lies != 0)
            .map(|dirty| (dirty.index, Lie { mask: dirty.lies, page: Arc::clone(&dirty.page) }))
            .collect();
        self.wake(disk, |contents| {
            contents.volatile = Volatile::Stored(self.dirty.clone());
            contents.len = self.len;
            contents.durable_len = self.durable_len;
            contents.lies = lies;
            contents.allocated.clone_from(&self.allocated);
            contents.durable_allocated.clone_from(&self.durable_allocated);
        })
    }

    /// The file as the machine finds it after the power came back.
    pub(super) fn after_cut(&self, mut fate: FileFate, disk: Arc<Disk>) -> Inode {
        let keeps_len = fate.keeps_len();
        let len = if keeps_len { self.len } else { self.durable_len };
        self.wake(disk, |contents| {
            for dirty in &self.dirty {
                cut_page(&mut contents.durable, dirty, &mut fate);
            }
            contents.durable.truncate(len);
            contents.len = len;
            contents.durable_len = len;
            contents.allocated = self.blocks_after_cut(&contents.durable, len, keeps_len);
            contents.durable_allocated.clone_from(&contents.allocated);
        })
    }

    fn wake(&self, disk: Arc<Disk>, change: impl FnOnce(&mut Contents)) -> Inode {
        let mut contents = Contents::empty(disk, self.modified_ns);
        contents.durable = self.durable.clone();
        change(&mut contents);
        contents.disk.adopt(contents.allocated_count());
        Inode::new(contents)
    }

    /// Which pages have a block. Where the two versions disagree the length
    /// decides, being metadata as well; but what holds bytes has a block.
    fn blocks_after_cut(&self, contents: &Pages, len: usize, keeps_len: bool) -> Vec<bool> {
        let has = |blocks: &[bool], index: usize| blocks.get(index).copied().unwrap_or(false);
        (0..page_count(len))
            .map(|index| {
                let (new, old) = (has(&self.allocated, index), has(&self.durable_allocated, index));
                let chosen = if keeps_len { new } else { old };
                chosen || (new != old && contents.get(index).iter().any(|&word| word != 0))
            })
            .collect()
    }
}

fn cut_page(durable: &mut Pages, dirty: &DirtyPage, fate: &mut FileFate) {
    let mut kept = 0_u8;
    let mut torn = [0_u64; 8];
    for sector in sectors_of(dirty.mask) {
        match fate.next_sector(dirty.lies & (1 << sector) != 0) {
            SectorFate::Lost => {}
            SectorFate::Kept => kept |= 1 << sector,
            SectorFate::Torn { new_words } => torn[sector] = new_words,
        }
    }
    if kept == dirty.mask {
        // Other sectors are the same in both versions: share the page.
        durable.replace(dirty.index, Arc::clone(&dirty.page));
        return;
    }
    durable.copy_sectors(dirty.index, kept, &dirty.page);
    for (sector, &new_words) in torn.iter().enumerate().filter(|(_, words)| **words != 0) {
        let old = &mut durable.get_mut(dirty.index)[sector_words(sector)];
        let new = &dirty.page[sector_words(sector)];
        for word in (0..old.len()).filter(|word| new_words & (1 << word) != 0) {
            old[word] = new[word];
        }
    }
}
