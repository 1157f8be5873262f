//! What can go wrong, in terms of what a caller would do about it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::{RecordId, SegmentId, StreamId};
use crate::io::{Keeps, is_used_up};
use crate::object::{ObjectError, ObjectErrorKind};

/// Result of every fallible call of this crate.
pub type Result<T, E = AofError> = std::result::Result<T, E>;

/// What a non-blocking call would have had to wait for. It did nothing; try again once
/// the named work is done, or use the blocking or async twin of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackpressureKind {
    /// There is no segment to write into yet.
    Admission,
    /// The segment is full and its successor is not ready, or two segments still
    /// wait to be finalized.
    Rollover,
    /// More than `max_unflushed_bytes` are waiting to become durable.
    Flush,
    /// The record that was to be read is not in memory and is being fetched; or more
    /// segments were asked to come back to the hot tier than may wait.
    Hydration,
}

impl std::fmt::Display for BackpressureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Admission => "admission",
            Self::Rollover => "rollover",
            Self::Flush => "flush",
            Self::Hydration => "hydration",
        })
    }
}

/// Damage found in data that had been durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// File that is damaged.
    pub path: PathBuf,
    /// Byte in the file where the damage starts.
    pub offset: u64,
    /// Logical offsets of the records that cannot be read; the end is unknown
    /// (`u64::MAX`) when nothing readable follows in the file.
    pub records: Range<u64>,
    /// What was wrong.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "damage at byte {} of {}: {}; ", self.offset, self.path.display(), self.reason)?;
        match &self.records {
            r if r.is_empty() => write!(f, "no record is affected"),
            r if r.end == u64::MAX => write!(f, "records from {} on are affected", r.start),
            r if r.end - r.start == 1 => write!(f, "record {} is affected", r.start),
            r => write!(f, "records {} to {} are affected", r.start, r.end - 1),
        }
    }
}

/// A directory whose records contradict what the object store holds of the same log:
/// another writer went on from an earlier point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DivergedLog {
    /// Root of the log.
    pub path: PathBuf,
    /// Prefix of the object store.
    pub url: String,
    /// First logical offset from which the two may differ.
    pub offset: u64,
    /// What is here from there on.
    pub here: String,
    /// What the object store holds from there on.
    pub there: String,
}

impl std::fmt::Display for DivergedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, url, offset, here, there } = self;
        let path = path.display();
        write!(
            f,
            "{path} has diverged from {url} at offset {offset}: here {here}, there {there}. \
             Export what is only here, move the directory away and open the log again with \
             recover, or archive this one below another prefix"
        )
    }
}

