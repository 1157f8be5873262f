//! Numbers that stand for something: kinds, states, phases.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fields::{Field, bad, codes};
use super::value::Value;
use crate::format::FormatError;

codes! {
    /// How far an operation has got. What changes something outside the tables (a bucket)
    /// is written as an intent first and its outcome afterwards; all others are done when
    /// they are durable.
    Phase: u8 {
        /// It is going to be done.
        Intent = 1 "intent",
        /// It was done.
        Done = 2 "done",
        /// It was tried and failed; it may be tried again.
        Failed = 3 "failed",
        /// It was given up.
        Aborted = 4 "aborted",
    }

    /// What a name in a root stands for.
    DbKind: u16 {
        /// A log.
        Log = 1 "log",
        /// A page store.
        Pages = 2 "pages",
    }

    /// In which state it is.
    DbStatus: u16 {
        /// In use.
        Active = 1 "active",
        /// Readable, not writable.
        ReadOnly = 2 "read_only",
        /// Dropped: its name is free, and its rows stay while somebody reads them.
        Dropped = 3 "dropped",
    }

    /// What a job does. There is one unfinished job of a kind for each database.
    JobKind: u16 {
        /// Copies objects to a bucket.
        Upload = 1 "upload",
        /// Deletes objects of a bucket.
        Delete = 2 "delete",
        /// Writes a checkpoint of a page store.
        Checkpoint = 3 "checkpoint",
        /// Merges a chunk and its deltas into one chunk.
        Merge = 4 "merge",
        /// Copies what a fork inherited, so that it needs its ancestors no more.
        Detach = 5 "detach",
        /// Rewrites segments.
        Compact = 6 "compact",
        /// Removes what nothing names any more.
        Gc = 7 "gc",
    }

    /// How a run of a job ended.
    JobOutcome: u8 {
        /// It did what it had to do.
        Done = 1 "done",
        /// It did not; it is tried again until its attempts are used up.
        Failed = 2 "failed",
    }

    /// Where a chunk or a delta is.
    ChunkResidency: u8 {
        /// In a file of this machine.
        Local = 1 "local",
        /// In a file and in a bucket.
        LocalAndRemote = 2 "local_and_remote",
        /// In a bucket.
        RemoteArchived = 3 "remote_archived",
        /// Nowhere: it was given up.
        Evicted = 4 "evicted",
    }

    /// How the bytes of a chunk are stored.
    ChunkCompression: u8 {
        /// As they are.
        Raw = 1 "raw",
        /// Zstandard.
        Zstd = 2 "zstd",
    }
}

/// Which of the objects that a chunk may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variant(u32);

const DELTA: u32 = 1 << 16;

impl Variant {
    /// The chunk itself.
    pub const BASE: Self = Self(0);
    /// A chunk of a write-ahead log.
    pub const WAL: Self = Self(2 << 16);
    /// A segment of a log.
    pub const SEGMENT: Self = Self(3 << 16);

    /// A delta over the chunk.
    pub const fn delta(delta_id: u16) -> Self {
        Self(DELTA | delta_id as u32)
    }

    /// The number that stands for it.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The variant with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match Self(number) {
            known @ (Self::BASE | Self::WAL | Self::SEGMENT) => Some(known),
            delta if number & !0xFFFF == DELTA => Some(delta),
            _ => None,
        }
    }
}

/// As in object keys: `base`, `delta-0001`, `wal`, `segment`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BASE => f.write_str("base"),
            Self::WAL => f.write_str("wal"),
            Self::SEGMENT => f.write_str("segment"),
            Self(delta) => write!(f, "delta-{:04x}", delta & 0xFFFF),
        }
    }
}

impl Field for Variant {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        Self::from_number(u32::take(input)?).ok_or(bad("variant", "stands for nothing"))
    }

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }
}
