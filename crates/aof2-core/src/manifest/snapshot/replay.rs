//! From files to an index: the newest snapshot that counts, then the records behind it.
//!
//! The chunks are the truth. A snapshot counts when it validates and the chunks go on
//! where it ends; otherwise the one before it is tried, and without any the whole log is
//! replayed from its first record. Two things are not papered over:
//!
//! * records that neither a chunk nor a usable snapshot holds: history is missing;
//! * a valid snapshot of records that the chunks do not reach: a snapshot is only written
//!   of what was committed, so committed records are gone.
//!
//! Both stop replay with the records named. A reader of a log that is being written may
//! meet a directory that changes under it; it looks again as long as it does.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use std::ops::Range;
use std::path::Path;

use super::file::{RejectedSnapshot, SnapshotInfo, load_snapshot};
use crate::error::{AofError, Damage, Result};
use crate::format::manifest::{CHUNK_HEADER_LEN, ManifestRecord, SnapshotImage};
use crate::io::Clock;
use crate::manifest::chunks::{Chunk, ManifestListing, ManifestReader};
use crate::manifest::index::{Folded, ManifestIndex};

/// A directory that changes is listed again, so often.
const LOOKS: usize = 8;

/// What replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// The snapshot it started from; `None` for a full replay.
    pub snapshot: Option<SnapshotInfo>,
    /// Newer snapshots that could not be used.
    pub rejected: Vec<RejectedSnapshot>,
    /// Chunks that were read.
    pub chunks: u64,
    /// Records that were folded.
    pub records: u64,
    /// How long it took.
    pub elapsed_ns: u64,
}

impl ReplayReport {
    /// How long it took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }
}

/// Replays a manifest as far as it is committed. No files make an empty index.
pub fn replay(reader: &ManifestReader, clock: &dyn Clock) -> Result<(ManifestIndex, ReplayReport)> {
    let started_ns = clock.now_ns();
    let (index, mut report) = replay_files(reader)?;
    report.elapsed_ns = clock.now_ns().saturating_sub(started_ns);
    Ok((index, report))
}

fn replay_files(reader: &ManifestReader) -> Result<(ManifestIndex, ReplayReport)> {
    let mut listing = reader.list()?;
    for _ in 1..LOOKS {
        match replay_listing(reader, &listing) {
            Err(error) => {
                let now = reader.list()?;
                if now == listing {
                    return Err(error);
                }
                listing = now;
            }
            replayed => return replayed,
        }
    }
    replay_listing(reader, &listing)
}

fn replay_listing(
    reader: &ManifestReader,
    listing: &ManifestListing,
) -> Result<(ManifestIndex, ReplayReport)> {
    let mut report = ReplayReport::default();
    let (storage, layout) = (&**reader.storage(), reader.layout());
    for &snapshot_id in listing.snapshots.iter().rev() {
        let image = match load_snapshot(storage, layout, snapshot_id) {
            Ok(image) => image,
            Err(rejected) => {
                report.rejected.push(rejected);
                continue;
            }
        };
        match check_support(reader, listing, &image)? {
            Support::From(chunks) => {
                report.snapshot = Some(SnapshotInfo::of(&image));
                return fold_chunks(reader, chunks, ManifestIndex::from_image(image), report);
            }
            Support::Unusable(reason) => {
                report.rejected.push(RejectedSnapshot { snapshot_id, reason });
            }
        }
    }
    fold_chunks(reader, listing.run(), ManifestIndex::new(), report)
}

/// Whether the chunks go on where a snapshot ends.
enum Support<'a> {
    /// They do: these are to be folded. Records that the snapshot holds are skipped by
    /// their ordinals.
    From(&'a [u64]),
    /// They do not, and the log can tell the truth without it.
    Unusable(String),
}

fn check_support<'a>(
    reader: &ManifestReader,
    listing: &'a ManifestListing,
    image: &SnapshotImage,
) -> Result<Support<'a>> {
    let run = listing.run();
    let (Some(&oldest), Some(&newest)) = (run.first(), run.last()) else {
        return supports_if(reader, image, 0, &[]);
    };
    if image.chunk_index < oldest {
        let chunk = load(reader, run, oldest, Vec::new())?;
        return Ok(match chunk.header().base_record {
            base if base == image.next_record => Support::From(run),
            base => Support::Unusable(format!(
                "it ends before record {}, the oldest chunk starts with record {base}",
                image.next_record
            )),
        });
    }
    if image.chunk_index > newest {
        let chunk = load(reader, run, newest, Vec::new())?;
        let (_, end) = place(&chunk, chunk.end().chunk_offset)?;
        // The position may be the start of a chunk that has not got its name yet.
        return supports_if(reader, image, end, &[]);
    }
    let rest = &run[(image.chunk_index - oldest) as usize..];
    let chunk = load(reader, run, image.chunk_index, Vec::new())?;
    let (is_boundary, ordinal) = place(&chunk, image.chunk_offset)?;
    if is_boundary && ordinal == image.next_record {
        return Ok(Support::From(rest));
    }
    if image.chunk_index == newest && image.next_record > ordinal {
        return supports_if(reader, image, ordinal, rest);
    }
    Ok(Support::Unusable(format!(
        "record {} does not stand at byte {} of chunk {}",
        image.next_record, image.chunk_offset, image.chunk_index
    )))
}

