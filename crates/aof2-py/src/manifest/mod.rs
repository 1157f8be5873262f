//! `ManifestFiles`: the native half of `aof2.Manifest`, reading what a log recorded about
//! its segments. Decodes in bulk; filters and dataclasses are Python's.

mod figures;
mod index;
mod record;

use std::sync::Arc;

use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::manifest::{
    ManifestPosition, ManifestProblem, ManifestProblemKind, ManifestReader, replay, verify_manifest,
};
use aof2_core::{AofError, AofReader};
use pyo3::prelude::*;
use pyo3::types::PyList;

pub use self::figures::{divergences, metrics};
pub use self::index::index;
use self::record::record;
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
