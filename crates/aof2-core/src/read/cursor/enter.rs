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
        let earliest = self.source.table().earliest();
        match self.source.table().find(entry.meta.segment_id.as_u32()) {
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
