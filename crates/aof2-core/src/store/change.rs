//! Changes of which copies of a segment there are.
//!
//! Everything that adds, replaces or removes a copy is one of these, and is carried out by
//! [`Store::apply`](super::Store). Whoever decides what is to be changed, a policy, a user,
//! retention or a scrub, only names the change.
//!
//! | change | intent | work | table | manifest |
//! |---|---|---|---|---|
//! | seal | | | footer written and synced; the segment is final | `SealSegment` |
//! | compress | `CompressionStarted` | `warm/` file written, synced, verified, named | names the warm copy | `CompressionDone` |
//! | upload | `UploadStarted`, committed | object created, later claims looked for | index kept in `cold/`; names the cold copy | `UploadDone`, committed |
//! | fetch | | `warm/` file copied, synced, verified, compared with the object's checksum, named | names the warm copy | `CompressionDone` |
//! | hydrate | `HydrationStarted` | segment file written, synced, verified, named | names the hot copy | `HydrationDone` |
//! | evict hot | | the copy that is left is verified, or asked for in the bucket | no longer names it; segment file removed | `LocalEvicted` |
//! | evict warm | | the object is confirmed | no longer names it; `warm/` file removed | `LocalEvicted` |
//! | set aside | | | no longer names it; file moved to `quarantine/` | `LocalEvicted` |
//! | forget | | | no longer names the object; index in `cold/` removed | `Tier2DeleteQueued`, committed |
//! | drop | | | files and index removed; the segment leaves the table | `LocalEvicted`, `Tier2DeleteQueued` |
//! | delete | tombstone committed | object deleted | | `Tier2Deleted` |
//!
//! What a crash leaves is the same for all: up to the work, nothing but an intent or a
//! temporary file, which the next try replaces; after the work, one copy too many, which
//! opening finds by its name; after the table's column, the change without its record,
//! which opening adds to the manifest. A copy is durable and verified before the table
//! names it, the table stops naming a copy before its file goes, and the last copy never
//! goes.

use std::path::PathBuf;
use std::sync::Arc;

use super::copy::Residency;
use crate::format::SegmentId;
use crate::segment::Artifact;

/// One change of one segment.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Makes the compressed copy.
    Compress(SegmentId),
    /// Puts the compressed copy into the bucket.
    Upload(SegmentId),
    /// Copies the object back to a compressed file.
    Fetch(SegmentId),
    /// Makes the segment file again, from the nearest copy.
    Hydrate(SegmentId),
    /// Removes the hot or the warm copy of a segment that another tier holds.
    Evict(SegmentId, Residency),
    /// Moves a damaged file to the quarantine.
    SetAside(SegmentId, Suspect),
    /// The object is not in the bucket, or damaged there: the segment is no longer read
    /// from it, and is uploaded again.
    Forget(SegmentId),
    /// Removes the oldest segment from the log.
    Drop(SegmentId, Removal),
    /// Deletes an object that no segment is read from, by its epoch.
    Delete(SegmentId, u32),
}

/// A file that may be damaged.
#[derive(Clone, Debug)]
pub(crate) enum Suspect {
    /// The segment file.
    Hot,
    /// The compressed file, as it was when it was checked.
    Warm(Arc<Artifact>),
    /// A segment file that opening did not use, because it is damaged.
    StrayHot,
    /// A compressed file that opening did not use.
    StrayWarm(PathBuf),
}

/// What becomes of the file of a segment that leaves the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is deleted.
    Delete,
    /// It is moved to `archive/`.
    SetAside,
}

impl Change {
    pub(crate) fn segment_id(&self) -> SegmentId {
        match self {
            Self::Compress(id)
            | Self::Upload(id)
            | Self::Fetch(id)
            | Self::Hydrate(id)
            | Self::Evict(id, _)
            | Self::SetAside(id, _)
            | Self::Forget(id)
            | Self::Drop(id, _)
            | Self::Delete(id, _) => *id,
        }
    }

    /// Whether it changes something that others than this writer see: the bucket.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Upload(_) | Self::Forget(_) | Self::Delete(..) => true,
            Self::Compress(_)
            | Self::Fetch(_)
            | Self::Hydrate(_)
            | Self::Evict(..)
            | Self::SetAside(..)
            | Self::Drop(..) => false,
        }
    }
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether anything was to be done.
    pub(crate) is_done: bool,
    /// Bytes of the copy that was added or removed. Of a copy that was there already, too.
    pub(crate) bytes: u64,
    /// Where a file was moved to.
    pub(crate) moved_to: Option<PathBuf>,
    /// The key of an object.
    pub(crate) key: Option<String>,
}

impl Applied {
    /// Nothing was to be done.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    pub(super) fn bytes(bytes: u64) -> Self {
        Self { is_done: true, bytes, ..Self::default() }
    }
}

/// What speaks against a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objections {
    /// No other copy is known.
    pub(crate) is_last_copy: bool,
    /// The segment is pinned to its tier.
    pub(crate) is_pinned: bool,
    /// A reader of this process holds the segment.
    pub(crate) is_read: bool,
}
