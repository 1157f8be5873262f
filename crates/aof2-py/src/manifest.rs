//! `ManifestFiles`: the native half of `aof2.Manifest`, reading what a log recorded about
//! its segments. Decodes in bulk; filters and dataclasses are Python's.

use std::sync::Arc;

use aof2_core::format::manifest::{ManifestEvent, ManifestRecord, ManifestSegment, ReasonCode};
use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::manifest::{
    Divergence, ManifestIndex, ManifestMetrics, ManifestPosition, ManifestProblem,
    ManifestProblemKind, ManifestReader, PlacedRecord, replay, verify_manifest,
};
use aof2_core::{AofError, AofReader, SegmentId};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::args::{self, unsigned};
use crate::error::to_py;
use crate::path::FsPath;
use crate::report::{Built, Fields, list};

/// Where the dataclasses are.
const TYPES: &str = "aof2._manifest_types";

/// A place between two records: chunk, and byte in it.
type Place = (u64, u64);

/// The manifest of a log, as files.
#[pyclass(module = "aof2._aof2", frozen)]
pub struct ManifestFiles {
    root: std::path::PathBuf,
    storage: Arc<dyn Storage>,
    reader: ManifestReader,
}

#[pymethods]
impl ManifestFiles {
    #[new]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let root = args::path("path", path)?;
        py.detach(|| {
            let stream_id = AofReader::open(&root)?.stream_id();
            let storage: Arc<dyn Storage> = Arc::new(OsStorage);
            let reader = ManifestReader::new(Arc::clone(&storage), &root, stream_id);
            if !reader.layout().dir().exists() {
                let reason = "it has no manifest; open the log for writing with \
                              manifest_mode=\"shadow\" or \"enabled\" to have one";
                return Err(AofError::NotALog { path: root.clone(), reason: reason.into() });
            }
            Ok(Self { root, storage, reader })
        })
        .map_err(to_py)
    }

    /// Directory of the log.
    #[getter]
    fn path(&self) -> FsPath<'_> {
        FsPath(&self.root)
    }

    /// Id of the stream.
    #[getter]
    fn stream_id(&self) -> u64 {
        self.reader.layout().stream_id().as_u64()
    }

    /// At most `limit` records from a place on (None: the oldest), and the place behind
    /// them.
    fn read<'py>(
        &self,
        py: Python<'py>,
        place: Option<Place>,
        limit: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyList>, Place)> {
        let limit: usize = unsigned("limit", limit)?;
        let mut cursor = py
            .detach(|| match place {
                None => self.reader.cursor(),
                Some((chunk_index, chunk_offset)) => {
                    let start = ManifestPosition { chunk_index, chunk_offset };
                    Ok(self.reader.cursor_at(start, None))
                }
            })
            .map_err(to_py)?;
        let records = PyList::empty(py);
        while records.len() < limit {
            // One chunk of at most a megabyte is read at a time.
            match cursor.next_record().map_err(to_py)? {
                Some(placed) => records.append(record(py, &placed)?)?,
                None => break,
            }
        }
        let next = cursor.position();
        Ok((records, (next.chunk_index, next.chunk_offset)))
    }

    /// The state that all records add up to.
    fn index<'py>(&self, py: Python<'py>) -> Built<'py> {
        let (state, _) = py.detach(|| replay(&self.reader, &SystemClock)).map_err(to_py)?;
        index(py, &state)
    }

    /// Checks every byte, and whether the manifest agrees with the segment files.
    fn verify<'py>(&self, py: Python<'py>) -> Built<'py> {
        let (report, disagreements) = py
            .detach(|| {
                let report = verify_manifest(&self.storage, &self.root)?;
                // What cannot be replayed cannot be compared.
                let disagreements = match report.is_healthy() {
                    true => aof2_core::compare_manifest(&self.storage, &self.root)?,
                    false => Vec::new(),
                };
                Ok((report, disagreements))
            })
            .map_err(to_py)?;
        let is_healthy = report.is_healthy() && disagreements.iter().all(|d| !d.is_damage);
        let chunks = list(py, &report.chunks, |py, chunk| {
            Fields::new(py)
                .set("chunk_index", chunk.chunk_index)?
                .set("path", FsPath(&chunk.path))?
                .set("base_record", chunk.base_record)?
                .set("record_count", chunk.record_count)?
                .set("committed_bytes", chunk.committed_len)?
                .set("is_sealed", chunk.is_sealed)?
                .set("is_uploaded", chunk.is_uploaded)?
                .build_in(TYPES, "ManifestChunk")
        })?;
        let snapshots = list(py, &report.snapshots, |py, snapshot| {
            Fields::new(py)
                .set("snapshot_id", snapshot.info.snapshot_id)?
                .set("path", FsPath(&snapshot.path))?
                .set("chunk_index", snapshot.info.position.chunk_index)?
                .set("chunk_offset", snapshot.info.position.chunk_offset)?
                .set("segment_count", snapshot.segment_count)?
                .build_in(TYPES, "ManifestSnapshot")
        })?;
        let problems = list(py, &report.problems, problem)?;
        for found in &disagreements {
            let fields = Fields::new(py)
                .set("kind", found.divergence.kind.name())?
                .set("severity", severity(found.is_damage))?
                .set("path", FsPath(&self.root))?
                .set("chunk_index", py.None())?
                .set("offset", 0)?
                .set("detail", found.divergence.to_string())?;
            problems.append(fields.build_in(TYPES, "ManifestProblem")?)?;
        }
        Fields::new(py)
            .set("path", FsPath(&report.root))?
            .set("is_healthy", is_healthy)?
            .set("problems", problems)?
            .set("chunks", chunks)?
            .set("snapshots", snapshots)?
            .set("record_count", report.record_count)?
            .set("unknown_records", report.unknown_records)?
            .build_in(TYPES, "ManifestReport")
    }
}

