//! Segment layout, version 2 ("full"). Spec: docs/format.md#version-2
//!
//! ```text
//! header, the first 64 bytes
//!    0 u64 magic "AOF2SEGM"   8 u32 version = 2   12 u32 zero
//!   16 u64 stream_id         24 u64 segment_id    32 u64 creation_ts_ms
//!   40 u64[2] zero           56 u64 crc64 of bytes 0..56
//!
//! record header, 32 bytes in front of each payload
//!    0 u32 payload_len        4 u32 record_crc32   8 u64 logical_offset
//!   16 u64 append_ts_ms      24 u32 flags         28 u32 durable_lag
//!
//! footer, the last 64 bytes of the file
//!    0 u64 record_count       8 u64 durable_bytes 16 u64 segment_crc64
//!   24 u64 ext_id            32 u64 flags         40 u64 last_append_ts_ms
//!   48 u64 magic "AOF2FOOT"  56 u64 crc64 of bytes 0..56
//! ```

use super::bytes::{all_zero, block, put, u32_at, u64_at};
use super::segment::{check_crc, check_durable_bytes};
use super::{FormatError, RecordFlags, SegmentId, StreamId, crc64};

pub(super) const VERSION: u32 = 2;
pub(super) const HEADER_MAGIC: u64 = 0x414F_4632_5345_474D;
const FOOTER_MAGIC: u64 = 0x414F_4632_464F_4F54;

const BLOCK_LEN: usize = 64;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const ZERO: usize = VERSION + 4;
    pub const STREAM_ID: usize = ZERO + 4;
    pub const SEGMENT_ID: usize = STREAM_ID + 8;
    pub const CREATION_TS_MS: usize = SEGMENT_ID + 8;
    pub const RESERVED: usize = CREATION_TS_MS + 8;
    pub const CRC: usize = RESERVED + 16;
}

pub(super) mod record {
    pub const PAYLOAD_LEN: usize = 0;
    pub const CHECKSUM: usize = PAYLOAD_LEN + 4;
    pub const LOGICAL_OFFSET: usize = CHECKSUM + 4;
    pub const APPEND_TS_MS: usize = LOGICAL_OFFSET + 8;
    pub const FLAGS: usize = APPEND_TS_MS + 8;
    pub const DURABLE_LAG: usize = FLAGS + 4;
    pub const HEADER_LEN: usize = DURABLE_LAG + 4;
}

mod footer {
    pub const RECORD_COUNT: usize = 0;
    pub const DURABLE_BYTES: usize = RECORD_COUNT + 8;
    pub const SEGMENT_CRC64: usize = DURABLE_BYTES + 8;
    pub const EXT_ID: usize = SEGMENT_CRC64 + 8;
    pub const FLAGS: usize = EXT_ID + 8;
    pub const LAST_APPEND_TS_MS: usize = FLAGS + 8;
    pub const MAGIC: usize = LAST_APPEND_TS_MS + 8;
    pub const CRC: usize = MAGIC + 8;
}

const _: () = assert!(header::CRC + 8 == BLOCK_LEN);
const _: () = assert!(footer::CRC + 8 == BLOCK_LEN);
const _: () = assert!(record::HEADER_LEN == 32);
const _: () = assert!(record::DURABLE_LAG == record::FLAGS + 4);

/// Footer flag: the segment takes no more records.
pub const FOOTER_SEALED: u64 = 1;
/// Footer flag: the segment was rewritten by compaction.
pub const FOOTER_COMPACTED: u64 = 1 << 1;
/// Footer flag: repair sealed the segment without records that were lost.
pub const FOOTER_PARTIAL: u64 = 1 << 2;

/// The header of a version 2 segment, as on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeaderV2 {
    /// The stream the segment belongs to.
    pub stream_id: StreamId,
    /// The segment.
    pub segment_id: SegmentId,
    /// When the segment became active, UTC milliseconds.
    pub creation_ts_ms: u64,
}

