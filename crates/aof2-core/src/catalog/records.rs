//! The values of the tables: postcard behind a `u16` version.
//!
//! A row says by itself which version it has. Older ones are read as long as a record knows
//! how ([`Row::from_older`]); a newer one is refused, since nothing may be read into it or
//! written over it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::format::operation::{
    ChunkCompression, ChunkResidency, DbKind, DbStatus, JobKind, ObjectName, Phase, Policy,
    RemoteObject, Variant,
};

/// Why a row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowFault {
    Newer { found: u16, known: u16 },
    Damaged,
}

/// The value of a table.
pub(super) trait Row: Serialize + DeserializeOwned {
    /// Version that is written.
    const VERSION: u16 = 1;

    /// A value that was written by an earlier version, if that is still read.
    fn from_older(_version: u16, _bytes: &[u8]) -> Option<Self> {
        None
    }

    fn encode(&self) -> Vec<u8> {
        let bytes = Self::VERSION.to_le_bytes().to_vec();
        // Serialising plain data into memory does not fail.
        postcard::to_extend(self, bytes).unwrap_or_default()
    }

    fn decode(bytes: &[u8]) -> Result<Self, RowFault> {
        let (version, value) = bytes.split_first_chunk().ok_or(RowFault::Damaged)?;
        match u16::from_le_bytes(*version) {
            found if found == Self::VERSION => match postcard::take_from_bytes(value) {
                Ok((row, [])) => Ok(row),
                _ => Err(RowFault::Damaged),
            },
            found if found > Self::VERSION => Err(RowFault::Newer { found, known: Self::VERSION }),
            older => Self::from_older(older, value).ok_or(RowFault::Damaged),
        }
    }
}

/// What a fork began as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The other database.
    pub db_id: u32,
    /// The row in its snapshots that holds what the fork needs.
    pub snapshot_id: u32,
    /// Its checkpoint.
    pub generation: u32,
    /// Offset of its log behind what the fork began with.
    pub offset: u64,
}

/// A log or a page store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DbRecord {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: DbKind,
    /// Its stream id; 0 if it has none.
    pub stream_id: u64,
    /// Its state.
    pub status: DbStatus,
    /// Checksum of its configuration.
    pub config_hash: u64,
    /// What it began as, if it is a fork.
    pub origin: Option<ForkOrigin>,
    /// What may go of it.
    pub policy: Policy,
    /// First offset of its log that was not trimmed.
    pub start_offset: u64,
    /// Its last checkpoint; 0 if it has none.
    pub generation: u32,
    /// The number of the next snapshot.
    pub next_snapshot_id: u32,
    /// When it was registered.
    pub created_ms: u64,
}

/// How far the write-ahead log of a page store has got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalState {
    /// The last chunk that was sealed.
    pub last_sealed_chunk: u32,
    /// Position behind it.
    pub last_sealed_lsn: u64,
    /// Position up to which a checkpoint holds everything.
    pub last_applied_lsn: u64,
    /// That checkpoint.
    pub last_checkpoint_generation: u32,
}

/// A chunk, or an archived segment of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// What it is.
    pub variant: Variant,
    /// Checkpoint with which it appeared; for a segment, which of its objects.
    pub generation: u32,
    /// Checkpoint with which it was superseded.
    pub died: Option<u32>,
    /// First page that it holds.
    pub first_page: u32,
    /// Pages that it holds.
    pub page_count: u32,
    /// Length of its file.
    pub size_bytes: u64,
    /// Checksum of its file.
    pub crc64: u64,
    /// How it is stored.
    pub compression: ChunkCompression,
    /// Where it is.
    pub residency: ChunkResidency,
    /// First position of the write-ahead log that it covers.
    pub lsn_start: u64,
    /// Position behind the last.
    pub lsn_end: u64,
    /// Its object, if it is in a bucket.
    pub remote: Option<RemoteObject>,
}

