//! Finding where to read: by offset, id and time.

use std::sync::Arc;

use super::read_one::past_end;
use super::{Cursor, Spot, Start, Want};
use crate::error::{AofError, Result};
use crate::format::RecordId;
use crate::segment::Segment;
use crate::store::SegmentEntry;
use crate::store::stored_index;

impl Cursor {
    pub(super) fn seek(&mut self, start: Start) -> Result<()> {
        match start {
            Start::Earliest => self.seek_earliest(),
            Start::Latest => self.seek_offset(self.limit.next_offset),
            Start::Offset(offset) => self.seek_offset(offset),
            Start::Id(id) => self.seek_id(id).map_err(|error| self.explain_missing(id, error)),
            Start::Timestamp(ms) => self.seek_timestamp(ms),
        }
    }

    /// Retention may be at work: then the log begins later by the time we get there.
    fn seek_earliest(&mut self) -> Result<()> {
        let mut earliest = self.segments().earliest();
        loop {
            match self.seek_offset(earliest) {
                Err(AofError::Trimmed { earliest: later }) if later > earliest => {
                    earliest = later;
                    self.limit = self.source.limit(self.visibility)?;
                }
                done => return done,
            }
        }
    }

    pub(super) fn seek_offset(&mut self, offset: u64) -> Result<()> {
        let earliest = self.segments().earliest();
        if offset < earliest {
            return Err(AofError::Trimmed { earliest });
        }
        if offset > self.limit.next_offset {
            return Err(past_end(&*self.source, offset, self.limit.next_offset, self.visibility));
        }
        self.offset = offset;
        let Some(entry) = self.segments().find_offset(offset)? else {
            self.here = None;
            return Ok(());
        };
        let is_end = offset == self.limit.next_offset;
        let opened = match self.open(Arc::clone(&entry), Want::Offset(offset)) {
            // None of its records is asked for.
            Err(AofError::Corrupt(_)) if is_end && self.passes_segment(&entry) => {
                self.here = None;
                return Ok(());
            }
            // It had no record, and the next writer removed it.
            Err(AofError::Trimmed { earliest }) if is_end && earliest <= offset => {
                self.here = None;
                return Ok(());
            }
            opened => opened?,
        };
        let Spot { entry, segment, ahead, passed } = opened;
        self.note_passed(passed);
        let end = self.readable_end(&entry, &segment)?;
        if offset > entry.meta.first_offset {
            self.recall(&entry, &segment);
        }
        let found = segment.find_offset(offset, end, self.source.remembers());
        let point = self.located(&segment, end, found)?;
        self.enter(entry, segment, ahead, point);
        Ok(())
    }

    fn seek_id(&mut self, id: RecordId) -> Result<()> {
        let entry = self.find_entry(id)?;
        let want = Want::Position(id.segment_offset());
        let Spot { entry, segment, ahead, .. } = self.open(entry, want)?;
        let end = self.readable_end(&entry, &segment)?;
        self.recall(&entry, &segment);
        let found = segment.find_position(id.segment_offset(), end, self.source.remembers());
        let point = self.located(&segment, end, found)?;
        if point.position != id.segment_offset() || !self.limit.position.covers(id) {
            return Err(AofError::NoSuchRecord(id));
        }
        self.enter(entry, segment, ahead, point);
        Ok(())
    }

    /// Starts over behind what retention removes meanwhile.
    fn seek_timestamp(&mut self, timestamp_ms: u64) -> Result<()> {
        let mut earliest = 0;
        loop {
            match self.seek_timestamp_from(earliest, timestamp_ms) {
                Err(AofError::Trimmed { earliest: later }) if later > earliest => {
                    earliest = later;
                    self.limit = self.source.limit(self.visibility)?;
                }
                done => return done,
            }
        }
    }

    fn seek_timestamp_from(&mut self, earliest: u64, timestamp_ms: u64) -> Result<()> {
        for entry in self.segments().all()? {
            let too_old = entry.sealed_info().is_some_and(|s| s.last_timestamp_ms < timestamp_ms);
            let gone = entry.end_offset().is_some_and(|end| end <= earliest);
            if too_old || gone || entry.damage.is_some() {
                continue;
            }
            let want = Want::Timestamp(timestamp_ms);
            let Spot { entry, segment, ahead, passed } = match self.open(Arc::clone(&entry), want) {
                Err(AofError::Corrupt(_)) if self.passes_segment(&entry) => {
                    continue;
                }
                opened => opened?,
            };
            if passed.is_some() {
                self.note_passed(passed);
                let behind = segment.first_point();
                self.enter(entry, segment, ahead, behind);
                return Ok(());
            }
            let end = self.readable_end(&entry, &segment)?;
            self.recall(&entry, &segment);
            let found = segment.find_timestamp(timestamp_ms, end, self.source.remembers());
            let point = self.located(&segment, end, found)?;
            if point.position < end {
                self.enter(entry, segment, ahead, point);
                return Ok(());
            }
        }
        self.seek_offset(self.limit.next_offset)
    }

    /// Takes up the stored index of a segment before a lookup in it. A window is short
    /// and knows where it starts.
    fn recall(&self, entry: &SegmentEntry, segment: &Segment) {
        if self.source.remembers() && segment.is_whole() {
            stored_index::load(self.source.storage(), entry, segment);
        }
    }
}
