//! Where a log is cut to be forked.

use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::{OwnStart, RecordId, SegmentId, StreamId, crc64};
use crate::read::{Cursor, Segments, Source, Start, Visibility};

/// A place between two records of a log. What is before it is part of a fork or a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkAt {
    /// Behind the last durable record.
    #[default]
    End,
    /// Before the record with this logical offset.
    Offset(u64),
    /// Before the record with this id.
    Id(RecordId),
    /// Before the first record with this timestamp, in milliseconds, or a later one.
    Timestamp(u64),
    /// Where the snapshot with this name is.
    Snapshot(String),
}

/// A place, and the record before it.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Logical offset of the first record behind it.
    pub(super) offset: u64,
    /// Where a fork goes on.
    pub(super) start: OwnStart,
    /// The last record before it; `None` if there is none.
    pub(super) last: Option<LastRecord>,
}

#[derive(Clone, Debug)]
pub(super) struct LastRecord {
    /// The log that it belongs to.
    pub(super) stream_id: StreamId,
    pub(super) segment: SegmentId,
    pub(super) position: u32,
    /// First byte behind it.
    pub(super) end: u32,
    pub(super) crc64: u64,
}

/// Finds the place. Snapshots were looked up by then.
pub(super) fn find(source: &Arc<dyn Source>, at: &ForkAt) -> Result<Cut> {
    source.check()?;
    source.look_again(None)?;
    let durable = source.limit(Visibility::Durable)?.next_offset;
    let offset = match at {
        ForkAt::End => durable,
        ForkAt::Offset(offset) => *offset,
        ForkAt::Id(id) => Cursor::read_id(source, *id, Visibility::Durable)?.offset,
        ForkAt::Timestamp(ms) => {
            let start = Start::Timestamp(*ms);
            Cursor::new(Arc::clone(source), Visibility::Durable, true, start)?.offset()
        }
        ForkAt::Snapshot(name) => return Err(AofError::NoSuchSnapshot { name: name.clone() }),
    };
    let earliest = Segments::of(&**source).earliest();
    if offset < earliest {
        return Err(AofError::Trimmed { earliest });
    }
    if offset > durable {
        let appended = source.limit(Visibility::Appended)?.next_offset;
        let is_appended = offset <= appended;
        return Err(AofError::PastEnd { offset, end: durable, is_appended });
    }
    match offset == earliest {
        true => at_start(source, offset),
        false => behind(source, offset),
    }
}

/// Before the first record there is.
fn at_start(source: &Arc<dyn Source>, offset: u64) -> Result<Cut> {
    let segments = Segments::of(&**source);
    let start = match segments.find_offset(offset)? {
        Some(first) => OwnStart {
            segment: first.meta.segment_id,
            offset,
            bytes: first.meta.base_offset,
            timestamp_ms: 0,
        },
        None => source.inherited().map_or(
            OwnStart { segment: SegmentId::from_u64(0), offset, bytes: 0, timestamp_ms: 0 },
            |inherited| inherited.lineage().start,
        ),
    };
    Ok(Cut { offset, start, last: None })
}

/// Behind the record before this offset.
fn behind(source: &Arc<dyn Source>, offset: u64) -> Result<Cut> {
    let start = Start::Offset(offset - 1);
    let mut cursor = Cursor::new(Arc::clone(source), Visibility::Durable, true, start)?;
    let next = cursor.next_place()?;
    let Some((segment, place)) = next.filter(|(_, place)| place.offset == offset - 1) else {
        let reason = format!(
            "the record before offset {offset} was lost and the log was repaired without it; \
             choose a place that follows a record"
        );
        return Err(AofError::InvalidConfig { field: "at", reason });
    };
    let meta = segment.meta();
    let end = place.position + segment.codec().record_len(place.payload_len as usize) as u32;
    let bytes = segment.bytes(place.position, end).unwrap_or_default();
    Ok(Cut {
        offset,
        start: OwnStart {
            segment: meta.segment_id.next(),
            offset,
            bytes: meta.base_offset + u64::from(end),
            timestamp_ms: place.timestamp_ms,
        },
        last: Some(LastRecord {
            stream_id: meta.stream_id,
            segment: meta.segment_id,
            position: place.position,
            end,
            crc64: crc64(bytes),
        }),
    })
}