/// For a snapshot at or behind the end of the chunks, which is before record `end`.
fn supports_if<'a>(
    reader: &ManifestReader,
    image: &SnapshotImage,
    end: u64,
    rest: &'a [u64],
) -> Result<Support<'a>> {
    if image.next_record <= end {
        return if image.next_record == end {
            Ok(Support::From(rest))
        } else {
            Ok(Support::Unusable(format!(
                "it ends before record {} in a chunk that is not there",
                image.next_record
            )))
        };
    }
    let path = reader.layout().snapshot_path(image.snapshot_id);
    Err(missing(
        &path,
        end..image.next_record,
        format!("the snapshot holds committed records that no chunk has; the chunks end at {end}"),
    ))
}

/// Whether a record starts at this byte of a chunk or would, and the ordinal of the
/// first record at or behind it.
fn place(chunk: &Chunk, offset: u64) -> Result<(bool, u64)> {
    let mut at = CHUNK_HEADER_LEN as u64;
    let mut ordinal = chunk.header().base_record;
    for placed in chunk.records() {
        if at >= offset {
            break;
        }
        let placed = placed?;
        at = placed.end_offset;
        ordinal = placed.ordinal.saturating_add(1);
    }
    Ok((at == offset, ordinal))
}

fn fold_chunks(
    reader: &ManifestReader,
    chunks: &[u64],
    mut index: ManifestIndex,
    mut report: ReplayReport,
) -> Result<(ManifestIndex, ReplayReport)> {
    let mut buffer = Vec::new();
    for &chunk_index in chunks {
        let chunk = load(reader, chunks, chunk_index, buffer)?;
        let (base, expected) = (chunk.header().base_record, index.next_record());
        // Only the first chunk may start with records that the snapshot holds.
        if base > expected || (base < expected && report.chunks > 0) {
            let reason = gap_reason(&report, chunk_index, base, expected);
            return Err(missing(chunk.path(), expected..base.max(expected), reason));
        }
        report.records += fold_chunk(&chunk, &mut index)?;
        report.chunks += 1;
        buffer = chunk.into_buffer();
    }
    Ok((index, report))
}

/// Folds the records of a chunk that the index does not hold yet; how many there were.
/// Reads them where they stand: this loop is what a restart waits for.
fn fold_chunk(chunk: &Chunk, index: &mut ManifestIndex) -> Result<u64> {
    let mut ordinal = chunk.header().base_record;
    let mut folded = 0;
    let mut rest = chunk.bytes().get(CHUNK_HEADER_LEN..).unwrap_or_default();
    while !rest.is_empty() {
        let Ok((record, len)) = ManifestRecord::decode(rest) else {
            return Err(damaged_record(chunk));
        };
        folded += u64::from(index.fold(ordinal, &record) != Folded::Already);
        ordinal = ordinal.saturating_add(1);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(folded)
}

/// What the reader says about the first record that does not decode.
#[cold]
fn damaged_record(chunk: &Chunk) -> AofError {
    let found = chunk.records().find_map(|placed| placed.err());
    found.unwrap_or_else(|| {
        let records = chunk.header().base_record..u64::MAX;
        missing(chunk.path(), records, "a record does not decode".into())
    })
}

fn gap_reason(report: &ReplayReport, chunk_index: u64, base: u64, expected: u64) -> String {
    let mut reason =
        format!("manifest chunk {chunk_index} starts with record {base}, not {expected}");
    for rejected in &report.rejected {
        reason += &format!("; snapshot {}: {}", rejected.snapshot_id, rejected.reason);
    }
    reason
}

fn load(reader: &ManifestReader, run: &[u64], chunk_index: u64, buffer: Vec<u8>) -> Result<Chunk> {
    let has_successor = run.last().is_some_and(|&newest| newest > chunk_index);
    Chunk::load(&**reader.storage(), reader.layout(), chunk_index, has_successor, buffer)
}

fn missing(path: &Path, records: Range<u64>, reason: String) -> AofError {
    AofError::Corrupt(Box::new(Damage { path: path.to_owned(), offset: 0, records, reason }))
}
