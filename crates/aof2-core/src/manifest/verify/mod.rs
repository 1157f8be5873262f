//! Checking every byte of a manifest: checksums, the order of chunks and records,
//! snapshots, what retention must have left, and what the cold tier should have.
//!
//! Reads only and takes no lock. A writer may be at work: what looks wrong while the
//! directory changes is looked at again.

mod check;
mod report;

use std::path::Path;
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::manifest::{StoredChunkName, manifest_dir};
use crate::io::{EntryKind, Storage};
use crate::manifest::chunks::{ManifestLayout, ManifestReader};
use crate::manifest::cold::{ChunkUploader, stored_chunks};

use check::check_stream;
pub use report::{ChunkCheck, ManifestProblem, ManifestProblemKind, ManifestReport, SnapshotCheck};

/// Checks the manifest of the log in this directory. A log without a manifest is
/// healthy.
///
/// ```
/// use std::sync::Arc;
/// use aof2_core::io::{OsStorage, Storage};
/// use aof2_core::manifest::verify_manifest;
///
/// # let dir = tempfile::tempdir()?;
/// let storage: Arc<dyn Storage> = Arc::new(OsStorage);
/// let report = verify_manifest(&storage, dir.path())?;
/// assert!(report.is_healthy(), "{:?}", report.problems);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_manifest(
    storage: &Arc<dyn Storage>,
    root: impl AsRef<Path>,
) -> Result<ManifestReport> {
    verify_manifest_with(storage, root, None)
}

/// [`verify_manifest`] that also asks the cold tier, with the prefix of its keys, for
/// every chunk that is marked as uploaded.
pub fn verify_manifest_with(
    storage: &Arc<dyn Storage>,
    root: impl AsRef<Path>,
    cold: Option<(&dyn ChunkUploader, &str)>,
) -> Result<ManifestReport> {
    let root = root.as_ref();
    let mut report = ManifestReport { root: root.to_owned(), ..ManifestReport::default() };
    for stream_id in streams(&**storage, root)? {
        let layout = ManifestLayout::new(root, stream_id);
        let reader = ManifestReader::of_layout(Arc::clone(storage), layout);
        let found = check_stream(&reader)?;
        report.chunks.extend(found.chunks);
        report.snapshots.extend(found.snapshots);
        report.problems.extend(found.problems);
        report.record_count += found.record_count;
        report.unknown_records += found.unknown_records;
    }
    if let Some((uploader, prefix)) = cold {
        check_stored(&mut report, uploader, prefix);
    }
    Ok(report)
}

/// The streams that have a manifest here.
fn streams(storage: &dyn Storage, root: &Path) -> Result<Vec<StreamId>> {
    let any = root.join(manifest_dir(StreamId::from_u64(0)));
    let dir = any.parent().unwrap_or(root);
    let entries = match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(AofError::io("list directory", dir))?,
    };
    let mut found: Vec<StreamId> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Directory)
        .filter_map(|entry| {
            let stream_id = StreamId::from_u64(entry.name.parse().ok()?);
            manifest_dir(stream_id).ends_with(&entry.name).then_some(stream_id)
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}

fn check_stored(report: &mut ManifestReport, uploader: &dyn ChunkUploader, prefix: &str) {
    let stream_id = report.chunks.first().map(|chunk| chunk.stream_id);
    let stored = stream_id.map(|id| stored_chunks(uploader, prefix, id).unwrap_or_default());
    let stored = stored.unwrap_or_default();
    for chunk in report.chunks.iter().filter(|chunk| chunk.is_uploaded) {
        let (stream_id, chunk_index) = (chunk.stream_id, chunk.chunk_index);
        let known = stored.iter().find(|name| name.chunk_index == chunk_index).copied();
        let key = known.unwrap_or(StoredChunkName {
            stream_id,
            lineage: uploader.lineage(),
            chunk_index,
        });
        let key = key.key(prefix);
        let detail = match uploader.head(&key) {
            Ok(Some(stored))
                if stored.len == chunk.committed_len
                    && stored.meta.chunk_crc64 == chunk.chunk_crc64 =>
            {
                continue;
            }
            Ok(Some(_)) => format!("{key} is another object"),
            Ok(None) => format!("{key} is not there"),
            Err(error) => error.to_string(),
        };
        report.problems.push(ManifestProblem {
            kind: ManifestProblemKind::NotStored,
            // The local chunk is intact.
            is_damage: false,
            path: chunk.path.clone(),
            chunk_index: Some(chunk.chunk_index),
            offset: 0,
            records: 0..0,
            detail,
        });
    }
}
