//! How a manifest and the segment files differ, and the manifest's figures.

use aof2_core::manifest::{Divergence, ManifestMetrics};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::TYPES;
use crate::report::{Fields, list};

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
