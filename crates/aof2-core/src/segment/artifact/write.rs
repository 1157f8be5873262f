//! From a sealed segment to its artifact.

use std::io;

use super::frames::{FrameEncoder, FrameError, FrameFault, LEVEL_MAX};
use crate::error::{AofError, Damage, Result};
use crate::format::{
    ARTIFACT_FRAME_LEN_MAX, ArtifactFrame, ArtifactIndex, ArtifactSummary, Crc64, IndexPoint,
    RecordFlags, RecordHead, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFooter,
};
use crate::io::File;
use crate::segment::Segment;

/// Shortest frame that can be asked for: with it, the longest segment has as many frames
/// as an artifact may have.
const FRAME_BYTES_MIN: u32 = 4 << 10;

/// How to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactOptions {
    /// Level of zstd, 1 to 19.
    pub level: i32,
    /// Bytes of the segment in one frame, 4 KiB to 16 MiB: what reading one record
    /// decompresses. A longer record makes its frame as long as it is.
    pub frame_bytes: u32,
}

impl Default for ArtifactOptions {
    fn default() -> Self {
        Self { level: 3, frame_bytes: 256 << 10 }
    }
}

impl ArtifactOptions {
    /// Whether the values are allowed.
    pub fn validate(&self) -> Result<()> {
        if !(1..=LEVEL_MAX).contains(&self.level) {
            return Err(AofError::InvalidConfig {
                field: "level",
                reason: format!("{} is not between 1 and {LEVEL_MAX}", self.level),
            });
        }
        if !(FRAME_BYTES_MIN..=ARTIFACT_FRAME_LEN_MAX).contains(&self.frame_bytes) {
            return Err(AofError::InvalidConfig {
                field: "frame_bytes",
                reason: format!(
                    "{} is not between {FRAME_BYTES_MIN} and {ARTIFACT_FRAME_LEN_MAX}",
                    self.frame_bytes
                ),
            });
        }
        Ok(())
    }
}

/// An artifact that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its length.
    pub len: u64,
    /// CRC-64/NVME over all of it: what an object store keeps with the object.
    pub crc64_nvme_of_artifact: u64,
    /// What is where in it.
    pub index: ArtifactIndex,
}

/// Compresses a sealed segment into `out`, an empty file, one frame at a time. Memory
/// does not grow with the segment. `footer` is what stands in the segment's last bytes.
///
/// The segment is checked on the way: one whose bytes are not those that its footer
/// vouches for is refused, so that damage is never compressed. Nothing is synced or
/// named; a crash leaves whatever the file held.
pub fn write_artifact(
    segment: &Segment,
    footer: &[u8; SEGMENT_FOOTER_LEN],
    sealed_at_ns: u64,
    options: &ArtifactOptions,
    out: &dyn File,
) -> Result<Written> {
    options.validate()?;
    let sealed = decode_footer(segment, footer)?;
    let durable_bytes = sealed.durable_bytes as u32;
    let bytes = segment.bytes(0, durable_bytes).ok_or_else(|| {
        let reason = "the segment's bytes are not all there";
        failed(segment)(io::Error::new(io::ErrorKind::InvalidInput, reason))
    })?;
    let encoder = FrameEncoder::new(options.level, options.frame_bytes as usize);
    let mut writer = Writer {
        segment,
        out,
        encoder: encoder.map_err(|fault| cannot_compress(segment, &fault))?,
        len: 0,
        crc: Crc64::new(),
    };
    let mut walk = Walk::new(segment, bytes);
    let mut segment_crc = Crc64::new();
    let mut frames = Vec::new();
    while let Some(part) = walk.next_frame(options.frame_bytes)? {
        segment_crc.update(part.bytes);
        frames.push(writer.frame(&part)?);
    }
    check_sealed(segment, &sealed, &walk, segment_crc.finish())?;
    let meta = segment.meta();
    let summary = ArtifactSummary {
        stream_id: meta.stream_id,
        segment_id: meta.segment_id,
        format: meta.format,
        base_offset: meta.base_offset,
        first_offset: meta.first_offset,
        record_count: sealed.record_count,
        durable_bytes,
        segment_bytes: meta.segment_bytes,
        segment_crc64: sealed.segment_crc64,
        ext_id: sealed.ext_id,
        footer_flags: sealed.flags,
        created_at_ns: meta.created_at_ns,
        sealed_at_ns,
        first_timestamp_ms: walk.smallest_timestamp_ms.unwrap_or(0),
        last_timestamp_ms: sealed.last_timestamp_ms.max(walk.at.timestamp_before_ms),
    };
    let footer = writer.frame(&Part {
        position: durable_bytes,
        bytes: footer,
        first_offset: summary.end_offset(),
        timestamp_before_ms: summary.last_timestamp_ms,
    })?;
    let index = ArtifactIndex { summary, frames, footer };
    writer.put(&index.encode_tail())?;
    Ok(Written { len: writer.len, crc64_nvme_of_artifact: writer.crc.finish(), index })
}

fn decode_footer(segment: &Segment, footer: &[u8]) -> Result<SegmentFooter> {
    let meta = segment.meta();
    let reason = match SegmentFooter::decode(meta.format, footer) {
        Ok(Some(sealed)) if sealed.durable_bytes <= u64::from(meta.space_end()) => {
            return Ok(sealed);
        }
        Ok(Some(_)) => "its footer claims more than the segment holds".to_owned(),
        Ok(None) => "it has no footer".to_owned(),
        Err(error) => format!("its footer does not decode ({error})"),
    };
    Err(damage(segment, meta.space_end(), meta.first_offset..u64::MAX, reason))
}

