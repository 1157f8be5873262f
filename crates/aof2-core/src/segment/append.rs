//! The append side of an active segment. Guarded by the log's append lock; does
//! no I/O and takes no other lock.

use std::path::Path;
use std::sync::Arc;

use super::{Segment, SegmentFlush, SegmentMeta, Spare};
use crate::format::{RecordCodec, RecordId, RecordMeta, SEGMENT_HEADER_LEN};
use crate::io::{MapWriter, OutOfBounds};

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentAppendResult {
    /// Id of the record.
    pub id: RecordId,
    /// Byte in the file after the record.
    pub end: u32,
    /// Whether the soft target is reached: time to roll over.
    pub is_full: bool,
}

/// The record does not fit into what is left of the segment; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFull;

impl From<OutOfBounds> for SegmentFull {
    fn from(_: OutOfBounds) -> Self {
        Self
    }
}

/// Writes records into a segment, one after the other.
#[derive(Debug)]
pub struct SegmentAppender {
    segment: Arc<Segment>,
    writer: MapWriter,
    codec: RecordCodec,
    position: u32,
    target_end: u32,
    space_end: u32,
}

impl Segment {
    /// Turns a spare into the active segment. The file keeps its temporary name
    /// until [`SegmentFlush::ensure_named`], and its header is written with the
    /// first record.
    pub fn create_active(
        spare: Spare,
        meta: SegmentMeta,
        dir: &Path,
        target_bytes: u32,
    ) -> (Arc<SegmentFlush>, SegmentAppender) {
        let path = dir.join(meta.file_name().to_string());
        let segment = Arc::new(Segment::new(meta, path, Arc::clone(spare.writer.map())));
        let appender = SegmentAppender::new(
            Arc::clone(&segment),
            spare.writer,
            SEGMENT_HEADER_LEN as u32,
            target_bytes,
        );
        let flush = SegmentFlush::new(segment, spare.file, Some(spare.path));
        (Arc::new(flush), appender)
    }
}

impl SegmentAppender {
    pub(super) fn new(
        segment: Arc<Segment>,
        writer: MapWriter,
        position: u32,
        target_bytes: u32,
    ) -> Self {
        let space_end = segment.meta().space_end();
        Self {
            codec: *segment.codec(),
            target_end: target_bytes.min(space_end),
            segment,
            writer,
            position,
            space_end,
        }
    }

    /// The segment being written.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Byte in the file where the next record will start.
    #[inline]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Whether no record was written yet.
    pub fn is_empty(&self) -> bool {
        self.position == SEGMENT_HEADER_LEN as u32
    }

    /// Whether the soft target is reached.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.position >= self.target_end
    }

    /// Bytes until the soft target.
    pub fn bytes_until_due(&self) -> u32 {
        self.target_end.saturating_sub(self.position)
    }

    /// Whether `record_bytes` more fit.
    #[inline]
    pub fn fits(&self, record_bytes: usize) -> bool {
        (self.space_end - self.position) as usize >= record_bytes
    }

    /// Copies one record in. Another process sees it as soon as its first word is
    /// stored, this process after [`SegmentAppender::publish`]. Until a flush, a
    /// crash may leave all of it, none of it, or a torn part that its checksum
    /// betrays.
    #[inline]
    pub fn append_record(
        &mut self,
        meta: &RecordMeta,
        payload: &[u8],
    ) -> Result<SegmentAppendResult, SegmentFull> {
        let record_len = self.codec.record_len(payload.len());
        if !self.fits(record_len) {
            return Err(SegmentFull);
        }
        if self.position == SEGMENT_HEADER_LEN as u32 {
            self.write_header(meta.timestamp_ms)?;
        }
        let start = self.position;
        let header = self.codec.encode_header(meta, payload);
        let at = start as usize;
        self.writer.write(at + 8, header.rest())?;
        self.writer.write(at + self.codec.header_len(), payload)?;
        self.writer.store_word(at, header.first_word())?;
        self.position = start + record_len as u32;
        Ok(SegmentAppendResult {
            id: self.segment.meta().record_id(start),
            end: self.position,
            is_full: self.is_full(),
        })
    }

    /// Lets this process's readers see everything appended so far.
    #[inline]
    pub fn publish(&mut self) {
        // Cannot fail: the position only grows and stays below the footer slot.
        let _ = self.writer.publish(self.position as usize);
    }

    /// Stops appending: no record will follow in this segment.
    pub fn close(self) {
        self.segment.close_at(self.position);
    }

    #[cold]
    fn write_header(&mut self, timestamp_ms: u64) -> Result<(), SegmentFull> {
        let header = self.segment.meta().header(timestamp_ms).encode();
        Ok(self.writer.write(0, &header)?)
    }
}
