//! Segment layout, version 1 ("compact"). Spec: docs/format.md#version-1
//!
//! ```text
//! header, the first 64 bytes
//!    0 u32 magic "AOF2"       4 u16 version = 1         6 u16 header_length = 64
//!    8 u32 segment_index     12 u64 base_record_count  20 u64 base_offset
//!   28 u32 max_size          32 i64 created_at_ns      40 u64 base_timestamp_ns
//!   48 u64 zero              56 u64 crc64 of bytes 0..56
//!
//! record header, 16 bytes in front of each payload
//!    0 u32 payload_len        4 u32 checksum            8 u64 timestamp_ns
//!
//! footer, the last 64 bytes of the file
//!    0 u32 magic "FOOT"       4 u32 segment_index       8 u64 last_record_id
//!   16 u64 record_count      24 u64 durable_bytes      32 u64 last_timestamp_ns
//!   40 u64 segment_crc64     48 i64 sealed_at_ns       56 u64 crc64 of bytes 0..56
//! ```
//!
//! A record with `timestamp_ns` of all ones is a gap that repair left; see
//! [`Gap`](crate::format::Gap).

use super::bytes::{all_zero, block, put, u16_at, u32_at, u64_at};
use super::segment::{check_crc, check_durable_bytes};
use super::{FormatError, RecordId, crc64};

pub(super) const VERSION: u16 = 1;
pub(super) const HEADER_MAGIC: u32 = 0x414F_4632;
const FOOTER_MAGIC: u32 = 0x464F_4F54;

const BLOCK_LEN: usize = 64;
const HEADER_LENGTH: u16 = BLOCK_LEN as u16;

/// The `timestamp_ns` of a gap. No record is stamped with it.
pub(super) const GAP_TIMESTAMP_NS: u64 = u64::MAX;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 4;
    pub const HEADER_LENGTH: usize = VERSION + 2;
    pub const SEGMENT_INDEX: usize = HEADER_LENGTH + 2;
    pub const BASE_RECORD_COUNT: usize = SEGMENT_INDEX + 4;
    pub const BASE_OFFSET: usize = BASE_RECORD_COUNT + 8;
    pub const MAX_SIZE: usize = BASE_OFFSET + 8;
    pub const CREATED_AT_NS: usize = MAX_SIZE + 4;
    pub const BASE_TIMESTAMP_NS: usize = CREATED_AT_NS + 8;
    pub const RESERVED: usize = BASE_TIMESTAMP_NS + 8;
    pub const CRC: usize = RESERVED + 8;
}

pub(super) mod record {
    pub const PAYLOAD_LEN: usize = 0;
    pub const CHECKSUM: usize = PAYLOAD_LEN + 4;
    pub const TIMESTAMP_NS: usize = CHECKSUM + 4;
    pub const HEADER_LEN: usize = TIMESTAMP_NS + 8;
}

mod footer {
    pub const MAGIC: usize = 0;
    pub const SEGMENT_INDEX: usize = MAGIC + 4;
    pub const LAST_RECORD_ID: usize = SEGMENT_INDEX + 4;
    pub const RECORD_COUNT: usize = LAST_RECORD_ID + 8;
    pub const DURABLE_BYTES: usize = RECORD_COUNT + 8;
    pub const LAST_TIMESTAMP_NS: usize = DURABLE_BYTES + 8;
    pub const SEGMENT_CRC64: usize = LAST_TIMESTAMP_NS + 8;
    pub const SEALED_AT_NS: usize = SEGMENT_CRC64 + 8;
    pub const CRC: usize = SEALED_AT_NS + 8;
}

const _: () = assert!(header::CRC + 8 == BLOCK_LEN);
const _: () = assert!(footer::CRC + 8 == BLOCK_LEN);
const _: () = assert!(record::HEADER_LEN == 16);

/// The header of a version 1 segment, as on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeaderV1 {
    /// The segment's id.
    pub segment_index: u32,
    /// Records in all segments before this one.
    pub base_record_count: u64,
    /// Stream bytes before this segment.
    pub base_offset: u64,
    /// The file's length.
    pub max_size: u32,
    /// When the segment became active, UTC nanoseconds; at most `i64::MAX`.
    pub created_at_ns: u64,
    /// Timestamp of the first record, zero when not known.
    pub base_timestamp_ns: u64,
}

