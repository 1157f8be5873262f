//! What is asked of the tiers: that a segment comes back to the hot tier, and stays there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::activation::{Activation, Priority};
use super::stream::StreamTiers;
use super::task::Task;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::write::Tiers;

impl StreamTiers {
    /// Asks for a segment to come back to the hot tier.
    pub(crate) fn ask(&self, segment_id: SegmentId, priority: Priority) -> Result<Arc<Activation>> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let entry = stream.store().sealed_entry(segment_id)?;
        let bytes = entry.record_bytes();
        let limit = self.hot_bytes.unwrap_or(u64::MAX).min(self.coordinator.config().hot_bytes);
        if bytes > limit && !entry.is_hot() {
            let reason = format!("segment {segment_id} has {bytes} bytes, the limit is {limit}");
            return Err(AofError::InvalidConfig { field: "hot_bytes", reason });
        }
        let max = self.coordinator.config().activations_max;
        let asked = self.activations.lock().ask(segment_id, priority, max);
        // Behind the request: one that is given up from now on tells whoever asked.
        let refusal = self.backoff.lock().refusal(Task::Hydrate(segment_id));
        if let Some(error) = refusal {
            // It would never be planned, and whoever waits for it would wait for ever.
            let outcome = if entry.is_hot() { Ok(0) } else { Err(error) };
            self.activations.lock().finish(segment_id, outcome);
        }
        self.notify();
        asked
    }

    /// Whether a segment can come back without another leaving, after those that were
    /// asked for before.
    pub(super) fn has_room_for(&self, segment_id: SegmentId) -> bool {
        let Some(stream) = self.stream() else { return false };
        let Ok(entry) = stream.store().sealed_entry(segment_id) else { return false };
        let bytes = entry.record_bytes();
        let fits = |used: u64, limit: u64| used.saturating_add(bytes) <= limit;
        let own = self.hot_bytes.is_none_or(|limit| fits(self.used_soon(), limit));
        own && fits(self.coordinator.used_soon(), self.coordinator.config().hot_bytes)
    }

    /// Bytes in the hot tier once everything that was asked for is back.
    pub(super) fn used_soon(&self) -> u64 {
        // Before those in use are counted, and whether it is back or not: what arrives now
        // is then counted twice, not never.
        let asked = self.activations.lock().in_order();
        let Some(stream) = self.stream() else { return 0 };
        let asked = asked.into_iter().filter_map(|id| stream.store().sealed_entry(id).ok());
        let asked_bytes: u64 = asked.map(|entry| entry.record_bytes()).sum();
        asked_bytes + self.used.load(Ordering::Acquire)
    }

    /// Keeps a segment in the hot tier, bringing it back if need be, until it is
    /// unpinned.
    pub(crate) fn pin(&self, segment_id: SegmentId, deadline: Option<Instant>) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let is_new = stream.store().pin(segment_id);
        let back = self.ask(segment_id, Priority::Wanted).and_then(|a| a.wait(deadline));
        let kept = back.and_then(|_| stream.store().store_pins());
        if kept.is_err() && is_new {
            stream.store().unpin(segment_id);
            self.coordinator.notify();
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
        self.coordinator.notify();
        Ok(was_pinned)
    }
}
