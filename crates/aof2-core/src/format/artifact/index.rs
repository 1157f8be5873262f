//! Where everything is in an artifact: frame index and seek table as one.
//!
//! The two are stored apart because other tools read only the seek table. They must
//! agree, and together they must cover the artifact and the segment without a gap, so
//! that no length from a file is used before it was checked against another.

use super::seek_table::{CHECKSUM_OF_NOTHING, SeekEntry};
use super::{ARTIFACT_FRAME_COUNT_MAX, frame_index, seek_table};
use crate::format::segment::check_durable_bytes;
use crate::format::{
    FormatError, RECORD_ALIGN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_FOOTER_LEN,
    SEGMENT_HEADER_LEN, SegmentFooter, SegmentFormat, SegmentId, StreamId,
};

/// Frames that are not data: footer and index.
const OTHER_FRAME_COUNT: usize = 2;
/// No zstd frame decompresses to more than this many times its length: four bytes make
/// a block of 128 KiB. A longer claim would only make a reader allocate.
const EXPANSION_MAX: u64 = (128 << 10) / 4;
/// No zstd frame with a content checksum is shorter: magic, frame header, one block
/// header, checksum.
const COMPRESSED_LEN_MIN: u32 = 4 + 2 + 3 + 4;
/// The footer's frame, when nothing in it could be compressed.
const FOOTER_COMPRESSED_LEN_MAX: u32 = 2 * SEGMENT_FOOTER_LEN as u32;

/// Bytes of the longest index frame and seek table there are.
pub const ARTIFACT_TAIL_LEN_MAX: u64 = (frame_index::index_len(ARTIFACT_FRAME_COUNT_MAX)
    + seek_table::table_len(ARTIFACT_FRAME_COUNT_MAX + OTHER_FRAME_COUNT))
    as u64;

/// What segment an artifact is of: its place in the stream and what its footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactSummary {
    /// Stream of the segment.
    pub stream_id: StreamId,
    /// The segment.
    pub segment_id: SegmentId,
    /// Layout of its records.
    pub format: SegmentFormat,
    /// Stream bytes before the segment.
    pub base_offset: u64,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Logical offsets it covers.
    pub record_count: u64,
    /// Bytes of header and records.
    pub durable_bytes: u32,
    /// Length of the segment's file.
    pub segment_bytes: u32,
    /// Checksum over `durable_bytes`.
    pub segment_crc64: u64,
    /// An id of the caller's.
    pub ext_id: u64,
    /// Flags in the segment's footer.
    pub footer_flags: u64,
    /// When the segment became active, UTC nanoseconds.
    pub created_at_ns: u64,
    /// When the segment was sealed, UTC nanoseconds.
    pub sealed_at_ns: u64,
    /// Smallest timestamp of its records, gaps aside; zero without records.
    pub first_timestamp_ms: u64,
    /// Largest timestamp of its records.
    pub last_timestamp_ms: u64,
}

impl ArtifactSummary {
    /// The logical offset behind the segment.
    pub fn end_offset(&self) -> u64 {
        self.first_offset.saturating_add(self.record_count)
    }

    /// What the segment's footer says. Version 1 footers name their last record too,
    /// which is not kept here.
    pub fn footer(&self) -> SegmentFooter {
        let compact = self.format == SegmentFormat::Compact;
        SegmentFooter {
            format: self.format,
            record_count: self.record_count,
            durable_bytes: u64::from(self.durable_bytes),
            segment_crc64: self.segment_crc64,
            ext_id: self.ext_id,
            flags: self.footer_flags,
            last_timestamp_ms: self.last_timestamp_ms,
            segment_id: compact.then_some(self.segment_id),
            last_record_id: None,
            sealed_at_ns: compact.then_some(self.sealed_at_ns),
        }
    }

    fn check(&self) -> Result<(), FormatError> {
        check_durable_bytes(u64::from(self.durable_bytes))?;
        let segment_bytes = u64::from(self.segment_bytes);
        if !self.segment_bytes.is_power_of_two()
            || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        {
            return Err(bad("segment_bytes", "not the length of a segment"));
        }
        if u64::from(self.durable_bytes) + SEGMENT_FOOTER_LEN as u64 > segment_bytes {
            return Err(bad("durable_bytes", "records and footer do not fit the segment"));
        }
        if self.segment_id > SegmentId::MAX {
            return Err(bad("segment_id", "no record id could name it"));
        }
        if self.first_offset.checked_add(self.record_count).is_none() {
            return Err(bad("record_count", "offsets would wrap"));
        }
        if self.base_offset.checked_add(u64::from(self.durable_bytes)).is_none() {
            return Err(bad("base_offset", "stream bytes would wrap"));
        }
        Ok(())
    }
}

