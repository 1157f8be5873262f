//! Checking every byte of a manifest: checksums, the order of chunks and records,
//! snapshots, what retention must have left, and what the cold tier should have.
//!
//! Reads only and takes no lock. A writer may be at work: what looks wrong while the
//! directory changes is looked at again.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout::{ManifestLayout, ManifestListing};
use super::reader::{Chunk, ManifestReader};
use super::snapshot::{SnapshotInfo, load_snapshot};
use super::upload::{ChunkUploader, stored_chunks};
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::manifest::{ManifestEvent, StoredChunkName, manifest_dir};
use crate::io::{EntryKind, Storage};

/// A directory that changes is looked at again, so often.
const LOOKS: usize = 8;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ManifestProblemKind {
    /// A chunk's header, checksum or a record in it does not validate.
    Chunk,
    /// A chunk does not start where the one before it ends.
    Sequence,
    /// A chunk is missing that nothing stands in for.
    MissingChunk,
    /// A snapshot does not validate, or does not fit the chunks.
    Snapshot,
    /// A file that is none of the manifest's where one of them should be.
    Foreign,
    /// The cold tier does not have a chunk that is marked as uploaded.
    NotStored,
    /// What a crash left, never committed; the next writer removes it.
    Leftover,
}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestProblem {
    /// What is wrong.
    pub kind: ManifestProblemKind,
    /// Whether something that had been committed is affected. Otherwise opening
    /// reconciles it.
    pub is_damage: bool,
    /// The file.
    pub path: PathBuf,
    /// The chunk, where it is about one.
    pub chunk_index: Option<u64>,
    /// Byte in the file where it starts.
    pub offset: u64,
    /// Ordinals of the records that cannot be trusted because of it.
    pub records: Range<u64>,
    /// What was found, in words.
    pub detail: String,
}

impl fmt::Display for ManifestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", self.path.display(), self.offset, self.detail)
    }
}

/// One chunk as checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkCheck {
    /// The stream it belongs to.
    pub stream_id: StreamId,
    /// Its number.
    pub chunk_index: u64,
    /// Its file.
    pub path: PathBuf,
    /// Ordinal of its first record.
    pub base_record: u64,
    /// Records in it.
    pub record_count: u64,
    /// Bytes of header and committed records.
    pub committed_len: u64,
    /// Checksum of the records.
    pub chunk_crc64: u64,
    /// Whether it takes no more records.
    pub is_sealed: bool,
    /// Whether it is marked as uploaded.
    pub is_uploaded: bool,
}

/// One snapshot that validates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotCheck {
    /// The stream it belongs to.
    pub stream_id: StreamId,
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself.
    pub info: SnapshotInfo,
    /// Segments in it.
    pub segment_count: u64,
}

/// Everything that verifying found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestReport {
    /// Directory of the log.
    pub root: PathBuf,
    /// The chunks, oldest first.
    pub chunks: Vec<ChunkCheck>,
    /// The snapshots that validate, oldest first.
    pub snapshots: Vec<SnapshotCheck>,
    /// What is wrong.
    pub problems: Vec<ManifestProblem>,
    /// Intact records.
    pub record_count: u64,
    /// Those of a type that this version does not know.
    pub unknown_records: u64,
}

impl ManifestReport {
    /// Whether nothing that had been committed is damaged or missing.
    pub fn is_healthy(&self) -> bool {
        self.problems.iter().all(|problem| !problem.is_damage)
    }
}

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

/// Looks again as long as there is something wrong and the directory changes.
fn check_stream(reader: &ManifestReader) -> Result<ManifestReport> {
    let mut listing = list(reader)?;
    for _ in 1..LOOKS {
        let report = check_listing(reader, &listing);
        let now = list(reader)?;
        if report.is_healthy() || now == listing {
            return Ok(report);
        }
        listing = now;
    }
    Ok(check_listing(reader, &listing))
}

/// What is there; a foreign file is a finding, not a failure.
fn list(reader: &ManifestReader) -> Result<Result<ManifestListing, PathBuf>> {
    match reader.list() {
        Err(AofError::Foreign { path, .. }) => Ok(Err(path)),
        Err(error) => Err(error),
        Ok(listing) => Ok(Ok(listing)),
    }
}

