//! Contents at rest: pages shared between a machine, its images and the machines
//! made from those, copied only where they differ.

use std::ops::Range;
use std::sync::Arc;

/// What the kernel writes back and what blocks are counted in.
pub(super) const PAGE_LEN: usize = 4096;
/// What a disk writes whole, or nearly so.
pub(super) const SECTOR_LEN: usize = 512;
pub(super) const PAGE_WORDS: usize = PAGE_LEN / 8;
pub(super) const SECTOR_WORDS: usize = SECTOR_LEN / 8;
pub(super) const PAGE_SECTORS: usize = PAGE_LEN / SECTOR_LEN;

/// A page in words, the unit of tearing. A sector mask has one bit per sector.
pub(super) type Page = [u64; PAGE_WORDS];

static ZERO_PAGE: Page = [0; PAGE_WORDS];

/// Pages needed for `len` bytes.
pub(super) fn page_count(len: usize) -> usize {
    len.div_ceil(PAGE_LEN)
}

/// Words of a sector inside its page.
pub(super) fn sector_words(sector: usize) -> Range<usize> {
    sector * SECTOR_WORDS..(sector + 1) * SECTOR_WORDS
}

/// Which sectors of a mask, in order.
pub(super) fn sectors_of(mask: u8) -> impl Iterator<Item = usize> {
    (0..PAGE_SECTORS).filter(move |sector| mask & (1 << sector) != 0)
}

/// Sectors in which two pages differ.
pub(super) fn diff(a: &Page, b: &Page) -> u8 {
    (0..PAGE_SECTORS)
        .filter(|&sector| a[sector_words(sector)] != b[sector_words(sector)])
        .fold(0, |mask, sector| mask | 1 << sector)
}

/// Sectors of page `index` that a byte range touches.
pub(super) fn touched(index: usize, range: &Range<usize>) -> u8 {
    let base = index * PAGE_LEN;
    (0..PAGE_SECTORS)
        .filter(|sector| {
            let start = base + sector * SECTOR_LEN;
            start < range.end && range.start < start + SECTOR_LEN
        })
        .fold(0, |mask, sector| mask | 1 << sector)
}

/// The pages of a file; a missing page is all zeros.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pages: Vec<Option<Arc<Page>>>,
}

impl Pages {
    pub(super) fn get(&self, index: usize) -> &Page {
        self.pages.get(index).and_then(Option::as_deref).unwrap_or(&ZERO_PAGE)
    }

    /// A page to change; other holders of it keep what they have.
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Page {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        Arc::make_mut(self.pages[index].get_or_insert_with(|| Arc::new(ZERO_PAGE)))
    }

    pub(super) fn replace(&mut self, index: usize, page: Arc<Page>) {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        self.pages[index] = Some(page);
    }

    pub(super) fn copy_sectors(&mut self, index: usize, mask: u8, from: &Page) {
        if mask == 0 {
            return;
        }
        let page = self.get_mut(index);
        for sector in sectors_of(mask) {
            page[sector_words(sector)].copy_from_slice(&from[sector_words(sector)]);
        }
    }

    /// Pages that were ever written, with their index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Page)> {
        self.pages.iter().enumerate().filter_map(|(i, page)| Some((i, page.as_deref()?)))
    }

    /// Forgets what lies past `len`: it must read as zeros if the file grows again.
    pub(super) fn truncate(&mut self, len: usize) {
        self.pages.truncate(page_count(len));
        let tail = len % PAGE_LEN;
        let last = len / PAGE_LEN;
        if tail == 0 || !self.get(last).iter().skip(tail / 8).any(|&word| word != 0) {
            return;
        }
        let page = self.get_mut(last);
        let mut edge = page[tail / 8].to_ne_bytes();
        edge[tail % 8..].fill(0);
        page[tail / 8] = u64::from_ne_bytes(edge);
        page[tail / 8 + 1..].fill(0);
    }
}
