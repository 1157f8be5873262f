//! What the catalog reports, as dataclasses.

use aof2_core::catalog::{
    Adopted, CatalogMetrics, CatalogProblem, OperationLogReport, Rebuilt, Recovery, RolledForward,
    TablesFrom,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{TYPES, values};
use crate::report::{Built, Fields, list};

pub fn problems<'py>(py: Python<'py>, found: &[CatalogProblem]) -> PyResult<Bound<'py, PyList>> {
    list(py, found, |py, problem| {
        Fields::new(py)
            .set("table", problem.table.name())?
            .set("row", &problem.row)?
            .set("expected", &problem.expected)?
            .set("found", &problem.found)?
            .build_in(TYPES, "CatalogProblem")
    })
}

pub fn operation_log<'py>(py: Python<'py>, report: &OperationLogReport) -> Built<'py> {
    Fields::new(py)
        .set("earliest_generation", report.earliest_generation)?
        .set("next_generation", report.next_generation)?
        .set("operations", report.operations)?
        .set("bytes", report.bytes)?
        .build_in(TYPES, "OperationLogReport")
}

pub fn recovery<'py>(py: Python<'py>, recovery: &Recovery) -> Built<'py> {
    let (source, checkpoint) = match recovery.from {
        TablesFrom::Tables => ("tables", None),
        TablesFrom::Checkpoint(generation) => ("checkpoint", Some(generation)),
        _ => ("log", None),
    };
    Fields::new(py)
        .set("source", source)?
        .set("checkpoint", checkpoint)?
        .set("discarded", recovery.discarded.as_deref())?
        .set("skipped_checkpoints", recovery.skipped_checkpoints.clone())?
        .set("batches_applied", recovery.batches_applied)?
        .build_in(TYPES, "Recovery")
}

pub fn adopted<'py>(py: Python<'py>, adopted: &Adopted) -> Built<'py> {
    Fields::new(py)
        .set("logs", &adopted.logs)?
        .set("skipped", adopted.skipped.clone())?
        .build_in(TYPES, "Adopted")
}

pub fn rebuilt<'py>(py: Python<'py>, rebuilt: &Rebuilt) -> Built<'py> {
    Fields::new(py)
        .set("adopted", adopted(py, &rebuilt.adopted)?)?
        .set("set_aside", &rebuilt.set_aside)?
        .set("lost", rebuilt.lost.to_vec())?
        .build_in(TYPES, "Rebuilt")
}

pub fn rolled_forward<'py>(py: Python<'py>, report: &RolledForward) -> Built<'py> {
    let ids = |ids: &[_]| list(py, ids, |py, id| values::operation_id(py, *id));
    let failed: Vec<_> = report
        .failed
        .iter()
        .map(|(id, why)| Ok((values::operation_id(py, *id)?, why)))
        .collect::<PyResult<_>>()?;
    Fields::new(py)
        .set("done", ids(&report.done)?)?
        .set("aborted", ids(&report.aborted)?)?
        .set("failed", failed)?
        .build_in(TYPES, "RolledForward")
}

pub fn metrics<'py>(py: Python<'py>, m: &CatalogMetrics) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    for (name, value) in [
        ("generation", m.generation),
        ("earliest_generation", m.earliest_generation),
        ("batches", m.batches),
        ("operations", m.operations),
        ("bytes", m.bytes),
        ("refused", m.refused),
        ("queued", m.queued),
        ("checkpoints", m.checkpoints),
        ("checkpoint_failures", m.checkpoint_failures),
        ("checkpoint_generation", m.checkpoint_generation),
        ("checkpoint_bytes", m.checkpoint_bytes),
        ("jobs_unfinished", m.jobs_unfinished),
        ("jobs_failed", m.jobs_failed),
        ("open_intents", m.open_intents),
        ("databases", m.databases),
        ("cursor_lag_max", m.cursor_lag_max),
        ("cursor_batches_limit", m.cursor_batches_limit),
        ("cursors_expired", m.cursors_expired),
    ] {
        figures.set_item(name, value)?;
    }
    Ok(figures)
}
