//! Records of a manifest as dataclasses.

use aof2_core::format::manifest::{ManifestEvent, ManifestRecord, ReasonCode};
use aof2_core::manifest::PlacedRecord;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::TYPES;
use crate::report::{Built, Fields};

pub fn record<'py>(py: Python<'py>, placed: &PlacedRecord<'_>) -> Built<'py> {
    let record: &ManifestRecord<'_> = &placed.record;
    Fields::new(py)
        .set("ordinal", placed.ordinal)?
        .set("chunk_index", placed.position.chunk_index)?
        .set("chunk_offset", placed.position.chunk_offset)?
        .set("type", record.event.name())?
        .set("record_type", record.event.record_type())?
        .set("flags", record.flags)?
        .set("segment_id", record.segment_id.as_u64())?
        .set("logical_offset", record.logical_offset)?
        .set("timestamp_ms", record.timestamp_ms)?
        .set("details", details(py, &record.event)?)?
        .build_in(TYPES, "ManifestRecord")
}

/// The fields of an event, by their names in the format.
fn details<'py>(py: Python<'py>, event: &ManifestEvent<'_>) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let reason = |code: ReasonCode| {
        fields.set_item("reason_code", code.0)?;
        fields.set_item("reason", code.describe())
    };
    match *event {
        ManifestEvent::SegmentOpened { base_offset, epoch } => {
            fields.set_item("base_offset", base_offset)?;
            fields.set_item("epoch", epoch)?;
        }
        ManifestEvent::SealSegment {
            durable_bytes,
            segment_crc64,
            ext_id,
            coordinator_watermark,
            flush_failure,
        } => {
            fields.set_item("durable_bytes", durable_bytes)?;
            fields.set_item("segment_crc64", segment_crc64)?;
            fields.set_item("ext_id", ext_id)?;
            fields.set_item("coordinator_watermark", coordinator_watermark)?;
            fields.set_item("flush_failure", flush_failure)?;
        }
        ManifestEvent::CompressionStarted { job_id } => fields.set_item("job_id", job_id)?,
        ManifestEvent::CompressionDone { compressed_bytes, dictionary_id } => {
            fields.set_item("compressed_bytes", compressed_bytes)?;
            fields.set_item("dictionary_id", dictionary_id)?;
        }
        ManifestEvent::UploadStarted { key }
        | ManifestEvent::Tier2DeleteQueued { key }
        | ManifestEvent::Tier2Deleted { key } => fields.set_item("key", key)?,
        ManifestEvent::UploadDone { key, etag } => {
            fields.set_item("key", key)?;
            fields.set_item("etag", etag)?;
        }
        ManifestEvent::UploadFailed { key, reason: code } => {
            fields.set_item("key", key)?;
            reason(code)?;
        }
        ManifestEvent::CompressionFailed { reason: code }
        | ManifestEvent::HydrationFailed { reason: code } => reason(code)?,
        ManifestEvent::HydrationStarted { source_tier } => {
            fields.set_item("source_tier", source_tier)?;
        }
        ManifestEvent::HydrationDone { resident_bytes } => {
            fields.set_item("resident_bytes", resident_bytes)?;
        }
        ManifestEvent::LocalEvicted { reclaimed_bytes } => {
            fields.set_item("reclaimed_bytes", reclaimed_bytes)?;
        }
        ManifestEvent::SnapshotMarker { chunk_index, chunk_offset, snapshot_id } => {
            fields.set_item("chunk_index", chunk_index)?;
            fields.set_item("chunk_offset", chunk_offset)?;
            fields.set_item("snapshot_id", snapshot_id)?;
        }
        ManifestEvent::CustomEvent { schema_id, blob } => {
            fields.set_item("schema_id", schema_id)?;
            fields.set_item("blob", PyBytes::new(py, blob))?;
        }
        ManifestEvent::Unknown { payload, .. } => {
            fields.set_item("payload", PyBytes::new(py, payload))?;
        }
    }
    Ok(fields)
}
