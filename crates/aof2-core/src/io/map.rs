//! Memory shared with a file, in two shapes that stay sound in safe hands.
//!
//! * [`SharedMap`] has a *frontier*. Below it bytes are final: anyone may borrow
//!   them. At and above it they belong to the one [`MapWriter`], which fills them
//!   and then moves the frontier with a release store; readers load it with
//!   acquire. So no slice ever aliases a store of this process.
//! * [`WordPage`] only ever touches memory through atomics.
//!
//! Another process may map the same file. It learns that a record is complete by
//! an acquire load of the record's first word ([`SharedMap::load_word`]), which
//! the writer stores last, and only then raises its own frontier
//! ([`SharedMap::observe`]). A foreign program that scribbles over published
//! bytes is outside what any mapping can defend against; checksums catch it.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What keeps a map's memory alive and can make it durable.
pub trait MapBacking: Send + Sync {
    /// Makes the bytes of the range durable, as fdatasync would.
    fn sync(&self, offset: usize, len: usize) -> io::Result<()>;
    /// Brings the pages of the range into memory, ready to be written.
    fn fault_in(&self, offset: usize, len: usize) -> io::Result<()>;
}

struct Region {
    base: NonNull<u8>,
    len: usize,
    backing: Box<dyn MapBacking>,
}

// SAFETY: the region is plain memory that `backing` keeps valid; all access goes
// through `SharedMap` and `WordPage`, which order it with atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// A range or position outside the map, or on the wrong side of its frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl From<OutOfBounds> for io::Error {
    fn from(_: OutOfBounds) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, "position outside the mapped file")
    }
}

/// A file's bytes in memory, readable below the frontier.
pub struct SharedMap {
    region: Region,
    frontier: AtomicUsize,
    writer_taken: AtomicBool,
    writable: bool,
}

impl fmt::Debug for SharedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMap")
            .field("len", &self.region.len)
            .field("frontier", &self.published())
            .field("writable", &self.writable)
            .finish()
    }
}

impl SharedMap {
    /// # Safety
    /// `base..base+len` must stay mapped and readable (and writable if `writable`)
    /// for as long as `backing` lives, 8-byte aligned at `base`, and be reached by
    /// nothing else in this process except other maps of the same file that follow
    /// the protocol of this module.
    pub(super) unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        writable: bool,
        backing: Box<dyn MapBacking>,
    ) -> Self {
        Self {
            region: Region { base, len, backing },
            frontier: AtomicUsize::new(0),
            writer_taken: AtomicBool::new(false),
            writable,
        }
    }

    /// Memory of this process instead of a file's: final from the start, and with
    /// nothing to make durable.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        let owned = OwnedMemory::from(bytes);
        let base = owned.base();
        // SAFETY: `owned` keeps the memory where it is for as long as it lives, it is
        // aligned, at least `len` bytes long, and nobody else can reach it.
        let map = unsafe { Self::new(base, len, false, Box::new(owned)) };
        map.frontier.store(len, Ordering::Release);
        map
    }

    /// Length of the map in bytes.
    pub fn len(&self) -> usize {
        self.region.len
    }

    /// Whether the map has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// The frontier: everything below it is final.
    #[inline]
    pub fn published(&self) -> usize {
        self.frontier.load(Ordering::Acquire)
    }

    /// Final bytes. `None` when the range reaches past the frontier.
    #[inline]
    pub fn bytes(&self, start: usize, end: usize) -> Option<&[u8]> {
        if start > end || end > self.published() {
            return None;
        }
        // SAFETY: the range is inside the map (the frontier never exceeds its
        // length) and below the frontier, where `MapWriter` refuses to store.
        Some(unsafe {
            std::slice::from_raw_parts(self.region.base.as_ptr().add(start), end - start)
        })
    }

    /// Loads the aligned word at `offset` with acquire ordering, on either side of
    /// the frontier: how a record's publication is observed.
    #[inline]
    pub fn load_word(&self, offset: usize) -> Result<u64, OutOfBounds> {
        if !offset.is_multiple_of(8)
            || offset.checked_add(8).is_none_or(|end| end > self.region.len)
        {
            return Err(OutOfBounds);
        }
        // SAFETY: in bounds and aligned (base is aligned, offset is a multiple of
        // eight); concurrent stores to such words are atomic, see `store_word`.
        let word = unsafe { &*self.region.base.as_ptr().add(offset).cast::<AtomicU64>() };
        Ok(u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Declares the first `end` bytes final because the caller saw proof of it: a
    /// footer, a durable watermark, or the first word of the record that ends here.
    /// On a map that this process writes, its writer alone moves the frontier and
    /// this does nothing.
    pub fn observe(&self, end: usize) -> Result<(), OutOfBounds> {
        if end > self.region.len {
            return Err(OutOfBounds);
        }
        if !self.writer_taken.load(Ordering::Acquire) {
            self.frontier.fetch_max(end, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The right to write above the frontier, given once per map.
    pub fn writer(self: &Arc<Self>) -> Option<MapWriter> {
        if !self.writable || self.writer_taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(MapWriter { map: Arc::clone(self) })
    }

    /// Makes the bytes of a range durable.
    pub fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        if start > end || end > self.region.len {
            return Err(OutOfBounds.into());
        }
        if start == end {
            return Ok(());
        }
        self.region.backing.sync(start, end - start)
    }

    /// Brings a range of pages into memory, ready to be written.
    pub fn fault_in(&self, start: usize, end: usize) -> io::Result<()> {
        if start > end || end > self.region.len {
            return Err(OutOfBounds.into());
        }
        self.region.backing.fault_in(start, end - start)
    }
}

/// Bytes that no file stands behind, aligned for word access.
enum OwnedMemory {
    /// As they came: allocators align what is not tiny.
    Bytes(Vec<u8>),
    Words(Box<[u64]>),
}

impl OwnedMemory {
    fn base(&self) -> NonNull<u8> {
        match self {
            Self::Bytes(bytes) => NonNull::from(&**bytes).cast(),
            Self::Words(words) => NonNull::from(&**words).cast(),
        }
    }
}

impl From<Vec<u8>> for OwnedMemory {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.as_ptr().cast::<u64>().is_aligned() {
            return Self::Bytes(bytes);
        }
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        // SAFETY: the words are at least as long as the bytes, and any bytes are words.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                words.as_mut_ptr().cast::<u8>(),
                bytes.len(),
            );
        }
        Self::Words(words.into_boxed_slice())
    }
}

