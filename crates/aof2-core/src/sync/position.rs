//! Places in a stream and the watermarks that move over them.

use std::time::Instant;

use super::wait::{Interest, WaitQueue};
use super::{AtomicU64, Ordering, yield_now};
use crate::format::{RecordId, SegmentId};

/// The end of a prefix of the stream: a segment and a byte in its file. A record
/// lies inside the prefix when its id is smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// The prefix that ends at this byte of this segment.
    pub fn new(segment: SegmentId, end: u32) -> Self {
        Self(RecordId::from_parts(segment.as_u32(), end).as_u64())
    }

    /// From the packed form used in the watermark file.
    pub fn from_u64(packed: u64) -> Self {
        Self(packed)
    }

    /// The packed form.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// Index of the segment.
    pub fn segment_index(self) -> u32 {
        RecordId::from_u64(self.0).segment_index()
    }

    /// Byte in the segment's file.
    pub fn end(self) -> u32 {
        RecordId::from_u64(self.0).segment_offset()
    }

    /// Whether the record lies inside the prefix.
    #[inline]
    pub fn covers(self, id: RecordId) -> bool {
        id.as_u64() < self.0
    }
}

/// How far the stream has got on one level of durability. Only grows.
#[derive(Debug, Default)]
pub(crate) struct Watermark {
    position: AtomicU64,
    /// Next logical offset at that level; stored before `position`.
    count: AtomicU64,
    /// The same, stored after `position`: equal to `count` while nothing moves.
    count_after: AtomicU64,
    queue: WaitQueue,
}

impl Watermark {
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Position and count of the same moment. Whoever saw a count gets at least
    /// that count here, with a position that covers it.
    pub(crate) fn limit(&self) -> (Position, u64) {
        loop {
            let count = self.count_after.load(Ordering::Acquire);
            let position = self.position();
            // A newer position would have brought its count along.
            if self.count() == count {
                return (position, count);
            }
            // The writer stands between its stores.
            yield_now();
        }
    }

    /// Moves the watermark. Callers are serialised: the append lock for `appended`,
    /// flush leadership for `durable`. Follow with [`Watermark::nudge`], outside
    /// any lock: it may run other people's wakers.
    #[inline]
    pub(crate) fn store(&self, position: Position, count: u64) {
        self.count.store(count, Ordering::Release);
        self.position.store(position.0, Ordering::Release);
        self.count_after.store(count, Ordering::Release);
    }

    /// Whether anybody waits. Exact only for waiters that took the lock under which
    /// the caller stored; see `Stream::meet_appends`.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.queue.has_sleepers()
    }

    /// Lets waiters look again: the watermark moved, the stream stopped, or flush
    /// leadership became free.
    #[inline]
    pub(crate) fn nudge(&self) {
        self.queue.notify();
    }

    /// Lets those look again that wait for what is reached now, and one that can
    /// lead a flush.
    pub(crate) fn nudge_reached(&self) {
        self.queue.notify_reached(self.position().as_u64());
    }

    /// Waits for `target`, or for a chance to lead the flush that brings it.
    pub(crate) fn wait_or_lead<T>(
        &self,
        target: Position,
        deadline: Option<Instant>,
        ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let interest = Interest { target: target.as_u64(), can_lead: true };
        self.queue.wait_for(interest, deadline, ready)
    }

    /// [`Watermark::store`] and [`Watermark::nudge`] where no lock is held.
    pub(crate) fn advance(&self, position: Position, count: u64) {
        self.store(position, count);
        self.nudge();
    }

    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.queue.wait(deadline, ready)
    }

    pub(crate) async fn wait_async<T>(&self, ready: impl FnMut() -> Option<T> + Unpin) -> T {
        self.queue.wait_async(ready).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_covers_exactly_the_records_that_start_before_it() {
        let position = Position::new(SegmentId::from_u64(3), 128);
        assert!(position.covers(RecordId::from_parts(3, 120)));
        assert!(position.covers(RecordId::from_parts(2, u32::MAX)));
        assert!(!position.covers(RecordId::from_parts(3, 128)));
        assert!(!position.covers(RecordId::from_parts(4, 64)));
    }
}
