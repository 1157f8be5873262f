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
    source: &'a dyn Source,
    inherited: Option<Arc<Inherited>>,
}

impl<'a> Segments<'a> {
    pub(crate) fn of(source: &'a dyn Source) -> Self {
        let inherited = source.inherited().filter(|inherited| !inherited.is_empty());
        Self { source, inherited }
    }

    /// Looks in what is inherited if that has what is looked for, and in the log's own
    /// segments otherwise.
    fn look<T>(
        &self,
        has: impl Fn(&Inherited) -> bool,
        in_inherited: impl Fn(&[Arc<SegmentEntry>]) -> T,
        in_own: impl Fn(&SegmentTable) -> T,
    ) -> Result<T> {
        let holding = |of: &Self| of.inherited.clone().filter(|inherited| has(inherited));
        let Some(inherited) = holding(self) else { return Ok(in_own(self.source.table())) };
        if let Some(entries) = inherited.current_entries()? {
            return Ok(in_inherited(&entries));
        }
        self.source.refresh()?;
        match holding(&Self::of(self.source)) {
            Some(inherited) => Ok(in_inherited(&inherited.entries()?)),
            None => Ok(in_own(self.source.table())),
        }
    }

    pub(crate) fn find(&self, segment_index: u32) -> Result<Option<Arc<SegmentEntry>>> {
        self.look(
            |inherited| inherited.has(segment_index),
            |entries| {
                let index = |e: &Arc<SegmentEntry>| e.meta.segment_id.as_u32();
                let at = entries.binary_search_by_key(&segment_index, index);
                at.ok().and_then(|at| entries.get(at)).cloned()
            },
            |own| own.find(segment_index),
        )
    }

    /// First one whose number is larger.
    pub(crate) fn after(&self, segment_index: u32) -> Result<Option<Arc<SegmentEntry>>> {
        self.look(
            |inherited| inherited.has(segment_index.saturating_add(1)),
            |entries| {
                let at = entries.partition_point(|e| e.meta.segment_id.as_u32() <= segment_index);
                entries.get(at).cloned().or_else(|| self.source.table().first())
            },
            |own| own.after(segment_index),
        )
    }

    /// The last one that starts at or before this logical offset.
    pub(crate) fn find_offset(&self, offset: u64) -> Result<Option<Arc<SegmentEntry>>> {
        self.look(
            |inherited| inherited.has_offset(offset),
            |entries| {
                let at = entries.partition_point(|e| e.meta.first_offset <= offset);
                at.checked_sub(1).and_then(|at| entries.get(at)).cloned()
            },
            |own| own.find_offset(offset),
        )
    }

    /// Number and first logical offset of the first one. Nothing is looked for.
    pub(crate) fn first(&self) -> Option<(SegmentId, u64)> {
        match &self.inherited {
            Some(inherited) => Some(inherited.lineage().first()),
            None => {
                let first = self.source.table().first();
                first.map(|e| (e.meta.segment_id, e.meta.first_offset))
            }
        }
    }

    /// First logical offset that still exists.
    pub(crate) fn earliest(&self) -> u64 {
        match &self.inherited {
            Some(inherited) => inherited.lineage().first().1,
            None => self.source.table().earliest(),
        }
    }

    pub(crate) fn last(&self) -> Result<Option<Arc<SegmentEntry>>> {
        match self.source.table().last() {
            Some(last) => Ok(Some(last)),
            None => self.look(|_| true, |entries| entries.last().cloned(), |own| own.last()),
        }
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Arc<SegmentEntry>>> {
        self.look(
            |_| true,
            |entries| {
                let own = self.source.table().snapshot();
                entries.iter().cloned().chain(own).collect()
            },
            |own| own.snapshot(),
        )
    }
}
