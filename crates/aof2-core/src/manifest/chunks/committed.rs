//! The committed part of one chunk, read and verified.
//!
//! **What is committed.** `chunk_crc64` decides: the committed part of a chunk ends at
//! the record boundary at which the running checksum equals it. `committed_len` says
//! where to look first. A power cut may leave one of the two words old and one new; both
//! are then words that some commit wrote, the bytes that either speaks of are on disk
//! (they were synced first), and the checksum alone finds the boundary. So a header that
//! was torn never costs a committed record, and never shows one that was not. A boundary
//! that matches nowhere means that committed bytes changed: damage, never trimmed.
//!
//! Chunks are read into memory, at most a megabyte or so each, rather than mapped: the
//! file under a map may be replaced by the next writer, and records borrow from the
//! buffer either way.

use std::io;
use std::path::{Path, PathBuf};

use super::damage::Spot;
use super::layout::ManifestLayout;
use super::position::ManifestPosition;
use crate::error::{AofError, Result};
use crate::format::manifest::{
    CHUNK_BYTES_MAX, CHUNK_GROWTH_BYTES, CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader, ManifestRecord,
    ManifestRecordHeader,
};
use crate::format::{Crc64, SegmentId, crc64};
use crate::io::{File, OpenMode, Storage};
use crate::planted;
use crate::planted::ManifestBug;

/// The longest committed part of a chunk that is read: the largest chunk, grown for the
/// longest record.
pub(in crate::manifest) const CHUNK_LEN_MAX: u64 = CHUNK_BYTES_MAX + 4 * CHUNK_GROWTH_BYTES;

/// No manifest comes near so many chunks or records; a number beyond is a damaged one,
/// and must not reach the arithmetic.
pub(in crate::manifest) const NUMBER_MAX: u64 = u64::MAX >> 1;

/// A chunk may move on while it is read; so often it is looked at again.
const LOOKS: usize = 8;

/// A record and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRecord<'a> {
    /// Its ordinal in the manifest, from 0, without gaps.
    pub ordinal: u64,
    /// Where it starts.
    pub position: ManifestPosition,
    /// Where the next one starts.
    pub end_offset: u64,
    /// What it says, borrowed from the chunk.
    pub record: ManifestRecord<'a>,
}

/// The committed part of a chunk, verified, in memory.
#[derive(Clone, Debug)]
pub struct Chunk {
    path: PathBuf,
    header: ChunkHeader,
    /// `[0, end)` of the file.
    bytes: Vec<u8>,
    /// Bytes behind the committed part that the header says were written.
    uncommitted_len: u64,
    /// Whether `committed_len` disagreed with the checksum: a header torn by a crash.
    was_torn: bool,
}

impl Chunk {
    /// Reads and verifies a chunk. `has_successor` says whether a newer chunk was seen
    /// before: then this one must be sealed. `buffer` is used for its bytes.
    pub(in crate::manifest) fn load(
        storage: &dyn Storage,
        layout: &ManifestLayout,
        chunk_index: u64,
        has_successor: bool,
        buffer: Vec<u8>,
    ) -> Result<Self> {
        let path = layout.chunk_path(chunk_index);
        let file = storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
        let chunk = Self::from_file(&*file, &path, chunk_index, buffer)?;
        if has_successor && !chunk.is_sealed() {
            let records = chunk.header.base_record..u64::MAX;
            let spot = chunk.spot(CHUNK_FLAGS_OFFSET, records);
            return Err(spot.corrupt("it is not sealed although another chunk follows"));
        }
        Ok(chunk)
    }

    pub(in crate::manifest) fn from_file(
        file: &dyn File,
        path: &Path,
        chunk_index: u64,
        mut buffer: Vec<u8>,
    ) -> Result<Self> {
        let mut seen = read_header(file, path, chunk_index)?;
        for _ in 0..LOOKS {
            match Self::find_committed(file, path, seen, &mut buffer) {
                Err(AofError::Corrupt(damage)) => {
                    let now = read_header(file, path, chunk_index)?;
                    if now == seen {
                        return Err(AofError::Corrupt(damage));
                    }
                    seen = now;
                }
                Err(error) => return Err(error),
                Ok((header, was_torn)) => {
                    let uncommitted_len = seen.tail_offset - header.committed_len;
                    let path = path.to_owned();
                    return Ok(Self { path, header, bytes: buffer, uncommitted_len, was_torn });
                }
            }
        }
        Self::find_committed(file, path, seen, &mut buffer).map(|(header, was_torn)| {
            let uncommitted_len = seen.tail_offset - header.committed_len;
            Self { path: path.to_owned(), header, bytes: buffer, uncommitted_len, was_torn }
        })
    }

