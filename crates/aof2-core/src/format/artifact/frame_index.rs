//! The frame index: what a segment is and what each data frame of its artifact holds.
//!
//! ```text
//! skippable frame
//!    0 u32 magic 0x184D2A5B    4 u32 bytes that follow
//!   its content
//!    0 u64 magic "AOF2WARM"    8 u32 version = 1    12 u32 format (1 compact, 2 full)
//!   16 u64 stream_id          24 u64 segment_id     32 u64 base_offset
//!   40 u64 first_offset       48 u64 record_count   56 u64 durable_bytes
//!   64 u64 segment_bytes      72 u64 segment_crc64  80 u64 ext_id
//!   88 u64 footer_flags       96 u64 created_at_ns 104 u64 sealed_at_ns
//!  112 u64 first_timestamp_ms                      120 u64 last_timestamp_ms
//!  128 u32 frame_count       132 u32 zero
//!  136 one entry of 24 bytes per data frame:
//!        0 u32 position   4 u32 len   8 u64 first_offset   16 u64 timestamp_before_ms
//!  then u64 crc64 of everything before it, from the content's magic on
//! ```
//!
//! Where a frame is in the artifact stands in the seek table alone.

use super::seek_table::{SKIPPABLE_HEADER_LEN, skippable_content, skippable_header};
use super::{ARTIFACT_FRAME_COUNT_MAX, ArtifactFrame, ArtifactSummary};
use crate::format::bytes::{block, put, u32_at, u64_at};
use crate::format::{FormatError, SegmentFormat, SegmentId, StreamId, crc64};

const FRAME_MAGIC: u32 = 0x184D_2A5B;
const MAGIC: u64 = 0x414F_4632_5741_524D;
const VERSION: u32 = 1;

mod head {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const FORMAT: usize = VERSION + 4;
    pub const STREAM_ID: usize = FORMAT + 4;
    pub const SEGMENT_ID: usize = STREAM_ID + 8;
    pub const BASE_OFFSET: usize = SEGMENT_ID + 8;
    pub const FIRST_OFFSET: usize = BASE_OFFSET + 8;
    pub const RECORD_COUNT: usize = FIRST_OFFSET + 8;
    pub const DURABLE_BYTES: usize = RECORD_COUNT + 8;
    pub const SEGMENT_BYTES: usize = DURABLE_BYTES + 8;
    pub const SEGMENT_CRC64: usize = SEGMENT_BYTES + 8;
    pub const EXT_ID: usize = SEGMENT_CRC64 + 8;
    pub const FOOTER_FLAGS: usize = EXT_ID + 8;
    pub const CREATED_AT_NS: usize = FOOTER_FLAGS + 8;
    pub const SEALED_AT_NS: usize = CREATED_AT_NS + 8;
    pub const FIRST_TIMESTAMP_MS: usize = SEALED_AT_NS + 8;
    pub const LAST_TIMESTAMP_MS: usize = FIRST_TIMESTAMP_MS + 8;
    pub const FRAME_COUNT: usize = LAST_TIMESTAMP_MS + 8;
    pub const ZERO: usize = FRAME_COUNT + 4;
    pub const LEN: usize = ZERO + 4;
}

mod entry {
    pub const POSITION: usize = 0;
    pub const BYTES: usize = POSITION + 4;
    pub const FIRST_OFFSET: usize = BYTES + 4;
    pub const TIMESTAMP_BEFORE_MS: usize = FIRST_OFFSET + 8;
    pub const LEN: usize = TIMESTAMP_BEFORE_MS + 8;
}

const CRC_LEN: usize = 8;

const _: () = assert!(head::LEN == 136 && entry::LEN == 24);
const _: () = assert!(index_len(ARTIFACT_FRAME_COUNT_MAX) < 32 << 20);

/// Bytes of the index frame for this many data frames.
pub(super) const fn index_len(frame_count: usize) -> usize {
    SKIPPABLE_HEADER_LEN + head::LEN + frame_count * entry::LEN + CRC_LEN
}

const fn format_code(format: SegmentFormat) -> u32 {
    format.version()
}

