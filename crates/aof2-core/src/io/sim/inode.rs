//! One file's contents: what the machine sees, and what the disk holds. This file
//! has what the running machine does to the former; `sync` moves it to the latter.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::disk::Disk;
use super::frozen::DirtyPage;
use super::page::{PAGE_LEN, Page, Pages, page_count, touched};
use super::region::{RESERVE_LEN, Region};

/// A file, whatever its names; alive while a name, a handle or a map needs it.
pub(super) struct Inode {
    /// No other has it, in this process.
    pub(super) id: u64,
    contents: Mutex<Contents>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Inode {
    pub(super) fn new(contents: Contents) -> Self {
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), contents: Mutex::new(contents) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }
}

/// Contents that are visible but that the kernel wrongly believes to be on disk,
/// because the sync that should have written them failed.
pub(super) struct Lie {
    pub(super) mask: u8,
    /// The page when the sync failed: a sector that has other bytes by now was
    /// stored to again, and is honestly dirty.
    pub(super) page: Arc<Page>,
}

/// The page cache's version.
pub(super) enum Volatile {
    /// Not touched since power-on: the disk's version with these pages instead.
    Stored(Vec<DirtyPage>),
    /// In memory, where maps reach it; never moves from then on.
    Loaded(Region),
}

pub(super) struct Contents {
    pub(super) volatile: Volatile,
    pub(super) len: usize,
    pub(super) durable: Pages,
    pub(super) durable_len: usize,
    pub(super) lies: BTreeMap<usize, Lie>,
    /// Per page, whether it has a block.
    pub(super) allocated: Vec<bool>,
    pub(super) durable_allocated: Vec<bool>,
    pub(super) modified_ns: u64,
    pub(super) disk: Arc<Disk>,
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.disk.give(self.allocated_count());
        let volatile = std::mem::replace(&mut self.volatile, Volatile::Stored(Vec::new()));
        // Maps hold the inode, so none is left.
        if let Volatile::Loaded(region) = volatile {
            region.retire();
        }
    }
}

impl Contents {
    pub(super) fn empty(disk: Arc<Disk>, modified_ns: u64) -> Self {
        Self {
            volatile: Volatile::Stored(Vec::new()),
            len: 0,
            durable: Pages::default(),
            durable_len: 0,
            lies: BTreeMap::new(),
            allocated: Vec::new(),
            durable_allocated: Vec::new(),
            modified_ns,
            disk,
        }
    }

    pub(super) fn allocated_count(&self) -> usize {
        self.allocated.iter().filter(|&&has_block| has_block).count()
    }

    pub(super) fn allocated_len(&self) -> u64 {
        (self.allocated_count() * PAGE_LEN) as u64
    }

    /// The page cache's version in memory, brought there if need be.
    pub(super) fn load(&mut self) -> io::Result<&mut Region> {
        if let Volatile::Stored(changed) = &self.volatile {
            let mut region = if changed.is_empty() {
                Region::load(self.durable.iter())?
            } else {
                let mut pages = self.durable.clone();
                for dirty in changed {
                    pages.replace(dirty.index, Arc::clone(&dirty.page));
                }
                Region::load(pages.iter())?
            };
            region.grow(self.len);
            self.volatile = Volatile::Loaded(region);
        }
        match &mut self.volatile {
            Volatile::Loaded(region) => Ok(region),
            Volatile::Stored(_) => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    pub(super) fn read(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let range = byte_range(offset, buf.len() as u64)
            .ok()
            .filter(|range| range.end <= self.len)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        self.load()?.read(range.start, buf);
        Ok(())
    }

    pub(super) fn write(&mut self, offset: u64, buf: &[u8]) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let range = byte_range(offset, buf.len() as u64)?;
        self.take_blocks(&range)?;
        self.extend(range.end)?;
        self.load()?.write(range.start, buf);
        self.wrote(&range);
        Ok(())
    }

    pub(super) fn allocate(&mut self, len: u64) -> io::Result<()> {
        let range = block_range(0, len)?;
        self.take_blocks(&range)?;
        self.extend(range.end)
    }

    pub(super) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let range = block_range(offset, len)?;
        self.take_blocks(&range)?;
        self.extend(range.end)?;
        self.load()?.zero(range.start, range.end);
        self.wrote(&range);
        Ok(())
    }

