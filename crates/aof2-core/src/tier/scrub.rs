//! When the next segment is scrubbed, and what a scrub means for the tiers.

use super::activation::Priority;
use super::plan::{Plan, State};
use super::run::run;
use super::stream::StreamTiers;
use super::task::Task;
use crate::check::{ScrubCounters, ScrubHost, ScrubState};
use crate::error::{AofError, Result};
use crate::format::SegmentId;

/// The next step of every scrub, the one that waits longest first.
pub(super) fn plan_scrub(state: State<'_>) -> Plan<'_> {
    let mut plan = Plan::new(state);
    let interval_ms = state.config.scrub_interval_ms;
    if interval_ms == 0 {
        return plan;
    }
    let tiers = state.streams.iter().map(|(_, tiers)| tiers).enumerate();
    let scrubs = tiers.map(|(at, tiers)| (tiers.scrub.due_ms(state.now_ms, interval_ms), at));
    let mut scrubs: Vec<(u64, usize)> = scrubs.collect();
    scrubs.sort_unstable();
    for (due_ms, at) in scrubs {
        plan.add(at, Task::Scrub, due_ms);
    }
    plan
}

impl ScrubHost for StreamTiers {
    fn state(&self) -> &ScrubState {
        &self.scrub
    }

    fn counters(&self) -> &ScrubCounters {
        &self.counters.scrub
    }

    fn compress(&self, segment_id: SegmentId) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        run(&stream, self, Task::Compress(segment_id)).map(drop)
    }

    fn upload(&self, segment_id: SegmentId) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        run(&stream, self, Task::Upload(segment_id)).map(drop)
    }

    fn prefetch(&self, segment_id: SegmentId) {
        // A refusal leaves it where it is.
        let _ = self.ask(segment_id, Priority::Prefetch);
    }

    fn healed(&self, segment_id: SegmentId) {
        self.forget_failures(segment_id);
    }

    fn changed(&self) {
        if let Some(stream) = self.stream() {
            self.moved(&stream);
        }
    }
}
