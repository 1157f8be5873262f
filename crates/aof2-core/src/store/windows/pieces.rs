//! A sealed segment file that is read by windows, because this process has no addresses
//! left to map it: somebody limits them, and segments are up to two gigabytes long.
//!
//! Windows begin and end with records. Where that is tells the stored index of the
//! segment, or else a walk along the headers of its records.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::format::{
    ArtifactFrame, ArtifactIndex, ArtifactSummary, DecodedRecord, INDEX_SPACING, IndexPoint,
    RecordFlags, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN,
};
use crate::io::Storage;
use crate::segment::{Artifact, ArtifactSource, FileSource, SegmentMeta};
use crate::store::stored_index;
use crate::store::{SealedInfo, SegmentEntry};

/// Bytes of a window, and a record more at most.
const WINDOW_LEN: u32 = 256 << 10;
/// Bytes that the walk reads at once.
const READ_LEN: u32 = 1 << 20;

/// The segment as windows.
pub(crate) fn open(
    storage: &dyn Storage,
    entry: &SegmentEntry,
    info: &SealedInfo,
) -> Result<Artifact> {
    let source = FileSource::open_segment(storage, &entry.path)?;
    // By its footer it is recognised when it is opened again.
    let slot = source.len().saturating_sub(SEGMENT_FOOTER_LEN as u64);
    source.read_at(slot, SEGMENT_FOOTER_LEN)?;
    let points = match stored_index::points(storage, entry, info) {
        Some(points) => points,
        None => walk(&source, &entry.meta, info.durable_bytes)?,
    };
    let summary = summary_of(&entry.meta, info);
    let frames = frames_of(&entry.meta, info.durable_bytes, &points);
    let footer = ArtifactFrame {
        first_offset: summary.end_offset(),
        timestamp_before_ms: info.last_timestamp_ms,
        ..frame(info.durable_bytes, SEGMENT_FOOTER_LEN as u32)
    };
    Ok(Artifact::plain(Arc::new(source), ArtifactIndex { summary, frames, footer }))
}

fn summary_of(meta: &SegmentMeta, info: &SealedInfo) -> ArtifactSummary {
    ArtifactSummary {
        stream_id: meta.stream_id,
        segment_id: meta.segment_id,
        format: meta.format,
        base_offset: meta.base_offset,
        first_offset: meta.first_offset,
        record_count: info.record_count,
        durable_bytes: info.durable_bytes,
        segment_bytes: meta.segment_bytes,
        segment_crc64: info.segment_crc64,
        ext_id: info.ext_id,
        footer_flags: info.flags,
        created_at_ns: meta.created_at_ns,
        // Neither is asked for when records are read.
        sealed_at_ns: 0,
        first_timestamp_ms: 0,
        last_timestamp_ms: info.last_timestamp_ms,
    }
}

fn frame(position: u32, len: u32) -> ArtifactFrame {
    ArtifactFrame {
        position,
        len,
        first_offset: 0,
        timestamp_before_ms: 0,
        compressed_offset: u64::from(position),
        compressed_len: len,
        checksum: 0,
    }
}

/// Windows over all of the segment, each from one of the points to another.
fn frames_of(meta: &SegmentMeta, durable_bytes: u32, points: &[IndexPoint]) -> Vec<ArtifactFrame> {
    let start = IndexPoint { position: 0, offset: meta.first_offset, timestamp_before_ms: 0 };
    let mut starts = vec![start];
    let mut last = start.position;
    for point in points.iter().filter(|point| point.position < durable_bytes) {
        if point.position >= last.saturating_add(WINDOW_LEN) {
            starts.push(*point);
            last = point.position;
        }
    }
    let ends = starts.iter().skip(1).map(|point| point.position).chain([durable_bytes]);
    let between = |(start, end): (&IndexPoint, u32)| ArtifactFrame {
        first_offset: start.offset,
        timestamp_before_ms: start.timestamp_before_ms,
        ..frame(start.position, end - start.position)
    };
    starts.iter().zip(ends).map(between).collect()
}

/// Points along the records, as far as they are intact: what follows damage is one window.
fn walk(source: &FileSource, meta: &SegmentMeta, end: u32) -> Result<Vec<IndexPoint>> {
    let codec = meta.codec();
    let mut read = Ahead { source, end, start: 0, bytes: Bytes::new() };
    let mut points = Vec::new();
    let mut at = IndexPoint {
        position: SEGMENT_HEADER_LEN as u32,
        offset: meta.first_offset,
        timestamp_before_ms: 0,
    };
    let mut newest = 0;
    while at.position < end {
        let header = read.from(at.position, codec.header_len() as u32)?;
        let head = codec.peek_header(&header, u64::from(end - at.position));
        let Ok(Some(head)) = head else { break };
        if head.logical_offset.is_some_and(|offset| offset != at.offset) {
            break;
        }
        let mut covered = 1;
        if head.flags.contains(RecordFlags::GAP) {
            let record = read.from(at.position, head.record_len)?;
            let payload = record.get(codec.header_len()..).unwrap_or_default();
            let payload = payload.get(..head.payload_len as usize).unwrap_or_default();
            covered = DecodedRecord { head, payload }.gap().map_or(1, |gap| gap.lost_count);
        }
        at = IndexPoint {
            position: at.position.saturating_add(head.record_len),
            offset: at.offset.saturating_add(covered),
            timestamp_before_ms: at.timestamp_before_ms.max(head.timestamp_ms),
        };
        if at.position >= newest + INDEX_SPACING {
            newest = at.position;
            points.push(at);
        }
    }
    Ok(points)
}

/// Reads a file forwards, a piece at a time.
struct Ahead<'a> {
    source: &'a FileSource,
    end: u32,
    /// Position of the first byte of `bytes`.
    start: u32,
    bytes: Bytes,
}

impl Ahead<'_> {
    /// So many bytes from a position on; fewer at the end.
    fn from(&mut self, position: u32, len: u32) -> Result<Bytes> {
        let len = len.min(self.end - position);
        let have = self.start..self.start + self.bytes.len() as u32;
        if position < have.start || position + len > have.end {
            let wanted = READ_LEN.max(len).min(self.end - position);
            self.bytes = self.source.read_at(u64::from(position), wanted as usize)?;
            self.start = position;
        }
        let at = (position - self.start) as usize;
        Ok(self.bytes.slice(at..at + len as usize))
    }
}
