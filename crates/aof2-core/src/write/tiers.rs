//! What a writer asks of the policy that moves its segments between tiers. A log without
//! tiers has [`NoTiers`].

use std::fmt::Debug;

use crate::format::SegmentId;
use crate::read::Comeback;

/// Says whether there is space for another segment, and brings segments back. The defaults
/// are those of a policy that moves nothing and has no limit.
pub(crate) trait Tiers: Send + Sync + Debug {
    /// Brings a segment back to the hot tier for a reader that waits for it.
    fn bring_back(&self, _segment_id: SegmentId) -> Comeback {
        Comeback::Refused
    }

    /// Asks for a segment to come back, without waiting; with `if_space` only if nothing
    /// has to leave for it.
    fn prefetch(&self, _segment_id: SegmentId, _if_space: bool) {}

    /// Whether the writer may go on to another segment, for which it needs so many
    /// bytes. Called with the append lock held: it only looks. Whoever says no raises
    /// the stream's rollover signal once the answer changes.
    fn admits(&self, _bytes: u64) -> bool {
        true
    }

    /// A segment became active. Called with the append lock held.
    fn activated(&self, _segment_bytes: u64) {}

    /// A segment was sealed and has so many bytes of records. [`notify`](Self::notify)
    /// comes once nobody writes it any more.
    fn sealed(&self, _segment_bytes: u64, _durable_bytes: u64) {}

    /// A writer waits for space, or a segment may leave.
    fn notify(&self) {}

    /// The log is closed.
    fn closed(&self) {}
}

/// No tiers: every segment stays a file.
#[derive(Debug)]
pub(crate) struct NoTiers;

impl Tiers for NoTiers {}