/// Why a call failed. A variant exists where a caller would act differently.
///
/// ```
/// use aof2_core::AofError;
/// # let dir = tempfile::tempdir()?;
/// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
/// match log.append(b"") {
///     Err(AofError::InvalidRecord { reason }) => println!("{reason}"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AofError {
    /// The operating system refused; `source` says how.
    #[error("{op} failed ({}): {source}", path.display())]
    Io {
        /// What was being done.
        op: &'static str,
        /// The file or directory it was done to.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// A non-blocking call would have had to wait. An append wrote nothing, a read asked
    /// for what it needs.
    #[error("would block on {0}; nothing was done, try again or use the call that waits")]
    WouldBlock(BackpressureKind),
    /// A wait reached its deadline; nothing was written by the call that waited.
    #[error("timed out waiting for {what}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
    },
    /// The record can never be appended as it is.
    #[error("invalid record: {reason}")]
    InvalidRecord {
        /// Why.
        reason: String,
    },
    /// Data that had been durable is damaged. The rest stays readable; `repair`
    /// quarantines the damage.
    #[error("{0}; the intact rest stays readable, repair quarantines the damage")]
    Corrupt(Box<Damage>),
    /// The data was removed by retention.
    #[error("records before offset {earliest} were removed by retention")]
    Trimmed {
        /// First logical offset that still exists.
        earliest: u64,
    },
    /// The log has no sealed segment with this number.
    #[error("there is no sealed segment {0}")]
    NoSuchSegment(SegmentId),
    /// No other tier holds the segment, so it stays.
    #[error("segment {0} stays: this is its last copy")]
    LastCopy(SegmentId),
    /// The segment belongs to the log that this one was forked from, where it is moved
    /// between tiers.
    #[error(
        "segment {segment_id} is shared with log {origin:?}, from which this one was forked; do \
         that there, or detach this log first"
    )]
    Shared {
        /// The segment.
        segment_id: SegmentId,
        /// What the other log was called.
        origin: String,
    },
    /// Forks or snapshots still read what was to be removed.
    #[error("{} is held by {}; drop them first", path.display(), holders.join(", "))]
    Held {
        /// The log.
        path: PathBuf,
        /// Who holds it.
        holders: Vec<String>,
    },
    /// No record has this id.
    #[error("there is no record {0}")]
    NoSuchRecord(RecordId),
    /// The record with this id is appended, but not durable yet, and only durable ones
    /// were asked for.
    #[error("record {0} is appended, but not durable yet; {NOT_DURABLE_REMEDY}")]
    NotDurable(RecordId),
    /// The offset is at or past the end of what this reader may see.
    #[error("{}", past_end(*offset, *end, *is_appended))]
    PastEnd {
        /// Offset asked for.
        offset: u64,
        /// First offset that is not readable yet.
        end: u64,
        /// Whether the record is appended, but not durable yet, and only durable ones
        /// were asked for.
        is_appended: bool,
    },
    /// Another handle is writing to this log.
    #[error("{} is being written by process {pid}; a log has one writer", path.display())]
    Locked {
        /// Root of the log.
        path: PathBuf,
        /// Process that holds it, 0 if unknown.
        pid: u32,
    },
    /// A sync failed earlier, so this handle no longer promises anything. Reads go
    /// on; close it and open the log again to recover what is on disk.
    #[error("appends and flushes are refused until the log is reopened: {reason}")]
    Poisoned {
        /// The failure that caused it.
        reason: Arc<str>,
    },
    /// The caller asked for the work to end before it was done.
    #[error("cancelled")]
    Cancelled,
    /// The handle was closed.
    #[error("the log is closed")]
    Closed,
    /// The handle belongs to the process that forked this one.
    #[error("this handle was opened before fork(); open the log again in this process")]
    Forked,
    /// The directory holds no log.
    #[error("{} is not an aof2 log: {reason}", path.display())]
    NotALog {
        /// Directory that was opened.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A file in the log is not of this stream, or not of a kind we know.
    #[error("{} does not belong to this log: {reason}; move it away to open the log", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why it is foreign.
        reason: String,
    },
    /// Another log has this name below the prefix of the object store, or something else has
    /// it in the catalog.
    #[error("{}", name_taken(name, url, *holder, remedy))]
    NameTaken {
        /// The name.
        name: String,
        /// The prefix, or where in the catalog it is taken.
        url: String,
        /// The log that has it; zero if it is not a log.
        holder: StreamId,
        /// What can be done about it.
        remedy: &'static str,
    },
    /// The catalog has no log or page store of this name or number.
    #[error("the catalog has no database {db}")]
    NoSuchDatabase {
        /// Its name or number.
        db: String,
    },
    /// There is no snapshot of this name or number.
    #[error("there is no snapshot {name}")]
    NoSuchSnapshot {
        /// Its name or number.
        name: String,
    },
    /// An unfinished job does the same; or somebody else has the job.
    #[error("job {job_id} is not finished yet")]
    JobPending {
        /// That job.
        job_id: u64,
    },
    /// Changes that a reader of the change feed has not seen are not kept any more. It has
    /// to read the state and to go on from there.
    #[error(
        "changes from generation {next} on are not kept for cursor {cursor} any more; read the \
         catalog and go on with generation {earliest}"
    )]
    FeedReset {
        /// Name of the cursor; empty if it has none.
        cursor: String,
        /// The generation that it would have read next.
        next: u64,
        /// The first generation that there is.
        earliest: u64,
    },
    /// The catalog cannot do that.
    #[error("refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// It was written by a newer version of aof2.
    #[error("{what} has version {found}, and this aof2 knows up to {known}; use a newer aof2")]
    NewerVersion {
        /// What.
        what: String,
        /// Its version.
        found: u32,
        /// The newest version that is known.
        known: u32,
    },
    /// Another writer, here or on another machine, took the log over.
    #[error(
        "{} was taken over by {writer}; this handle appends, flushes and archives nothing more, \
         its reads go on", path.display()
    )]
    Fenced {
        /// Root of the log.
        path: PathBuf,
        /// Machine and process of the other writer.
        writer: String,
    },
    /// This directory and the object store hold different records under the same offsets.
    #[error("{0}")]
    Diverged(Box<DivergedLog>),
    /// The object store of the cold tier did not do what it was asked to.
    #[error("{0}")]
    Cold(Box<ObjectError>),
    /// A configuration value is not allowed.
    #[error("{field}: {reason}")]
    InvalidConfig {
        /// Name of the field.
        field: &'static str,
        /// What is allowed.
        reason: String,
    },
}

const NOT_DURABLE_REMEDY: &str =
    "flush the log, wait until it is durable, or read with visibility \"appended\"";

fn name_taken(name: &str, url: &str, holder: StreamId, remedy: &str) -> String {
    match holder.as_u64() {
        0 => format!("the name {name:?} is taken in {url}; {remedy}"),
        _ => {
            format!("the name {name:?} below {url} belongs to another log (id {holder}); {remedy}")
        }
    }
}

fn past_end(offset: u64, end: u64, is_appended: bool) -> String {
    match is_appended {
        true => format!(
            "record {offset} is appended, but not durable yet: only records below {end} are; \
             {NOT_DURABLE_REMEDY}"
        ),
        false => format!("offset {offset} is past the end: the next one will be {end}"),
    }
}

impl From<ObjectError> for AofError {
    fn from(error: ObjectError) -> Self {
        Self::Cold(Box::new(error))
    }
}

impl AofError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { op, path, source: Arc::new(source) }
    }

    /// The operating system's error behind this one, if there is one.
    pub fn io_source(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether the object store said that there is no such object.
    pub(crate) fn is_object_gone(&self) -> bool {
        matches!(self, Self::Cold(error) if error.kind == ObjectErrorKind::NotFound)
    }

    /// Whether the process or the system has no descriptor left: nothing happened, and it
    /// works again once some are closed.
    pub(crate) fn is_out_of_files(&self) -> bool {
        self.io_source().is_some_and(|e| is_used_up(e, Keeps::File))
    }

    /// Whether the copy of a segment that was to be read is not there any more: there is
    /// no such object or file, or it was replaced by another one.
    pub(crate) fn is_copy_gone(&self) -> bool {
        self.is_object_gone() || self.is_file_gone()
    }

    pub(crate) fn is_file_gone(&self) -> bool {
        let is_stale = |e: &io::Error| e.kind() == io::ErrorKind::StaleNetworkFileHandle;
        self.is_not_found() || self.io_source().is_some_and(is_stale)
    }

    /// Whether there is no file of that name. Not so a stale handle: another file may have
    /// the name by now.
    pub(crate) fn is_not_found(&self) -> bool {
        self.io_source().is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk is full: nothing is lost, appends work again once there is
    /// space.
    pub fn is_disk_full(&self) -> bool {
        self.io_source().is_some_and(|e| {
            matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        })
    }
}
