//! The append state of a stream: everything an append touches, under one short
//! lock that is never held across I/O.

use std::sync::Arc;

use super::time::TimeSource;
use crate::error::AofError;
use crate::format::SegmentId;
use crate::segment::{SegmentAppender, SegmentFlush};
use crate::sync::Position;

/// The segment that takes appends.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) appender: SegmentAppender,
    pub(crate) flush: Arc<SegmentFlush>,
    pub(crate) last_timestamp_ms: u64,
    pub(crate) activated_at_ns: u64,
    /// Stream byte at which a successor should be prepared; `u64::MAX` once asked.
    pub(crate) spare_at: u64,
    /// Stream byte at which the rest of its pages should be faulted in; `u64::MAX` if they
    /// are, or once asked.
    pub(crate) fault_in_at: u64,
}

/// A segment that takes no more appends and waits for its footer.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) flush: Arc<SegmentFlush>,
    pub(crate) end: u32,
    pub(crate) record_count: u64,
    pub(crate) last_timestamp_ms: u64,
    pub(crate) ext_id: u64,
}

impl Closing {
    pub(crate) fn end_position(&self) -> Position {
        Position::new(self.flush.segment().meta().segment_id, self.end)
    }
}

/// What the append lock guards.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) active: Option<Active>,
    /// The two-unfinalized rule is this field: no rollover while it is taken.
    pub(crate) closing: Option<Closing>,
    pub(crate) next_segment: SegmentId,
    /// Creation time of the newest segment: part of file names, so never twice.
    pub(crate) last_created_ns: u64,
    /// Logical offset of the next record.
    pub(crate) next_offset: u64,
    /// Stream bytes up to the append position.
    pub(crate) bytes: u64,
    /// Stream byte at which the slow path has something to do. One comparison per
    /// append covers refusal, rollover, backpressure, flush and spare triggers.
    pub(crate) attention_at: u64,
    /// Stream byte above which a background flush starts at once.
    pub(crate) flush_at: u64,
    /// Whether the flush timer runs.
    pub(crate) flush_armed: bool,
    /// Why every append is refused from now on.
    pub(crate) refusal: Option<AofError>,
    pub(crate) ext_id: u64,
    pub(crate) time: TimeSource,
}

impl Tail {
    /// End of everything appended.
    pub(crate) fn position(&self) -> Position {
        match (&self.active, &self.closing) {
            (Some(active), _) => Position::new(
                active.appender.segment().meta().segment_id,
                active.appender.position(),
            ),
            (None, Some(closing)) => closing.end_position(),
            // Everything is sealed: the prefix ends where the next segment begins.
            (None, None) => Position::new(self.next_segment, 0),
        }
    }

    /// Segments whose bytes may not be durable yet, oldest first, with their ends.
    pub(crate) fn unsealed(&self) -> Vec<(Arc<SegmentFlush>, u32)> {
        let closing = self.closing.as_ref().map(|c| (Arc::clone(&c.flush), c.end));
        let active = self
            .active
            .as_ref()
            .filter(|a| !a.appender.is_empty())
            .map(|a| (Arc::clone(&a.flush), a.appender.position()));
        closing.into_iter().chain(active).collect()
    }

    /// Refuses every append from now on.
    pub(crate) fn refuse(&mut self, error: AofError) {
        self.refusal.get_or_insert(error);
        self.attention_at = 0;
    }
}