/// One zstd frame of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactFrame {
    /// Byte of the segment where the frame starts. The first frame starts with the
    /// segment's header, every other one with a record.
    pub position: u32,
    /// Bytes of the segment in it.
    pub len: u32,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Largest timestamp of all records before it in the segment.
    pub timestamp_before_ms: u64,
    /// Byte of the artifact where it starts.
    pub compressed_offset: u64,
    /// Bytes of the artifact it takes.
    pub compressed_len: u32,
    /// Low half of the XXH64 of its decompressed bytes.
    pub checksum: u32,
}

impl ArtifactFrame {
    /// The byte of the artifact behind the frame.
    pub fn compressed_end(&self) -> u64 {
        self.compressed_offset.saturating_add(u64::from(self.compressed_len))
    }

    fn seek_entry(&self) -> SeekEntry {
        SeekEntry {
            compressed_len: self.compressed_len,
            decompressed_len: self.len,
            checksum: self.checksum,
        }
    }

    /// Takes over where the frame is, and checks that it can be that.
    fn place(&mut self, at: u64, entry: &SeekEntry) -> Result<(), FormatError> {
        if entry.decompressed_len != self.len {
            return Err(bad("decompressed_len", "seek table and frame index differ"));
        }
        if entry.compressed_len < COMPRESSED_LEN_MIN
            || u64::from(self.len) > u64::from(entry.compressed_len) * EXPANSION_MAX
        {
            return Err(bad("compressed_len", "too short for what it would hold"));
        }
        self.compressed_offset = at;
        self.compressed_len = entry.compressed_len;
        self.checksum = entry.checksum;
        Ok(())
    }
}

/// What an artifact holds and where.
///
/// After [`decode_tail`](Self::decode_tail) the data frames cover the segment's
/// `durable_bytes` and, with the footer's frame, the artifact up to its tail, both
/// without a gap; offsets and timestamps do not decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactIndex {
    /// What it is of.
    pub summary: ArtifactSummary,
    /// The data frames, in order.
    pub frames: Vec<ArtifactFrame>,
    /// The frame with the segment's footer; its position is `durable_bytes`.
    pub footer: ArtifactFrame,
}

impl ArtifactIndex {
    /// Index frame and seek table: everything behind the footer's frame.
    pub fn encode_tail(&self) -> Vec<u8> {
        let index_len = frame_index::index_len(self.frames.len());
        let entry_count = self.frames.len() + OTHER_FRAME_COUNT;
        let mut tail = Vec::with_capacity(index_len + seek_table::table_len(entry_count));
        frame_index::encode(&self.summary, &self.frames, &mut tail);
        let mut entries: Vec<SeekEntry> =
            self.frames.iter().chain([&self.footer]).map(ArtifactFrame::seek_entry).collect();
        entries.push(index_entry(self.frames.len()));
        seek_table::encode(entries.into_iter(), &mut tail);
        tail
    }

    /// How many bytes at the end of an artifact are index frame and seek table, from
    /// its last bytes (at least nine).
    pub fn tail_len(last_bytes: &[u8]) -> Result<u64, FormatError> {
        let entry_count = seek_table::entry_count(last_bytes)?;
        let frame_count = frame_count(entry_count)?;
        Ok((frame_index::index_len(frame_count) + seek_table::table_len(entry_count)) as u64)
    }

    /// Reads index frame and seek table. `tail` ends where the artifact does and holds
    /// at least [`tail_len`](Self::tail_len) bytes.
    pub fn decode_tail(tail: &[u8], artifact_len: u64) -> Result<Self, FormatError> {
        let index = Self::decode_end(tail)?;
        if index.artifact_len() != artifact_len {
            return Err(bad("compressed_len", "the frames do not add up to the artifact"));
        }
        Ok(index)
    }

    /// Reads a copy of index frame and seek table that was kept without the artifact:
    /// nothing stands in front of them.
    pub fn decode_kept_tail(tail: &[u8]) -> Result<Self, FormatError> {
        if Self::tail_len(tail)? != tail.len() as u64 {
            return Err(bad("frame_count", "the kept tail has another length"));
        }
        Self::decode_end(tail)
    }

    /// Bytes of the whole artifact.
    pub fn artifact_len(&self) -> u64 {
        let entry_count = self.frames.len() + OTHER_FRAME_COUNT;
        let tail_len =
            frame_index::index_len(self.frames.len()) + seek_table::table_len(entry_count);
        self.footer.compressed_end().saturating_add(tail_len as u64)
    }

    fn decode_end(tail: &[u8]) -> Result<Self, FormatError> {
        let entry_count = seek_table::entry_count(tail)?;
        let frame_count = frame_count(entry_count)?;
        let table_len = seek_table::table_len(entry_count);
        let tail_len = frame_index::index_len(frame_count) + table_len;
        let start = tail
            .len()
            .checked_sub(tail_len)
            .ok_or(FormatError::TooShort { needed: tail_len, available: tail.len() })?;
        let (index, table) = tail.split_at(start).1.split_at(tail_len - table_len);
        let entries = seek_table::decode(table)?;
        let (summary, frames) = frame_index::decode(index)?;
        summary.check()?;
        check_frames(&summary, &frames)?;
        Self::place(summary, frames, &entries)
    }