/// A delta over a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaRecord {
    /// Number of the delta.
    pub delta_id: u16,
    /// Checkpoint with which it was superseded.
    pub died: Option<u32>,
    /// Pages that it holds.
    pub dirty_pages: Vec<u8>,
    /// Length of its file.
    pub size_bytes: u64,
    /// Checksum of its file.
    pub crc64: u64,
    /// How it is stored.
    pub compression: ChunkCompression,
    /// Where it is.
    pub residency: ChunkResidency,
    /// Its object, if it is in a bucket.
    pub remote: Option<RemoteObject>,
}

/// A place in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceRecord {
    /// Bucket and prefix.
    pub url: String,
    /// Name of the profile by which objects are encrypted.
    pub encryption: Option<String>,
    /// Chunks, deltas and segments that are there.
    pub object_count: u64,
}

/// A snapshot, or a fork as its parent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    /// Its name; that of the fork, if it is one.
    pub name: String,
    /// Checkpoint that it holds; 0 for logs.
    pub generation: u32,
    /// Offset of the log behind what it holds.
    pub offset: u64,
    /// When it was made.
    pub created_ms: u64,
    /// When it may go by itself.
    pub expires_at_ms: Option<u64>,
    /// The fork that holds it.
    pub fork_db: Option<u32>,
}

/// A chunk of a write-ahead log in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalChunkPointer {
    /// Which of the logs.
    pub shard: u16,
    /// First position that it covers.
    pub lsn_start: u64,
    /// Position behind the last.
    pub lsn_end: u64,
}

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// Waits to be taken.
    Pending,
    /// A worker has it.
    Leased {
        /// The worker.
        owner: String,
        /// Until when.
        until_ms: u64,
        /// How often it said that it still works.
        heartbeats: u32,
    },
    /// It was done.
    Done,
    /// Its attempts are used up.
    Failed,
}

impl JobState {
    /// The word for it in reports.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased { .. } => "leased",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// What it is about; 0 for the whole catalog.
    pub db_id: u32,
    /// What it does.
    pub kind: JobKind,
    /// What it needs to know.
    pub payload: Vec<u8>,
    /// Where it is in its life.
    pub state: JobState,
    /// Not to be run before this time.
    pub not_before_ms: u64,
    /// Runs so far.
    pub runs: u32,
    /// Runs that failed.
    pub failures: u32,
    /// Failures after which it is given up.
    pub attempts_max: u32,
    /// When it was enqueued.
    pub created_ms: u64,
    /// When something happened to it last.
    pub updated_ms: u64,
    /// What the last run had to say.
    pub message: String,
}

impl JobRecord {
    /// Whether nothing is left to be done.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, JobState::Done | JobState::Failed)
    }

    /// Whether a worker may take it at this time.
    pub fn is_due(&self, now_ms: u64) -> bool {
        match &self.state {
            JobState::Pending => self.not_before_ms <= now_ms,
            JobState::Leased { until_ms, .. } => *until_ms <= now_ms,
            JobState::Done | JobState::Failed => false,
        }
    }
}

/// Values below these, and one bucket for all others.
pub const METRIC_BOUNDS: [u64; 15] = [
    1,
    4,
    16,
    64,
    256,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
];

/// A figure: how often it was observed, and with which values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// Observations.
    pub count: u64,
    /// Their sum, as far as it goes.
    pub sum: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The last.
    pub last: u64,
    /// Observations below each of [`METRIC_BOUNDS`] and at or above the one before; those
    /// at or above the last bound at the end.
    pub buckets: [u64; METRIC_BOUNDS.len() + 1],
    /// When it was observed last.
    pub updated_ms: u64,
}

/// What has got somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComponentKind {
    /// A component: everything up to the generation was seen.
    Component,
    /// A reader of the feed: everything before the generation was acknowledged.
    Cursor,
    /// A reader of the feed for which nothing is kept any more.
    ExpiredCursor,
}