impl SegmentHeaderV1 {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; BLOCK_LEN];
        put(&mut bytes, header::MAGIC, HEADER_MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, VERSION.to_le_bytes());
        put(&mut bytes, header::HEADER_LENGTH, HEADER_LENGTH.to_le_bytes());
        put(&mut bytes, header::SEGMENT_INDEX, self.segment_index.to_le_bytes());
        put(&mut bytes, header::BASE_RECORD_COUNT, self.base_record_count.to_le_bytes());
        put(&mut bytes, header::BASE_OFFSET, self.base_offset.to_le_bytes());
        put(&mut bytes, header::MAX_SIZE, self.max_size.to_le_bytes());
        put(&mut bytes, header::CREATED_AT_NS, signed_ns(self.created_at_ns).to_le_bytes());
        put(&mut bytes, header::BASE_TIMESTAMP_NS, self.base_timestamp_ns.to_le_bytes());
        let crc = crc64(&bytes[..header::CRC]);
        put(&mut bytes, header::CRC, crc.to_le_bytes());
        bytes
    }

    /// The header in the first 64 bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; BLOCK_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: BLOCK_LEN, available: bytes.len() })?;
        let magic = u32_at(bytes, header::MAGIC);
        if magic != HEADER_MAGIC {
            return Err(FormatError::BadMagic { found: u64::from(magic) });
        }
        // Before the checksum: another version may keep its checksum elsewhere.
        let version = u16_at(bytes, header::VERSION);
        if version != VERSION {
            return Err(FormatError::UnsupportedVersion { found: u32::from(version) });
        }
        check_crc(bytes)?;
        if u16_at(bytes, header::HEADER_LENGTH) != HEADER_LENGTH {
            return Err(FormatError::BadField { field: "header_length", reason: "not 64" });
        }
        if !all_zero(&bytes[header::RESERVED..header::CRC]) {
            return Err(FormatError::BadField { field: "reserved", reason: "not zero" });
        }
        Ok(Self {
            segment_index: u32_at(bytes, header::SEGMENT_INDEX),
            base_record_count: u64_at(bytes, header::BASE_RECORD_COUNT),
            base_offset: u64_at(bytes, header::BASE_OFFSET),
            max_size: u32_at(bytes, header::MAX_SIZE),
            created_at_ns: unsigned_ns(u64_at(bytes, header::CREATED_AT_NS), "created_at_ns")?,
            base_timestamp_ns: u64_at(bytes, header::BASE_TIMESTAMP_NS),
        })
    }
}

/// The footer of a version 1 segment, as on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFooterV1 {
    /// The segment's id.
    pub segment_index: u32,
    /// The last record.
    pub last_record_id: RecordId,
    /// Records in the segment.
    pub record_count: u64,
    /// File bytes up to the end of the last record.
    pub durable_bytes: u64,
    /// Timestamp of the last record, UTC nanoseconds.
    pub last_timestamp_ns: u64,
    /// Checksum over `[0, durable_bytes)`.
    pub segment_crc64: u64,
    /// When the segment was sealed, UTC nanoseconds; at most `i64::MAX`.
    pub sealed_at_ns: u64,
}

impl SegmentFooterV1 {
    /// The footer's bytes.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; BLOCK_LEN];
        put(&mut bytes, footer::MAGIC, FOOTER_MAGIC.to_le_bytes());
        put(&mut bytes, footer::SEGMENT_INDEX, self.segment_index.to_le_bytes());
        put(&mut bytes, footer::LAST_RECORD_ID, self.last_record_id.as_u64().to_le_bytes());
        put(&mut bytes, footer::RECORD_COUNT, self.record_count.to_le_bytes());
        put(&mut bytes, footer::DURABLE_BYTES, self.durable_bytes.to_le_bytes());
        put(&mut bytes, footer::LAST_TIMESTAMP_NS, self.last_timestamp_ns.to_le_bytes());
        put(&mut bytes, footer::SEGMENT_CRC64, self.segment_crc64.to_le_bytes());
        put(&mut bytes, footer::SEALED_AT_NS, signed_ns(self.sealed_at_ns).to_le_bytes());
        let crc = crc64(&bytes[..footer::CRC]);
        put(&mut bytes, footer::CRC, crc.to_le_bytes());
        bytes
    }

    /// The footer in a file's last 64 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; BLOCK_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: BLOCK_LEN, available: bytes.len() })?;
        let magic = u32_at(bytes, footer::MAGIC);
        if magic != FOOTER_MAGIC {
            return Err(FormatError::BadMagic { found: u64::from(magic) });
        }
        check_crc(bytes)?;
        Ok(Self {
            segment_index: u32_at(bytes, footer::SEGMENT_INDEX),
            last_record_id: RecordId::from_u64(u64_at(bytes, footer::LAST_RECORD_ID)),
            record_count: u64_at(bytes, footer::RECORD_COUNT),
            durable_bytes: check_durable_bytes(u64_at(bytes, footer::DURABLE_BYTES))?,
            last_timestamp_ns: u64_at(bytes, footer::LAST_TIMESTAMP_NS),
            segment_crc64: u64_at(bytes, footer::SEGMENT_CRC64),
            sealed_at_ns: unsigned_ns(u64_at(bytes, footer::SEALED_AT_NS), "sealed_at_ns")?,
        })
    }
}

/// The layout stores these times as `i64`; later than the year 2262 saturates.
fn signed_ns(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn unsigned_ns(stored: u64, field: &'static str) -> Result<u64, FormatError> {
    if stored > i64::MAX as u64 {
        return Err(FormatError::BadField { field, reason: "negative" });
    }
    Ok(stored)
}