/// Appends the index frame.
pub(super) fn encode(summary: &ArtifactSummary, frames: &[ArtifactFrame], out: &mut Vec<u8>) {
    let content_len = index_len(frames.len()) - SKIPPABLE_HEADER_LEN;
    out.extend_from_slice(&skippable_header(FRAME_MAGIC, content_len));
    let start = out.len();
    out.extend_from_slice(&encode_head(summary, frames.len()));
    for frame in frames {
        let mut bytes = [0; entry::LEN];
        put(&mut bytes, entry::POSITION, frame.position.to_le_bytes());
        put(&mut bytes, entry::BYTES, frame.len.to_le_bytes());
        put(&mut bytes, entry::FIRST_OFFSET, frame.first_offset.to_le_bytes());
        put(&mut bytes, entry::TIMESTAMP_BEFORE_MS, frame.timestamp_before_ms.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    let crc = crc64(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
}

fn encode_head(summary: &ArtifactSummary, frame_count: usize) -> [u8; head::LEN] {
    let mut bytes = [0; head::LEN];
    put(&mut bytes, head::MAGIC, MAGIC.to_le_bytes());
    put(&mut bytes, head::VERSION, VERSION.to_le_bytes());
    put(&mut bytes, head::FORMAT, format_code(summary.format).to_le_bytes());
    for (at, field) in [
        (head::STREAM_ID, summary.stream_id.as_u64()),
        (head::SEGMENT_ID, summary.segment_id.as_u64()),
        (head::BASE_OFFSET, summary.base_offset),
        (head::FIRST_OFFSET, summary.first_offset),
        (head::RECORD_COUNT, summary.record_count),
        (head::DURABLE_BYTES, u64::from(summary.durable_bytes)),
        (head::SEGMENT_BYTES, u64::from(summary.segment_bytes)),
        (head::SEGMENT_CRC64, summary.segment_crc64),
        (head::EXT_ID, summary.ext_id),
        (head::FOOTER_FLAGS, summary.footer_flags),
        (head::CREATED_AT_NS, summary.created_at_ns),
        (head::SEALED_AT_NS, summary.sealed_at_ns),
        (head::FIRST_TIMESTAMP_MS, summary.first_timestamp_ms),
        (head::LAST_TIMESTAMP_MS, summary.last_timestamp_ms),
    ] {
        put(&mut bytes, at, field.to_le_bytes());
    }
    put(&mut bytes, head::FRAME_COUNT, (frame_count as u32).to_le_bytes());
    bytes
}

/// Reads the index frame, which `frame` is from the first byte to the last. The fields
/// are as found: whether they make sense is checked with the seek table.
pub(super) fn decode(frame: &[u8]) -> Result<(ArtifactSummary, Vec<ArtifactFrame>), FormatError> {
    let content = skippable_content(frame, FRAME_MAGIC)?;
    let head: &[u8; head::LEN] = block(content).ok_or(FormatError::TooShort {
        needed: index_len(0) - SKIPPABLE_HEADER_LEN,
        available: content.len(),
    })?;
    let found = u64_at(head, head::MAGIC);
    if found != MAGIC {
        return Err(FormatError::BadMagic { found });
    }
    // Before the checksum: another version may keep its checksum elsewhere.
    let version = u32_at(head, head::VERSION);
    if version != VERSION {
        return Err(other_version(content, version));
    }
    let frame_count = u32_at(head, head::FRAME_COUNT) as usize;
    if frame.len() != index_len(frame_count) {
        return Err(bad("frame_count", "the index frame has another length"));
    }
    let (body, crc) = content.split_at(content.len() - CRC_LEN);
    let (expected, found) = (crc64(body), u64_at(crc, 0));
    if expected != found {
        return Err(FormatError::BadChecksum { expected, found });
    }
    if u32_at(head, head::ZERO) != 0 {
        return Err(bad("zero", "not zero"));
    }
    let entries = body.get(head::LEN..).unwrap_or_default();
    Ok((decode_head(head)?, entries.chunks_exact(entry::LEN).map(decode_entry).collect()))
}

/// A version that the checksum does not agree with is damage: with the right one it
/// would fit.
fn other_version(content: &[u8], version: u32) -> FormatError {
    let mut mended = content.to_vec();
    put(&mut mended, head::VERSION, VERSION.to_le_bytes());
    let (body, crc) = mended.split_at(mended.len() - CRC_LEN);
    let found = u64_at(crc, 0);
    match crc64(body) == found {
        true => FormatError::BadChecksum { expected: crc64(&content[..body.len()]), found },
        false => FormatError::UnsupportedVersion { found: version },
    }
}

fn decode_head(bytes: &[u8; head::LEN]) -> Result<ArtifactSummary, FormatError> {
    let format = match u32_at(bytes, head::FORMAT) {
        code if code == format_code(SegmentFormat::Full) => SegmentFormat::Full,
        code if code == format_code(SegmentFormat::Compact) => SegmentFormat::Compact,
        _ => return Err(bad("format", "neither compact nor full")),
    };
    let narrow = |field, at| {
        u32::try_from(u64_at(bytes, at)).map_err(|_| bad(field, "longer than any segment"))
    };
    Ok(ArtifactSummary {
        stream_id: StreamId::from_u64(u64_at(bytes, head::STREAM_ID)),
        segment_id: SegmentId::from_u64(u64_at(bytes, head::SEGMENT_ID)),
        format,
        base_offset: u64_at(bytes, head::BASE_OFFSET),
        first_offset: u64_at(bytes, head::FIRST_OFFSET),
        record_count: u64_at(bytes, head::RECORD_COUNT),
        durable_bytes: narrow("durable_bytes", head::DURABLE_BYTES)?,
        segment_bytes: narrow("segment_bytes", head::SEGMENT_BYTES)?,
        segment_crc64: u64_at(bytes, head::SEGMENT_CRC64),
        ext_id: u64_at(bytes, head::EXT_ID),
        footer_flags: u64_at(bytes, head::FOOTER_FLAGS),
        created_at_ns: u64_at(bytes, head::CREATED_AT_NS),
        sealed_at_ns: u64_at(bytes, head::SEALED_AT_NS),
        first_timestamp_ms: u64_at(bytes, head::FIRST_TIMESTAMP_MS),
        last_timestamp_ms: u64_at(bytes, head::LAST_TIMESTAMP_MS),
    })
}

fn decode_entry(bytes: &[u8]) -> ArtifactFrame {
    ArtifactFrame {
        position: u32_at(bytes, entry::POSITION),
        len: u32_at(bytes, entry::BYTES),
        first_offset: u64_at(bytes, entry::FIRST_OFFSET),
        timestamp_before_ms: u64_at(bytes, entry::TIMESTAMP_BEFORE_MS),
        compressed_offset: 0,
        compressed_len: 0,
        checksum: 0,
    }
}

fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}