/// How far a component or a reader of the feed has got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentRecord {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ComponentKind,
    /// The generation; `u64::MAX` for a reader that gave its place up.
    pub generation: u64,
    /// The batch with which it was expired, if it was.
    pub expired_at: Option<u64>,
    /// When it got there.
    pub updated_ms: u64,
}

/// What still names an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefcountRecord {
    /// 1 while it is part of the current state; afterwards, the snapshots and forks that
    /// still read it.
    pub in_use: u32,
    /// Uploads of it that are under way.
    pub pending_upload: u32,
    /// Checkpoint with which it was superseded.
    pub died: Option<u32>,
}

impl RefcountRecord {
    /// Whether nothing names it.
    pub fn is_unused(&self) -> bool {
        self.in_use == 0 && self.pending_upload == 0
    }
}

/// A segment that an intent is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentSegment {
    /// The segment.
    pub segment_id: u64,
    /// Checksum of its object.
    pub crc64: u64,
    /// Length of its object.
    pub bytes: u64,
    /// Which of its objects.
    pub epoch: u32,
}

/// Something that is going to be done outside the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// Number of the type of operation.
    pub operation_type: u16,
    /// What it is about.
    pub db_id: u32,
    /// The log, if it is about one; 0 otherwise.
    pub stream_id: u64,
    /// Where the object is, if it is about one.
    pub namespace_id: u32,
    /// The object, if it is about one.
    pub object: Option<ObjectName>,
    /// Its key.
    pub key: String,
    /// The segments.
    pub segments: Vec<IntentSegment>,
    /// What they are replaced by.
    pub outputs: Vec<IntentSegment>,
    /// When it was decided.
    pub created_ms: u64,
}

/// A step by which the tables got their version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationRecord {
    /// What it did.
    pub name: String,
    /// The batch with which it happened.
    pub generation: u64,
    /// When.
    pub applied_ms: u64,
}

/// A number, behind a version like everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Number(pub(super) u64);

impl Row for DbRecord {}
impl Row for WalState {}
impl Row for ChunkRecord {}
impl Row for DeltaRecord {}
impl Row for NamespaceRecord {}
impl Row for SnapshotRecord {}
impl Row for WalChunkPointer {}
impl Row for JobRecord {}
impl Row for MetricRecord {}
impl Row for ComponentRecord {}
impl Row for RefcountRecord {}
impl Row for IntentRecord {}
impl Row for MigrationRecord {}
impl Row for Number {}

impl IntentRecord {
    /// The phases that end it.
    pub(super) const OUTCOMES: [Phase; 3] = [Phase::Done, Phase::Failed, Phase::Aborted];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as it may be after its second change.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Later {
        name: String,
        limit: Option<u32>,
    }

    impl Row for Later {
        const VERSION: u16 = 2;

        fn from_older(version: u16, bytes: &[u8]) -> Option<Self> {
            let name = (version == 1).then(|| postcard::from_bytes(bytes).ok())??;
            Some(Self { name, limit: None })
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Earlier(String);
    impl Row for Earlier {}

    #[test]
    fn a_row_of_an_older_version_is_read_and_one_of_a_newer_is_refused() {
        let old = Earlier("events".into()).encode();
        assert_eq!(Later::decode(&old), Ok(Later { name: "events".into(), limit: None }));
        let new = Later { name: "events".into(), limit: Some(1) };
        assert_eq!(Later::decode(&new.encode()), Ok(new));
        let newer = Later { name: String::new(), limit: None }.encode();
        assert_eq!(Earlier::decode(&newer), Err(RowFault::Newer { found: 2, known: 1 }));
    }

    #[test]
    fn bytes_that_are_cut_or_too_long_are_damaged() {
        let bytes = WalState { last_sealed_lsn: 300, ..Default::default() }.encode();
        for len in 0..bytes.len() {
            assert_eq!(WalState::decode(&bytes[..len]), Err(RowFault::Damaged), "{len}");
        }
        assert_eq!(WalState::decode(&[&bytes[..], &[0]].concat()), Err(RowFault::Damaged));
    }
}
