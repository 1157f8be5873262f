//! What a listing shows of a segment.

use crate::format::SegmentId;

/// A segment's object, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivedObject {
    pub(crate) segment_id: SegmentId,
    pub(crate) epoch: u32,
    pub(crate) len: u64,
}
