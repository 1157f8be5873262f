//! What a scrub needs of the policy that keeps the segments: it heals copies, and the policy
//! has to know.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;

use super::background::ScrubState;
use crate::error::Result;
use crate::format::SegmentId;

/// Counters of scrubs, since the log was opened.
#[derive(Debug, Default)]
pub(crate) struct ScrubCounters {
    pub(crate) bytes: AtomicU64,
    pub(crate) segments: AtomicU64,
    pub(crate) damage_found: AtomicU64,
    pub(crate) healed: AtomicU64,
}

pub(crate) trait ScrubHost: Send + Sync + Debug {
    fn state(&self) -> &ScrubState;

    fn counters(&self) -> &ScrubCounters;

    /// Makes the compressed copy of a segment.
    fn compress(&self, segment_id: SegmentId) -> Result<()>;

    /// Puts a segment into the object store.
    fn upload(&self, segment_id: SegmentId) -> Result<()>;

    /// Asks for a segment to come back to the hot tier, if there is space.
    fn prefetch(&self, segment_id: SegmentId);

    /// The copies of a segment were replaced: what failed because of them is tried again.
    fn healed(&self, segment_id: SegmentId);

    /// Copies came or went.
    fn changed(&self);
}
