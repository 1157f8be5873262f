//! The traits that a log is written against.
//!
//! Contract shared by all implementations, modelled on POSIX at its least
//! generous: file contents are durable after [`File::sync`] or
//! [`SharedMap::sync`](crate::io::SharedMap::sync) of the range, a file's *name* only
//! after [`Storage::sync_dir`] of its directory. A failed sync says nothing about
//! what reached the disk, and a later successful sync does not cover what the
//! failed one was asked for.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{SharedMap, WordPage};

/// What a directory entry is; symbolic links are never followed inside a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, socket, device: nothing a log would ever write.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// File name, lossily decoded: names that are not UTF-8 are not ours.
    pub name: String,
    /// What stands behind the name.
    pub kind: EntryKind,
}

/// How to open a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read only: works on a read-only file system.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Why a lock was not given.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else is writing; the process id where the system tells it.
    Held {
        /// Process that holds the lock, 0 when unknown.
        pid: u32,
    },
    /// The lock file could not be opened or locked.
    Io(io::Error),
}

/// What tells one file from another that has its name later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// File system.
    pub device: u64,
    /// File in it, as long as it exists.
    pub inode: u64,
    /// Length.
    pub len: u64,
    /// When it was last changed, name and number of names included; nanoseconds since the
    /// epoch.
    pub changed_ns: i128,
}

/// Holding it means being the only writer; dropping it lets the next one in.
pub trait LockGuard: Send + Sync + Debug {}

/// A tree of files.
pub trait Storage: Send + Sync + Debug + 'static {
    /// The same tree, for somebody who opens files of it later.
    fn share(&self) -> Arc<dyn Storage>;
    /// Creates a directory and its parents; existing ones are fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Whether the path names anything.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Opens an existing regular file; a symbolic link is refused.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Creates a file that must not exist yet.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Atomically renames, replacing what `to` named.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; open maps of it stay valid.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that holds nothing.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in this directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Takes the exclusive writer lock kept in this file, without waiting.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError>;
    /// A random number from the machine. Storage stands for the machine: a simulated one
    /// draws numbers that repeat with its seed.
    fn random_u64(&self) -> io::Result<u64>;
}

/// An open file.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync + Debug {
    /// Current length.
    fn len(&self) -> io::Result<u64>;
    /// Bytes of disk the file occupies (less than its length where it has holes).
    fn allocated_len(&self) -> io::Result<u64>;
    /// Time of the last change, nanoseconds since the epoch.
    fn modified_ns(&self) -> io::Result<u64>;
    /// Which file this is. Two that are equal have the same contents; one that was copied
    /// or renamed since is another.
    fn identity(&self) -> io::Result<FileIdentity>;
    /// Fills the buffer from `offset`; `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of the buffer at `offset`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the file at least `len` bytes long with every block of it allocated,
    /// so that later stores through a map cannot run out of disk.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes the range, which must not be empty, read as zeros while its blocks stay
    /// allocated.
    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Gives the blocks of a range, which must not be empty, back; it reads as zeros and must not be written
    /// through a map again before [`File::allocate`].
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;
    /// First byte at or behind `offset` that may hold something other than a hole;
    /// `None` when only holes follow.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
    /// Makes contents and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Maps the first `len` bytes; writable maps need a file opened for writing
    /// whose blocks are allocated.
    fn map(&self, len: usize, writable: bool) -> io::Result<SharedMap>;
    /// Maps the first `len` bytes for atomic word access.
    fn map_words(&self, len: usize, writable: bool) -> io::Result<WordPage>;
}
