//! The segments that a reader of a log finds: those that the log has from its ancestors, if
//! it is a fork, and then its own.

use std::sync::Arc;

use super::source::Source;
use crate::error::Result;
use crate::format::SegmentId;
use crate::store::{Inherited, SegmentEntry, SegmentTable};

/// Lookups over both. Those that need an inherited segment may have to look for it, which
/// may fail.
pub(crate) struct Segments<'a> {
    own: &'a SegmentTable,
    inherited: Option<Arc<Inherited>>,
}

impl<'a> Segments<'a> {
    pub(crate) fn of(source: &'a dyn Source) -> Self {
        let inherited = source.inherited().filter(|inherited| !inherited.is_empty());
        Self { own: source.table(), inherited }
    }

    fn holding(&self, segment_index: u32) -> Option<&Inherited> {
        self.inherited.as_deref().filter(|inherited| inherited.has(segment_index))
    }

    pub(crate) fn find(&self, segment_index: u32) -> Result<Option<Arc<SegmentEntry>>> {
        let Some(inherited) = self.holding(segment_index) else {
            return Ok(self.own.find(segment_index));
        };
        let entries = inherited.entries()?;
        let at = entries.binary_search_by_key(&segment_index, |e| e.meta.segment_id.as_u32());
        Ok(at.ok().and_then(|at| entries.get(at)).cloned())
    }

    /// First one whose number is larger.
    pub(crate) fn after(&self, segment_index: u32) -> Result<Option<Arc<SegmentEntry>>> {
        let Some(inherited) = self.holding(segment_index.saturating_add(1)) else {
            return Ok(self.own.after(segment_index));
        };
        let entries = inherited.entries()?;
        let at = entries.partition_point(|e| e.meta.segment_id.as_u32() <= segment_index);
        Ok(entries.get(at).cloned().or_else(|| self.own.first()))
    }

    /// The last one that starts at or before this logical offset.
    pub(crate) fn find_offset(&self, offset: u64) -> Result<Option<Arc<SegmentEntry>>> {
        let inherited = self.inherited.as_deref().filter(|inherited| inherited.has_offset(offset));
        let Some(inherited) = inherited else { return Ok(self.own.find_offset(offset)) };
        let entries = inherited.entries()?;
        let at = entries.partition_point(|e| e.meta.first_offset <= offset);
        Ok(at.checked_sub(1).and_then(|at| entries.get(at)).cloned())
    }

    /// Number and first logical offset of the first one. Nothing is looked for.
    pub(crate) fn first(&self) -> Option<(SegmentId, u64)> {
        match &self.inherited {
            Some(inherited) => Some(inherited.lineage().first()),
            None => self.own.first().map(|e| (e.meta.segment_id, e.meta.first_offset)),
        }
    }

    /// First logical offset that still exists.
    pub(crate) fn earliest(&self) -> u64 {
        match &self.inherited {
            Some(inherited) => inherited.lineage().first().1,
            None => self.own.earliest(),
        }
    }

    pub(crate) fn last(&self) -> Result<Option<Arc<SegmentEntry>>> {
        match (self.own.last(), &self.inherited) {
            (None, Some(inherited)) => Ok(inherited.entries()?.last().cloned()),
            (last, _) => Ok(last),
        }
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Arc<SegmentEntry>>> {
        let Some(inherited) = &self.inherited else { return Ok(self.own.snapshot()) };
        let mut all = inherited.entries()?.to_vec();
        all.extend(self.own.snapshot());
        Ok(all)
    }
}
