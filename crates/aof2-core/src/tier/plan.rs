//! What a plan is made from and what it says: tasks with the time they are due. Making one
//! looks and changes nothing.

use std::sync::Arc;

use super::config::TierConfig;
use super::stream::StreamTiers;
use super::task::Task;
use crate::bucket::ColdTier;
use crate::object::Outage;
use crate::write::Stream;

/// A stream that is open, and its tiers.
pub(super) type Open = (Arc<Stream>, Arc<StreamTiers>);

/// What a plan is made from.
#[derive(Clone, Copy)]
pub(super) struct State<'a> {
    pub(super) config: &'a TierConfig,
    pub(super) cold: Option<&'a ColdTier>,
    /// Tasks name a stream by its index here.
    pub(super) streams: &'a [Open],
    pub(super) now_ms: u64,
}

/// What is to be done in a lane.
pub(super) struct Plan<'a> {
    pub(super) state: State<'a>,
    /// What is due now, most urgent first, each with the index of its stream.
    pub(super) due: Vec<(usize, Task)>,
    /// When something else becomes due, if nobody notifies the lane before.
    pub(super) next_ms: Option<u64>,
    /// Whether the store does not answer, and then the first stream that waits for it.
    outage: Option<Outage>,
    waits: Option<usize>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(state: State<'a>) -> Self {
        let outage = state.cold.and_then(ColdTier::outage);
        Self { state, due: Vec::new(), next_ms: None, outage, waits: None }
    }

    /// Something to do from this time on, or a while after it last failed.
    pub(super) fn add(&mut self, at: usize, task: Task, from_ms: u64) {
        let Some((_, tiers)) = self.state.streams.get(at) else { return };
        let due_ms = from_ms.max(tiers.backoff.lock().due_ms(task));
        if due_ms > self.state.now_ms {
            self.look_again(due_ms);
        } else if self.outage.is_some() && task.needs_store() {
            self.waits.get_or_insert(at);
        } else {
            self.due.push((at, task));
        }
    }

    /// Something may be due at this time; `u64::MAX` for never.
    pub(super) fn look_again(&mut self, at_ms: u64) {
        if at_ms != u64::MAX {
            self.next_ms = Some(self.next_ms.map_or(at_ms, |next_ms| next_ms.min(at_ms)));
        }
    }

    /// One probe for all streams, while any of them waits for the store. Whoever plans at
    /// that time finds a store that others found to be back, too.
    pub(super) fn add_probe(&mut self) {
        if let (Some(outage), Some(at)) = (&self.outage, self.waits) {
            let from_ms = outage.probe_due_ms;
            self.add(at, Task::Probe, from_ms);
        }
    }
}
