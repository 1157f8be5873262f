//! What the store of a log asks of its writer.

use std::sync::Arc;

use super::retention::RetentionPolicy;
use super::stream::Stream;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::segment::SegmentFlush;
use crate::store::{Owner, Unsealed};

impl Owner for Stream {
    fn refusal(&self) -> Option<AofError> {
        self.refusal()
    }

    fn fence(&self, error: &AofError) {
        self.fence(error);
    }

    fn poison(&self, cause: &AofError) -> AofError {
        self.poison(cause)
    }

    fn unsealed(&self) -> Vec<Unsealed> {
        let tail = self.tail.lock();
        let closing = tail.closing.as_ref().map(|c| &c.flush);
        let active = tail.active.as_ref().map(|a| &a.flush);
        let unsealed = |flush: &Arc<SegmentFlush>| Unsealed {
            meta: *flush.segment().meta(),
            is_named: flush.is_named(),
        };
        closing.into_iter().chain(active).map(unsealed).collect()
    }

    fn next_segment(&self) -> SegmentId {
        self.tail.lock().next_segment
    }

    fn appended_count(&self) -> u64 {
        self.appended.count()
    }

    fn durable_count(&self) -> u64 {
        self.durable.count()
    }

    fn manifest_changed(&self) {
        self.wakeups.manifest.notify_one();
    }

    fn trim_before(&self, offset: u64) -> Result<()> {
        let policy = RetentionPolicy { before_offset: Some(offset), ..Default::default() };
        self.apply_retention(&policy).map(drop)
    }
}
