//! What the records of a manifest add up to: the parts of a snapshot.

use crate::format::{FormatError, SegmentId};

use super::{ManifestRecord, ReasonCode};

/// Everything the manifest knows about one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestSegment {
    /// The segment.
    pub segment_id: SegmentId,
    /// Stream bytes before it.
    pub base_offset: u64,
    /// Tells incarnations of the segment apart.
    pub epoch: u32,
    /// When it was opened, UTC milliseconds.
    pub opened_at_ms: u64,
    /// Time of the newest record about it, UTC milliseconds.
    pub updated_at_ms: u64,
    /// Ordinal of the newest record about it.
    pub last_record: u64,
    /// Whether the hot tier holds it.
    pub hot: bool,
    /// File bytes up to the end of its last record, once sealed.
    pub durable_bytes: Option<u64>,
    /// Checksum over them, once sealed.
    pub segment_crc64: Option<u64>,
    /// The user's identifier, once sealed.
    pub ext_id: Option<u64>,
    /// Records the coordinator had seen durable when it was sealed.
    pub watermark: Option<u64>,
    /// When it was sealed, UTC milliseconds.
    pub sealed_at_ms: Option<u64>,
    /// Whether a flush of it had failed, once sealed.
    pub flush_failure: Option<bool>,
    /// Length of the warm artifact, where there is one.
    pub warm_bytes: Option<u64>,
    /// Dictionary of the warm artifact.
    pub dictionary_id: Option<u32>,
    /// Key of the cold object, where there is one.
    pub cold_key: Option<String>,
    /// The store's tag of the cold object.
    pub cold_etag: Option<String>,
    /// Bytes the hot copy occupies as far as records tell.
    pub resident_bytes: u64,
    /// Disk space that evictions have freed, all together.
    pub reclaimed_bytes: u64,
    /// Compression under way.
    pub compression_job: Option<u32>,
    /// Hydration under way, and the tier it reads from.
    pub hydration_source: Option<u64>,
    /// Why the last compression failed, until one succeeds.
    pub compression_failure: Option<u32>,
    /// Why the last upload failed, until one succeeds.
    pub upload_failure: Option<u32>,
    /// Why the last hydration failed, until one succeeds.
    pub hydration_failure: Option<u32>,
}

impl ManifestSegment {
    /// A segment of which nothing is known but that it was opened.
    pub fn opened(segment_id: SegmentId, base_offset: u64, epoch: u32) -> Self {
        Self {
            segment_id,
            base_offset,
            epoch,
            opened_at_ms: 0,
            updated_at_ms: 0,
            last_record: 0,
            hot: true,
            durable_bytes: None,
            segment_crc64: None,
            ext_id: None,
            watermark: None,
            sealed_at_ms: None,
            flush_failure: None,
            warm_bytes: None,
            dictionary_id: None,
            cold_key: None,
            cold_etag: None,
            resident_bytes: 0,
            reclaimed_bytes: 0,
            compression_job: None,
            hydration_source: None,
            compression_failure: None,
            upload_failure: None,
            hydration_failure: None,
        }
    }

    /// Whether it takes no more records.
    pub fn is_sealed(&self) -> bool {
        self.durable_bytes.is_some()
    }

    /// Whether any tier still holds it.
    pub fn has_copy(&self) -> bool {
        self.hot || self.warm_bytes.is_some() || self.cold_key.is_some()
    }
}

/// An upload that was started and has not been reported done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingUpload {
    /// Key of the object.
    pub key: String,
    /// The segment it holds; 0 for a manifest chunk.
    pub segment_id: SegmentId,
    /// The record's logical offset; the chunk index for a manifest chunk.
    pub logical_offset: u64,
    /// When the first attempt started, UTC milliseconds.
    pub started_at_ms: u64,
    /// Time of the newest record about it, UTC milliseconds.
    pub updated_at_ms: u64,
    /// Ordinal of the newest record about it.
    pub last_record: u64,
    /// Attempts started.
    pub attempts: u32,
    /// Why the last attempt failed; `None` while it may still be running.
    pub failure: Option<ReasonCode>,
}

/// A deletion that was queued and has not been reported done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDelete {
    /// Key of the object.
    pub key: String,
    /// The segment it holds.
    pub segment_id: SegmentId,
    /// When it was queued first, UTC milliseconds.
    pub queued_at_ms: u64,
    /// Ordinal of the newest record about it.
    pub last_record: u64,
}

/// A record about a segment that has not been opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedRecord {
    /// The segment.
    pub segment_id: SegmentId,
    /// Ordinal of the record.
    pub ordinal: u64,
    /// The record, as it stands in its chunk.
    pub bytes: Vec<u8>,
}

impl UnresolvedRecord {
    /// The record itself.
    pub fn record(&self) -> Result<ManifestRecord<'_>, FormatError> {
        ManifestRecord::decode(&self.bytes).map(|(record, _len)| record)
    }
}

/// What was met on the way and changed no segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldCounts {
    /// Records of types that this version does not know.
    pub unknown_records: u64,
    /// All flag bits seen on them.
    pub unknown_flags: u16,
    /// Records about segments that had been forgotten.
    pub late_records: u64,
    /// Records about unopened segments for which there was no room.
    pub unresolved_dropped: u64,
}