impl MapBacking for OwnedMemory {
    fn sync(&self, _offset: usize, _len: usize) -> io::Result<()> {
        Ok(())
    }

    fn fault_in(&self, _offset: usize, _len: usize) -> io::Result<()> {
        Ok(())
    }
}

/// The one who may store into a [`SharedMap`], above its frontier.
pub struct MapWriter {
    map: Arc<SharedMap>,
}

impl fmt::Debug for MapWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MapWriter").field(&self.map).finish()
    }
}

impl MapWriter {
    /// The map that is written.
    pub fn map(&self) -> &Arc<SharedMap> {
        &self.map
    }

    /// Copies `bytes` to `offset`, which must not be published yet.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.map.region.len);
        // Only this writer and `observe` move the frontier, and nobody observes a
        // map that has a writer: the relaxed load sees our own last store.
        if !fits || offset < self.map.frontier.load(Ordering::Relaxed) {
            return Err(OutOfBounds);
        }
        // SAFETY: in bounds, above the frontier so that no slice covers it, and
        // `&mut self` on the only writer excludes another store.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.region.base.as_ptr().add(offset),
                bytes.len(),
            );
        }
        Ok(())
    }

    /// Stores the aligned word at `offset` with release ordering: whoever loads it
    /// sees everything written before.
    #[inline]
    pub fn store_word(&mut self, offset: usize, word: u64) -> Result<(), OutOfBounds> {
        let fits = offset.checked_add(8).is_some_and(|end| end <= self.map.region.len);
        if !fits || !offset.is_multiple_of(8) || offset < self.map.frontier.load(Ordering::Relaxed)
        {
            return Err(OutOfBounds);
        }
        // SAFETY: in bounds, aligned, above the frontier; loads of it are atomic.
        let slot = unsafe { &*self.map.region.base.as_ptr().add(offset).cast::<AtomicU64>() };
        slot.store(word.to_le(), Ordering::Release);
        Ok(())
    }

    /// Moves the frontier: the bytes below `end` are final from now on.
    #[inline]
    pub fn publish(&mut self, end: usize) -> Result<(), OutOfBounds> {
        if end > self.map.region.len || end < self.map.frontier.load(Ordering::Relaxed) {
            return Err(OutOfBounds);
        }
        self.map.frontier.store(end, Ordering::Release);
        Ok(())
    }
}

/// A few mapped words that several processes read and one writes.
pub struct WordPage {
    region: Region,
    writable: bool,
}

impl fmt::Debug for WordPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordPage").field("len", &self.region.len).finish()
    }
}

impl WordPage {
    /// # Safety
    /// As [`SharedMap::new`].
    pub(super) unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        writable: bool,
        backing: Box<dyn MapBacking>,
    ) -> Self {
        Self { region: Region { base, len, backing }, writable }
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) || offset.checked_add(8)? > self.region.len {
            return None;
        }
        // SAFETY: in bounds and aligned; every access in this crate is atomic.
        Some(unsafe { &*self.region.base.as_ptr().add(offset).cast::<AtomicU64>() })
    }

    /// Whether this process may store into the page.
    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The 32-bit word at `offset`, for waiting on; `None` outside the page.
    pub(super) fn half(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset.checked_add(4)? > self.region.len {
            return None;
        }
        // SAFETY: in bounds and aligned; the wake word is only accessed as 32 bits.
        Some(unsafe { &*self.region.base.as_ptr().add(offset).cast::<AtomicU32>() })
    }

    /// Loads a word (acquire); 0 outside the page.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |w| u64::from_le(w.load(Ordering::Acquire)))
    }

    /// Loads a 32-bit word (acquire); 0 outside the page. A word is only ever
    /// accessed in one width.
    pub fn load_half(&self, offset: usize) -> u32 {
        self.half(offset).map_or(0, |w| u32::from_le(w.load(Ordering::Acquire)))
    }

    /// Stores a word (release); ignored on a read-only page.
    pub fn store(&self, offset: usize, value: u64) {
        if let (true, Some(word)) = (self.writable, self.word(offset)) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    /// Makes the page durable.
    pub fn sync(&self) -> io::Result<()> {
        self.region.backing.sync(0, self.region.len)
    }
}
