//! Segments whatever their version: what the rest of the crate works with.
//!
//! Times in this view are milliseconds for records and nanoseconds for the life
//! of the file. A version that stores the other unit converts: version 1 keeps
//! record times in nanoseconds, version 2 the creation time in milliseconds.

use super::bytes::{all_zero, u32_at, u64_at};
use super::{
    FOOTER_SEALED, FormatError, RecordId, SegmentFooterV1, SegmentFooterV2, SegmentHeaderV1,
    SegmentHeaderV2, SegmentId, StreamId, crc64, segment_v1, segment_v2,
};
use std::fmt;
use std::str::FromStr;

/// Bytes of a segment's header; the first record starts here.
pub const SEGMENT_HEADER_LEN: usize = 64;
/// Bytes of a segment's footer, the last of the file.
pub const SEGMENT_FOOTER_LEN: usize = 64;
/// Every record starts on a multiple of this; the padding before it is zero.
pub const RECORD_ALIGN: usize = 8;
/// The smallest segment file.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The largest segment file: offsets in it fit a [`RecordId`].
pub const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// The longest payload: one that fills the largest segment in either version.
pub const PAYLOAD_LEN_MAX: usize = SEGMENT_BYTES_MAX as usize
    - SEGMENT_HEADER_LEN
    - SEGMENT_FOOTER_LEN
    - segment_v2::record::HEADER_LEN;

const _: () = assert!(SEGMENT_BYTES_MAX <= u32::MAX as u64);
const _: () = assert!(SEGMENT_HEADER_LEN.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(segment_v2::record::HEADER_LEN.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(segment_v1::record::HEADER_LEN.is_multiple_of(RECORD_ALIGN));

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// 9999-12-31T23:59:59.999Z in milliseconds since the epoch: the last timestamp that a
/// record can be given. Calendars of other systems end there, Python's among them. Older
/// writers took any number; a later one is no damage, and means this moment wherever a
/// date is shown.
pub const TIMESTAMP_MS_MAX: u64 = 253_402_300_799_999;

/// Which of the two layouts a segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentFormat {
    /// Version 2: 32-byte record headers that name stream, segment and offset.
    Full,
    /// Version 1: 16-byte record headers, the least space per record.
    Compact,
}

impl SegmentFormat {
    /// The version number in the segment's header.
    pub const fn version(self) -> u32 {
        match self {
            Self::Full => segment_v2::VERSION,
            Self::Compact => segment_v1::VERSION as u32,
        }
    }

    /// Bytes of a record's header.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            Self::Full => segment_v2::record::HEADER_LEN,
            Self::Compact => segment_v1::record::HEADER_LEN,
        }
    }

    /// The last timestamp that a record can be given.
    pub const fn timestamp_ms_max(self) -> u64 {
        match self {
            Self::Full => TIMESTAMP_MS_MAX,
            // What nanoseconds can say, in 2554. All ones mark a gap.
            Self::Compact => (u64::MAX - 1) / NS_PER_MS,
        }
    }

    /// The word that options and the `stream` file use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Compact => "compact",
        }
    }
}

impl fmt::Display for SegmentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SegmentFormat {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "full" => Ok(Self::Full),
            "compact" => Ok(Self::Compact),
            _ => Err(FormatError::BadField {
                field: "format",
                reason: "expected \"full\" or \"compact\"",
            }),
        }
    }
}

