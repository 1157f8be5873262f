//! The manifest: its mode, events of the caller's, what it says.

use aof2_core::SegmentId;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Aof;
use super::options::MODES;
use crate::args::{Maybe, unsigned, unsigned_if, word};
use crate::error::to_py;
use crate::manifest;
use crate::record::Payload;

#[pymethods]
impl Aof {
    /// Whether what happens to segments is recorded: "disabled", "shadow" or "enabled".
    ///
    /// >>> log.manifest_mode
    /// 'disabled'
    #[getter]
    fn manifest_mode(&self) -> PyResult<&'static str> {
        let mode = self.live()?.manifest_mode();
        let found = MODES.iter().find(|(_, known)| *known == mode);
        Ok(found.map_or("disabled", |(word, _)| word))
    }

    /// Starts or stops recording what happens to segments.
    ///
    /// Starting records what is there. "enabled" raises `Corrupt` if an existing manifest is
    /// damaged; "shadow" goes on without it and counts the failure.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> log.manifest_mode
    /// 'enabled'
    fn set_manifest_mode(&self, py: Python<'_>, mode: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = self.live()?;
        let mode = word("mode", mode, &MODES)?;
        py.detach(|| log.set_manifest_mode(mode)).map_err(to_py)
    }

    /// Records an event of your own in the manifest, about a segment (by default the newest
    /// one), and returns its ordinal. `commit_manifest` makes it durable.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> ordinal = log.record_event(7, b"backup taken")
    /// >>> log.commit_manifest()
    #[pyo3(
        signature = (schema_id, blob, *, segment_id = None),
        text_signature = "($self, schema_id, blob, *, segment_id=None)"
    )]
    fn record_event(
        &self,
        py: Python<'_>,
        schema_id: &Bound<'_, PyAny>,
        blob: &Bound<'_, PyAny>,
        segment_id: Maybe<'_>,
    ) -> PyResult<u64> {
        let log = self.live()?;
        let schema_id = unsigned("schema_id", schema_id)?;
        let blob = Payload::of("blob", blob)?;
        let segment = unsigned_if("segment_id", &segment_id)?.map(SegmentId::from_u64);
        py.detach(|| log.record_event(segment, schema_id, blob.as_ref())).map_err(to_py)
    }

    /// Returns when everything recorded in the manifest is durable.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> log.commit_manifest()
    fn commit_manifest(&self, py: Python<'_>) -> PyResult<()> {
        let log = self.live()?;
        py.detach(|| log.commit_manifest()).map_err(to_py)
    }

    /// Writes a snapshot of the manifest, from which replay starts, and returns its id.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> snapshot_id = log.snapshot_manifest()
    fn snapshot_manifest(&self, py: Python<'_>) -> PyResult<u64> {
        let log = self.live()?;
        py.detach(|| log.snapshot_manifest()).map_err(to_py)
    }

    /// What the manifest says of the segments.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> rid = log.append(b"hello")
    /// >>> log.seal()
    /// >>> log.manifest_index().segments[0].is_sealed
    /// True
    fn manifest_index<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let log = self.live()?;
        let index = py.detach(|| log.manifest_index()).map_err(to_py)?;
        manifest::index(py, &index)
    }

    /// Compares the manifest with the segment files; an empty list when they agree.
    ///
    /// >>> log.set_manifest_mode("shadow")
    /// >>> log.compare_manifest()
    /// []
    fn compare_manifest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let log = self.live()?;
        let found = py.detach(|| log.compare_manifest()).map_err(to_py)?;
        manifest::divergences(py, &found)
    }
}
