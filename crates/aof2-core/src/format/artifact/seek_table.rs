//! The seek table of the Zstandard seekable format, version 0.1.0.
//!
//! ```text
//! skippable frame
//!    0 u32 magic 0x184D2A5E   4 u32 bytes that follow
//!    8 entries, 12 bytes each, one per frame in front of the table:
//!        0 u32 compressed_len   4 u32 decompressed_len   8 u32 checksum
//!   its last 9 bytes
//!    0 u32 frame_count   4 u8 descriptor = 0x80 (entries have checksums)
//!    5 u32 magic 0x8F92EAB1
//! ```
//!
//! A checksum is the low half of the XXH64 (seed 0) of the decompressed bytes, which is
//! also what zstd writes behind a frame as its content checksum.

use crate::format::FormatError;
use crate::format::bytes::{put, u32_at};

/// First bytes of the seek table's frame.
const FRAME_MAGIC: u32 = 0x184D_2A5E;
/// Last bytes of the seek table.
const TABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Checksums are there, everything else is reserved.
const DESCRIPTOR: u8 = 0x80;
/// The checksum of no bytes: XXH64 of nothing is 0xEF46DB3751D8E999.
pub(super) const CHECKSUM_OF_NOTHING: u32 = 0x51D8_E999;

/// Magic and length in front of every skippable frame.
pub(super) const SKIPPABLE_HEADER_LEN: usize = 8;

mod entry {
    pub const COMPRESSED_LEN: usize = 0;
    pub const DECOMPRESSED_LEN: usize = COMPRESSED_LEN + 4;
    pub const CHECKSUM: usize = DECOMPRESSED_LEN + 4;
    pub const LEN: usize = CHECKSUM + 4;
}

mod end {
    pub const FRAME_COUNT: usize = 0;
    pub const DESCRIPTOR: usize = FRAME_COUNT + 4;
    pub const MAGIC: usize = DESCRIPTOR + 1;
    pub const LEN: usize = MAGIC + 4;
}

/// Bytes at the end of an artifact that tell how long its tail is.
pub(super) const END_LEN: usize = end::LEN;

const _: () = assert!(entry::LEN == 12 && end::LEN == 9);

/// What the table says about one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeekEntry {
    pub compressed_len: u32,
    pub decompressed_len: u32,
    pub checksum: u32,
}

/// Bytes of the table for this many frames.
pub(super) const fn table_len(entry_count: usize) -> usize {
    SKIPPABLE_HEADER_LEN + entry_count * entry::LEN + end::LEN
}

/// The header of a skippable frame.
pub(super) fn skippable_header(magic: u32, content_len: usize) -> [u8; SKIPPABLE_HEADER_LEN] {
    let mut header = [0; SKIPPABLE_HEADER_LEN];
    put(&mut header, 0, magic.to_le_bytes());
    put(&mut header, 4, (content_len as u32).to_le_bytes());
    header
}

/// The content of a skippable frame that must have this magic and fill `frame`.
pub(super) fn skippable_content(frame: &[u8], magic: u32) -> Result<&[u8], FormatError> {
    let Some((header, content)) = frame.split_first_chunk::<SKIPPABLE_HEADER_LEN>() else {
        return Err(too_short(SKIPPABLE_HEADER_LEN, frame));
    };
    let found = u32_at(header, 0);
    if found != magic {
        return Err(FormatError::BadMagic { found: u64::from(found) });
    }
    if u32_at(header, 4) as usize != content.len() {
        return Err(bad("skippable frame", "it has another length"));
    }
    Ok(content)
}

/// Appends the table.
pub(super) fn encode(entries: impl ExactSizeIterator<Item = SeekEntry>, out: &mut Vec<u8>) {
    let entry_count = entries.len();
    let content_len = table_len(entry_count) - SKIPPABLE_HEADER_LEN;
    out.extend_from_slice(&skippable_header(FRAME_MAGIC, content_len));
    for frame in entries {
        let mut bytes = [0; entry::LEN];
        put(&mut bytes, entry::COMPRESSED_LEN, frame.compressed_len.to_le_bytes());
        put(&mut bytes, entry::DECOMPRESSED_LEN, frame.decompressed_len.to_le_bytes());
        put(&mut bytes, entry::CHECKSUM, frame.checksum.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    let mut bytes = [0; end::LEN];
    put(&mut bytes, end::FRAME_COUNT, (entry_count as u32).to_le_bytes());
    put(&mut bytes, end::DESCRIPTOR, [DESCRIPTOR]);
    put(&mut bytes, end::MAGIC, TABLE_MAGIC.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// How many frames the table has entries for, from the last bytes of an artifact.
pub(super) fn entry_count(last_bytes: &[u8]) -> Result<usize, FormatError> {
    let end = last_bytes.last_chunk::<END_LEN>().ok_or_else(|| too_short(END_LEN, last_bytes))?;
    let found = u32_at(end, end::MAGIC);
    if found != TABLE_MAGIC {
        return Err(FormatError::BadMagic { found: u64::from(found) });
    }
    if end[end::DESCRIPTOR] != DESCRIPTOR {
        return Err(bad("descriptor", "not a table with checksums, or of a later version"));
    }
    Ok(u32_at(end, end::FRAME_COUNT) as usize)
}

/// The entries of a table; `table` is its frame from the first byte to the last.
pub(super) fn decode(table: &[u8]) -> Result<Vec<SeekEntry>, FormatError> {
    let entry_count = entry_count(table)?;
    let content = skippable_content(table, FRAME_MAGIC)?;
    let entries = content.get(..content.len() - END_LEN).unwrap_or_default();
    if entries.len() != entry_count.saturating_mul(entry::LEN) {
        return Err(bad("frame_count", "the seek table has another length"));
    }
    Ok(entries.chunks_exact(entry::LEN).map(decode_entry).collect())
}

fn decode_entry(bytes: &[u8]) -> SeekEntry {
    SeekEntry {
        compressed_len: u32_at(bytes, entry::COMPRESSED_LEN),
        decompressed_len: u32_at(bytes, entry::DECOMPRESSED_LEN),
        checksum: u32_at(bytes, entry::CHECKSUM),
    }
}

fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}

fn too_short(needed: usize, bytes: &[u8]) -> FormatError {
    FormatError::TooShort { needed, available: bytes.len() }
}
