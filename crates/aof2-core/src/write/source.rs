//! Reading a log through the handle that writes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::metrics::count;
use super::stream::Stream;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::io::Storage;
use crate::planted::{self, Bug};
use crate::read::{Comeback, Limit, Segments, Source, Visibility, WaitFuture, Waited, Watermarks};
use crate::segment::Segment;
use crate::store::{Inherited, SegmentEntry, SegmentTable};
use crate::sync::{Position, Watermark};

impl Stream {
    pub(crate) fn watermark(&self, visibility: Visibility) -> &Watermark {
        match visibility {
            Visibility::Durable if planted::is(Bug::ServeUndurable) => &self.appended,
            Visibility::Durable => &self.durable,
            Visibility::Appended => &self.appended,
        }
    }

    /// How far the stream has got.
    pub(crate) fn watermarks(&self) -> Watermarks {
        // Durable first: it never overtakes appended.
        let durable = self.durable().count();
        let archived = self.store.archived().count();
        Watermarks { appended: self.appended().count(), durable, archived }
    }

    /// The end of what a reader may see.
    pub(crate) fn limit_now(&self, visibility: Visibility) -> Limit {
        let (position, next_offset) = self.watermark(visibility).limit();
        Limit { position, next_offset }
    }

    /// The segments that readers find. Inherited ones that cannot be looked for now are
    /// left out.
    pub(crate) fn readable_segments(&self) -> Vec<Arc<SegmentEntry>> {
        let all = Segments::of(self).all();
        all.unwrap_or_else(|error| {
            tracing::warn!(%error, "inherited segments cannot be looked for");
            self.store.table().snapshot()
        })
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
        self.store.storage()
    }

    fn table(&self) -> &SegmentTable {
        self.store.table()
    }

    fn inherited(&self) -> Option<Arc<Inherited>> {
        self.store.inherited()
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
        Ok(self.limit_now(visibility))
    }

    fn watermarks(&self) -> Result<Watermarks> {
        Ok(self.watermarks())
    }

    /// A writer reads what it wrote.
    fn read_visibility(&self) -> Visibility {
        Visibility::Appended
    }

    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
        Ok(entry
            .sealed_info()
            .map(|info| info.durable_bytes)
            .or(segment.closed_end())
            .unwrap_or_default())
    }

    fn refresh(&self) -> Result<()> {
        // What others do with inherited segments is not announced.
        if let Some(inherited) = self.store.inherited() {
            inherited.forget();
        }
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
        self.tiers.bring_back(segment_id)
    }

    fn prefetch(&self, segment_id: SegmentId, if_space: bool) {
        self.tiers.prefetch(segment_id, if_space);
    }
}
