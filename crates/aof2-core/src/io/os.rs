//! Real files.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::lock::lock_file;
use super::process_limits::{address_space_max, address_space_used};
use super::{
    DirEntry, EntryKind, File, FileIdentity, Keeps, LockError, LockGuard, MapBacking, OpenLimit,
    OpenMode, SharedMap, Storage, WordPage, is_used_up,
};

/// What the machine calls itself, for people who look for it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsStorage;

/// Calls with a descriptor to be had, if closing some that are kept makes one.
fn opening<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    OpenLimit::process().relieving(Keeps::File, call)
}

impl Storage for OsStorage {
    fn share(&self) -> Arc<dyn Storage> {
        Arc::new(*self)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        opening(|| fs::read_dir(path))?
            .map(|entry| {
                let entry = entry?;
                let kind = match entry.file_type()? {
                    t if t.is_file() => EntryKind::File,
                    t if t.is_dir() => EntryKind::Directory,
                    _ => EntryKind::Other,
                };
                Ok(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), kind })
            })
            .collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(mode == OpenMode::ReadWrite)
            // A FIFO in a file's place must not make us wait for a peer; reading it, or a
            // directory, fails.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = opening(|| options.open(path))?;
        Ok(Arc::new(OsFile { file: Arc::new(file) }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = opening(|| options.open(path))?;
        Ok(Arc::new(OsFile { file: Arc::new(file) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        opening(|| fs::File::open(path))?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        loop {
            match lock_file(path) {
                Err(LockError::Io(error))
                    if is_used_up(&error, Keeps::File)
                        && OpenLimit::process().relieve(Keeps::File) => {}
                done => return done,
            }
        }
    }

    fn random_u64(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
                Ok(len) => filled += len,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[derive(Debug)]
struct OsFile {
    file: Arc<fs::File>,
}

/// Writes zeros where the file system has no call for it.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl OsFile {
    fn write_zeros(&self, mut offset: u64, end: u64) -> io::Result<()> {
        while offset < end {
            let n = (end - offset).min(ZEROS.len() as u64) as usize;
            self.file.write_all_at(&ZEROS[..n], offset)?;
            offset += n as u64;
        }
        Ok(())
    }

    fn raw_map(&self, len: usize, writable: bool) -> io::Result<OsMap> {
        // A map longer than its file would fault with SIGBUS on first touch.
        if self.file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("file is shorter than the {len} bytes to map"),
            ));
        }
        let mut options = MmapOptions::new();
        options.len(len);
        let map = OpenLimit::process().relieving(Keeps::Map, || match writable {
            true => options.map_raw(&*self.file),
            false => options.map_raw_read_only(&*self.file),
        })?;
        let read_only_len = if writable { 0 } else { len };
        READ_ONLY_LEN.fetch_add(read_only_len, Ordering::Relaxed);
        Ok(OsMap { map, read_only_len })
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocated_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn modified_ns(&self) -> io::Result<u64> {
        let meta = self.file.metadata()?;
        Ok((meta.mtime().max(0) as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(meta.mtime_nsec().max(0) as u64))
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let meta = self.file.metadata()?;
        let changed_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        Ok(FileIdentity { device: meta.dev(), inode: meta.ino(), len: meta.len(), changed_ns })
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match retry_interrupted(|| fallocate(&*self.file, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP) => self.allocate_by_writing(len),
            other => Ok(other?),
        }
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeroed =
            retry_interrupted(|| fallocate(&*self.file, FallocateFlags::ZERO_RANGE, offset, len));
        match zeroed {
            Err(Errno::OPNOTSUPP) => self.write_zeros(offset, offset.saturating_add(len)),
            other => Ok(other?),
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_interrupted(|| fallocate(&*self.file, flags, offset, len)) {
            // Without holes the file merely stays as large as it is.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        if offset >= self.file.metadata()?.len() {
            return Ok(None);
        }
        #[cfg(target_os = "linux")]
        match rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => return Ok(Some(data)),
            Err(Errno::NXIO) => return Ok(None),
            // A file system that does not know its holes: everything may be data.
            Err(_) => {}
        }
        Ok(Some(offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<SharedMap> {
        let map = self.raw_map(len, writable)?;
        let base = NonNull::new(map.map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `map` keeps the pages mapped until it is dropped with the
        // `SharedMap`; mmap returns page-aligned memory; the file is not truncated
        // while mapped (no code in this crate shortens a segment).
        Ok(unsafe { SharedMap::new(base, len, writable, Box::new(map)) })
    }

    fn map_words(&self, len: usize, writable: bool) -> io::Result<WordPage> {
        let map = self.raw_map(len, writable)?;
        let base = NonNull::new(map.map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: as in `map`.
        Ok(unsafe { WordPage::new(base, len, writable, Box::new(map)) })
    }
}

impl OsFile {
    /// The slow way to allocate, for file systems without fallocate: blocks exist
    /// once they were written, and existing contents must not be overwritten.
    fn allocate_by_writing(&self, len: u64) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if end < len {
            self.write_zeros(end, len)?;
        }
        Ok(())
    }
}

fn retry_interrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[derive(Debug)]
struct OsMap {
    map: MmapRaw,
    /// Its bytes, if it is read-only.
    read_only_len: usize,
}

impl Drop for OsMap {
    fn drop(&mut self) {
        READ_ONLY_LEN.fetch_sub(self.read_only_len, Ordering::Relaxed);
    }
}

/// Bytes that are mapped for reading, by all logs and readers.
static READ_ONLY_LEN: AtomicUsize = AtomicUsize::new(0);
/// Makes space for a map of so many bytes that could be done without. `false` if there is
/// none: somebody limits the addresses of this process. Then maps for reading take at most
/// half of what is not used otherwise, since nobody else can ask for them to be let go of.
pub fn make_map_space(len: usize) -> bool {
    let Some(space) = AddressSpace::now() else { return true };
    loop {
        let mapped_len = READ_ONLY_LEN.load(Ordering::Relaxed) as u64;
        let others_len = space.used_len.saturating_sub(space.read_only_len);
        let allowed_len = space.len_max.saturating_sub(others_len) / 2;
        if mapped_len + len as u64 <= allowed_len {
            return true;
        }
        if len as u64 > allowed_len || !OpenLimit::process().relieve(Keeps::Map) {
            return false;
        }
    }
}

/// The addresses of a process that may not use as many as it likes.
struct AddressSpace {
    len_max: u64,
    used_len: u64,
    /// Of these, what is mapped for reading.
    read_only_len: u64,
}

impl AddressSpace {
    /// `None` if nobody limits them.
    fn now() -> Option<Self> {
        let len_max = address_space_max()?;
        let read_only_len = READ_ONLY_LEN.load(Ordering::Relaxed) as u64;
        // Where the system does not tell, half of all is taken for used.
        let used_len = address_space_used().unwrap_or(len_max / 2 + read_only_len);
        Some(Self { len_max, used_len, read_only_len })
    }
}

impl MapBacking for OsMap {
    /// On Linux `msync(MS_SYNC)` of a range is fdatasync of that range: it writes
    /// the range's dirty pages, commits the metadata needed to find them, and
    /// flushes the device, while pages that are merely faulted in ahead stay put.
    fn sync(&self, offset: usize, len: usize) -> io::Result<()> {
        self.map.flush_range(offset, len)
    }

    fn fault_in(&self, offset: usize, len: usize) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let page = rustix::param::page_size();
            let start = offset / page * page;
            // SAFETY: the range lies inside the map (checked by the caller), and
            // populating pages changes no byte of it.
            let populated = unsafe {
                rustix::mm::madvise(
                    self.map.as_mut_ptr().add(start).cast(),
                    offset + len - start,
                    rustix::mm::Advice::LinuxPopulateWrite,
                )
            };
            match populated {
                // Kernels before 5.14: pages fault in when first written.
                Err(Errno::INVAL) => Ok(()),
                // The blocks are allocated, so this is a device error.
                Err(e) => Err(e.into()),
                Ok(()) => Ok(()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (offset, len);
            Ok(())
        }
    }
}