    pub(super) fn punch(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let range = block_range(offset, len)?;
        let end = range.end.min(self.len);
        if range.start < end {
            self.load()?.zero(range.start, end);
            self.wrote(&(range.start..end));
        }
        let whole_pages = page_count(range.start)..range.end / PAGE_LEN;
        let mut given = 0;
        for has_block in self.allocated.iter_mut().take(whole_pages.end).skip(whole_pages.start) {
            given += usize::from(std::mem::take(has_block));
        }
        self.disk.give(given);
        Ok(())
    }

    /// Memory for a map of the first `len` bytes.
    pub(super) fn map(&mut self, len: usize) -> io::Result<NonNull<u8>> {
        // A map longer than its file would fault on first touch.
        if len > self.len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("file is shorter than the {len} bytes to map"),
            ));
        }
        self.load()?.base()
    }

    pub(super) fn flip_bit(&mut self, bit_index: u64) -> io::Result<()> {
        let offset = (bit_index / 8) as usize;
        if offset >= self.len {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let flip = 1 << (bit_index % 8);
        let region = self.load()?;
        let mut byte = [0];
        region.read(offset, &mut byte);
        region.write(offset, &[byte[0] ^ flip]);
        let word = &mut self.durable.get_mut(offset / PAGE_LEN)[offset % PAGE_LEN / 8];
        let mut bytes = word.to_ne_bytes();
        bytes[offset % 8] ^= flip;
        *word = u64::from_ne_bytes(bytes);
        Ok(())
    }

    /// Replaces everything by durable bytes, in place: maps keep their memory.
    pub(super) fn replace(&mut self, bytes: &[u8], now_ns: u64) -> io::Result<()> {
        let old_len = self.len;
        self.load()?.zero(0, old_len);
        self.len = 0;
        self.lies.clear();
        self.durable = Pages::default();
        self.disk.give(self.allocated_count());
        self.allocated.clear();
        self.write(0, bytes)?;
        self.modified_ns = now_ns;
        self.sync(&self.whole(), now_ns)
    }

    /// Pages without a block that hold something: a store through a map went to a
    /// hole, which on a full disk is a SIGBUS.
    pub(super) fn written_holes(&mut self) -> io::Result<Vec<usize>> {
        let count = page_count(self.len);
        let holes: Vec<usize> =
            (0..count).filter(|&i| !self.allocated.get(i).copied().unwrap_or(false)).collect();
        let zeros = Pages::default();
        let region = self.load()?;
        Ok(holes.into_iter().filter(|&i| region.diff(i, zeros.get(i)) != 0).collect())
    }

    fn extend(&mut self, len: usize) -> io::Result<()> {
        if len > self.len {
            self.load()?.grow(len);
            self.len = len;
        }
        Ok(())
    }

    fn take_blocks(&mut self, range: &Range<usize>) -> io::Result<()> {
        let pages = range.start / PAGE_LEN..page_count(range.end);
        if self.allocated.len() < pages.end {
            self.allocated.resize(pages.end, false);
        }
        let blocks = &mut self.allocated[pages];
        self.disk.take(blocks.iter().filter(|&&has_block| !has_block).count())?;
        blocks.fill(true);
        Ok(())
    }

    /// Bytes the kernel saw being written are dirty again, whatever they are.
    fn wrote(&mut self, range: &Range<usize>) {
        if self.lies.is_empty() {
            return;
        }
        let pages = range.start / PAGE_LEN..page_count(range.end);
        for (&index, lie) in self.lies.range_mut(pages) {
            lie.mask &= !touched(index, range);
        }
    }
}

fn byte_range(offset: u64, len: u64) -> io::Result<Range<usize>> {
    let end = offset.checked_add(len).filter(|&end| end <= RESERVE_LEN as u64);
    let end = end.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
    Ok(offset as usize..end as usize)
}

/// As `byte_range`, for the calls that Linux refuses for no bytes.
fn block_range(offset: u64, len: u64) -> io::Result<Range<usize>> {
    if len == 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    byte_range(offset, len)
}