    /// Finds the committed part, into `bytes`; the header as it should have been, and
    /// whether it was not.
    fn find_committed(
        file: &dyn File,
        path: &Path,
        header: ChunkHeader,
        bytes: &mut Vec<u8>,
    ) -> Result<(ChunkHeader, bool)> {
        let file_len = file.len().map_err(AofError::io("read", path))?.min(CHUNK_LEN_MAX);
        if header.tail_offset > file_len {
            let spot = Spot {
                path,
                chunk_index: header.chunk_index,
                segment_id: None,
                offset: file_len,
                records: header.base_record..u64::MAX,
            };
            let reason = format!(
                "its header speaks of {} bytes, of which {file_len} are there",
                header.tail_offset
            );
            return Err(spot.corrupt(reason));
        }
        if planted::has(ManifestBug::KeepUncommittedTail) {
            read_into(file, path, header.tail_offset, bytes)?;
            let records = bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default();
            let (committed_len, chunk_crc64) = (header.tail_offset, crc64(records));
            return Ok((ChunkHeader { committed_len, chunk_crc64, ..header }, false));
        }
        read_into(file, path, header.committed_len, bytes)?;
        if planted::has(ManifestBug::SkipChunkChecksum)
            || crc64(bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default()) == header.chunk_crc64
        {
            return Ok((header, false));
        }
        // Torn, or damaged: the boundary decides.
        read_into(file, path, header.tail_offset, bytes)?;
        let boundary = find_boundary(bytes, header.chunk_crc64);
        match boundary {
            Boundary::At(end) if !header.flags.contains(ChunkFlags::SEALED) => {
                bytes.truncate(end);
                Ok((ChunkHeader { committed_len: end as u64, ..header }, true))
            }
            Boundary::At(end) => {
                let reason =
                    format!("it is sealed at byte {} and ends at {end}", header.committed_len);
                let spot = damaged_spot(path, &header, bytes, end);
                Err(Spot { offset: COMMITTED_LEN_OFFSET, ..spot }.corrupt(reason))
            }
            Boundary::Broken { offset, error } => {
                Err(damaged_spot(path, &header, bytes, offset).corrupt(error))
            }
            Boundary::None => Err(Spot {
                path,
                chunk_index: header.chunk_index,
                segment_id: None,
                offset: CHUNK_HEADER_LEN as u64,
                records: header.base_record..u64::MAX,
            }
            .corrupt("the checksum of the chunk does not match its records")),
        }
    }

    /// Takes in what was committed since, reading only that. `false` when this is not
    /// the same chunk any more and it must be loaded afresh.
    pub(super) fn extend(&mut self, storage: &dyn Storage) -> Result<bool> {
        let file = storage.open(&self.path, OpenMode::Read);
        let file = file.map_err(AofError::io("open", &self.path))?;
        let header = read_header(&*file, &self.path, self.header.chunk_index)?;
        if header == self.header {
            return Ok(true);
        }
        let (old_len, new_len) = (self.header.committed_len, header.committed_len);
        let file_len = file.len().map_err(AofError::io("read", &self.path))?.min(CHUNK_LEN_MAX);
        if header.base_record != self.header.base_record || new_len < old_len || new_len > file_len
        {
            return Ok(false);
        }
        let mut added = vec![0; (new_len - old_len) as usize];
        file.read_exact_at(&mut added, old_len).map_err(AofError::io("read", &self.path))?;
        let mut crc = Crc64::resume(self.header.chunk_crc64);
        crc.update(&added);
        if crc.finish() != header.chunk_crc64 {
            return Ok(false);
        }
        self.bytes.extend_from_slice(&added);
        self.uncommitted_len = header.tail_offset - new_len;
        self.header = header;
        Ok(true)
    }

    /// The chunk's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header; `committed_len` is the end of the committed part as verified.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// The chunk's number.
    pub fn index(&self) -> u64 {
        self.header.chunk_index
    }

    /// Header and committed records, as in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the chunk takes no more records.
    pub fn is_sealed(&self) -> bool {
        self.header.flags.contains(ChunkFlags::SEALED)
    }

    /// Whether the header says that the chunk was uploaded.
    pub fn is_uploaded(&self) -> bool {
        self.header.flags.contains(ChunkFlags::UPLOADED)
    }

    /// Bytes behind the committed part that a crash left, or that are being committed.
    pub fn uncommitted_len(&self) -> u64 {
        self.uncommitted_len
    }

    /// Whether a crash left `committed_len` older or newer than the checksum.
    pub fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Where the next record will stand.
    pub fn end(&self) -> ManifestPosition {
        ManifestPosition {
            chunk_index: self.header.chunk_index,
            chunk_offset: self.bytes.len() as u64,
        }
    }

