//! Segments that are to come back to the hot tier, most urgent first.
//!
//! Whoever asks gets an [`Activation`] to wait on. Requests for one segment share one
//! activation, at the priority of the most urgent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::{AofError, BackpressureKind, Result};
use crate::format::SegmentId;

/// How urgent a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Priority {
    /// Somebody may want it soon.
    Prefetch,
    /// Somebody waits for it.
    Wanted,
}

/// A segment on its way to the hot tier.
#[derive(Debug, Default)]
pub(crate) struct Activation {
    outcome: Mutex<Option<Result<u64>>>,
    done: Condvar,
}

impl Activation {
    /// Returns its bytes once it is there; `Timeout` if that takes longer.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<u64> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            match deadline {
                None => self.done.wait(&mut outcome),
                Some(at) => {
                    if self.done.wait_until(&mut outcome, at).timed_out() && outcome.is_none() {
                        return Err(AofError::Timeout { what: "the segment to come back" });
                    }
                }
            }
        }
    }

    pub(super) fn finish(&self, outcome: Result<u64>) {
        self.outcome.lock().get_or_insert(outcome);
        self.done.notify_all();
    }
}

#[derive(Debug)]
struct Request {
    priority: Priority,
    /// Order of arrival.
    ordinal: u64,
    activation: Arc<Activation>,
}

/// The requests of one stream that wait, or are being served.
#[derive(Debug, Default)]
pub(super) struct PendingActivationQueue {
    requests: BTreeMap<SegmentId, Request>,
    arrivals: u64,
}

impl PendingActivationQueue {
    /// Asks for a segment. More than `max` requests are refused.
    pub(super) fn ask(
        &mut self,
        segment_id: SegmentId,
        priority: Priority,
        max: usize,
    ) -> Result<Arc<Activation>> {
        if let Some(known) = self.requests.get_mut(&segment_id) {
            known.priority = known.priority.max(priority);
            return Ok(Arc::clone(&known.activation));
        }
        if self.requests.len() >= max {
            return Err(AofError::WouldBlock(BackpressureKind::Hydration));
        }
        self.arrivals += 1;
        let activation = Arc::new(Activation::default());
        let request =
            Request { priority, ordinal: self.arrivals, activation: Arc::clone(&activation) };
        self.requests.insert(segment_id, request);
        Ok(activation)
    }

    /// The requests, most urgent first, then in the order they came.
    pub(super) fn in_order(&self) -> Vec<SegmentId> {
        let mut order: Vec<_> = self.requests.iter().collect();
        order.sort_by_key(|(_, r)| (std::cmp::Reverse(r.priority), r.ordinal));
        order.into_iter().map(|(segment_id, _)| *segment_id).collect()
    }

    /// Tells everybody who waits for the segment how it ended.
    pub(super) fn finish(&mut self, segment_id: SegmentId, outcome: Result<u64>) {
        if let Some(request) = self.requests.remove(&segment_id) {
            request.activation.finish(outcome);
        }
    }

    /// The stream is closing: nothing more will come.
    pub(super) fn finish_all(&mut self, error: &AofError) {
        for request in std::mem::take(&mut self.requests).into_values() {
            request.activation.finish(Err(error.clone()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(n: u64) -> SegmentId {
        SegmentId::from_u64(n)
    }

    #[test]
    fn urgent_requests_come_first_and_one_segment_is_asked_for_once() {
        let mut queue = PendingActivationQueue::default();
        queue.ask(id(5), Priority::Prefetch, 9).unwrap();
        queue.ask(id(3), Priority::Prefetch, 9).unwrap();
        queue.ask(id(7), Priority::Wanted, 9).unwrap();
        assert_eq!(queue.in_order(), [id(7), id(5), id(3)]);
        queue.ask(id(3), Priority::Wanted, 9).unwrap();
        assert_eq!(queue.in_order(), [id(3), id(7), id(5)]);
        assert_eq!(queue.len(), 3);
    }

    #[test]
    fn a_full_queue_refuses_new_segments_only() {
        let mut queue = PendingActivationQueue::default();
        queue.ask(id(1), Priority::Wanted, 1).unwrap();
        let refused = queue.ask(id(2), Priority::Wanted, 1);
        assert!(matches!(refused, Err(AofError::WouldBlock(BackpressureKind::Hydration))));
        queue.ask(id(1), Priority::Wanted, 1).unwrap();
    }

    #[test]
    fn everybody_who_waits_hears_how_it_ended() {
        let mut queue = PendingActivationQueue::default();
        let first = queue.ask(id(1), Priority::Wanted, 9).unwrap();
        let second = queue.ask(id(1), Priority::Wanted, 9).unwrap();
        let soon = Instant::now();
        assert!(matches!(first.wait(Some(soon)), Err(AofError::Timeout { .. })));
        queue.finish(id(1), Ok(10));
        assert_eq!((first.wait(None).unwrap(), second.wait(None).unwrap()), (10, 10));
        assert_eq!(queue.len(), 0);
    }
}
