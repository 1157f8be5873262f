//! The chunk that is being written.
//!
//! A chunk is written with positioned writes, not through a map. Records are small and
//! rare, so nothing is gained by a map; a write that fails is an error where a store
//! into a map would be a signal; and the order "records, sync, header, sync" is then a
//! plain sequence of calls, each of which the simulated storage can cut.
//!
//! What a crash leaves at each step:
//!
//! ```text
//! create      allocate N.mlog.tmp             nothing, or a temporary that opening removes
//! 1st commit  write records and header, sync  the same
//!             rename to N.mlog                either name; the contents are whole
//!             sync the directory              N.mlog
//! commit      write records, tail_offset      an uncommitted tail, of any contents
//!             sync                            an uncommitted tail
//!             write committed_len and crc     either word old or new: the checksum tells
//!                                             which commit it is, see `committed`
//!             sync                            the new commit
//! seal        write flags                     one word: sealed or not
//!             sync                            sealed
//!             give the unused end back        holes or zeros
//! reopen      write a copy to N.mlog.tmp,     N.mlog as it was, and perhaps a temporary
//!             sync
//!             rename over N.mlog              the old file or the copy: same records
//!             sync the directory              the copy
//! ```
//!
//! Reopening copies because what the page cache shows may not be on disk: the writer
//! before may have died, or a sync of it may have failed. The copy makes records, header
//! and name durable at once, and has nothing behind the committed part.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::committed::{CHUNK_FLAGS_OFFSET, COMMITTED_LEN_OFFSET, Chunk, TAIL_OFFSET_OFFSET};
use super::layout::ManifestLayout;
use crate::error::{AofError, Result};
use crate::format::Crc64;
use crate::format::manifest::{CHUNK_GROWTH_BYTES, CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader};
use crate::io::{File, FileIdentity, OpenMode, Storage};
use crate::planted;
use crate::planted::ManifestBug;

/// Holes are punched in whole pages.
const PAGE_LEN: u64 = 4096;

/// What is known of a chunk on disk that takes no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Its number.
    pub chunk_index: u64,
    /// Ordinal of its first record.
    pub base_record: u64,
    /// Records in it.
    pub record_count: u64,
    /// Bytes of header and records.
    pub committed_len: u64,
    /// Checksum of the records.
    pub chunk_crc64: u64,
    /// Whether it is marked as uploaded.
    pub is_uploaded: bool,
}

/// The chunk that takes records.
#[derive(Debug)]
pub(super) struct ActiveChunk {
    /// Which file it is. It is open only while it is written: an idle manifest costs no
    /// descriptor.
    file: FileIdentity,
    path: PathBuf,
    is_named: bool,
    /// As on disk, once it has its name.
    header: ChunkHeader,
    capacity: u64,
    /// Checksum over all records, staged ones included.
    crc: Crc64,
    /// Records that no commit has written yet.
    staged: Vec<u8>,
    staged_count: u64,
    committed_count: u64,
    /// Whether there is more in it than the manifest's notes about itself.
    pub(super) has_news: bool,
}

impl ActiveChunk {
    /// A new chunk with space for a record of this length. If it fails, nothing was
    /// promised and it can be tried again.
    pub(super) fn create(
        storage: &dyn Storage,
        layout: &ManifestLayout,
        chunk_index: u64,
        base_record: u64,
        capacity: u64,
    ) -> Result<Self> {
        let (file, path) = create_temporary(storage, layout, chunk_index, capacity)?;
        let header = ChunkHeader {
            chunk_index,
            base_record,
            tail_offset: CHUNK_HEADER_LEN as u64,
            committed_len: CHUNK_HEADER_LEN as u64,
            chunk_crc64: Crc64::new().finish(),
            flags: ChunkFlags::NONE,
        };
        Self::over(&*file, path, header, capacity)
    }

    fn over(file: &dyn File, path: PathBuf, header: ChunkHeader, capacity: u64) -> Result<Self> {
        let identity = file.identity().map_err(AofError::io("read", &path))?;
        Ok(Self {
            file: identity,
            path,
            is_named: false,
            header,
            capacity,
            crc: Crc64::resume(header.chunk_crc64),
            staged: Vec::new(),
            staged_count: 0,
            committed_count: 0,
            has_news: false,
        })
    }

    /// Opens its file for a commit. If that fails, nothing happened and it can be tried
    /// again.
    pub(super) fn open(&self, storage: &dyn Storage) -> Result<Arc<dyn File>> {
        let failed = || AofError::io("open", &self.path);
        let file = storage.open(&self.path, OpenMode::ReadWrite).map_err(failed())?;
        let found = file.identity().map_err(failed())?;
        if (found.device, found.inode) != (self.file.device, self.file.inode) {
            let reason = "it was put in the place of the chunk that is being written".into();
            return Err(AofError::Foreign { path: self.path.clone(), reason });
        }
        Ok(file)
    }