    /// Its records, in order.
    pub fn records(&self) -> Records<'_> {
        Records {
            chunk: self,
            offset: CHUNK_HEADER_LEN,
            ordinal: self.header.base_record,
            has_failed: false,
        }
    }

    /// The record at this byte, `None` at the end.
    pub(super) fn record_at(
        &self,
        offset: usize,
        ordinal: u64,
    ) -> Result<Option<PlacedRecord<'_>>> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        match ManifestRecord::decode(rest) {
            Ok((record, len)) => Ok(Some(PlacedRecord {
                ordinal,
                position: ManifestPosition {
                    chunk_index: self.header.chunk_index,
                    chunk_offset: offset as u64,
                },
                end_offset: (offset + len) as u64,
                record,
            })),
            Err(error) => Err(self.spot(offset as u64, ordinal..u64::MAX).corrupt(error)),
        }
    }

    pub(in crate::manifest) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    fn spot(&self, offset: u64, records: std::ops::Range<u64>) -> Spot<'_> {
        let segment_id = segment_at(&self.bytes, offset as usize);
        Spot { path: &self.path, chunk_index: self.index(), segment_id, offset, records }
    }
}

/// Byte of the header's `committed_len`.
pub(super) const COMMITTED_LEN_OFFSET: u64 = 40;
/// Byte of the header's `tail_offset`.
pub(super) const TAIL_OFFSET_OFFSET: u64 = 32;
/// Byte of the header's `flags`.
pub(super) const CHUNK_FLAGS_OFFSET: u64 = 56;

/// Iterator of [`Chunk::records`]; ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    chunk: &'a Chunk,
    offset: usize,
    ordinal: u64,
    has_failed: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<PlacedRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let chunk = self.chunk;
        let next = chunk.record_at(self.offset, self.ordinal).transpose()?;
        match &next {
            Ok(placed) => {
                self.offset = placed.end_offset as usize;
                self.ordinal += 1;
            }
            Err(_) => self.has_failed = true,
        }
        Some(next)
    }
}

enum Boundary {
    /// The checksum matches here.
    At(usize),
    /// It matches nowhere before this record, which does not validate.
    Broken { offset: usize, error: crate::format::FormatError },
    /// Every record validates and the checksum matches at none of them.
    None,
}

/// Walks the records for the boundary at which the checksum so far is `wanted`.
fn find_boundary(bytes: &[u8], wanted: u64) -> Boundary {
    let mut crc = Crc64::new();
    let mut offset = CHUNK_HEADER_LEN;
    loop {
        if crc.finish() == wanted && offset > CHUNK_HEADER_LEN {
            return Boundary::At(offset);
        }
        let rest = bytes.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Boundary::None;
        }
        match ManifestRecord::decode(rest) {
            Ok((_, len)) => {
                crc.update(rest.get(..len).unwrap_or_default());
                offset += len;
            }
            Err(error) => return Boundary::Broken { offset, error },
        }
    }
}

/// The segment that the record at `offset` names, if there is space for a record.
fn segment_at(bytes: &[u8], offset: usize) -> Option<SegmentId> {
    if offset < CHUNK_HEADER_LEN {
        return None;
    }
    let rest = bytes.get(offset..)?;
    ManifestRecordHeader::decode(rest).ok().map(|header| header.segment_id)
}

fn damaged_spot<'a>(path: &'a Path, header: &ChunkHeader, bytes: &[u8], offset: usize) -> Spot<'a> {
    let mut ordinal = header.base_record;
    let mut at = CHUNK_HEADER_LEN;
    while at < offset {
        let Ok((_, len)) = ManifestRecord::decode(bytes.get(at..).unwrap_or_default()) else {
            break;
        };
        at += len;
        ordinal += 1;
    }
    Spot {
        path,
        chunk_index: header.chunk_index,
        segment_id: segment_at(bytes, offset),
        offset: offset as u64,
        records: ordinal..u64::MAX,
    }
}

/// Reads a chunk's header and checks that it is this chunk's.
pub(super) fn read_header(file: &dyn File, path: &Path, chunk_index: u64) -> Result<ChunkHeader> {
    let spot = |offset| Spot { path, chunk_index, segment_id: None, offset, records: 0..u64::MAX };
    let mut bytes = [0; CHUNK_HEADER_LEN];
    match file.read_exact_at(&mut bytes, 0) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(spot(0).corrupt("the file is shorter than a header"));
        }
        read => read.map_err(AofError::io("read", path))?,
    }
    let header = ChunkHeader::decode(&bytes).map_err(|error| spot(0).corrupt(error))?;
    if header.chunk_index != chunk_index {
        let reason = format!("its header says that it is chunk {}", header.chunk_index);
        return Err(spot(16).corrupt(reason));
    }
    if header.base_record > NUMBER_MAX {
        return Err(spot(24).corrupt(format!("no record has ordinal {}", header.base_record)));
    }
    let is_sealed = header.flags.contains(ChunkFlags::SEALED);
    if header.flags.contains(ChunkFlags::UPLOADED) && !is_sealed {
        return Err(spot(CHUNK_FLAGS_OFFSET).corrupt("it is marked uploaded but not sealed"));
    }
    if is_sealed && header.tail_offset != header.committed_len {
        return Err(spot(TAIL_OFFSET_OFFSET).corrupt("it is sealed with an uncommitted tail"));
    }
    Ok(header)
}

fn read_into(file: &dyn File, path: &Path, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.resize(len as usize, 0);
    file.read_exact_at(bytes, 0).map_err(AofError::io("read", path))
}