fn check_listing(
    reader: &ManifestReader,
    listing: &Result<ManifestListing, PathBuf>,
) -> ManifestReport {
    let mut check = Check { reader, report: ManifestReport::default(), marks: BTreeMap::new() };
    match listing {
        Err(path) => check.problem(
            ManifestProblemKind::Foreign,
            true,
            path,
            "a file that is not a chunk has a chunk's name",
        ),
        Ok(listing) => {
            check.leftovers(listing);
            check.snapshots(listing);
            check.chunks(listing);
            check.fits(listing);
        }
    }
    check.report
}

struct Check<'a> {
    reader: &'a ManifestReader,
    report: ManifestReport,
    /// Ordinals at the positions that snapshots name, by chunk and byte; `None` until a
    /// record boundary is found there.
    marks: BTreeMap<(u64, u64), Option<u64>>,
}

impl Check<'_> {
    fn problem(&mut self, kind: ManifestProblemKind, is_damage: bool, path: &Path, detail: &str) {
        self.report.problems.push(ManifestProblem {
            kind,
            is_damage,
            path: path.to_owned(),
            chunk_index: None,
            offset: 0,
            records: 0..0,
            detail: detail.to_owned(),
        });
    }

    fn leftovers(&mut self, listing: &ManifestListing) {
        for name in &listing.temporaries {
            let path = self.reader.layout().dir().join(name);
            let detail = "a file that has not got its name; the next writer removes it";
            self.problem(ManifestProblemKind::Leftover, false, &path, detail);
        }
    }

    fn snapshots(&mut self, listing: &ManifestListing) {
        let layout = self.reader.layout();
        for &snapshot_id in &listing.snapshots {
            let path = layout.snapshot_path(snapshot_id);
            match load_snapshot(&**self.reader.storage(), layout, snapshot_id) {
                Ok(image) => {
                    let info = SnapshotInfo::of(&image);
                    let position = info.position;
                    self.marks.insert((position.chunk_index, position.chunk_offset), None);
                    self.report.snapshots.push(SnapshotCheck {
                        stream_id: layout.stream_id(),
                        path,
                        info,
                        segment_count: image.segments.len() as u64,
                    });
                }
                Err(rejected) => {
                    self.problem(ManifestProblemKind::Snapshot, true, &path, &rejected.reason);
                }
            }
        }
    }

    /// Every chunk there is, also those before a hole.
    fn chunks(&mut self, listing: &ManifestListing) {
        let newest = listing.chunks.last().copied();
        let mut buffer = Vec::new();
        let mut expected: Option<(u64, u64)> = None;
        for &chunk_index in &listing.chunks {
            let has_successor = Some(chunk_index) != newest;
            let (storage, layout) = (&**self.reader.storage(), self.reader.layout());
            match Chunk::load(storage, layout, chunk_index, has_successor, buffer) {
                Ok(chunk) => {
                    let follows = expected.filter(|(index, _)| *index == chunk_index);
                    let end = self.chunk(&chunk, follows.map(|(_, ordinal)| ordinal));
                    expected = end.map(|ordinal| (chunk_index + 1, ordinal));
                    buffer = chunk.into_buffer();
                }
                Err(error) => {
                    self.damage(chunk_index, error);
                    (expected, buffer) = (None, Vec::new());
                }
            }
        }
    }

    /// One chunk; the ordinal behind its last record.
    fn chunk(&mut self, chunk: &Chunk, expected: Option<u64>) -> Option<u64> {
        let header = *chunk.header();
        let (chunk_index, base) = (header.chunk_index, header.base_record);
        let expected = expected.or((chunk_index == 0).then_some(0));
        if let Some(expected) = expected.filter(|&expected| expected != base) {
            self.report.problems.push(ManifestProblem {
                kind: ManifestProblemKind::Sequence,
                is_damage: true,
                path: chunk.path().to_owned(),
                chunk_index: Some(chunk_index),
                offset: 24,
                records: expected.min(base)..expected.max(base),
                detail: format!("chunk {chunk_index} starts with record {base}, not {expected}"),
            });
        }
        self.tail(chunk);
        let mut next = base;
        self.mark(
            chunk_index,
            crate::manifest::position::ManifestPosition::start_of(0).chunk_offset,
            base,
        );
        for placed in chunk.records() {
            match placed {
                Ok(placed) => {
                    next += 1;
                    self.mark(chunk_index, placed.end_offset, next);
                    let is_unknown = matches!(placed.record.event, ManifestEvent::Unknown { .. });
                    self.report.unknown_records += u64::from(is_unknown);
                }
                Err(error) => {
                    self.damage(chunk_index, error);
                    return None;
                }
            }
        }
        self.report.record_count += next - base;
        self.report.chunks.push(ChunkCheck {
            stream_id: self.reader.layout().stream_id(),
            chunk_index,
            path: chunk.path().to_owned(),
            base_record: base,
            record_count: next - base,
            committed_len: header.committed_len,
            chunk_crc64: header.chunk_crc64,
            is_sealed: chunk.is_sealed(),
            is_uploaded: chunk.is_uploaded(),
        });
        Some(next)
    }

    fn mark(&mut self, chunk_index: u64, offset: u64, ordinal: u64) {
        if let Some(mark) = self.marks.get_mut(&(chunk_index, offset)) {
            *mark = Some(ordinal);
        }
    }

    /// What a crash left in the newest chunk.
    fn tail(&mut self, chunk: &Chunk) {
        let detail = match (chunk.was_torn(), chunk.uncommitted_len()) {
            (true, _) => "its header was torn; the checksum says where the last commit ends".into(),
            (false, 0) => return,
            (false, len) => format!("{len} bytes behind the last commit"),
        };
        let leftover = ManifestProblemKind::Leftover;
        self.problem(leftover, false, chunk.path(), &detail);
        if let Some(problem) = self.report.problems.last_mut() {
            problem.chunk_index = Some(chunk.index());
            problem.offset = chunk.end().chunk_offset;
        }
    }

    fn damage(&mut self, chunk_index: u64, error: AofError) {
        let (path, offset, records, detail) = match error {
            AofError::Corrupt(damage) => {
                (damage.path, damage.offset, damage.records, damage.reason)
            }
            other => {
                let path = self.reader.layout().chunk_path(chunk_index);
                (path, 0, 0..u64::MAX, other.to_string())
            }
        };
        self.report.problems.push(ManifestProblem {
            kind: ManifestProblemKind::Chunk,
            is_damage: true,
            path,
            chunk_index: Some(chunk_index),
            offset,
            records,
            detail,
        });
    }

    /// Snapshots and chunks together must tell the whole history.
    fn fits(&mut self, listing: &ManifestListing) {
        let run = listing.run();
        let newest = self.report.snapshots.last().map(|check| check.info);
        let covers =
            |chunk_index: u64| newest.is_some_and(|info| info.position.chunk_index >= chunk_index);
        if let Some(&first) = run.first()
            && first > 0
        {
            let before = self.reader.layout().chunk_path(first - 1);
            let kind = ManifestProblemKind::MissingChunk;
            if !covers(first) {
                let detail = format!("chunk {} is missing and no snapshot stands in", first - 1);
                self.problem(kind, true, &before, &detail);
            } else if !listing.strays().is_empty() {
                let detail = "chunks before a hole; retention had removed them";
                self.problem(ManifestProblemKind::Leftover, false, &before, detail);
            }
        }
        for check in self.report.snapshots.clone() {
            self.fit(&check, run);
        }
    }

    /// A snapshot's record must stand where it says, if its chunk is there.
    fn fit(&mut self, check: &SnapshotCheck, run: &[u64]) {
        let info = check.info;
        let (index, offset) = (info.position.chunk_index, info.position.chunk_offset);
        let is_damaged =
            self.report.problems.iter().any(|p| p.is_damage && p.chunk_index == Some(index));
        if is_damaged {
            return;
        }
        let ordinal = match self.marks.get(&(index, offset)) {
            Some(Some(ordinal)) => *ordinal,
            _ if run.first().is_some_and(|&first| index < first) => return,
            _ => self.report.chunks.last().map_or(0, |c| c.base_record + c.record_count),
        };
        let is_there = run.binary_search(&index).is_ok();
        let is_marked = self.marks.get(&(index, offset)).is_some_and(Option::is_some);
        if ordinal == info.next_record && (is_marked || !is_there) {
            return;
        }
        let detail = format!("record {} does not stand at {}", info.next_record, info.position);
        self.problem(ManifestProblemKind::Snapshot, true, &check.path, &detail);
    }
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
