//! What verifying and repairing tell.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::format::{SegmentFormat, StreamId};
use crate::store::Residency;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A segment's header does not validate.
    Header,
    /// A segment's footer does not validate, or is missing where one must be.
    Footer,
    /// A record, or what stands where records should be, does not validate.
    Record,
    /// Every record validates but the checksum of the whole segment does not match.
    SegmentChecksum,
    /// A footer's counters disagree with the records.
    Counters,
    /// A file's name disagrees with its header or with its neighbours.
    Name,
    /// A valid record has the wrong logical offset.
    Sequence,
    /// A segment between two others is missing.
    MissingSegment,
    /// The watermark file claims durable records behind the last one there is.
    MissingRecords,
    /// A file is not of this stream.
    Foreign,
    /// The `stream` file is missing, damaged, or names another stream.
    Identity,
    /// The watermark file cannot be read.
    Watermark,
    /// A segment file has the wrong length.
    Size,
    /// A spare or temporary file that no writer owns.
    Leftover,
    /// What a crash tore off, never durable; the next writer removes it.
    TornTail,
    /// Bytes that are not zero between the last record and the footer.
    Beyond,
    /// A compressed copy is damaged, or not of its segment. If it is the only copy,
    /// readers refuse the records that are named, and a repair brings them back.
    Copy,
    /// Records that a fork has from another log cannot be read there.
    Inherited,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing that had been durable is affected, and opening the log reconciles it.
    Notice,
    /// Something that had been durable is affected.
    Damage,
}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// How bad it is.
    pub severity: Severity,
    /// File it was found in, or the directory or name pattern of a missing one.
    pub path: PathBuf,
    /// Byte in the file where it starts.
    pub offset: u64,
    /// Logical offsets of the records that cannot be read because of it.
    pub records: Range<u64>,
    /// What was found, in words.
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", self.path.display(), self.offset, self.detail)?;
        match &self.records {
            r if r.is_empty() => Ok(()),
            r if r.end - r.start == 1 => write!(f, "; record {} is affected", r.start),
            r => write!(f, "; records {} to {} are affected", r.start, r.end - 1),
        }
    }
}

/// One segment as checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Its number.
    pub segment_id: u64,
    /// The file that it was judged by: its own, or the compressed one if there is no
    /// other, or if the other is damaged.
    pub path: PathBuf,
    /// What kind of file that is. A segment in the object store is not read: what its
    /// index says is taken as it is.
    pub residency: Residency,
    /// Whether it has a valid footer.
    pub is_sealed: bool,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Intact records in it.
    pub record_count: u64,
    /// Bytes of header and records.
    pub bytes: u64,
    /// Timestamp of its first intact record, milliseconds since the epoch.
    pub first_timestamp_ms: Option<u64>,
    /// Largest timestamp in it.
    pub last_timestamp_ms: Option<u64>,
}

/// How far verifying has got; given before each segment and once at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Segment that is read next; the last one at the end.
    pub segment_id: u64,
    /// Segments done.
    pub segments_done: u64,
    /// Segments in all.
    pub segments_total: u64,
    /// Bytes of segments and of compressed copies done, uncompressed; of a log in an
    /// object store, bytes of its objects.
    pub bytes_done: u64,
    /// Those bytes in all.
    pub bytes_total: u64,
}

/// Everything that verifying found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Directory of the log.
    pub root: PathBuf,
    /// Name of the stream; the directory's where the `stream` file does not tell.
    pub name: String,
    /// Id of the stream.
    pub stream_id: StreamId,
    /// Record layout of the stream.
    pub format: SegmentFormat,
    /// The segments, oldest first.
    pub segments: Vec<SegmentCheck>,
    /// What is wrong, in stream order.
    pub problems: Vec<Problem>,
    /// Intact records.
    pub record_count: u64,
    /// Bytes of headers and records.
    pub bytes: u64,
    /// First logical offset.
    pub first_offset: u64,
    /// Logical offset behind the last record there is.
    pub next_offset: u64,
    /// Durable records that the watermark file claims.
    pub durable_offset: Option<u64>,
    /// Records that earlier repairs gave up.
    pub gaps: Vec<Range<u64>>,
}

impl VerifyReport {
    /// Whether nothing that had been durable is damaged or missing. Notices, and
    /// gaps that a repair left on record, do not make a log unhealthy.
    pub fn is_healthy(&self) -> bool {
        self.problems.iter().all(|p| p.severity == Severity::Notice)
    }
}

/// Records that a repair had to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// Their logical offsets.
    pub records: Range<u64>,
    /// Segment that held them.
    pub segment_id: u64,
    /// File that stands for them now.
    pub path: PathBuf,
    /// Bytes of that file where they were; empty if their file was missing.
    pub bytes: Range<u64>,
    /// Whether `records` is certain. Compact records do not say which they are: with
    /// several damaged stretches in one segment only the sum may be known, and what
    /// is left over is put down to the last stretch.
    pub is_exact: bool,
}

/// One thing that a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairAction {
    /// Wrote the `stream` file anew.
    RewroteIdentity {
        /// The file.
        path: PathBuf,
    },
    /// Moved a file that is not of this stream out of the way.
    MovedForeign {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// Gave a segment the name that fits its header and its neighbours.
    Renamed {
        /// Old path.
        from: PathBuf,
        /// New path.
        to: PathBuf,
    },
    /// Replaced a segment file; the original is in quarantine.
    Rebuilt {
        /// The file.
        path: PathBuf,
        /// What was done to it.
        changes: Vec<String>,
    },
    /// Moved a damaged file of a segment out of the way; another file of it is whole, or
    /// holds more.
    MovedCopy {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// Made a segment file from what is intact of a compressed one, which is in
    /// quarantine.
    Salvaged {
        /// The compressed file.
        from: PathBuf,
        /// The file that was made.
        path: PathBuf,
        /// What was done.
        changes: Vec<String>,
    },
    /// Made a segment that stands for a missing one.
    Substituted {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RewroteIdentity { path } => write!(f, "rewrote {}", path.display()),
            Self::MovedForeign { from, to } | Self::MovedCopy { from, to } => {
                write!(f, "moved {} to {}", from.display(), to.display())
            }
            Self::Renamed { from, to } => {
                write!(f, "renamed {} to {}", from.display(), to.display())
            }
            Self::Rebuilt { path, changes } => {
                write!(f, "rebuilt {}: {}", path.display(), changes.join(", "))
            }
            Self::Salvaged { from, path, changes } => {
                let (from, changes) = (from.display(), changes.join(", "));
                write!(f, "made {} from {from}: {changes}", path.display())
            }
            Self::Substituted { path } => {
                write!(f, "made {} for a missing segment", path.display())
            }
        }
    }
}

/// What a repair did and what the log is like now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Records that are gone, in stream order; empty if none had to be given up.
    pub lost: Vec<LostRange>,
    /// What was done, in order.
    pub actions: Vec<RepairAction>,
    /// Originals, where they are now.
    pub quarantined: Vec<PathBuf>,
    /// The log after the repair.
    pub verify: VerifyReport,
}
