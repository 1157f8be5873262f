//! Reading records one after the other, across segments, up to the limit of what
//! the reader may see.
//!
//! `seek` finds where to begin, `enter` gets into a segment and `windowed` into one
//! that is read by windows, `step` goes on from record to record, and `damage` says what cannot be read and
//! moves behind it. `read_one` is for a single record.

mod damage;
mod enter;
mod read_one;
mod seek;
mod step;
mod windowed;

use std::ops::Range;
use std::sync::Arc;

use super::scan::{OnCorruption, ScanOptions};
use super::segments::Segments;
use super::skipped::{SkipReason, Skipped};
use super::source::{Limit, Source, Visibility};
use crate::error::{AofError, Result};
use crate::format::RecordId;
use crate::segment::Segment;
use crate::store::ReadAhead;
use crate::store::SegmentEntry;
use crate::sync::Position;
use windowed::{Announced, Manner};

/// Where to start reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first record that still exists.
    #[default]
    Earliest,
    /// Behind the last record visible now.
    Latest,
    /// This logical offset.
    Offset(u64),
    /// This record.
    Id(RecordId),
    /// The first record whose timestamp is at or after this one, in milliseconds.
    Timestamp(u64),
}

/// A place between two records.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) visibility: Visibility,
    verify: bool,
    /// Whether a window that cannot be read is passed over where reading begins.
    passes_damage: bool,
    /// What was passed over.
    skipped: Skipped,
    /// A gap that was passed over and not told yet: it is told together with the record
    /// behind it.
    gap: Option<Range<u64>>,
    here: Option<Here>,
    /// Logical offset of the next record, where it is known.
    offset: u64,
    limit: Limit,
    manner: Manner,
    /// What the source of the next segment was told to fetch.
    announced: Option<Announced>,
}

#[derive(Debug)]
struct Here {
    entry: Arc<SegmentEntry>,
    /// The segment, or the window of it that is read.
    segment: Arc<Segment>,
    position: u32,
    /// Where the next windows come from, if the segment is read by windows.
    ahead: Option<ReadAhead>,
    /// Whether all windows so far were read.
    is_from_start: bool,
    has_announced: bool,
}

/// An opened segment, or window of it.
struct Spot {
    entry: Arc<SegmentEntry>,
    segment: Arc<Segment>,
    ahead: Option<ReadAhead>,
    /// Logical offsets that were passed over to get there.
    passed: Option<Range<u64>>,
}

/// What a lookup in a segment is for: which window it needs.
#[derive(Clone, Copy, Debug)]
enum Want {
    Start,
    Position(u32),
    Offset(u64),
    Timestamp(u64),
}

impl Cursor {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        visibility: Visibility,
        verify: bool,
        start: Start,
    ) -> Result<Self> {
        let mut cursor = Self::nowhere(source, visibility, verify)?;
        cursor.seek(start)?;
        Ok(cursor)
    }

    /// One that gives what is in memory, asks for what is not, and waits for nothing.
    pub(crate) fn trying(
        source: Arc<dyn Source>,
        visibility: Visibility,
        start: Start,
    ) -> Result<Self> {
        let mut cursor = Self::nowhere(source, visibility, true)?;
        cursor.manner.waits = false;
        cursor.seek(start)?;
        Ok(cursor)
    }

    /// One for a scan. If that goes on behind damage, it may begin there, too.
    pub(crate) fn for_scan(source: Arc<dyn Source>, options: &ScanOptions) -> Result<Self> {
        let mut cursor = Self::nowhere(source, options.visibility, options.verify_checksums)?;
        cursor.manner.hydrate = options.hydrate;
        cursor.passes_damage = options.on_corruption == OnCorruption::Skip;
        match options.start {
            Start::Offset(offset) => cursor.skipped.want_from(offset),
            Start::Latest => cursor.skipped.want_from(cursor.limit.next_offset),
            Start::Earliest | Start::Id(_) | Start::Timestamp(_) => {}
        }
        let mut start = options.start;
        if !cursor.passes_damage {
            cursor.seek(start)?;
            return Ok(cursor);
        }
        loop {
            match cursor.seek(start) {
                Err(error @ AofError::Corrupt(_)) => {
                    start = cursor.behind_damaged_segment(start).ok_or(error)?;
                }
                done => return done.map(|()| cursor),
            }
        }
    }

    /// Where to start instead, if all of the segment is damaged that this start lies in.
    fn behind_damaged_segment(&mut self, start: Start) -> Option<Start> {
        let segments = self.segments();
        let offset = match start {
            Start::Earliest => segments.earliest(),
            Start::Offset(offset) => offset,
            _ => return None,
        };
        let damaged = segments.find_offset(offset).ok()?;
        let damaged = damaged.filter(|entry| self.is_unreadable(entry))?;
        let behind = damaged.end_offset()?.min(self.limit.next_offset);
        if behind <= offset {
            return None;
        }
        self.skipped.note(offset..behind, SkipReason::Damaged);
        Some(Start::Offset(behind))
    }

    fn nowhere(source: Arc<dyn Source>, visibility: Visibility, verify: bool) -> Result<Self> {
        source.check()?;
        let limit = source.limit(visibility)?;
        Ok(Self {
            source,
            visibility,
            verify,
            passes_damage: false,
            skipped: Skipped::default(),
            gap: None,
            here: None,
            offset: 0,
            limit,
            manner: Manner::default(),
            announced: None,
        })
    }

    /// The segments that it reads.
    pub(super) fn segments(&self) -> Segments<'_> {
        Segments::of(&*self.source)
    }

    /// What was passed over before the record that was read last.
    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Nothing from this offset on was asked for.
    pub(crate) fn want_until(&mut self, end: u64) {
        self.skipped.want_until(end);
    }

    /// Counts a gap that was passed over.
    #[inline]
    pub(crate) fn note_gap(&mut self) {
        if let Some(gap) = self.gap.take() {
            self.skipped.note(gap, SkipReason::Lost);
        }
    }

    fn note_passed(&mut self, passed: Option<Range<u64>>) {
        if let Some(passed) = passed {
            self.skipped.note(passed, SkipReason::Damaged);
        }
    }

    /// Logical offset of the next record.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The id that the next record has if it lies in this segment.
    pub(crate) fn next_id(&self) -> Option<RecordId> {
        self.here.as_ref().map(|here| here.segment.meta().record_id(here.position))
    }

    pub(crate) fn is_before(&self, end: u32) -> bool {
        self.here.as_ref().is_some_and(|here| here.position < end)
    }

    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        self.here.as_ref().map(|h| &h.segment)
    }

    /// First logical offset behind the limit.
    pub(crate) fn end_offset(&self) -> u64 {
        self.limit.next_offset
    }

    pub(crate) fn position(&self) -> Position {
        self.limit.position
    }
}