fn severity(is_damage: bool) -> &'static str {
    if is_damage { "damage" } else { "notice" }
}

fn problem<'py>(py: Python<'py>, problem: &ManifestProblem) -> Built<'py> {
    let kind = match problem.kind {
        ManifestProblemKind::Chunk => "chunk",
        ManifestProblemKind::Sequence => "sequence",
        ManifestProblemKind::MissingChunk => "missing_chunk",
        ManifestProblemKind::Snapshot => "snapshot",
        ManifestProblemKind::Foreign => "foreign",
        ManifestProblemKind::NotStored => "not_stored",
        ManifestProblemKind::Leftover => "leftover",
        _ => "other",
    };
    Fields::new(py)
        .set("kind", kind)?
        .set("severity", severity(problem.is_damage))?
        .set("path", FsPath(&problem.path))?
        .set("chunk_index", problem.chunk_index)?
        .set("offset", problem.offset)?
        .set("detail", &problem.detail)?
        .build_in(TYPES, "ManifestProblem")
}

fn record<'py>(py: Python<'py>, placed: &PlacedRecord<'_>) -> Built<'py> {
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

/// Divergences as dataclasses.
pub fn divergences<'py>(py: Python<'py>, found: &[Divergence]) -> PyResult<Bound<'py, PyList>> {
    list(py, found, |py, divergence| {
        Fields::new(py)
            .set("segment_id", divergence.segment_id.as_u64())?
            .set("kind", divergence.kind.name())?
            .set("detail", &divergence.detail)?
            .build_in(TYPES, "Divergence")
    })
}

/// A segment's number as Python gives it.
pub fn segment_id(name: &str, given: &args::Maybe<'_>) -> PyResult<Option<SegmentId>> {
    Ok(args::unsigned_if::<u64>(name, given)?.map(SegmentId::from_u64))
}

/// The manifest's figures.
pub fn metrics<'py>(py: Python<'py>, m: &ManifestMetrics) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    for (name, value) in [
        ("chunks_active", m.chunks_active),
        ("chunks_sealed", m.chunks_sealed),
        ("chunks_removed", m.chunks_removed),
        ("records", m.records),
        ("bytes", m.bytes),
        ("commits", m.commits),
        ("committed_records", m.committed_records),
        ("replay_ns", m.replay_ns),
        ("replay_records", m.replay_records),
        ("trimmed_bytes", m.trimmed_bytes),
        ("crc_error_count", m.crc_error_count),
        ("uploads", m.uploads),
        ("upload_failures", m.upload_failures),
        ("upload_retries", m.upload_retries),
        ("snapshots", m.snapshots),
        ("snapshot_failures", m.snapshot_failures),
        ("shadow_divergence", m.shadow_divergence),
    ] {
        figures.set_item(name, value)?;
    }
    figures.set_item("snapshot_age_ms", m.snapshot_age_ms)?;
    figures.set_item("poisoned", m.poisoned)?;
    Ok(figures)
}
