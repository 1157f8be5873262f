//! Damage under a cursor: telling how far it goes, and moving behind it.

use std::ops::Range;
use std::sync::Arc;

use super::Cursor;
use crate::error::{AofError, Damage, Result};
use crate::format::{IndexPoint, RecordFault};
use crate::read::segments::Segments;
use crate::read::skipped::SkipReason;
use crate::segment::Segment;
use crate::store::ReadAhead;

impl Cursor {
    pub(super) fn note(&self, error: &AofError) {
        if matches!(error, AofError::Corrupt(_)) {
            self.source.note_corrupt();
        }
    }

    pub(super) fn located(
        &self,
        segment: &Segment,
        end: u32,
        found: Result<IndexPoint, (IndexPoint, RecordFault)>,
    ) -> Result<IndexPoint> {
        found.map_err(|(at, fault)| self.damage(segment, end, at.position, at.offset, &fault))
    }

    /// The error for a record that does not validate, with how far the damage goes.
    pub(super) fn damage(
        &self,
        segment: &Segment,
        end: u32,
        position: u32,
        offset: u64,
        fault: &RecordFault,
    ) -> AofError {
        self.source.note_corrupt();
        let records = self.damaged_range(segment, end, position, offset);
        let damage = Damage {
            path: segment.path().to_owned(),
            offset: u64::from(position),
            records,
            reason: fault.to_string(),
        };
        tracing::error!(%damage, "checksum mismatch");
        AofError::Corrupt(Box::new(damage))
    }

    fn damaged_range(&self, segment: &Segment, end: u32, position: u32, offset: u64) -> Range<u64> {
        match segment.resync_behind(position, end, offset) {
            Some((_, head)) => offset..head.logical_offset.unwrap_or(offset + 1).max(offset + 1),
            None => offset..u64::MAX,
        }
    }

    /// Moves behind damage: to the next record that validates in this segment, or
    /// to the next segment, and counts what was passed over.
    pub(crate) fn skip_damage(&mut self) -> Result<()> {
        let before = self.offset;
        self.pass_damage(before)?;
        self.skipped.note(before..self.offset, SkipReason::Damaged);
        Ok(())
    }

    fn pass_damage(&mut self, before: u64) -> Result<()> {
        let Some(here) = &mut self.here else { return self.pass_segment() };
        let window_end = here.segment.window_range().end;
        if let Some(ahead) = &mut here.ahead
            && here.position >= window_end
        {
            // The next window itself cannot be read.
            self.offset = ahead.skip().or(here.entry.end_offset()).unwrap_or(before + 1);
            here.position = window_end;
            return Ok(());
        }
        let end = {
            let limit = self.limit.position;
            match limit.segment_index() == here.entry.meta.segment_id.as_u32() {
                true => limit.end(),
                false => self.source.final_end(&here.entry, &here.segment)?,
            }
        };
        let end = end.min(window_end);
        match here.segment.resync_behind(here.position, end, before) {
            Some((at, head)) => {
                here.position = at;
                self.offset = head.logical_offset.unwrap_or(before + 1);
            }
            None if here.ahead.as_ref().is_some_and(|ahead| ahead.has_next()) => {
                here.position = end;
                let next = here.ahead.as_ref().and_then(ReadAhead::next_offset);
                self.offset = next.unwrap_or(before + 1);
            }
            None => {
                here.position = end;
                let next =
                    Segments::of(&*self.source).after(here.entry.meta.segment_id.as_u32())?;
                let behind = next.map(|e| e.meta.first_offset).filter(|&offset| offset > before);
                // Nothing follows: all that should be there is passed over.
                self.offset = behind.unwrap_or(self.limit.next_offset.max(before + 1));
            }
        }
        Ok(())
    }

    /// Passes over a whole segment that cannot be opened, and counts its records.
    pub(crate) fn skip_segment(&mut self) -> Result<()> {
        let before = self.offset;
        self.pass_segment()?;
        self.skipped.note(before..self.offset, SkipReason::Damaged);
        Ok(())
    }

    fn pass_segment(&mut self) -> Result<()> {
        let segments = self.segments();
        let damaged = match &self.here {
            Some(here) => segments.after(here.entry.meta.segment_id.as_u32())?,
            None => segments.find_offset(self.offset)?,
        };
        let Some(mut damaged) = damaged else { return Ok(()) };
        while let Some(entry) = self.segments().after(damaged.meta.segment_id.as_u32())? {
            match self.enter_start(Arc::clone(&entry)) {
                Err(AofError::Corrupt(_)) if self.is_unreadable(&entry) => damaged = entry,
                entered => return entered,
            }
        }
        // Nothing follows: all that should be there is passed over.
        self.offset = damaged.end_offset().unwrap_or(0).max(self.limit.next_offset);
        Ok(())
    }

    /// Whether the damage is that the next segment cannot be opened at all.
    pub(crate) fn next_segment_is_damaged(&self) -> bool {
        let segments = self.segments();
        let next = match &self.here {
            Some(here) => {
                let end = self.readable_end(&here.entry, &here.segment).unwrap_or(0);
                if here.position < end {
                    return false;
                }
                segments.after(here.entry.meta.segment_id.as_u32())
            }
            None => segments.find_offset(self.offset),
        };
        next.ok().flatten().is_some_and(|entry| self.is_unreadable(&entry))
    }
}
