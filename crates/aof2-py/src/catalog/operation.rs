//! Operations as dataclasses.

use aof2_core::catalog::{Operation, OperationBatch, SegmentRef};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{TYPES, values};
use crate::report::{Built, Fields, list};
use crate::time::to_datetime;

/// Who decided what, when.
pub fn operation<'py>(py: Python<'py>, operation: &Operation) -> Built<'py> {
    let segments: Vec<_> = operation
        .segments
        .iter()
        .map(|segment| self::segment(py, segment))
        .collect::<PyResult<_>>()?;
    let intent = operation.intent.map(|id| values::operation_id(py, id)).transpose()?;
    Fields::new(py)
        .set("id", values::operation_id(py, operation.id)?)?
        .set("type", operation.body.name())?
        .set("phase", operation.phase.as_str())?
        .set("actor", &operation.actor)?
        .set("timestamp", to_datetime(py, operation.timestamp_ms)?)?
        .set("stream_id", operation.stream_id.map(|id| id.as_u64()))?
        .set("intent", intent)?
        .set("segments", PyTuple::new(py, segments)?)?
        .set("fields", values::fields(py, &operation.body.fields())?)?
        .set("term", operation.term)?
        .set("node_id", operation.node_id)?
        .build_in(TYPES, "Operation")
}

fn segment<'py>(py: Python<'py>, segment: &SegmentRef) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", segment.segment_id.as_u64())?
        .set("crc64", segment.crc64)?
        .set("bytes", segment.bytes)?
        .set("epoch", segment.epoch)?
        .build_in(TYPES, "SegmentRef")
}

/// Operations that were decided together.
pub fn batch<'py>(py: Python<'py>, batch: &OperationBatch) -> Built<'py> {
    Fields::new(py)
        .set("generation", batch.generation)?
        .set("operations", list(py, &batch.operations, operation)?)?
        .build_in(TYPES, "OperationBatch")
}