    /// Continues a chunk that an earlier writer left unsealed.
    pub(super) fn reopen(
        storage: &dyn Storage,
        layout: &ManifestLayout,
        chunk: &Chunk,
        record_count: u64,
        chunk_bytes: u64,
    ) -> Result<Self> {
        let len = chunk.bytes().len() as u64;
        let header = ChunkHeader { tail_offset: len, committed_len: len, ..*chunk.header() };
        let capacity = chunk_bytes.max(len.next_multiple_of(PAGE_LEN));
        let path = layout.chunk_path(header.chunk_index);
        let file = if planted::has(ManifestBug::TrustPageCache) {
            storage.open(&path, OpenMode::ReadWrite).map_err(AofError::io("open", &path))?
        } else {
            replace_by_copy(storage, layout, chunk, &header, capacity)?
        };
        let mut active = Self::over(&*file, path, header, capacity)?;
        active.is_named = true;
        active.committed_count = record_count;
        Ok(active)
    }

    pub(super) fn index(&self) -> u64 {
        self.header.chunk_index
    }

    /// First byte that no record uses, staged ones included.
    pub(super) fn tail_offset(&self) -> u64 {
        self.header.committed_len + self.staged.len() as u64
    }

    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    pub(super) fn record_count(&self) -> u64 {
        self.committed_count + self.staged_count
    }

    pub(super) fn space(&self) -> u64 {
        self.capacity - self.tail_offset()
    }

    /// Takes a record; the caller has checked that there is space.
    pub(super) fn append(&mut self, record: &[u8]) {
        self.crc.update(record);
        self.staged.extend_from_slice(record);
        self.staged_count += 1;
    }

    /// Makes everything staged durable. After an error nothing is known about what is on
    /// disk, and the chunk must not be used again.
    pub(super) fn commit(
        &mut self,
        file: &dyn File,
        storage: &dyn Storage,
        layout: &ManifestLayout,
    ) -> Result<()> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let end = self.tail_offset();
        let mut header = ChunkHeader {
            tail_offset: end,
            committed_len: end,
            chunk_crc64: self.crc.finish(),
            ..self.header
        };
        if self.is_named {
            self.write_records(file, &header)?;
            self.write_commit(file, &mut header)?;
        } else {
            self.first_commit(file, storage, layout, &header)?;
        }
        self.header = header;
        self.committed_count += self.staged_count;
        self.staged.clear();
        self.staged_count = 0;
        Ok(())
    }

    /// Nobody replays the file before it has its name, so everything in it can become
    /// durable at once.
    fn first_commit(
        &mut self,
        file: &dyn File,
        storage: &dyn Storage,
        layout: &ManifestLayout,
        header: &ChunkHeader,
    ) -> Result<()> {
        self.write(file, &self.staged, CHUNK_HEADER_LEN as u64)?;
        self.write(file, &header.encode(), 0)?;
        self.sync(file)?;
        let named = layout.chunk_path(self.index());
        storage.rename(&self.path, &named).map_err(AofError::io("rename", &self.path))?;
        sync_dir(storage, layout)?;
        self.path = named;
        self.is_named = true;
        Ok(())
    }

    fn write_records(&self, file: &dyn File, header: &ChunkHeader) -> Result<()> {
        self.write(file, &self.staged, self.header.committed_len)?;
        self.write(file, &header.tail_offset.to_le_bytes(), TAIL_OFFSET_OFFSET)?;
        if planted::has(ManifestBug::HeaderBeforeData) {
            return Ok(());
        }
        self.sync(file)
    }

    fn write_commit(&self, file: &dyn File, header: &mut ChunkHeader) -> Result<()> {
        let words = header.encode();
        let mut range = COMMITTED_LEN_OFFSET as usize..CHUNK_FLAGS_OFFSET as usize;
        if header.flags.contains(ChunkFlags::SEALED) {
            range.end = CHUNK_HEADER_LEN;
        }
        self.write(file, words.get(range).unwrap_or_default(), COMMITTED_LEN_OFFSET)?;
        if planted::has(ManifestBug::AckBeforeSync) {
            return Ok(());
        }
        self.sync(file)
    }

    /// Commits and closes the chunk for good. The seal is a word of its own, written
    /// when the commit is safe: a torn header of a sealed chunk does not exist.
    pub(super) fn seal(
        &mut self,
        file: &dyn File,
        storage: &dyn Storage,
        layout: &ManifestLayout,
    ) -> Result<ChunkInfo> {
        let sealed = self.header.flags.union(ChunkFlags::SEALED);
        if planted::has(ManifestBug::SealWithCommit) {
            self.header.flags = sealed;
        }
        self.commit(file, storage, layout)?;
        self.header.flags = sealed;
        self.write(file, &sealed.bits().to_le_bytes(), CHUNK_FLAGS_OFFSET)?;
        self.sync(file)?;
        self.give_back_unused(file);
        Ok(self.info())
    }

    /// Gives the blocks behind the records back. Only disk space depends on it.
    pub(super) fn give_back_unused(&self, file: &dyn File) {
        let start = self.header.committed_len.next_multiple_of(PAGE_LEN);
        if start < self.capacity {
            let _ = file.punch_hole(start, self.capacity - start);
        }
    }

    fn info(&self) -> ChunkInfo {
        ChunkInfo {
            chunk_index: self.header.chunk_index,
            base_record: self.header.base_record,
            record_count: self.committed_count,
            committed_len: self.header.committed_len,
            chunk_crc64: self.header.chunk_crc64,
            is_uploaded: self.header.flags.contains(ChunkFlags::UPLOADED),
        }
    }

    fn write(&self, file: &dyn File, bytes: &[u8], offset: u64) -> Result<()> {
        file.write_all_at(bytes, offset).map_err(AofError::io("write", &self.path))
    }

    fn sync(&self, file: &dyn File) -> Result<()> {
        sync(file, &self.path)
    }
}

