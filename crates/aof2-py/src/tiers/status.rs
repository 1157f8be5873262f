//! What the tiers hold and did, as the dataclasses of `aof2._types`.

use aof2_core::object::{ObjectOp, OpMetrics};
use aof2_core::{ColdStatus, TierStatus};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::report::{Built, Fields};

pub fn status<'py>(py: Python<'py>, status: &TierStatus) -> Built<'py> {
    let m = &status.metrics;
    let metrics = Fields::new(py)
        .set("evictions", m.evictions)?
        .set("failures", m.failures)?
        .set("compressions", m.compressions)?
        .set("compressed_raw_bytes", m.compressed_raw_bytes)?
        .set("compressed_bytes", m.compressed_bytes)?
        .set("compression_seconds", m.compression_seconds)?
        .set("hydrations", m.hydrations)?
        .set("hydration_seconds", m.hydration_seconds)?
        .set("warm_evictions", m.warm_evictions)?
        .set("uploads", m.uploads)?
        .set("uploaded_bytes", m.uploaded_bytes)?
        .set("upload_seconds", m.upload_seconds)?
        .set("deletes", m.deletes)?
        .set("cold_failures", m.cold_failures)?
        .set("cold_missing", m.cold_missing)?
        .set("scrubbed_bytes", m.scrubbed_bytes)?
        .set("scrubbed_segments", m.scrubbed_segments)?
        .set("damage_found", m.damage_found)?
        .set("healed", m.healed)?
        .build("TierMetrics")?;
    let cold = status.cold.as_ref().map(|cold| cold_status(py, cold)).transpose()?;
    Fields::new(py)
        .set("hot_segments", status.hot_segments)?
        .set("hot_bytes", status.hot_bytes)?
        .set("hot_bytes_max", status.hot_bytes_max)?
        .set("stream_hot_bytes_max", status.stream_hot_bytes_max)?
        .set("warm_segments", status.warm_segments)?
        .set("warm_bytes", status.warm_bytes)?
        .set("warm_bytes_max", status.warm_bytes_max)?
        .set("cold", cold)?
        .set("evicted_segments", status.evicted_segments)?
        .set("pinned_segments", status.pinned_segments)?
        .set("activations_pending", status.activations_pending)?
        .set("needs_repair_segments", status.needs_repair_segments)?
        .set("last_scrub_ms", status.last_scrub_ms)?
        .set("metrics", metrics)?
        .build("TierStatus")
}

fn cold_status<'py>(py: Python<'py>, cold: &ColdStatus) -> Built<'py> {
    let requests = &cold.requests;
    let sum = |part: fn(&OpMetrics) -> u64| -> u64 {
        ObjectOp::ALL.iter().map(|op| part(&requests.op(*op))).sum()
    };
    let by_kind = PyDict::new(py);
    for op in ObjectOp::ALL {
        by_kind.set_item(op.name(), requests.op(op).requests)?;
    }
    let capabilities = cold.capabilities.map(|can| -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        found.set_item("conditional_create", can.conditional_create)?;
        found.set_item("conditional_finish", can.conditional_finish)?;
        found.set_item("checksum_kept", can.checksum_kept)?;
        found.set_item("checksum_verified", can.checksum_verified)?;
        found.set_item("multipart_checksum_verified", can.multipart_checksum_verified)?;
        found.set_item("suffix_range", can.suffix_range)?;
        Ok(found)
    });
    Fields::new(py)
        .set("url", &cold.url)?
        .set("segments", cold.segments)?
        .set("bytes", cold.bytes)?
        .set("archived", cold.archived)?
        .set("uploads_pending", cold.uploads_pending)?
        .set("deletes_pending", cold.deletes_pending)?
        .set("requests", requests.requests())?
        .set("requests_by_kind", by_kind)?
        .set("retries", sum(|op| op.retries))?
        .set("failures", sum(|op| op.failures))?
        .set("bytes_in", requests.bytes_in)?
        .set("bytes_out", requests.bytes_out)?
        .set("requests_per_gb", requests.per_gb())?
        .set("down_since_ms", requests.down_since_ms)?
        .set("outages", requests.outages)?
        .set("probes", requests.probes)?
        .set("capabilities", capabilities.transpose()?)?
        .set("error", cold.error.as_deref())?
        .build("ColdStatus")
}

/// The figures as a plain dict, for `Aof.metrics`.
pub fn metrics<'py>(py: Python<'py>, given: &TierStatus) -> PyResult<Bound<'py, PyAny>> {
    let figures = py.import("dataclasses")?.call_method1("asdict", (status(py, given)?,))?;
    let moved = figures.call_method1("pop", ("metrics",))?;
    figures.call_method1("update", (moved,))?;
    Ok(figures)
}
