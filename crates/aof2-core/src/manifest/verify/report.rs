//! What a check of a manifest found.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::format::StreamId;
use crate::manifest::snapshot::SnapshotInfo;

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