    fn place(
        summary: ArtifactSummary,
        mut frames: Vec<ArtifactFrame>,
        entries: &[SeekEntry],
    ) -> Result<Self, FormatError> {
        let disagree = bad("frame_count", "seek table and frame index differ");
        let Some((data, [footer_entry, last])) = entries.split_last_chunk::<OTHER_FRAME_COUNT>()
        else {
            return Err(disagree);
        };
        if data.len() != frames.len() || *last != index_entry(frames.len()) {
            return Err(disagree);
        }
        let mut at = 0;
        for (frame, entry) in frames.iter_mut().zip(data) {
            frame.place(at, entry)?;
            at = frame.compressed_end();
        }
        let mut footer = footer_frame(&summary);
        footer.place(at, footer_entry)?;
        if footer.compressed_len > FOOTER_COMPRESSED_LEN_MAX {
            return Err(bad("compressed_len", "too long for a footer"));
        }
        Ok(Self { summary, frames, footer })
    }

    /// The data frame that holds this byte of the segment.
    pub fn frame_at(&self, position: u32) -> Option<usize> {
        if position >= self.summary.durable_bytes {
            return None;
        }
        self.frames.partition_point(|frame| frame.position <= position).checked_sub(1)
    }

    /// The last data frame whose first record has this logical offset or a smaller one;
    /// `None` before the segment.
    pub fn frame_of_offset(&self, offset: u64) -> Option<usize> {
        self.frames.partition_point(|frame| frame.first_offset <= offset).checked_sub(1)
    }

    /// The first data frame that can hold a record with this timestamp or a later one.
    pub fn frame_of_timestamp(&self, timestamp_ms: u64) -> Option<usize> {
        if timestamp_ms > self.summary.last_timestamp_ms {
            return None;
        }
        // The largest timestamp up to a frame's end is what the next one has before it.
        let passed = self.frames.partition_point(|f| f.timestamp_before_ms < timestamp_ms);
        Some(passed.saturating_sub(1))
    }

    /// Logical offsets of the records in a data frame.
    pub fn offsets_of(&self, frame: usize) -> std::ops::Range<u64> {
        let start = |i: usize| self.frames.get(i).map(|f| f.first_offset);
        let end = self.summary.end_offset();
        start(frame).unwrap_or(end)..start(frame + 1).unwrap_or(end)
    }
}

/// The seek table's entry for the index frame, which decompresses to nothing.
fn index_entry(frame_count: usize) -> SeekEntry {
    SeekEntry {
        compressed_len: frame_index::index_len(frame_count) as u32,
        decompressed_len: 0,
        checksum: CHECKSUM_OF_NOTHING,
    }
}

/// The footer's frame as far as the summary tells.
fn footer_frame(summary: &ArtifactSummary) -> ArtifactFrame {
    ArtifactFrame {
        position: summary.durable_bytes,
        len: SEGMENT_FOOTER_LEN as u32,
        first_offset: summary.end_offset(),
        timestamp_before_ms: summary.last_timestamp_ms,
        compressed_offset: 0,
        compressed_len: 0,
        checksum: 0,
    }
}

fn frame_count(entry_count: usize) -> Result<usize, FormatError> {
    entry_count
        .checked_sub(OTHER_FRAME_COUNT)
        .filter(|count| (1..=ARTIFACT_FRAME_COUNT_MAX).contains(count))
        .ok_or(bad("frame_count", "no artifact has so many frames, or so few"))
}

/// The data frames are the segment, in order.
fn check_frames(summary: &ArtifactSummary, frames: &[ArtifactFrame]) -> Result<(), FormatError> {
    let mut end: u32 = 0;
    let mut before = (summary.first_offset, 0);
    for (i, frame) in frames.iter().enumerate() {
        let len_min = if i == 0 { SEGMENT_HEADER_LEN } else { RECORD_ALIGN };
        if frame.position != end {
            return Err(bad("position", "the frames leave a gap or overlap"));
        }
        if (frame.len as usize) < len_min || !(frame.len as usize).is_multiple_of(RECORD_ALIGN) {
            return Err(bad("len", "not a frame of records"));
        }
        end = end.checked_add(frame.len).ok_or(bad("len", "longer than any segment"))?;
        if frame.first_offset < before.0 || frame.timestamp_before_ms < before.1 {
            return Err(bad("first_offset", "the frames are not ordered"));
        }
        before = (frame.first_offset, frame.timestamp_before_ms);
    }
    if end != summary.durable_bytes {
        return Err(bad("durable_bytes", "the frames do not add up to the segment"));
    }
    let starts = frames.first().map(|f| (f.first_offset, f.timestamp_before_ms));
    if starts != Some((summary.first_offset, 0)) {
        return Err(bad("first_offset", "the first frame is not the segment's start"));
    }
    if before.0 > summary.end_offset() || before.1 > summary.last_timestamp_ms {
        return Err(bad("first_offset", "the last frame lies behind the segment's end"));
    }
    Ok(())
}

fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}
