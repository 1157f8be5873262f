//! What the records of a manifest add up to.
//!
//! [`ManifestIndex`] is a plain value: it does no I/O and takes no lock. Records go in
//! through [`ManifestIndex::fold`] (see `fold`) in the order of their ordinals; a
//! snapshot is [`ManifestIndex::to_image`] and back.
//!
//! Invariants:
//! * everything in the index follows from the records `0..next_record`, so that two
//!   indexes with the same history are equal, however often a snapshot stood between;
//! * a segment is in the index from its `SegmentOpened` until no tier holds a copy of
//!   it. Then it is forgotten: the index grows with what exists, not with what was;
//! * records about segments that have not been opened yet wait in a bounded queue.

mod fold;
mod keyed;
mod segments;

#[cfg(test)]
pub(super) mod history;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;

use crate::format::SegmentId;
use crate::format::manifest::{
    FoldCounts, ManifestSegment, PendingDelete, PendingUpload, SnapshotImage, UnresolvedRecord,
};

use super::chunks::ManifestPosition;
pub use fold::Folded;
use keyed::KeyedSet;
use segments::SegmentTable;

/// Records about unopened segments that are kept.
pub const UNRESOLVED_COUNT_MAX: usize = 4096;
/// Their bytes, all together.
pub const UNRESOLVED_BYTES_MAX: usize = 1 << 20;

/// The state of all segments of one stream, as the manifest tells it.
#[derive(Clone, Debug, Default)]
pub struct ManifestIndex {
    pub(super) segments: SegmentTable,
    pub(super) pending_uploads: KeyedSet<PendingUpload>,
    pub(super) pending_deletes: KeyedSet<PendingDelete>,
    pub(super) unresolved: BTreeMap<(SegmentId, u64), UnresolvedRecord>,
    pub(super) unresolved_bytes: usize,
    pub(super) next_record: u64,
    pub(super) opened_end: u64,
    pub(super) counts: FoldCounts,
}

impl ManifestIndex {
    /// The index of an empty manifest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Segments that some tier holds, by id.
    pub fn segments(&self) -> impl Iterator<Item = &ManifestSegment> {
        self.segments.iter()
    }

    /// How many segments some tier holds.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// One segment.
    pub fn get(&self, segment_id: SegmentId) -> Option<&ManifestSegment> {
        self.segments.get(segment_id)
    }

    /// Uploads that were started and not reported done, by key.
    pub fn pending_uploads(&self) -> impl Iterator<Item = &PendingUpload> {
        self.pending_uploads.iter()
    }

    /// The pending upload of an object.
    pub fn pending_upload(&self, key: &str) -> Option<&PendingUpload> {
        self.pending_uploads.get(key)
    }

    /// Deletions that were queued and not reported done, by key.
    pub fn pending_deletes(&self) -> impl Iterator<Item = &PendingDelete> {
        self.pending_deletes.iter()
    }

    /// Records about segments that have not been opened, by segment and ordinal.
    pub fn unresolved(&self) -> impl Iterator<Item = &UnresolvedRecord> {
        self.unresolved.values()
    }

    /// Records of types that this version does not know.
    pub fn unknown_types(&self) -> u64 {
        self.counts.unknown_records
    }

    /// What was met and changed no segment.
    pub fn counts(&self) -> &FoldCounts {
        &self.counts
    }

    /// Ordinal of the record to fold next.
    pub fn next_record(&self) -> u64 {
        self.next_record
    }

    /// One more than the largest segment id ever opened, 0 for none.
    pub fn opened_end(&self) -> u64 {
        self.opened_end
    }

    /// The index as a snapshot. `position` is where the record with the ordinal
    /// [`next_record`](Self::next_record) stands or will stand; everything before it
    /// must have been committed, or a crash could leave a snapshot of records that
    /// never were.
    pub fn to_image(&self, snapshot_id: u64, position: ManifestPosition) -> SnapshotImage {
        SnapshotImage {
            snapshot_id,
            chunk_index: position.chunk_index,
            chunk_offset: position.chunk_offset,
            next_record: self.next_record,
            opened_end: self.opened_end,
            segments: self.segments().cloned().collect(),
            pending_uploads: self.pending_uploads().cloned().collect(),
            pending_deletes: self.pending_deletes().cloned().collect(),
            unresolved: self.unresolved().cloned().collect(),
            counts: self.counts,
        }
    }

    /// The index that a snapshot was taken of.
    pub fn from_image(image: SnapshotImage) -> Self {
        let mut index = Self {
            next_record: image.next_record,
            opened_end: image.opened_end,
            counts: image.counts,
            pending_uploads: image.pending_uploads.into_iter().collect(),
            pending_deletes: image.pending_deletes.into_iter().collect(),
            ..Self::default()
        };
        for segment in image.segments {
            index.segments.insert(segment);
        }
        for record in image.unresolved {
            index.unresolved_bytes += record.bytes.len();
            index.unresolved.insert((record.segment_id, record.ordinal), record);
        }
        index
    }
}

/// Equal when they say the same, however they got there.
impl PartialEq for ManifestIndex {
    fn eq(&self, other: &Self) -> bool {
        self.next_record == other.next_record
            && self.opened_end == other.opened_end
            && self.counts == other.counts
            && self.segments().eq(other.segments())
            && self.pending_uploads().eq(other.pending_uploads())
            && self.pending_deletes().eq(other.pending_deletes())
            && self.unresolved == other.unresolved
    }
}

impl Eq for ManifestIndex {}
