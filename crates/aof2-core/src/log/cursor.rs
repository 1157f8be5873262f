//! Reading records one after the other, across segments, up to the limit of what
//! the reader may see.

mod away;

use std::ops::Range;
use std::sync::Arc;

use super::position::Position;
use super::read_ahead::ReadAhead;
use super::record::{Place, Record};
use super::scan::{OnCorruption, ScanOptions};
use super::source::{Limit, Source, Visibility};
use super::stored_index;
use super::table::{Opened, SegmentEntry};
use crate::error::{AofError, Damage, Result};
use crate::format::{
    FOOTER_PARTIAL, IndexPoint, RecordFault, RecordFlags, RecordId, SEGMENT_HEADER_LEN,
    SegmentFormat,
};
use crate::segment::Segment;
use away::{Announced, Manner};

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
    /// Logical offsets passed over like that.
    passed: u64,
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
    /// Where the next windows come from, if the segment is in another tier.
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
    passed: u64,
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
        let table = self.source.table();
        let offset = match start {
            Start::Earliest => table.earliest(),
            Start::Offset(offset) => offset,
            _ => return None,
        };
        let damaged = table.find_offset(offset).filter(|entry| entry.damage.is_some())?;
        let behind = damaged.end_offset()?.min(self.limit.next_offset);
        self.passed += behind.checked_sub(offset).filter(|&passed| passed > 0)?;
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
            passed: 0,
            here: None,
            offset: 0,
            limit,
            manner: Manner::default(),
            announced: None,
        })
    }

    /// Logical offsets that were passed over because reading would have begun in them.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Logical offset of the next record.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    fn seek(&mut self, start: Start) -> Result<()> {
        match start {
            Start::Earliest => self.seek_earliest(),
            Start::Latest => self.seek_offset(self.limit.next_offset),
            Start::Offset(offset) => self.seek_offset(offset),
            Start::Id(id) => self.seek_id(id),
            Start::Timestamp(ms) => self.seek_timestamp(ms),
        }
    }

    /// Retention may be at work: then the log begins later by the time we get there.
    fn seek_earliest(&mut self) -> Result<()> {
        let mut earliest = self.source.table().earliest();
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

    fn seek_offset(&mut self, offset: u64) -> Result<()> {
        let earliest = self.source.table().earliest();
        if offset < earliest {
            return Err(AofError::Trimmed { earliest });
        }
        if offset > self.limit.next_offset {
            return Err(AofError::PastEnd { offset, end: self.limit.next_offset });
        }
        self.offset = offset;
        let Some(entry) = self.source.table().find_offset(offset) else {
            self.here = None;
            return Ok(());
        };
        let Spot { entry, segment, ahead, passed } = self.open(entry, Want::Offset(offset))?;
        self.passed += passed;
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
        for entry in self.source.table().snapshot() {
            let too_old = entry.sealed_info().is_some_and(|s| s.last_timestamp_ms < timestamp_ms);
            let gone = entry.end_offset().is_some_and(|end| end <= earliest);
            if too_old || gone || entry.damage.is_some() {
                continue;
            }
            let want = Want::Timestamp(timestamp_ms);
            let Spot { entry, segment, ahead, passed } = self.open(entry, want)?;
            if passed > 0 {
                self.passed += passed;
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

    fn enter(
        &mut self,
        entry: Arc<SegmentEntry>,
        segment: Arc<Segment>,
        ahead: Option<ReadAhead>,
        point: IndexPoint,
    ) {
        self.offset = point.offset;
        let position = point.position;
        let is_from_start = position == SEGMENT_HEADER_LEN as u32;
        let has_announced = false;
        self.here = Some(Here { entry, segment, position, ahead, is_from_start, has_announced });
    }

    /// Stands before the first record of a segment.
    fn enter_start(&mut self, entry: Arc<SegmentEntry>) -> Result<()> {
        let Spot { entry, segment, ahead, passed } = self.open(entry, Want::Start)?;
        self.passed += passed;
        let first = segment.first_point();
        self.enter(entry, segment, ahead, first);
        self.announce_if_short();
        Ok(())
    }

    /// The segment an id points into; `Trimmed` when it is gone.
    fn find_entry(&self, id: RecordId) -> Result<Arc<SegmentEntry>> {
        let table = self.source.table();
        if let Some(entry) = table.find(id.segment_index()) {
            return Ok(entry);
        }
        match table.first() {
            Some(first) if id.segment_index() < first.meta.segment_id.as_u32() => {
                Err(AofError::Trimmed { earliest: first.meta.first_offset })
            }
            _ => Err(AofError::NoSuchRecord(id)),
        }
    }

    /// The segment, or the window of it that is wanted. The entry may be a newer one: the
    /// segment may have moved to another tier since it was looked up.
    fn open(&mut self, entry: Arc<SegmentEntry>, want: Want) -> Result<Spot> {
        match self.open_now(Arc::clone(&entry), want) {
            Err(error) if error.is_object_gone() => self.open_elsewhere(&entry, want, error),
            done => done,
        }
    }

    /// Its object is gone: replaced by another, or removed by retention.
    fn open_elsewhere(
        &mut self,
        entry: &Arc<SegmentEntry>,
        want: Want,
        error: AofError,
    ) -> Result<Spot> {
        self.source.refresh()?;
        let table = self.source.table();
        match table.find(entry.meta.segment_id.as_u32()) {
            Some(moved) if !Arc::ptr_eq(&moved, entry) => self.open_now(moved, want),
            None if table.earliest() > entry.meta.first_offset => {
                Err(AofError::Trimmed { earliest: table.earliest() })
            }
            _ => Err(error),
        }
    }

    fn open_now(&mut self, entry: Arc<SegmentEntry>, want: Want) -> Result<Spot> {
        let (entry, opened) = self.open_copy(entry)?;
        let (entry, opened) = self.bring_back(entry, opened)?;
        match opened {
            Opened::Whole(segment) => Ok(Spot { entry, segment, ahead: None, passed: 0 }),
            Opened::Away(artifact) => self.open_away(entry, artifact, want),
        }
    }

    /// Whether a damaged window is passed over. Whoever asks for a certain record is told.
    fn passes(&self, want: &Want) -> bool {
        self.passes_damage && !matches!(want, Want::Position(_))
    }

    fn open_copy(&self, entry: Arc<SegmentEntry>) -> Result<(Arc<SegmentEntry>, Opened)> {
        let (table, storage) = (self.source.table(), self.source.storage());
        let error = match table.open(storage, &entry) {
            Ok(opened) => return Ok((entry, opened)),
            Err(error) => error,
        };
        let is_gone = matches!(error, AofError::Trimmed { .. })
            || error.io_source().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        if !is_gone {
            self.note(&error);
            return Err(error);
        }
        // Its file is gone; only a new look tells where it is now, and which others are.
        self.source.refresh()?;
        match table.find(entry.meta.segment_id.as_u32()) {
            Some(moved) if !Arc::ptr_eq(&moved, &entry) => {
                let opened = table.open(storage, &moved)?;
                Ok((moved, opened))
            }
            _ => Err(match error {
                AofError::Trimmed { earliest } => {
                    AofError::Trimmed { earliest: earliest.max(table.earliest()) }
                }
                error => error,
            }),
        }
    }

    fn note(&self, error: &AofError) {
        if matches!(error, AofError::Corrupt(_)) {
            self.source.note_corrupt();
        }
    }

    /// End of what may be read in a segment.
    fn readable_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
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

    fn located(
        &self,
        segment: &Segment,
        end: u32,
        found: Result<IndexPoint, (IndexPoint, RecordFault)>,
    ) -> Result<IndexPoint> {
        found.map_err(|(at, fault)| self.damage(segment, end, at.position, at.offset, &fault))
    }

    /// The error for a record that does not validate, with how far the damage goes.
    fn damage(
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

    /// At the end: everything that should be there must have been passed.
    fn check_complete(&self) -> Result<()> {
        if self.offset >= self.limit.next_offset {
            return Ok(());
        }
        self.source.note_corrupt();
        let path = match self.source.table().last() {
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
        if here.position > here.segment.window_range().end {
            return Ok(false);
        }
        let next = self.next_window().inspect_err(|error| self.note(error))?;
        let (Some(next), Some(here)) = (next, &mut self.here) else { return Ok(false) };
        let first = next.first_point();
        here.position = first.position;
        here.segment = next;
        self.offset = first.offset;
        Ok(true)
    }

    /// Moves into the next segment if the limit lies beyond this one.
    fn step_over(&mut self) -> Result<bool> {
        let table = self.source.table();
        let next = match &self.here {
            Some(here) => {
                let index = here.entry.meta.segment_id.as_u32();
                if self.limit.position.segment_index() <= index {
                    return Ok(false);
                }
                self.check_not_trimmed(index)?;
                table.after(index)
            }
            None if self.limit.next_offset > self.offset => table.find_offset(self.offset),
            None => None,
        };
        let Some(entry) = next else { return Ok(false) };
        if self.limit.position.segment_index() < entry.meta.segment_id.as_u32() {
            return Ok(false);
        }
        if entry.damage.is_some() && entry.end_offset().is_some_and(|end| end <= self.offset) {
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
        match self.source.table().first() {
            Some(first) if first.meta.segment_id.as_u32() > index + 1 => {
                Err(AofError::Trimmed { earliest: first.meta.first_offset })
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
            return Ok(None);
        }
        self.offset = offset + 1;
        Ok(Some(Place {
            position,
            payload_len: record.head.payload_len,
            offset,
            timestamp_ms: record.head.timestamp_ms,
            flags: record.head.flags,
        }))
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

    /// Moves behind damage: to the next record that validates in this segment, or
    /// to the next segment. Returns how many logical offsets were passed over, if
    /// known.
    pub(crate) fn skip_damage(&mut self) -> Result<u64> {
        let before = self.offset;
        let Some(here) = &mut self.here else { return self.skip_segment() };
        let window_end = here.segment.window_range().end;
        if let Some(ahead) = &mut here.ahead
            && here.position >= window_end
        {
            // The next window itself cannot be read.
            self.offset = ahead.skip().or(here.entry.end_offset()).unwrap_or(before + 1);
            here.position = window_end;
            return Ok(self.offset.saturating_sub(before));
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
                let next = self.source.table().after(here.entry.meta.segment_id.as_u32());
                let behind = next.map(|e| e.meta.first_offset).filter(|&offset| offset > before);
                // Nothing follows: all that should be there is passed over.
                self.offset = behind.unwrap_or(self.limit.next_offset.max(before + 1));
            }
        }
        Ok(self.offset.saturating_sub(before))
    }

    /// Passes over a whole segment that cannot be opened.
    pub(crate) fn skip_segment(&mut self) -> Result<u64> {
        let before = self.offset;
        let table = self.source.table();
        let damaged = match &self.here {
            Some(here) => table.after(here.entry.meta.segment_id.as_u32()),
            None => table.find_offset(self.offset),
        };
        let Some(damaged) = damaged else { return Ok(0) };
        let Some(entry) = table.after(damaged.meta.segment_id.as_u32()) else {
            // Nothing follows: all that should be there is passed over.
            self.offset = damaged.end_offset().unwrap_or(0).max(self.limit.next_offset);
            return Ok(self.offset.saturating_sub(before));
        };
        self.enter_start(entry)?;
        Ok(self.offset.saturating_sub(before))
    }

    /// Whether the damage is that the next segment cannot be opened at all.
    pub(crate) fn next_segment_is_damaged(&self) -> bool {
        let table = self.source.table();
        let next = match &self.here {
            Some(here) => {
                let end = self.readable_end(&here.entry, &here.segment).unwrap_or(0);
                if here.position < end {
                    return false;
                }
                table.after(here.entry.meta.segment_id.as_u32())
            }
            None => table.find_offset(self.offset),
        };
        next.is_some_and(|e| e.damage.is_some())
    }

    /// Reads one record by id.
    pub(crate) fn read_id(
        source: &Arc<dyn Source>,
        id: RecordId,
        visibility: Visibility,
    ) -> Result<Record> {
        Self::nowhere(Arc::clone(source), visibility, true)?.read_one(id)
    }

    /// The same without waiting for a window.
    pub(crate) fn try_read_id(
        source: &Arc<dyn Source>,
        id: RecordId,
        visibility: Visibility,
    ) -> Result<Record> {
        let mut cursor = Self::nowhere(Arc::clone(source), visibility, true)?;
        cursor.manner.waits = false;
        cursor.read_one(id)
    }

    fn read_one(&mut self, id: RecordId) -> Result<Record> {
        let cursor = self;
        let limit = cursor.limit;
        let entry = cursor.find_entry(id)?;
        let position = id.segment_offset();
        if !limit.position.covers(id)
            || !position.is_multiple_of(8)
            || position < SEGMENT_HEADER_LEN as u32
        {
            return Err(AofError::NoSuchRecord(id));
        }
        let Spot { entry, segment, .. } = cursor.open(entry, Want::Position(position))?;
        let end = cursor.readable_end(&entry, &segment)?;
        let fault = match segment.record_at(position, end, true) {
            Ok(Some(record)) if record.gap().is_none() => {
                let offset = match record.head.logical_offset {
                    Some(offset) => offset,
                    None => cursor.ordinal(&segment, position, end)?,
                };
                let place = Place {
                    position,
                    payload_len: record.head.payload_len,
                    offset,
                    timestamp_ms: record.head.timestamp_ms,
                    flags: record.head.flags,
                };
                return Ok(place.to_record(&segment));
            }
            Ok(_) => return Err(AofError::NoSuchRecord(id)),
            Err(fault) => fault,
        };
        // Damage only if a record starts here; otherwise the id is made up.
        let point = cursor.located(
            &segment,
            end,
            segment.find_position(position, end, cursor.source.remembers()),
        )?;
        if point.position != position {
            return Err(AofError::NoSuchRecord(id));
        }
        Err(cursor.damage(&segment, end, position, point.offset, &fault))
    }

    /// Version 1 records do not say which they are: count.
    fn ordinal(&self, segment: &Segment, position: u32, end: u32) -> Result<u64> {
        let found = segment.find_position(position, end, self.source.remembers());
        let point = self.located(segment, end, found)?;
        if point.position != position {
            return Err(AofError::NoSuchRecord(segment.meta().record_id(position)));
        }
        Ok(point.offset)
    }

    /// First logical offset behind the limit.
    pub(crate) fn end_offset(&self) -> u64 {
        self.limit.next_offset
    }

    pub(crate) fn position(&self) -> Position {
        self.limit.position
    }
}