impl SegmentHeaderV2 {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; BLOCK_LEN];
        put(&mut bytes, header::MAGIC, HEADER_MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, VERSION.to_le_bytes());
        put(&mut bytes, header::STREAM_ID, self.stream_id.as_u64().to_le_bytes());
        put(&mut bytes, header::SEGMENT_ID, self.segment_id.as_u64().to_le_bytes());
        put(&mut bytes, header::CREATION_TS_MS, self.creation_ts_ms.to_le_bytes());
        let crc = crc64(&bytes[..header::CRC]);
        put(&mut bytes, header::CRC, crc.to_le_bytes());
        bytes
    }

    /// The header in the first 64 bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; BLOCK_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: BLOCK_LEN, available: bytes.len() })?;
        let magic = u64_at(bytes, header::MAGIC);
        if magic != HEADER_MAGIC {
            return Err(FormatError::BadMagic { found: magic });
        }
        // Before the checksum: another version may keep its checksum elsewhere.
        let version = u32_at(bytes, header::VERSION);
        if version != VERSION {
            return Err(FormatError::UnsupportedVersion { found: version });
        }
        check_crc(bytes)?;
        let reserved =
            [&bytes[header::ZERO..header::STREAM_ID], &bytes[header::RESERVED..header::CRC]];
        if !reserved.into_iter().all(all_zero) {
            return Err(FormatError::BadField { field: "reserved", reason: "not zero" });
        }
        Ok(Self {
            stream_id: StreamId::from_u64(u64_at(bytes, header::STREAM_ID)),
            segment_id: SegmentId::from_u64(u64_at(bytes, header::SEGMENT_ID)),
            creation_ts_ms: u64_at(bytes, header::CREATION_TS_MS),
        })
    }
}

/// The footer of a version 2 segment, as on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFooterV2 {
    /// Records in the segment.
    pub record_count: u64,
    /// File bytes up to the end of the last record.
    pub durable_bytes: u64,
    /// Checksum over `[0, durable_bytes)`.
    pub segment_crc64: u64,
    /// An id of the caller's, a Raft index for example.
    pub ext_id: u64,
    /// [`FOOTER_SEALED`], [`FOOTER_COMPACTED`], [`FOOTER_PARTIAL`]; bits of a
    /// later version are kept.
    pub flags: u64,
    /// When the last record was appended, UTC milliseconds.
    pub last_append_ts_ms: u64,
}

impl SegmentFooterV2 {
    /// The footer's bytes.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; BLOCK_LEN];
        put(&mut bytes, footer::RECORD_COUNT, self.record_count.to_le_bytes());
        put(&mut bytes, footer::DURABLE_BYTES, self.durable_bytes.to_le_bytes());
        put(&mut bytes, footer::SEGMENT_CRC64, self.segment_crc64.to_le_bytes());
        put(&mut bytes, footer::EXT_ID, self.ext_id.to_le_bytes());
        put(&mut bytes, footer::FLAGS, self.flags.to_le_bytes());
        put(&mut bytes, footer::LAST_APPEND_TS_MS, self.last_append_ts_ms.to_le_bytes());
        put(&mut bytes, footer::MAGIC, FOOTER_MAGIC.to_le_bytes());
        let crc = crc64(&bytes[..footer::CRC]);
        put(&mut bytes, footer::CRC, crc.to_le_bytes());
        bytes
    }

    /// The footer in a file's last 64 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; BLOCK_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: BLOCK_LEN, available: bytes.len() })?;
        let magic = u64_at(bytes, footer::MAGIC);
        if magic != FOOTER_MAGIC {
            return Err(FormatError::BadMagic { found: magic });
        }
        check_crc(bytes)?;
        Ok(Self {
            record_count: u64_at(bytes, footer::RECORD_COUNT),
            durable_bytes: check_durable_bytes(u64_at(bytes, footer::DURABLE_BYTES))?,
            segment_crc64: u64_at(bytes, footer::SEGMENT_CRC64),
            ext_id: u64_at(bytes, footer::EXT_ID),
            flags: u64_at(bytes, footer::FLAGS),
            last_append_ts_ms: u64_at(bytes, footer::LAST_APPEND_TS_MS),
        })
    }
}

/// The fields of a record header after its first eight bytes.
#[derive(Clone, Copy)]
pub(super) struct RecordFields {
    pub logical_offset: u64,
    pub append_ts_ms: u64,
    pub flags: RecordFlags,
    pub durable_lag: u32,
}

impl RecordFields {
    /// The fields as the three words they are on disk.
    #[inline(always)]
    pub fn words(&self) -> [u64; 3] {
        let flags = u64::from(self.flags.bits());
        [self.logical_offset, self.append_ts_ms, flags | u64::from(self.durable_lag) << 32]
    }

    /// The fields in the three words of a record header.
    #[inline(always)]
    pub fn from_words([logical_offset, append_ts_ms, last]: [u64; 3]) -> Self {
        Self {
            logical_offset,
            append_ts_ms,
            flags: RecordFlags::from_bits(last as u32),
            durable_lag: (last >> 32) as u32,
        }
    }
}

/// The three words of a record header after its first eight bytes. Whole words,
/// because the checksum wants them in registers.
#[inline(always)]
pub(super) fn record_words(header: &[u8]) -> [u64; 3] {
    [record::LOGICAL_OFFSET, record::APPEND_TS_MS, record::FLAGS].map(|at| u64_at(header, at))
}
