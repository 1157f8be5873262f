//! Figures and reports of the core as the dataclasses of `aof2._types`.

use std::ops::Range;

use aof2_core::{
    HistogramSnapshot, KeptSegment, LostRange, MetricsSnapshot, Problem, ProblemKind, RepairReport,
    RetentionReport, SegmentCheck, SegmentFormat, SegmentInfo, Severity, TierStatus, VerifyReport,
    Watermarks,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule};

use crate::path::FsPath;

static TYPES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An object that was made.
pub type Built<'py> = PyResult<Bound<'py, PyAny>>;

/// The fields of a dataclass that is being made.
pub struct Fields<'py>(Bound<'py, PyDict>);

impl<'py> Fields<'py> {
    pub fn new(py: Python<'py>) -> Self {
        Self(PyDict::new(py))
    }

    pub fn set(self, name: &str, value: impl IntoPyObject<'py>) -> PyResult<Self> {
        self.0.set_item(name, value)?;
        Ok(self)
    }

    pub fn build(self, class: &str) -> Built<'py> {
        let py = self.0.py();
        let types = TYPES.get_or_try_init(py, || py.import("aof2._types").map(Bound::unbind))?;
        types.bind(py).getattr(class)?.call((), Some(&self.0))
    }

    /// The same with a class of another module.
    pub fn build_in(self, module: &str, class: &str) -> Built<'py> {
        self.0.py().import(module)?.getattr(class)?.call((), Some(&self.0))
    }
}

/// A list of objects, each made from an item.
pub fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    build: impl Fn(Python<'py>, &T) -> Built<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let built: Vec<_> = items.iter().map(|item| build(py, item)).collect::<PyResult<_>>()?;
    PyList::new(py, built)
}

/// A range whose end may be unknown.
pub fn range(records: &Range<u64>) -> (u64, Option<u64>) {
    (records.start, Some(records.end).filter(|end| *end != u64::MAX))
}

/// The name of a record layout.
pub fn format_name(format: SegmentFormat) -> &'static str {
    match format {
        SegmentFormat::Full => "full",
        SegmentFormat::Compact => "compact",
    }
}

pub fn watermarks(py: Python<'_>, watermarks: Watermarks) -> Built<'_> {
    Fields::new(py)
        .set("appended", watermarks.appended)?
        .set("durable", watermarks.durable)?
        .set("archived", watermarks.archived)?
        .build("Watermarks")
}

pub fn segments<'py>(py: Python<'py>, infos: &[SegmentInfo]) -> PyResult<Bound<'py, PyList>> {
    list(py, infos, segment)
}

fn segment<'py>(py: Python<'py>, info: &SegmentInfo) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", info.segment_id)?
        .set("path", FsPath(&info.path))?
        .set("first_offset", info.first_offset)?
        .set("record_count", info.record_count)?
        .set("file_bytes", info.segment_bytes)?
        .set("used_bytes", info.used_bytes)?
        .set("is_sealed", info.is_sealed)?
        .set("created_ms", info.created_at_ns / 1_000_000)?
        .set("last_timestamp_ms", info.last_timestamp_ms)?
        .set("ext_id", info.ext_id)?
        .set("residency", info.residency.as_str())?
        .set("warm_bytes", info.warm_bytes)?
        .set("cold_bytes", info.cold_bytes)?
        .set("damage", info.damage.as_ref().map(ToString::to_string))?
        .set("stream_id", info.stream_id.as_u64())?
        .build("Segment")
}

pub fn retention<'py>(py: Python<'py>, report: &RetentionReport) -> Built<'py> {
    Fields::new(py)
        .set("segments", segments(py, &report.segments)?)?
        .set("record_count", report.record_count)?
        .set("bytes", report.bytes)?
        .set("earliest_offset", report.earliest_offset)?
        .set("held_back", report.held_back)?
        .set("kept", report.kept.map(|kept| kept_segment(py, kept)).transpose()?)?
        .build("RetentionReport")
}

fn kept_segment(py: Python<'_>, kept: KeptSegment) -> Built<'_> {
    Fields::new(py)
        .set("segment_id", kept.segment_id)?
        .set("reason", kept.reason.as_str())?
        .set("last_timestamp_ms", kept.last_timestamp_ms)?
        .build("KeptSegment")
}

/// How far verifying has got.
pub fn progress(py: Python<'_>, at: aof2_core::VerifyProgress) -> Built<'_> {
    Fields::new(py)
        .set("bytes_done", at.bytes_done)?
        .set("bytes_total", at.bytes_total)?
        .set("segments_done", at.segments_done)?
        .set("segments_total", at.segments_total)?
        .build("VerifyProgress")
}

fn problem_kind(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Header => "header",
        ProblemKind::Footer => "footer",
        ProblemKind::Record => "record",
        ProblemKind::SegmentChecksum => "segment_checksum",
        ProblemKind::Counters => "counters",
        ProblemKind::Name => "name",
        ProblemKind::Sequence => "sequence",
        ProblemKind::MissingSegment => "missing_segment",
        ProblemKind::MissingRecords => "missing_records",
        ProblemKind::Foreign => "foreign",
        ProblemKind::Identity => "identity",
        ProblemKind::Watermark => "watermark",
        ProblemKind::Size => "size",
        ProblemKind::Leftover => "leftover",
        ProblemKind::TornTail => "torn_tail",
        ProblemKind::Beyond => "beyond",
        ProblemKind::Copy => "copy",
        ProblemKind::Inherited => "inherited",
        _ => "other",
    }
}

fn problem<'py>(py: Python<'py>, problem: &Problem) -> Built<'py> {
    let severity = match problem.severity {
        Severity::Notice => "notice",
        Severity::Damage => "damage",
    };
    Fields::new(py)
        .set("kind", problem_kind(problem.kind))?
        .set("severity", severity)?
        .set("path", FsPath(&problem.path))?
        .set("offset", problem.offset)?
        .set("records", range(&problem.records))?
        .set("detail", &problem.detail)?
        .build("Problem")
}

