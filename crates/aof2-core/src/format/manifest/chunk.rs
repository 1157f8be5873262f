//! The header of a manifest chunk. Spec: docs/format.md#chunk-header
//!
//! ```text
//! header, the first 64 bytes
//!    0 u64 magic "AOF2MLOG"   8 u32 version = 1   12 u32 header_len = 64
//!   16 u64 chunk_index       24 u64 base_record   32 u64 tail_offset
//!   40 u64 committed_len     48 u64 chunk_crc64   56 u64 flags
//! ```
//!
//! Records follow from byte 64 on. `chunk_crc64` covers `[64, committed_len)` and
//! with it the headers of the records; nothing covers this header, so that a
//! commit can rewrite it. A flipped bit in `committed_len` or `chunk_crc64` shows
//! as a checksum that does not match, one in `chunk_index` or `base_record` as a
//! chunk that does not follow its neighbour.

use crate::format::FormatError;
use crate::format::bytes::{block, put, u32_at, u64_at};

use super::record::RECORD_ALIGN;

const MAGIC: u64 = 0x414F_4632_4D4C_4F47;
const VERSION: u32 = 1;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const HEADER_LEN: usize = VERSION + 4;
    pub const CHUNK_INDEX: usize = HEADER_LEN + 4;
    pub const BASE_RECORD: usize = CHUNK_INDEX + 8;
    pub const TAIL_OFFSET: usize = BASE_RECORD + 8;
    pub const COMMITTED_LEN: usize = TAIL_OFFSET + 8;
    pub const CHUNK_CRC64: usize = COMMITTED_LEN + 8;
    pub const FLAGS: usize = CHUNK_CRC64 + 8;
    pub const LEN: usize = FLAGS + 8;
}

/// Bytes of the header; the first record starts here.
pub const CHUNK_HEADER_LEN: usize = header::LEN;
/// The smallest capacity of a chunk.
pub const CHUNK_BYTES_MIN: u64 = 16 << 10;
/// The largest capacity of a chunk.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;
/// The capacity of a chunk unless configured otherwise.
pub const CHUNK_BYTES_DEFAULT: u64 = 256 << 10;
/// A chunk that is too small for a single record grows in steps of this.
pub const CHUNK_GROWTH_BYTES: u64 = 64 << 10;

const _: () = assert!(CHUNK_HEADER_LEN == 64);
const _: () = assert!(CHUNK_HEADER_LEN.is_multiple_of(RECORD_ALIGN));

/// What has happened to a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u64);

impl ChunkFlags {
    /// Being written.
    pub const NONE: Self = Self(0);
    /// The chunk takes no more records.
    pub const SEALED: Self = Self(1);
    /// The chunk is in the cold tier.
    pub const UPLOADED: Self = Self(1 << 1);

    /// The flags with these bits; bits of a later version are kept.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The header of a chunk, as on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Chunks of a stream count from 0, without holes.
    pub chunk_index: u64,
    /// Ordinal in the stream's manifest of the first record in this chunk.
    pub base_record: u64,
    /// First byte that no record uses.
    pub tail_offset: u64,
    /// End of the records that a commit has made durable.
    pub committed_len: u64,
    /// Checksum over `[64, committed_len)`.
    pub chunk_crc64: u64,
    /// What has happened to the chunk.
    pub flags: ChunkFlags,
}

impl ChunkHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; CHUNK_HEADER_LEN] {
        let mut bytes = [0; CHUNK_HEADER_LEN];
        put(&mut bytes, header::MAGIC, MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, VERSION.to_le_bytes());
        put(&mut bytes, header::HEADER_LEN, (CHUNK_HEADER_LEN as u32).to_le_bytes());
        put(&mut bytes, header::CHUNK_INDEX, self.chunk_index.to_le_bytes());
        put(&mut bytes, header::BASE_RECORD, self.base_record.to_le_bytes());
        put(&mut bytes, header::TAIL_OFFSET, self.tail_offset.to_le_bytes());
        put(&mut bytes, header::COMMITTED_LEN, self.committed_len.to_le_bytes());
        put(&mut bytes, header::CHUNK_CRC64, self.chunk_crc64.to_le_bytes());
        put(&mut bytes, header::FLAGS, self.flags.bits().to_le_bytes());
        bytes
    }

    /// The header in the first 64 bytes of a chunk.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; CHUNK_HEADER_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: CHUNK_HEADER_LEN, available: bytes.len() })?;
        let magic = u64_at(bytes, header::MAGIC);
        if magic != MAGIC {
            return Err(FormatError::BadMagic { found: magic });
        }
        let version = u32_at(bytes, header::VERSION);
        if version != VERSION {
            return Err(FormatError::UnsupportedVersion { found: version });
        }
        if u32_at(bytes, header::HEADER_LEN) != CHUNK_HEADER_LEN as u32 {
            return Err(FormatError::BadField { field: "header_len", reason: "not 64" });
        }
        let tail_offset = u64_at(bytes, header::TAIL_OFFSET);
        let committed_len = u64_at(bytes, header::COMMITTED_LEN);
        check_end("tail_offset", tail_offset)?;
        check_end("committed_len", committed_len)?;
        if committed_len > tail_offset {
            return Err(FormatError::BadField {
                field: "committed_len",
                reason: "behind tail_offset",
            });
        }
        Ok(Self {
            chunk_index: u64_at(bytes, header::CHUNK_INDEX),
            base_record: u64_at(bytes, header::BASE_RECORD),
            tail_offset,
            committed_len,
            chunk_crc64: u64_at(bytes, header::CHUNK_CRC64),
            flags: ChunkFlags::from_bits(u64_at(bytes, header::FLAGS)),
        })
    }
}

/// Where records may end: behind the header, on a record's boundary.
fn check_end(field: &'static str, end: u64) -> Result<(), FormatError> {
    if end < CHUNK_HEADER_LEN as u64 {
        return Err(FormatError::BadField { field, reason: "inside the header" });
    }
    if !end.is_multiple_of(RECORD_ALIGN as u64) {
        return Err(FormatError::BadField { field, reason: "not a multiple of 8" });
    }
    Ok(())
}
