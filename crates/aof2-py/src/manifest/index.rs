//! What the records of a manifest add up to, as a dataclass.

use aof2_core::format::manifest::ManifestSegment;
use aof2_core::manifest::ManifestIndex;
use pyo3::prelude::*;

use super::TYPES;
use crate::report::{Built, Fields, list};

/// An index as a dataclass.
pub fn index<'py>(py: Python<'py>, index: &ManifestIndex) -> Built<'py> {
    let segments: Vec<&ManifestSegment> = index.segments().collect();
    let uploads: Vec<_> = index.pending_uploads().collect();
    let deletes: Vec<_> = index.pending_deletes().collect();
    let unresolved: Vec<u64> = index.unresolved().map(|r| r.segment_id.as_u64()).collect();
    Fields::new(py)
        .set("segments", list(py, &segments, |py, segment| self::segment(py, segment))?)?
        .set(
            "pending_uploads",
            list(py, &uploads, |py, upload| {
                Fields::new(py)
                    .set("key", &upload.key)?
                    .set("segment_id", upload.segment_id.as_u64())?
                    .set("started_at_ms", upload.started_at_ms)?
                    .set("attempts", upload.attempts)?
                    .set("failure", upload.failure.map(|code| code.0))?
                    .build_in(TYPES, "PendingUpload")
            })?,
        )?
        .set(
            "pending_deletes",
            list(py, &deletes, |py, delete| {
                Fields::new(py)
                    .set("key", &delete.key)?
                    .set("segment_id", delete.segment_id.as_u64())?
                    .set("queued_at_ms", delete.queued_at_ms)?
                    .build_in(TYPES, "PendingDelete")
            })?,
        )?
        .set("unresolved_segments", unresolved)?
        .set("unknown_records", index.unknown_types())?
        .set("next_record", index.next_record())?
        .build_in(TYPES, "ManifestIndex")
}

fn segment<'py>(py: Python<'py>, segment: &ManifestSegment) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", segment.segment_id.as_u64())?
        .set("base_offset", segment.base_offset)?
        .set("epoch", segment.epoch)?
        .set("opened_at_ms", segment.opened_at_ms)?
        .set("updated_at_ms", segment.updated_at_ms)?
        .set("last_record", segment.last_record)?
        .set("hot", segment.hot)?
        .set("durable_bytes", segment.durable_bytes)?
        .set("segment_crc64", segment.segment_crc64)?
        .set("ext_id", segment.ext_id)?
        .set("watermark", segment.watermark)?
        .set("sealed_at_ms", segment.sealed_at_ms)?
        .set("flush_failure", segment.flush_failure)?
        .set("warm_bytes", segment.warm_bytes)?
        .set("cold_key", segment.cold_key.as_deref())?
        .set("cold_etag", segment.cold_etag.as_deref())?
        .set("resident_bytes", segment.resident_bytes)?
        .set("reclaimed_bytes", segment.reclaimed_bytes)?
        .set("compression_job", segment.compression_job)?
        .set("hydration_source", segment.hydration_source)?
        .set("compression_failure", segment.compression_failure)?
        .set("upload_failure", segment.upload_failure)?
        .set("hydration_failure", segment.hydration_failure)?
        .build_in(TYPES, "ManifestSegment")
}
