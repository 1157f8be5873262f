//! Reading one record, by its id or its offset.

use std::sync::Arc;

use super::{Cursor, Spot, Start, Want};
use crate::error::{AofError, Damage, Result};
use crate::format::{RecordId, SEGMENT_HEADER_LEN};
use crate::read::record::{Place, Record};
use crate::read::source::{Source, Visibility};
use crate::segment::Segment;

impl Cursor {
    /// Reads one record by id.
    pub(crate) fn read_id(
        source: &Arc<dyn Source>,
        id: RecordId,
        visibility: Visibility,
    ) -> Result<Record> {
        Self::nowhere(Arc::clone(source), visibility, true)?.read_or_explain(id)
    }

    /// The same without waiting for a window.
    pub(crate) fn try_read_id(
        source: &Arc<dyn Source>,
        id: RecordId,
        visibility: Visibility,
    ) -> Result<Record> {
        let mut cursor = Self::nowhere(Arc::clone(source), visibility, true)?;
        cursor.manner.waits = false;
        cursor.read_or_explain(id)
    }

    /// Reads one record by its logical offset.
    pub(crate) fn read_offset(
        source: &Arc<dyn Source>,
        offset: u64,
        visibility: Visibility,
    ) -> Result<Record> {
        check_end(&**source, offset, visibility)?;
        let start = Start::Offset(offset);
        Self::new(Arc::clone(source), visibility, true, start)?.record_at(offset)
    }

    /// The same without waiting for a window.
    pub(crate) fn try_read_offset(
        source: &Arc<dyn Source>,
        offset: u64,
        visibility: Visibility,
    ) -> Result<Record> {
        check_end(&**source, offset, visibility)?;
        let start = Start::Offset(offset);
        Self::trying(Arc::clone(source), visibility, start)?.record_at(offset)
    }

    /// The next record, if it has this offset.
    fn record_at(mut self, offset: u64) -> Result<Record> {
        let end = self.end_offset();
        let past_end = AofError::PastEnd { offset, end, is_appended: false };
        let Some((segment, place)) = self.next_place()? else { return Err(past_end) };
        if place.offset != offset {
            return Err(AofError::Corrupt(Box::new(Damage {
                path: segment.path().to_owned(),
                offset: u64::from(place.position),
                records: offset..place.offset,
                reason: "these records were lost and the log was repaired without them".into(),
            })));
        }
        Ok(place.to_record(&segment))
    }

    fn read_or_explain(&mut self, id: RecordId) -> Result<Record> {
        self.read_one(id).map_err(|error| self.explain_missing(id, error))
    }

    /// A record that is not found may be there and only not be durable yet.
    pub(super) fn explain_missing(&self, id: RecordId, error: AofError) -> AofError {
        let is_missing = matches!(error, AofError::NoSuchRecord(_));
        match is_missing && self.visibility == Visibility::Durable && self.is_appended(id) {
            true => AofError::NotDurable(id),
            false => error,
        }
    }

    /// Whether there is such a record at all.
    fn is_appended(&self, id: RecordId) -> bool {
        let source = Arc::clone(&self.source);
        let cursor = Self::nowhere(source, Visibility::Appended, true);
        cursor.and_then(|mut cursor| cursor.read_one(id)).is_ok()
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
}

fn check_end(source: &dyn Source, offset: u64, visibility: Visibility) -> Result<()> {
    let end = source.limit(visibility)?.next_offset;
    if offset >= end { Err(past_end(source, offset, end, visibility)) } else { Ok(()) }
}

/// The error for an offset that is not visible: it may be appended already.
pub(super) fn past_end(
    source: &dyn Source,
    offset: u64,
    end: u64,
    visibility: Visibility,
) -> AofError {
    let is_appended = visibility == Visibility::Durable
        && source.limit(Visibility::Appended).is_ok_and(|limit| offset < limit.next_offset);
    AofError::PastEnd { offset, end, is_appended }
}
