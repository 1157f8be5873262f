//! Getting into a segment wherever it is now: it may move or go while it is opened.

use std::sync::Arc;

use super::{Cursor, Here, Spot, Want};
use crate::error::{AofError, Result};
use crate::format::{IndexPoint, RecordId, SEGMENT_HEADER_LEN};
use crate::segment::Segment;
use crate::store::ReadAhead;
use crate::store::{Opened, SegmentEntry};

impl Cursor {
    /// The segment an id points into; `Trimmed` when it is gone.
    pub(super) fn find_entry(&self, id: RecordId) -> Result<Arc<SegmentEntry>> {
        let segments = self.segments();
        if let Some(entry) = segments.find(id.segment_index())? {
            // What its origin wrote behind the cut has the numbers of a log that is not ours.
            return match entry.is_cut_before(id.segment_offset()) {
                true => Err(AofError::NoSuchRecord(id)),
                false => Ok(entry),
            };
        }
        match segments.first() {
            Some((first, earliest)) if id.segment_index() < first.as_u32() => {
                Err(AofError::Trimmed { earliest })
            }
            _ => Err(AofError::NoSuchRecord(id)),
        }
    }

    /// The segment, or the window of it that is wanted. The entry may be a newer one: the
    /// segment may have moved to another tier since it was looked up.
    pub(super) fn open(&mut self, entry: Arc<SegmentEntry>, want: Want) -> Result<Spot> {
        match self.open_now(Arc::clone(&entry), want) {
            Err(error) if error.is_copy_gone() => self.open_elsewhere(&entry, want, error),
            done => done,
        }
    }

    /// Its object or its file is gone: replaced by another, or removed by retention. A file
    /// may also have left the segment's entry here, for another copy.
    fn open_elsewhere(
        &mut self,
        entry: &Arc<SegmentEntry>,
        want: Want,
        error: AofError,
    ) -> Result<Spot> {
        self.source.refresh()?;
        let earliest = self.segments().earliest();
        match self.segments().find(entry.meta.segment_id.as_u32())? {
            Some(moved) if !Arc::ptr_eq(&moved, entry) || error.is_file_gone() => {
                self.open_now(moved, want)
            }
            None if earliest > entry.meta.first_offset => Err(AofError::Trimmed { earliest }),
            _ => Err(error),
        }
    }

    fn open_now(&mut self, entry: Arc<SegmentEntry>, want: Want) -> Result<Spot> {
        let (entry, opened) = self.open_copy(entry)?;
        let (entry, opened) = self.bring_back(entry, opened)?;
        match opened {
            Opened::Whole(segment) => Ok(Spot { entry, segment, ahead: None, passed: None }),
            Opened::ByWindows(artifact) => self.open_windowed(entry, artifact, want),
        }
    }

    pub(super) fn open_copy(
        &self,
        entry: Arc<SegmentEntry>,
    ) -> Result<(Arc<SegmentEntry>, Opened)> {
        let (table, storage) = (self.source.table(), self.source.storage());
        let error = match table.open(storage, &entry) {
            Ok(opened) => return Ok((entry, opened)),
            Err(error) => error,
        };
        if !matches!(error, AofError::Trimmed { .. }) && !error.is_file_gone() {
            self.note(&error);
            return Err(error);
        }
        // Its file is gone; only a new look tells where it is now, and which others are.
        self.source.refresh()?;
        match self.segments().find(entry.meta.segment_id.as_u32())? {
            Some(moved) if !Arc::ptr_eq(&moved, &entry) => {
                let opened = table.open(storage, &moved)?;
                Ok((moved, opened))
            }
            known => Err(self.explain_gone(&entry, known.is_some(), error)),
        }
    }

    /// Why the file of a segment is gone, after a new look: removed by retention, by this
    /// or another process, or lost, which is damage if it had records to be read.
    fn explain_gone(&self, entry: &SegmentEntry, is_known: bool, error: AofError) -> AofError {
        let (segments, limit) = (self.segments(), self.limit.next_offset);
        let end = entry.end_offset().unwrap_or(limit);
        let begins_behind =
            || segments.first().is_none_or(|(first, _)| first > entry.meta.segment_id);
        match error {
            AofError::Trimmed { earliest } => {
                AofError::Trimmed { earliest: earliest.max(segments.earliest()) }
            }
            _ if !is_known && begins_behind() => {
                AofError::Trimmed { earliest: end.max(segments.earliest()) }
            }
            _ if limit > entry.meta.first_offset => {
                let damage = entry.file_missing(end);
                self.note(&damage);
                damage
            }
            error => error,
        }
    }

    /// Whether a segment that cannot be read as a whole is passed over.
    pub(super) fn passes_segment(&self, entry: &SegmentEntry) -> bool {
        self.passes_damage && self.is_unreadable(entry)
    }

    /// Whether a segment as a whole cannot be read.
    pub(super) fn is_unreadable(&self, entry: &SegmentEntry) -> bool {
        entry.damage.is_some() || entry.is_file_missing(self.source.storage())
    }

    /// Whether a damaged window is passed over. Whoever asks for a certain record is told.
    pub(super) fn passes(&self, want: &Want) -> bool {
        self.passes_damage && !matches!(want, Want::Position(_))
    }

    pub(super) fn enter(
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
    pub(super) fn enter_start(&mut self, entry: Arc<SegmentEntry>) -> Result<()> {
        let Spot { entry, segment, ahead, passed } = self.open(entry, Want::Start)?;
        self.note_passed(passed);
        let first = segment.first_point();
        self.enter(entry, segment, ahead, first);
        self.announce_if_short();
        Ok(())
    }
}