/// The header of a segment of either version.
///
/// A field that the segment's version does not store is `None` after decoding
/// and ignored when encoding; one that it stores and that is `None` is written
/// as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The segment's layout.
    pub format: SegmentFormat,
    /// The segment; version 1 stores its low 32 bits.
    pub segment_id: SegmentId,
    /// When the segment became active, UTC; version 2 stores milliseconds.
    pub created_at_ns: u64,
    /// The stream (version 2).
    pub stream_id: Option<StreamId>,
    /// Records in all segments before this one (version 1).
    pub base_record_count: Option<u64>,
    /// Stream bytes before this segment (version 1).
    pub base_offset: Option<u64>,
    /// The file's length (version 1).
    pub max_size: Option<u32>,
    /// Timestamp of the first record, zero when not known (version 1).
    pub base_timestamp_ms: Option<u64>,
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; 64] {
        match self.format {
            SegmentFormat::Full => SegmentHeaderV2 {
                stream_id: self.stream_id.unwrap_or(StreamId::from_u64(0)),
                segment_id: self.segment_id,
                creation_ts_ms: self.created_at_ns / NS_PER_MS,
            }
            .encode(),
            SegmentFormat::Compact => SegmentHeaderV1 {
                segment_index: self.segment_id.as_u32(),
                base_record_count: self.base_record_count.unwrap_or(0),
                base_offset: self.base_offset.unwrap_or(0),
                max_size: self.max_size.unwrap_or(0),
                created_at_ns: self.created_at_ns,
                base_timestamp_ns: self.base_timestamp_ms.unwrap_or(0).saturating_mul(NS_PER_MS),
            }
            .encode(),
        }
    }

    /// The header in a file's first 64 bytes, of whichever version its magic
    /// says; `Ok(None)` when they are all zero: a header was never written.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        let Some(head) = bytes.get(..SEGMENT_HEADER_LEN) else {
            return Err(FormatError::TooShort {
                needed: SEGMENT_HEADER_LEN,
                available: bytes.len(),
            });
        };
        if all_zero(head) {
            return Ok(None);
        }
        let header = if u32_at(head, 0) == segment_v1::HEADER_MAGIC {
            Self::from_v1(SegmentHeaderV1::decode(head)?)
        } else {
            Self::from_v2(SegmentHeaderV2::decode(head)?)?
        };
        Ok(Some(header))
    }

    fn from_v2(header: SegmentHeaderV2) -> Result<Self, FormatError> {
        let created_at_ns = header
            .creation_ts_ms
            .checked_mul(NS_PER_MS)
            .ok_or(FormatError::BadField { field: "creation_ts_ms", reason: "out of range" })?;
        Ok(Self {
            format: SegmentFormat::Full,
            segment_id: header.segment_id,
            created_at_ns,
            stream_id: Some(header.stream_id),
            base_record_count: None,
            base_offset: None,
            max_size: None,
            base_timestamp_ms: None,
        })
    }

    fn from_v1(header: SegmentHeaderV1) -> Self {
        Self {
            format: SegmentFormat::Compact,
            segment_id: SegmentId::from_u64(u64::from(header.segment_index)),
            created_at_ns: header.created_at_ns,
            stream_id: None,
            base_record_count: Some(header.base_record_count),
            base_offset: Some(header.base_offset),
            max_size: Some(header.max_size),
            base_timestamp_ms: Some(header.base_timestamp_ns / NS_PER_MS),
        }
    }
}

/// The footer of a sealed segment of either version.
///
/// Fields that a version does not store behave as in [`SegmentHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFooter {
    /// The segment's layout.
    pub format: SegmentFormat,
    /// Records in the segment.
    pub record_count: u64,
    /// File bytes up to the end of the last record.
    pub durable_bytes: u64,
    /// Checksum over `[0, durable_bytes)`.
    pub segment_crc64: u64,
    /// An id of the caller's; version 1 does not store it and gives zero.
    pub ext_id: u64,
    /// Footer flags; version 1 has none and a footer there means
    /// [`FOOTER_SEALED`].
    pub flags: u64,
    /// When the last record was appended, UTC milliseconds.
    pub last_timestamp_ms: u64,
    /// The segment (version 1).
    pub segment_id: Option<SegmentId>,
    /// The last record (version 1).
    pub last_record_id: Option<RecordId>,
    /// When the segment was sealed, UTC nanoseconds (version 1).
    pub sealed_at_ns: Option<u64>,
}

