//! What an object store keeps beside a cold object, so that a listing is enough to know
//! which records it holds.
//!
//! ```text
//! aof2-segment-id       decimal     aof2-base-offset    decimal
//! aof2-first-offset     decimal     aof2-record-count   decimal
//! aof2-durable-bytes    decimal     aof2-segment-crc64  16 hexadecimal digits
//! aof2-first-ts-ms      decimal     aof2-last-ts-ms     decimal
//! ```
//!
//! Metadata is a shortcut: the index in the object is the truth.

use std::collections::BTreeMap;

use super::ArtifactSummary;
use crate::format::{FormatError, SegmentId};

const SEGMENT_ID: &str = "aof2-segment-id";
const BASE_OFFSET: &str = "aof2-base-offset";
const FIRST_OFFSET: &str = "aof2-first-offset";
const RECORD_COUNT: &str = "aof2-record-count";
const DURABLE_BYTES: &str = "aof2-durable-bytes";
const SEGMENT_CRC64: &str = "aof2-segment-crc64";
const FIRST_TS_MS: &str = "aof2-first-ts-ms";
const LAST_TS_MS: &str = "aof2-last-ts-ms";

/// The metadata of a cold object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactMetadata {
    /// The segment.
    pub segment_id: SegmentId,
    /// Stream bytes before the segment.
    pub base_offset: u64,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Logical offsets it covers.
    pub record_count: u64,
    /// Bytes of header and records.
    pub durable_bytes: u32,
    /// Checksum over them.
    pub segment_crc64: u64,
    /// Smallest timestamp of its records.
    pub first_timestamp_ms: u64,
    /// Largest timestamp of its records.
    pub last_timestamp_ms: u64,
}

impl From<&ArtifactSummary> for ArtifactMetadata {
    fn from(summary: &ArtifactSummary) -> Self {
        Self {
            segment_id: summary.segment_id,
            base_offset: summary.base_offset,
            first_offset: summary.first_offset,
            record_count: summary.record_count,
            durable_bytes: summary.durable_bytes,
            segment_crc64: summary.segment_crc64,
            first_timestamp_ms: summary.first_timestamp_ms,
            last_timestamp_ms: summary.last_timestamp_ms,
        }
    }
}

impl ArtifactMetadata {
    /// As key and value pairs.
    pub fn encode(&self) -> BTreeMap<String, String> {
        let decimal = |n: u64| n.to_string();
        [
            (SEGMENT_ID, decimal(self.segment_id.as_u64())),
            (BASE_OFFSET, decimal(self.base_offset)),
            (FIRST_OFFSET, decimal(self.first_offset)),
            (RECORD_COUNT, decimal(self.record_count)),
            (DURABLE_BYTES, decimal(u64::from(self.durable_bytes))),
            (SEGMENT_CRC64, format!("{:016x}", self.segment_crc64)),
            (FIRST_TS_MS, decimal(self.first_timestamp_ms)),
            (LAST_TS_MS, decimal(self.last_timestamp_ms)),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }

    /// Reads the pairs back. Others may stand beside them.
    pub fn decode(pairs: &BTreeMap<String, String>) -> Result<Self, FormatError> {
        let text = |key: &'static str| {
            pairs
                .get(key)
                .map(String::as_str)
                .ok_or(FormatError::BadField { field: key, reason: "not there" })
        };
        let decimal = |key| number(key, text(key)?, 10, u64::MAX);
        let durable_bytes =
            number(DURABLE_BYTES, text(DURABLE_BYTES)?, 10, u64::from(u32::MAX))? as u32;
        let crc = text(SEGMENT_CRC64)?;
        if crc.len() != 16 {
            return Err(FormatError::BadField { field: SEGMENT_CRC64, reason: "not 16 digits" });
        }
        Ok(Self {
            segment_id: SegmentId::from_u64(decimal(SEGMENT_ID)?),
            base_offset: decimal(BASE_OFFSET)?,
            first_offset: decimal(FIRST_OFFSET)?,
            record_count: decimal(RECORD_COUNT)?,
            durable_bytes,
            segment_crc64: number(SEGMENT_CRC64, crc, 16, u64::MAX)?,
            first_timestamp_ms: decimal(FIRST_TS_MS)?,
            last_timestamp_ms: decimal(LAST_TS_MS)?,
        })
    }
}

/// A number of nothing but digits; parsing alone would take a sign.
fn number(key: &'static str, text: &str, radix: u32, max: u64) -> Result<u64, FormatError> {
    Some(text)
        .filter(|text| text.chars().all(|c| c.is_digit(radix)))
        .and_then(|text| u64::from_str_radix(text, radix).ok())
        .filter(|number| *number <= max)
        .ok_or(FormatError::BadField { field: key, reason: "not a number in its range" })
}