/// What was walked and compressed is what was sealed.
fn check_sealed(
    segment: &Segment,
    sealed: &SegmentFooter,
    walk: &Walk<'_>,
    crc: u64,
) -> Result<()> {
    let first = segment.meta().first_offset;
    let reason = if crc != sealed.segment_crc64 {
        format!("segment checksum {crc:#018x}, {:#018x} in its footer", sealed.segment_crc64)
    } else if walk.at.offset != first.saturating_add(sealed.record_count) {
        let found = walk.at.offset - first;
        format!("{found} records, {} in its footer", sealed.record_count)
    } else {
        return Ok(());
    };
    Err(damage(segment, 0, first..first.saturating_add(sealed.record_count), reason))
}

/// What goes into one frame.
struct Part<'a> {
    position: u32,
    bytes: &'a [u8],
    first_offset: u64,
    timestamp_before_ms: u64,
}

/// Walks the records of a segment, frame by frame.
struct Walk<'a> {
    segment: &'a Segment,
    bytes: &'a [u8],
    /// The next record.
    at: IndexPoint,
    smallest_timestamp_ms: Option<u64>,
    frame_start: u32,
}

impl<'a> Walk<'a> {
    fn new(segment: &'a Segment, bytes: &'a [u8]) -> Self {
        let at = IndexPoint {
            position: SEGMENT_HEADER_LEN as u32,
            offset: segment.meta().first_offset,
            timestamp_before_ms: 0,
        };
        Self { segment, bytes, at, smallest_timestamp_ms: None, frame_start: 0 }
    }

    /// As many records as fit a frame, one at least. The first frame has the segment's
    /// header, also when there is no record.
    fn next_frame(&mut self, frame_bytes: u32) -> Result<Option<Part<'a>>> {
        let (start, first) = (self.frame_start, self.at);
        let end = self.bytes.len() as u32;
        if start == end {
            return Ok(None);
        }
        while self.at.position < end {
            let head = self.peek()?;
            let is_first = self.at.position == first.position;
            if !is_first && self.at.position - start + head.record_len > frame_bytes {
                break;
            }
            self.pass(&head);
        }
        self.frame_start = self.at.position;
        let bytes = self.bytes.get(start as usize..self.at.position as usize);
        Ok(Some(Part {
            position: start,
            bytes: bytes.unwrap_or_default(),
            first_offset: first.offset,
            timestamp_before_ms: first.timestamp_before_ms,
        }))
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at.position as usize..).unwrap_or_default()
    }

    fn peek(&self) -> Result<RecordHead> {
        let reason = match self.segment.codec().peek(self.rest()) {
            Ok(Some(head)) if head.logical_offset.is_none_or(|o| o == self.at.offset) => {
                return Ok(head);
            }
            Ok(Some(_)) => "a record out of sequence".to_owned(),
            Ok(None) => "the records end before the segment does".to_owned(),
            Err(fault) => fault.to_string(),
        };
        Err(damage(self.segment, self.at.position, self.at.offset..u64::MAX, reason))
    }

    fn pass(&mut self, head: &RecordHead) {
        let covered = self.segment.offsets_covered(self.rest(), head);
        if !head.flags.contains(RecordFlags::GAP) {
            let smallest = self.smallest_timestamp_ms.unwrap_or(u64::MAX);
            self.smallest_timestamp_ms = Some(smallest.min(head.timestamp_ms));
        }
        self.at = IndexPoint {
            position: self.at.position + head.record_len,
            offset: self.at.offset.saturating_add(covered),
            timestamp_before_ms: self.at.timestamp_before_ms.max(head.timestamp_ms),
        };
    }
}

struct Writer<'a> {
    segment: &'a Segment,
    out: &'a dyn File,
    encoder: FrameEncoder,
    len: u64,
    crc: Crc64,
}

impl Writer<'_> {
    fn frame(&mut self, part: &Part<'_>) -> Result<ArtifactFrame> {
        let Self { segment, out, encoder, len, crc } = self;
        let compressed_offset = *len;
        let encoded = encoder.encode(part.bytes, |piece| put(segment, *out, len, crc, piece));
        let encoded = encoded.map_err(|error| match error {
            FrameError::Fault(fault) => cannot_compress(segment, &fault),
            FrameError::Sink(error) => error,
        })?;
        Ok(ArtifactFrame {
            position: part.position,
            len: part.bytes.len() as u32,
            first_offset: part.first_offset,
            timestamp_before_ms: part.timestamp_before_ms,
            compressed_offset,
            compressed_len: encoded.compressed_len,
            checksum: encoded.checksum,
        })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        put(self.segment, self.out, &mut self.len, &mut self.crc, bytes)
    }
}

/// Appends to the artifact.
fn put(
    segment: &Segment,
    out: &dyn File,
    len: &mut u64,
    crc: &mut Crc64,
    bytes: &[u8],
) -> Result<()> {
    out.write_all_at(bytes, *len).map_err(failed(segment))?;
    crc.update(bytes);
    *len += bytes.len() as u64;
    Ok(())
}

fn failed(segment: &Segment) -> impl FnOnce(io::Error) -> AofError {
    AofError::io("compression of segment", segment.path())
}

fn cannot_compress(segment: &Segment, fault: &FrameFault) -> AofError {
    failed(segment)(io::Error::other(fault.to_string()))
}

fn damage(
    segment: &Segment,
    position: u32,
    records: std::ops::Range<u64>,
    reason: String,
) -> AofError {
    AofError::Corrupt(Box::new(Damage {
        path: segment.path().to_owned(),
        offset: u64::from(position),
        records,
        reason,
    }))
}
