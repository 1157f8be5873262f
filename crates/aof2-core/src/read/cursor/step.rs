//! From one record to the next: through windows and segments, up to the limit.

use std::ops::Range;
use std::sync::Arc;

use super::Cursor;
use crate::error::{AofError, Damage, Result};
use crate::format::{FOOTER_PARTIAL, RecordFault, RecordFlags, SEGMENT_HEADER_LEN, SegmentFormat};
use crate::read::record::Place;
use crate::segment::Segment;
use crate::store::SegmentEntry;

impl Cursor {
    /// The next record, verified; `None` at the limit. Looks at the limit again
    /// only when it reaches the old one.
    pub(crate) fn next_place(&mut self) -> Result<Option<(Arc<Segment>, Place)>> {
        loop {
            let Some(end) = self.readable_here()? else { return Ok(None) };
            if let Some(place) = self.take_place(end)? {
                let Some(here) = &self.here else { return Ok(None) };
                return Ok(Some((Arc::clone(&here.segment), place)));
            }
        }
    }

    /// Makes sure that the cursor stands before a readable record and returns the
    /// end of what is readable in its segment.
    pub(crate) fn readable_here(&mut self) -> Result<Option<u32>> {
        let mut looked_again = false;
        loop {
            if let Some(here) = &self.here {
                let end = self.readable_end(&here.entry, &here.segment)?;
                if here.position < end {
                    return Ok(Some(end));
                }
            }
            if self.step_window()? || self.step_over()? {
                continue;
            }
            if looked_again {
                return self.check_complete().map(|()| None);
            }
            self.limit = self.source.limit(self.visibility)?;
            looked_again = true;
        }
    }

    /// End of what may be read in a segment.
    pub(super) fn readable_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
        let index = entry.meta.segment_id.as_u32();
        let limit = self.limit.position;
        let end = match limit.segment_index().cmp(&index) {
            std::cmp::Ordering::Less => SEGMENT_HEADER_LEN as u32,
            std::cmp::Ordering::Equal => limit.end(),
            std::cmp::Ordering::Greater => self.source.final_end(entry, segment)?,
        };
        let end = end.min(segment.window_range().end);
        // For a map of this process's own writer this changes nothing.
        segment.observe(end).map_err(|e| AofError::io("read segment", &entry.path)(e.into()))?;
        Ok(end)
    }

    /// At the end: everything that should be there must have been passed.
    fn check_complete(&self) -> Result<()> {
        if self.offset >= self.limit.next_offset {
            return Ok(());
        }
        self.source.note_corrupt();
        let path = match self.segments().last()? {
            Some(last) => last.path.clone(),
            None => std::path::PathBuf::from("segments"),
        };
        Err(AofError::Corrupt(Box::new(Damage {
            path,
            offset: 0,
            records: self.offset..self.limit.next_offset,
            reason: "records that had been durable are missing behind this segment".into(),
        })))
    }

    /// Moves into the next window of a segment that is read by windows.
    fn step_window(&mut self) -> Result<bool> {
        let Some(here) = &self.here else { return Ok(false) };
        // Whoever passed over the rest of the segment needs none of its windows.
        let window_end = here.segment.window_range().end;
        if here.position > window_end || here.entry.is_cut_before(window_end) {
            return Ok(false);
        }
        let next = match self.next_window() {
            // What was read of the segment so far came from a copy that is gone by now.
            Err(error) if error.is_copy_gone() => {
                self.source.refresh()?;
                return self.seek_offset(self.offset).map(|()| true);
            }
            next => next.inspect_err(|error| self.note(error))?,
        };
        let (Some(next), Some(here)) = (next, &mut self.here) else { return Ok(false) };
        let first = next.first_point();
        here.position = first.position;
        here.segment = next;
        self.offset = first.offset;
        Ok(true)
    }

    /// Moves into the next segment if the limit lies beyond this one.
    fn step_over(&mut self) -> Result<bool> {
        let segments = self.segments();
        let next = match &self.here {
            Some(here) => {
                let index = here.entry.meta.segment_id.as_u32();
                if self.limit.position.segment_index() <= index {
                    return Ok(false);
                }
                self.check_not_trimmed(index)?;
                segments.after(index)?
            }
            None if self.limit.next_offset > self.offset => segments.find_offset(self.offset)?,
            None => None,
        };
        let Some(entry) = next else { return Ok(false) };
        if self.limit.position.segment_index() < entry.meta.segment_id.as_u32() {
            return Ok(false);
        }
        if entry.end_offset().is_some_and(|end| end <= self.offset) && self.is_unreadable(&entry) {
            // Passed over.
            return Ok(false);
        }
        if self.limit.position.end() == 0
            && self.limit.position.segment_index() == entry.meta.segment_id.as_u32()
        {
            return Ok(false);
        }
        self.enter_start(entry)?;
        Ok(true)
    }

    /// Retention may have removed the successor while this segment was read.
    fn check_not_trimmed(&self, index: u32) -> Result<()> {
        match self.segments().first() {
            Some((first, earliest)) if first.as_u32() > index + 1 => {
                Err(AofError::Trimmed { earliest })
            }
            _ => Ok(()),
        }
    }

    /// Reads the record under the cursor and moves behind it. `None` for a gap.
    #[inline]
    pub(crate) fn take_place(&mut self, end: u32) -> Result<Option<Place>> {
        let Some(here) = &mut self.here else { return Ok(None) };
        let position = here.position;
        let record = match here.segment.record_at(position, end, self.verify) {
            Ok(Some(record)) => record,
            Ok(None) => {
                let fault =
                    RecordFault::Truncated { needed: 8, available: u64::from(end - position) };
                let segment = Arc::clone(&here.segment);
                return Err(self.damage(&segment, end, position, self.offset, &fault));
            }
            Err(fault) => {
                let segment = Arc::clone(&here.segment);
                return Err(self.damage(&segment, end, position, self.offset, &fault));
            }
        };
        here.position = position + record.head.record_len;
        let offset = record.head.logical_offset.unwrap_or(self.offset);
        if record.head.flags.contains(RecordFlags::GAP)
            && let Some(gap) = record.gap()
        {
            self.offset = offset.saturating_add(gap.lost_count);
            self.note_gap();
            self.gap = Some(offset..self.offset);
            return Ok(None);
        }
        let place = Place {
            position,
            payload_len: record.head.payload_len,
            offset,
            timestamp_ms: record.head.timestamp_ms,
            flags: record.head.flags,
        };
        self.offset = offset + 1;
        self.note_gap();
        Ok(Some(place))
    }

    /// Logical offsets that certainly exist from here to the end of this segment, and
    /// moves behind them: a footer vouches for them, and no repair took some away.
    /// `None` where only walking tells.
    pub(crate) fn take_vouched(&mut self) -> Option<Range<u64>> {
        let here = self.here.as_mut()?;
        let info = here.entry.sealed_info().filter(|info| info.from_footer)?;
        let is_full = here.entry.meta.format == SegmentFormat::Full;
        let behind_limit =
            self.limit.position.segment_index() > here.entry.meta.segment_id.as_u32();
        if !is_full || info.flags & FOOTER_PARTIAL != 0 || !behind_limit {
            return None;
        }
        let offsets = self.offset..here.entry.end_offset()?;
        here.position = info.durable_bytes;
        self.offset = offsets.end;
        (!offsets.is_empty()).then_some(offsets)
    }
}