impl SegmentFooter {
    /// The footer's bytes.
    pub fn encode(&self) -> [u8; 64] {
        match self.format {
            SegmentFormat::Full => SegmentFooterV2 {
                record_count: self.record_count,
                durable_bytes: self.durable_bytes,
                segment_crc64: self.segment_crc64,
                ext_id: self.ext_id,
                flags: self.flags,
                last_append_ts_ms: self.last_timestamp_ms,
            }
            .encode(),
            SegmentFormat::Compact => SegmentFooterV1 {
                segment_index: self.segment_id.map_or(0, SegmentId::as_u32),
                last_record_id: self.last_record_id.unwrap_or(RecordId::from_u64(0)),
                record_count: self.record_count,
                durable_bytes: self.durable_bytes,
                last_timestamp_ns: self.last_timestamp_ms.saturating_mul(NS_PER_MS),
                segment_crc64: self.segment_crc64,
                sealed_at_ns: self.sealed_at_ns.unwrap_or(0),
            }
            .encode(),
        }
    }

    /// The footer in a file's last 64 bytes; `Ok(None)` when they are all zero:
    /// the segment was never sealed.
    pub fn decode(format: SegmentFormat, bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        let Some(slot) = bytes.get(..SEGMENT_FOOTER_LEN) else {
            return Err(FormatError::TooShort {
                needed: SEGMENT_FOOTER_LEN,
                available: bytes.len(),
            });
        };
        if all_zero(slot) {
            return Ok(None);
        }
        let footer = match format {
            SegmentFormat::Full => Self::from_v2(SegmentFooterV2::decode(slot)?),
            SegmentFormat::Compact => Self::from_v1(SegmentFooterV1::decode(slot)?),
        };
        Ok(Some(footer))
    }

    fn from_v2(footer: SegmentFooterV2) -> Self {
        Self {
            format: SegmentFormat::Full,
            record_count: footer.record_count,
            durable_bytes: footer.durable_bytes,
            segment_crc64: footer.segment_crc64,
            ext_id: footer.ext_id,
            flags: footer.flags,
            last_timestamp_ms: footer.last_append_ts_ms,
            segment_id: None,
            last_record_id: None,
            sealed_at_ns: None,
        }
    }

    fn from_v1(footer: SegmentFooterV1) -> Self {
        Self {
            format: SegmentFormat::Compact,
            record_count: footer.record_count,
            durable_bytes: footer.durable_bytes,
            segment_crc64: footer.segment_crc64,
            ext_id: 0,
            flags: FOOTER_SEALED,
            last_timestamp_ms: footer.last_timestamp_ns / NS_PER_MS,
            segment_id: Some(SegmentId::from_u64(u64::from(footer.segment_index))),
            last_record_id: Some(footer.last_record_id),
            sealed_at_ns: Some(footer.sealed_at_ns),
        }
    }
}

/// All four blocks end in the checksum of what precedes it.
pub(super) fn check_crc(block: &[u8; 64]) -> Result<(), FormatError> {
    const CRC: usize = 56;
    let expected = crc64(&block[..CRC]);
    let found = u64_at(block, CRC);
    if expected != found {
        return Err(FormatError::BadChecksum { expected, found });
    }
    Ok(())
}

/// A footer is trusted without a scan, so a length that cannot be is refused here
/// even under a valid checksum.
pub(super) fn check_durable_bytes(durable_bytes: u64) -> Result<u64, FormatError> {
    const FIELD: &str = "durable_bytes";
    let reason = if durable_bytes < SEGMENT_HEADER_LEN as u64 {
        "shorter than the header"
    } else if durable_bytes > SEGMENT_BYTES_MAX - SEGMENT_FOOTER_LEN as u64 {
        "longer than the largest segment"
    } else if !durable_bytes.is_multiple_of(RECORD_ALIGN as u64) {
        "not a multiple of eight"
    } else {
        return Ok(durable_bytes);
    };
    Err(FormatError::BadField { field: FIELD, reason })
}
