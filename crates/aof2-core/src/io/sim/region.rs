//! The memory behind an inode: reserved once, so that no map of the file ever has
//! to move when the file grows.
//!
//! Maps store into it without telling anyone, from any thread, so everything here
//! touches it through relaxed atomics only.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;

use super::page::{PAGE_LEN, PAGE_SECTORS, PAGE_WORDS, Page, SECTOR_WORDS, page_count};

/// Longest file of the simulation. Address space, not memory.
pub(super) const RESERVE_LEN: usize = 64 << 20;

/// Regions kept for the next file. A deep run makes a machine per crash state, and
/// fresh pages would cost it more than everything else together.
static IDLE: Mutex<Vec<Region>> = Mutex::new(Vec::new());
const IDLE_COUNT_MAX: usize = 64;
const IDLE_LEN_MAX: usize = 1 << 20;

pub(super) struct Region {
    memory: MmapRaw,
    // Everything past it was never written.
    used_len: usize,
}

impl Region {
    /// Memory that holds the given pages and zeros elsewhere.
    pub(super) fn load<'a>(pages: impl Iterator<Item = (usize, &'a Page)>) -> io::Result<Self> {
        let idle = IDLE.lock().pop();
        let mut region = match idle {
            Some(region) => region,
            None => Self::reserve()?,
        };
        let mut next = 0;
        for (index, page) in pages {
            region.clear(next, index);
            for (slot, &word) in region.page(index).iter().zip(page) {
                slot.store(word, Ordering::Relaxed);
            }
            next = index + 1;
        }
        region.clear(next, page_count(region.used_len));
        region.used_len = next * PAGE_LEN;
        Ok(region)
    }

    fn reserve() -> io::Result<Self> {
        let memory = MmapOptions::new().len(RESERVE_LEN).no_reserve_swap().map_anon()?;
        let memory = MmapRaw::from(memory);
        // One touched byte must not cost two megabytes of zeroing. Advice only.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        Ok(Self { memory, used_len: 0 })
    }

    /// Zeroes the used ones among pages `start..end`.
    fn clear(&self, start: usize, end: usize) {
        for index in start..end.min(page_count(self.used_len)) {
            for slot in self.page(index) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Takes the region back when no map of it is left.
    pub(super) fn retire(self) {
        let mut idle = IDLE.lock();
        if idle.len() < IDLE_COUNT_MAX && self.used_len <= IDLE_LEN_MAX {
            idle.push(self);
        }
    }

    /// Notes that maps may now store below `len`.
    pub(super) fn grow(&mut self, len: usize) {
        self.used_len = self.used_len.max(len);
    }

    pub(super) fn base(&self) -> io::Result<NonNull<u8>> {
        NonNull::new(self.memory.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map is `RESERVE_LEN` readable and writable bytes, page
        // aligned, and lives as long as `self`. Maps handed out store through raw
        // pointers; the crate's protocol lets no `&mut` to it exist.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), RESERVE_LEN / 8) }
    }

    fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), RESERVE_LEN) }
    }

    fn page(&self, index: usize) -> &[AtomicU64] {
        &self.words()[index * PAGE_WORDS..(index + 1) * PAGE_WORDS]
    }

    /// Sectors of a page that differ from `other`.
    pub(super) fn diff(&self, index: usize, other: &Page) -> u8 {
        let sectors =
            self.page(index).chunks_exact(SECTOR_WORDS).zip(other.chunks_exact(SECTOR_WORDS));
        let mut mask = 0;
        for (sector, (memory, other)) in sectors.enumerate() {
            let differences = memory
                .iter()
                .zip(other)
                .fold(0, |acc, (slot, word)| acc | (slot.load(Ordering::Relaxed) ^ word));
            debug_assert!(sector < PAGE_SECTORS);
            mask |= u8::from(differences != 0) << sector;
        }
        mask
    }

    pub(super) fn snapshot(&self, index: usize) -> Page {
        let mut page = [0; PAGE_WORDS];
        for (word, slot) in page.iter_mut().zip(self.page(index)) {
            *word = slot.load(Ordering::Relaxed);
        }
        page
    }

    /// Copies out; the caller checked the range against the file's length.
    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) {
        let (head, middle) = split(offset, buf.len());
        let bytes = &self.bytes()[offset..offset + buf.len()];
        let words = &self.words()[(offset + head) / 8..];
        let (head_buf, rest) = buf.split_at_mut(head);
        let (middle_buf, tail_buf) = rest.split_at_mut(middle);
        load_bytes(&bytes[..head], head_buf);
        for (to, slot) in middle_buf.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&slot.load(Ordering::Relaxed).to_ne_bytes());
        }
        load_bytes(&bytes[head + middle..], tail_buf);
    }

    /// Copies in. Edges go byte by byte: merging them into words would undo a
    /// neighbour's store that happens meanwhile.
    pub(super) fn write(&self, offset: usize, buf: &[u8]) {
        let (head, middle) = split(offset, buf.len());
        let bytes = &self.bytes()[offset..offset + buf.len()];
        let words = &self.words()[(offset + head) / 8..];
        store_bytes(&bytes[..head], &buf[..head]);
        for (from, slot) in buf[head..head + middle].chunks_exact(8).zip(words) {
            let mut word = [0; 8];
            word.copy_from_slice(from);
            slot.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        store_bytes(&bytes[head + middle..], &buf[head + middle..]);
    }

    pub(super) fn zero(&self, start: usize, end: usize) {
        const ZEROS: [u8; PAGE_LEN] = [0; PAGE_LEN];
        let mut offset = start;
        while offset < end {
            let len = (end - offset).min(PAGE_LEN - offset % PAGE_LEN);
            self.write(offset, &ZEROS[..len]);
            offset += len;
        }
    }
}

/// Bytes before the first aligned word, and bytes in whole words after them.
fn split(offset: usize, len: usize) -> (usize, usize) {
    let head = (offset.next_multiple_of(8) - offset).min(len);
    (head, (len - head) / 8 * 8)
}

fn load_bytes(from: &[AtomicU8], to: &mut [u8]) {
    for (to, slot) in to.iter_mut().zip(from) {
        *to = slot.load(Ordering::Relaxed);
    }
}

fn store_bytes(to: &[AtomicU8], from: &[u8]) {
    for (slot, &byte) in to.iter().zip(from) {
        slot.store(byte, Ordering::Relaxed);
    }
}
