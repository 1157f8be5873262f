//! What is told of a sealed segment, and of a segment to users.

use std::path::{Path, PathBuf};

use super::copy::{ColdCopy, Residency};
use super::entry::SegmentEntry;
use crate::error::Damage;
use crate::format::{SegmentFooter, StreamId};

/// What a footer says, kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedInfo {
    /// Logical offsets the segment covers.
    pub record_count: u64,
    /// Bytes of header and records.
    pub durable_bytes: u32,
    /// Checksum over them.
    pub segment_crc64: u64,
    /// The user's identifier.
    pub ext_id: u64,
    /// Footer flags.
    pub flags: u64,
    /// Largest timestamp.
    pub last_timestamp_ms: u64,
    /// Whether this came from a footer, or from a scan because the footer is
    /// damaged.
    pub from_footer: bool,
}

impl From<&SegmentFooter> for SealedInfo {
    fn from(footer: &SegmentFooter) -> Self {
        Self {
            record_count: footer.record_count,
            durable_bytes: u32::try_from(footer.durable_bytes).unwrap_or(u32::MAX),
            segment_crc64: footer.segment_crc64,
            ext_id: footer.ext_id,
            flags: footer.flags,
            last_timestamp_ms: footer.last_timestamp_ms,
            from_footer: true,
        }
    }
}

impl SealedInfo {
    /// Whether both are of the same content. Not every footer keeps the rest.
    pub(crate) fn is_same_content(&self, other: &Self) -> bool {
        let content = |of: &Self| (of.record_count, of.durable_bytes, of.segment_crc64);
        content(self) == content(other)
    }
}

/// What a user sees of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub segment_id: u64,
    /// The log that it belongs to: another one, if this is a fork and inherited it.
    pub stream_id: StreamId,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Records in it; for the active segment those appended so far.
    pub record_count: u64,
    /// Bytes of header and records.
    pub used_bytes: u64,
    /// Length of the file.
    pub segment_bytes: u64,
    /// Stream bytes before it.
    pub base_offset: u64,
    /// When it became active, nanoseconds since the epoch.
    pub created_at_ns: u64,
    /// Largest timestamp of its records, once sealed.
    pub last_timestamp_ms: Option<u64>,
    /// The user's identifier, once sealed.
    pub ext_id: Option<u64>,
    /// Whether it has its footer.
    pub is_sealed: bool,
    /// Its file; where it would be, if another tier holds the segment.
    pub path: PathBuf,
    /// The nearest tier that holds it.
    pub residency: Residency,
    /// Bytes of its compressed copy on the local disk, if there is one.
    pub warm_bytes: Option<u64>,
    /// Bytes of its copy in the object store, if there is one.
    pub cold_bytes: Option<u64>,
    /// What was found wrong with it when the log was opened.
    pub damage: Option<Damage>,
}

impl SegmentInfo {
    pub(crate) fn of(entry: &SegmentEntry, next_offset: u64, end: u32) -> Self {
        let meta = &entry.meta;
        let sealed = entry.sealed_info();
        let copies = entry.copies();
        Self {
            segment_id: meta.segment_id.as_u64(),
            stream_id: meta.stream_id,
            first_offset: meta.first_offset,
            record_count: sealed
                .map_or(next_offset.saturating_sub(meta.first_offset), |s| s.record_count),
            used_bytes: sealed.map_or(u64::from(end), |s| u64::from(s.durable_bytes)),
            segment_bytes: u64::from(meta.segment_bytes),
            base_offset: meta.base_offset,
            created_at_ns: meta.created_at_ns,
            last_timestamp_ms: sealed
                .filter(|_| entry.cut_end().is_none())
                .map(|s| s.last_timestamp_ms),
            ext_id: sealed.map(|s| s.ext_id),
            is_sealed: sealed.is_some(),
            path: entry.path.clone(),
            residency: copies.nearest(),
            warm_bytes: copies.warm_len(),
            cold_bytes: copies.cold.as_ref().map(ColdCopy::len),
            damage: entry.damage.clone(),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