/// Size of a chunk for a record of this length: the usual one, grown in steps where one
/// record alone would overflow it.
pub(super) fn capacity_for(chunk_bytes: u64, record_len: u64) -> u64 {
    let needed = CHUNK_HEADER_LEN as u64 + record_len;
    let missing = needed.saturating_sub(chunk_bytes);
    chunk_bytes + missing.next_multiple_of(CHUNK_GROWTH_BYTES)
}

/// Sets a flag of a sealed chunk: one word, whole or not at all.
pub(super) fn mark(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    chunk_index: u64,
    flags: ChunkFlags,
) -> Result<()> {
    let path = layout.chunk_path(chunk_index);
    let file = storage.open(&path, OpenMode::ReadWrite).map_err(AofError::io("open", &path))?;
    let word = flags.bits().to_le_bytes();
    file.write_all_at(&word, CHUNK_FLAGS_OFFSET).map_err(AofError::io("write", &path))?;
    sync(&*file, &path)
}

/// Puts bytes where a chunk belongs: temporary name, sync, rename, sync directory.
pub(in crate::manifest) fn install(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    chunk_index: u64,
    bytes: &[u8],
) -> Result<()> {
    let (file, temporary) = create_temporary(storage, layout, chunk_index, bytes.len() as u64)?;
    file.write_all_at(bytes, 0).map_err(AofError::io("write", &temporary))?;
    sync(&*file, &temporary)?;
    let path = layout.chunk_path(chunk_index);
    storage.rename(&temporary, &path).map_err(AofError::io("rename", &temporary))?;
    sync_dir(storage, layout)
}

fn create_temporary(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    chunk_index: u64,
    capacity: u64,
) -> Result<(Arc<dyn File>, PathBuf)> {
    let path = layout.temporary_path(chunk_index);
    if storage.exists(&path).map_err(AofError::io("look for", &path))? {
        storage.remove(&path).map_err(AofError::io("remove", &path))?;
    }
    let file = storage.create_new(&path).map_err(AofError::io("create", &path))?;
    if let Err(error) = file.allocate(capacity) {
        // Half of a chunk is no use and takes space.
        let _ = storage.remove(&path);
        return Err(AofError::io("allocate", &path)(error));
    }
    Ok((file, path))
}

fn replace_by_copy(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    chunk: &Chunk,
    header: &ChunkHeader,
    capacity: u64,
) -> Result<Arc<dyn File>> {
    let (file, temporary) = create_temporary(storage, layout, header.chunk_index, capacity)?;
    let write = |bytes: &[u8], offset| {
        file.write_all_at(bytes, offset).map_err(AofError::io("write", &temporary))
    };
    let records = chunk.bytes().get(CHUNK_HEADER_LEN..).unwrap_or_default();
    write(records, CHUNK_HEADER_LEN as u64)?;
    write(&header.encode(), 0)?;
    sync(&*file, &temporary)?;
    let path = layout.chunk_path(header.chunk_index);
    storage.rename(&temporary, &path).map_err(AofError::io("rename", &temporary))?;
    sync_dir(storage, layout)?;
    Ok(file)
}

fn sync(file: &dyn File, path: &Path) -> Result<()> {
    match file.sync() {
        Err(_) if planted::has(ManifestBug::IgnoreSyncError) => Ok(()),
        synced => synced.map_err(AofError::io("sync", path)),
    }
}

fn sync_dir(storage: &dyn Storage, layout: &ManifestLayout) -> Result<()> {
    if planted::has(ManifestBug::SkipDirectorySync) {
        return Ok(());
    }
    storage.sync_dir(layout.dir()).map_err(AofError::io("sync directory", layout.dir()))
}