fn segment_check<'py>(py: Python<'py>, check: &SegmentCheck) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", check.segment_id)?
        .set("path", FsPath(&check.path))?
        .set("residency", check.residency.as_str())?
        .set("is_sealed", check.is_sealed)?
        .set("first_offset", check.first_offset)?
        .set("record_count", check.record_count)?
        .set("bytes", check.bytes)?
        .set("first_timestamp_ms", check.first_timestamp_ms)?
        .set("last_timestamp_ms", check.last_timestamp_ms)?
        .build("SegmentCheck")
}

pub fn verify<'py>(py: Python<'py>, report: &VerifyReport) -> Built<'py> {
    let gaps: Vec<(u64, u64)> = report.gaps.iter().map(|gap| (gap.start, gap.end)).collect();
    Fields::new(py)
        .set("path", FsPath(&report.root))?
        .set("name", &report.name)?
        .set("stream_id", report.stream_id.as_u64())?
        .set("format", format_name(report.format))?
        .set("is_healthy", report.is_healthy())?
        .set("problems", list(py, &report.problems, problem)?)?
        .set("segments", list(py, &report.segments, segment_check)?)?
        .set("record_count", report.record_count)?
        .set("bytes", report.bytes)?
        .set("first_offset", report.first_offset)?
        .set("next_offset", report.next_offset)?
        .set("durable_offset", report.durable_offset)?
        .set("gaps", gaps)?
        .build("VerifyReport")
}

fn lost<'py>(py: Python<'py>, lost: &LostRange) -> Built<'py> {
    Fields::new(py)
        .set("records", (lost.records.start, lost.records.end))?
        .set("segment_id", lost.segment_id)?
        .set("path", FsPath(&lost.path))?
        .set("bytes", (lost.bytes.start, lost.bytes.end))?
        .set("is_exact", lost.is_exact)?
        .build("LostRange")
}

pub fn repair<'py>(py: Python<'py>, report: &RepairReport) -> Built<'py> {
    let actions: Vec<String> = report.actions.iter().map(ToString::to_string).collect();
    let quarantined: Vec<_> = report.quarantined.iter().map(|path| FsPath(path)).collect();
    Fields::new(py)
        .set("lost", list(py, &report.lost, lost)?)?
        .set("actions", actions)?
        .set("quarantined", quarantined)?
        .set("verify", verify(py, &report.verify)?)?
        .build("RepairReport")
}

/// All figures as a plain dict.
pub fn metrics<'py>(
    py: Python<'py>,
    m: &MetricsSnapshot,
    tiers: Option<&TierStatus>,
) -> PyResult<Bound<'py, PyDict>> {
    let figures = Fields::new(py)
        .set("stream", &m.stream)?
        .set("appended_records", m.appended_records)?
        .set("durable_records", m.durable_records)?
        .set("appended_bytes", m.appended_bytes)?
        .set("durable_bytes", m.durable_bytes)?
        .set("segments", m.segments)?
        .set("open_maps", m.open_maps)?
        .set("open_files", m.open_files)?
        .set("earliest_offset", m.earliest_offset)?
        .set("flushes", m.flushes)?
        .set("flushed_bytes", m.flushed_bytes)?
        .set("flush_failures", m.flush_failures)?
        .set("rollovers", m.rollovers)?
        .set("segments_sealed", m.segments_sealed)?
        .set("segments_removed", m.segments_removed)?
        .set("segments_archived", m.segments_archived)?
        .set("blocked_admission", m.blocked_admission)?
        .set("blocked_rollover", m.blocked_rollover)?
        .set("blocked_flush", m.blocked_flush)?
        .set("corrupt_reads", m.corrupt_reads)?
        .set("retention_in_future", m.retention_in_future)?
        .set("recovery_ns", m.recovery_ns)?
        .set("recovery_truncated_bytes", m.recovery_truncated_bytes)?
        .set("poisoned", m.poisoned)?
        .set("manifest", m.manifest.as_ref().map(|m| crate::manifest::metrics(py, m)).transpose()?)?
        .set("manifest_failures", m.manifest_failures)?
        .set("tiers", tiers.map(|tiers| crate::tiers::metrics(py, tiers)).transpose()?)?
        .set("append_ns", histogram(py, &m.append_ns)?)?
        .set("flush_ns", histogram(py, &m.flush_ns)?)?
        .set("flush_group", histogram(py, &m.flush_group)?)?
        .set("segment_bytes", histogram(py, &m.segment_bytes)?)?;
    Ok(figures.0)
}

/// Quantiles are upper bounds, powers of two; the largest value is exact.
fn histogram<'py>(py: Python<'py>, h: &HistogramSnapshot) -> PyResult<Bound<'py, PyDict>> {
    let figures = Fields::new(py)
        .set("count", h.count)?
        .set("sum", h.sum)?
        .set("p50", h.quantile(0.5))?
        .set("p99", h.quantile(0.99))?
        .set("max", h.max)?;
    Ok(figures.0)
}
