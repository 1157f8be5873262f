//! What readers need of a log, whether this process writes it or another one does.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::io::Storage;
use crate::planted;
use crate::planted::Bug;
use crate::segment::Segment;
use crate::store::Comeback;
use crate::store::{SegmentEntry, SegmentTable};
use crate::sync::{Position, Watermark};
use crate::write::Stream;
use crate::write::count;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Only records that no crash can take back.
    #[default]
    Durable,
    /// Everything appended, including what a crash may still lose.
    Appended,
}

/// The end of what a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) position: Position,
    /// First logical offset behind it.
    pub(crate) next_offset: u64,
}

/// How a wait for more records ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Moved,
    TimedOut,
    /// No more records will come through this handle.
    Stopped,
}

pub(crate) type WaitFuture<'a> = Pin<Box<dyn Future<Output = Result<Waited>> + Send + 'a>>;

pub(crate) trait Source: Send + Sync + Debug {
    fn storage(&self) -> &dyn Storage;
    fn table(&self) -> &SegmentTable;
    /// Whether lookups may keep what they learn in memory.
    fn remembers(&self) -> bool;
    /// Refuses reads through a handle that is closed or was forked.
    fn check(&self) -> Result<()>;
    fn limit(&self, visibility: Visibility) -> Result<Limit>;
    /// End of the records in a segment that lies wholly before the limit.
    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32>;
    /// Looks for segments that appeared or vanished.
    fn refresh(&self) -> Result<()>;
    /// Waits for records behind `seen`. A writer elsewhere that closes the log stops the
    /// wait only with `until_closed`: another one may open it. This handle's own writer
    /// always does.
    fn wait_beyond(
        &self,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
        deadline: Option<Instant>,
    ) -> Result<Waited>;
    fn wait_beyond_async(
        self: Arc<Self>,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
    ) -> WaitFuture<'static>;
    fn note_corrupt(&self);
    /// A read that does not wait was refused.
    fn note_blocked(&self) {}
    /// Brings a segment back to the hot tier, if this handle can.
    fn bring_back(&self, _segment_id: SegmentId) -> Comeback {
        Comeback::Refused
    }
    /// Asks for that without waiting; with `if_room` only if nothing has to leave for it.
    fn prefetch(&self, _segment_id: SegmentId, _if_room: bool) {}
}

impl Stream {
    pub(crate) fn watermark(&self, visibility: Visibility) -> &Watermark {
        match visibility {
            Visibility::Durable if planted::is(Bug::ServeUndurable) => &self.appended,
            Visibility::Durable => &self.durable,
            Visibility::Appended => &self.appended,
        }
    }

    /// Whether a watermark has reached `count`; `false` once it never will.
    pub(crate) fn has_reached(&self, visibility: Visibility, count: u64) -> Option<bool> {
        if visibility == Visibility::Appended {
            self.meet_appends();
        }
        if self.watermark(visibility).count() >= count {
            return Some(true);
        }
        self.is_stopped().then_some(false)
    }

    fn look_beyond(&self, visibility: Visibility, seen: Position) -> Option<Waited> {
        if visibility == Visibility::Appended {
            self.meet_appends();
        }
        if self.watermark(visibility).position() > seen {
            return Some(Waited::Moved);
        }
        self.is_stopped().then_some(Waited::Stopped)
    }
}

impl Source for Stream {
    fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    fn table(&self) -> &SegmentTable {
        &self.table
    }

    fn remembers(&self) -> bool {
        self.config.enable_sparse_index
    }

    fn check(&self) -> Result<()> {
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(AofError::Closed);
        }
        Ok(())
    }

    fn limit(&self, visibility: Visibility) -> Result<Limit> {
        let (position, next_offset) = self.watermark(visibility).limit();
        Ok(Limit { position, next_offset })
    }

    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
        Ok(entry
            .sealed_info()
            .map(|info| info.durable_bytes)
            .or(segment.closed_end())
            .unwrap_or_default())
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn wait_beyond(
        &self,
        visibility: Visibility,
        seen: Position,
        _until_closed: bool,
        deadline: Option<Instant>,
    ) -> Result<Waited> {
        // A closed log is the end of a follow, not an error.
        self.check_not_forked()?;
        let waited =
            self.watermark(visibility).wait(deadline, || self.look_beyond(visibility, seen));
        Ok(waited.unwrap_or(Waited::TimedOut))
    }

    fn wait_beyond_async(
        self: Arc<Self>,
        visibility: Visibility,
        seen: Position,
        _until_closed: bool,
    ) -> WaitFuture<'static> {
        Box::pin(async move {
            self.check_not_forked()?;
            let look = || self.look_beyond(visibility, seen);
            Ok(self.watermark(visibility).wait_async(look).await)
        })
    }

    fn note_corrupt(&self) {
        count(&self.metrics.corrupt_reads, 1);
    }

    fn note_blocked(&self) {
        count(&self.metrics.blocked_hydration, 1);
    }

    fn bring_back(&self, segment_id: SegmentId) -> Comeback {
        self.store.bring_back(segment_id)
    }

    fn prefetch(&self, segment_id: SegmentId, if_room: bool) {
        self.store.prefetch(segment_id, if_room);
    }
}
