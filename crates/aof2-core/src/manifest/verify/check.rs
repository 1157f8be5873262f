//! The check of one stream's manifest: every chunk, every snapshot, and how they fit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::report::{
    ChunkCheck, ManifestProblem, ManifestProblemKind, ManifestReport, SnapshotCheck,
};
use crate::error::{AofError, Result};
use crate::format::manifest::ManifestEvent;
use crate::manifest::chunks::{Chunk, ManifestListing, ManifestPosition, ManifestReader};
use crate::manifest::snapshot::{SnapshotInfo, load_snapshot};

/// A directory that changes is looked at again, so often.
const LOOKS: usize = 8;

/// Looks again as long as there is something wrong and the directory changes.
pub(super) fn check_stream(reader: &ManifestReader) -> Result<ManifestReport> {
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
        self.mark(chunk_index, ManifestPosition::start_of(chunk_index).chunk_offset, base);
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
