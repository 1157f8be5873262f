//! Pinning: a segment is brought back and stays in the hot tier.

use std::time::Instant;

use super::activation::Priority;
use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::SegmentId;

impl StreamTiers {
    /// Keeps a segment in the hot tier, bringing it back if need be, until it is
    /// unpinned.
    pub(crate) fn pin(&self, segment_id: SegmentId, deadline: Option<Instant>) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let is_new = stream.store().pin(segment_id);
        let back = self.ask(segment_id, Priority::Wanted).and_then(|a| a.wait(deadline));
        let kept = back.and_then(|_| stream.store().store_pins());
        if kept.is_err() && is_new {
            stream.store().unpin(segment_id);
            self.ring_again();
        }
        kept
    }

    /// Lets a pinned segment leave again. Returns whether it was pinned.
    pub(crate) fn unpin(&self, segment_id: SegmentId) -> Result<bool> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let was_pinned = stream.store().unpin(segment_id);
        if was_pinned {
            stream.store().store_pins()?;
        }
        self.ring_again();
        Ok(was_pinned)
    }
}
