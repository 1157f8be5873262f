//! One record of the manifest. Spec: docs/format.md#manifest-record
//!
//! ```text
//! record header, 40 bytes in front of each payload
//!    0 u16 record_type        2 u16 flags          4 u32 payload_len
//!    8 u64 segment_id        16 u64 logical_offset 24 u64 timestamp_ms
//!   32 u64 payload_crc64
//! ```
//!
//! The payload follows, then zeros up to a multiple of 8. `payload_crc64` covers
//! the payload alone; the header is covered by the chunk's checksum. No record has
//! an empty payload, so zeros are never a record.

use crate::format::bytes::{block, put, u16_at, u32_at, u64_at};
use crate::format::{FormatError, SegmentId, crc64};

use super::ManifestEvent;
use super::chunk::{CHUNK_BYTES_MAX, CHUNK_HEADER_LEN};

mod header {
    pub const RECORD_TYPE: usize = 0;
    pub const FLAGS: usize = RECORD_TYPE + 2;
    pub const PAYLOAD_LEN: usize = FLAGS + 2;
    pub const SEGMENT_ID: usize = PAYLOAD_LEN + 4;
    pub const LOGICAL_OFFSET: usize = SEGMENT_ID + 8;
    pub const TIMESTAMP_MS: usize = LOGICAL_OFFSET + 8;
    pub const PAYLOAD_CRC64: usize = TIMESTAMP_MS + 8;
    pub const LEN: usize = PAYLOAD_CRC64 + 8;
}

/// Bytes in front of each payload.
pub const RECORD_HEADER_LEN: usize = header::LEN;
/// Records start on multiples of this.
pub const RECORD_ALIGN: usize = 8;
/// The longest payload: a chunk of the largest capacity that holds nothing else.
pub const PAYLOAD_LEN_MAX: usize = CHUNK_BYTES_MAX as usize - CHUNK_HEADER_LEN - RECORD_HEADER_LEN;
/// The longest object key, ETag or blob: their lengths are `u16`.
pub const TEXT_LEN_MAX: usize = u16::MAX as usize;

const _: () = assert!(RECORD_HEADER_LEN == 40 && RECORD_HEADER_LEN.is_multiple_of(RECORD_ALIGN));
// Two texts and their lengths are the longest payload that a writer makes.
const _: () = assert!(2 * TEXT_LEN_MAX + 4 <= PAYLOAD_LEN_MAX);

/// The fixed part of a record, as on disk. Good for naming what is damaged when the
/// payload does not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestRecordHeader {
    /// Which event the payload describes.
    pub record_type: u16,
    /// Reserved; zero in every record written so far, kept for diagnosis.
    pub flags: u16,
    /// Bytes of payload.
    pub payload_len: u32,
    /// The segment the event is about.
    pub segment_id: SegmentId,
    /// What it means depends on the type.
    pub logical_offset: u64,
    /// When it happened, UTC milliseconds.
    pub timestamp_ms: u64,
    /// Checksum of the payload.
    pub payload_crc64: u64,
}

impl ManifestRecordHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; RECORD_HEADER_LEN] {
        let mut bytes = [0; RECORD_HEADER_LEN];
        put(&mut bytes, header::RECORD_TYPE, self.record_type.to_le_bytes());
        put(&mut bytes, header::FLAGS, self.flags.to_le_bytes());
        put(&mut bytes, header::PAYLOAD_LEN, self.payload_len.to_le_bytes());
        put(&mut bytes, header::SEGMENT_ID, self.segment_id.as_u64().to_le_bytes());
        put(&mut bytes, header::LOGICAL_OFFSET, self.logical_offset.to_le_bytes());
        put(&mut bytes, header::TIMESTAMP_MS, self.timestamp_ms.to_le_bytes());
        put(&mut bytes, header::PAYLOAD_CRC64, self.payload_crc64.to_le_bytes());
        bytes
    }

    /// The header in the first 40 bytes of a record. Only its length is checked:
    /// whether there is such a record is for [`ManifestRecord::decode`] to say.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; RECORD_HEADER_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: RECORD_HEADER_LEN, available: bytes.len() })?;
        Ok(Self {
            record_type: u16_at(bytes, header::RECORD_TYPE),
            flags: u16_at(bytes, header::FLAGS),
            payload_len: u32_at(bytes, header::PAYLOAD_LEN),
            segment_id: SegmentId::from_u64(u64_at(bytes, header::SEGMENT_ID)),
            logical_offset: u64_at(bytes, header::LOGICAL_OFFSET),
            timestamp_ms: u64_at(bytes, header::TIMESTAMP_MS),
            payload_crc64: u64_at(bytes, header::PAYLOAD_CRC64),
        })
    }
}

/// Flag of a `LocalEvicted` record: the warm copy went, whatever other copies there are.
/// Without it the hot one did, or the warm one if the hot one had gone before.
pub const EVICTED_WARM: u16 = 1;

/// Something that happened to a segment, borrowed from the chunk it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestRecord<'a> {
    /// [`EVICTED_WARM`]; other bits are reserved and kept for diagnosis.
    pub flags: u16,
    /// The segment it is about; 0 for records about the manifest itself.
    pub segment_id: SegmentId,
    /// What it means depends on the event.
    pub logical_offset: u64,
    /// When it happened, UTC milliseconds.
    pub timestamp_ms: u64,
    /// What happened.
    pub event: ManifestEvent<'a>,
}

impl<'a> ManifestRecord<'a> {
    /// Bytes of the record in a chunk: header, payload and padding.
    pub fn encoded_len(&self) -> usize {
        (RECORD_HEADER_LEN + self.event.payload_len()).next_multiple_of(RECORD_ALIGN)
    }

    /// Adds the record's bytes to `out`. A key, ETag or blob that is too long is
    /// refused and `out` stays as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.event.check()?;
        let start = out.len();
        out.reserve(self.encoded_len());
        out.extend_from_slice(&[0; RECORD_HEADER_LEN]);
        self.event.encode_payload(out);
        let payload_start = start + RECORD_HEADER_LEN;
        let payload = out.get(payload_start..).unwrap_or_default();
        let header = ManifestRecordHeader {
            record_type: self.event.record_type(),
            flags: self.flags,
            payload_len: payload.len() as u32,
            segment_id: self.segment_id,
            logical_offset: self.logical_offset,
            timestamp_ms: self.timestamp_ms,
            payload_crc64: crc64(payload),
        };
        put(out, start, header.encode());
        out.resize(start + self.encoded_len(), 0);
        Ok(())
    }

    /// Reads and verifies the record at the start of `bytes`, and says how many
    /// bytes it takes. The checksum of the payload and the padding are checked.
    ///
    /// Inlined, so that a loop over records makes each where it is used: copying it
    /// there takes longer than decoding it.
    #[inline(always)]
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        let header = ManifestRecordHeader::decode(bytes)?;
        let payload_len = check_payload_len(header.payload_len)?;
        let end = RECORD_HEADER_LEN + payload_len;
        let record_len = end.next_multiple_of(RECORD_ALIGN);
        let Some(record) = bytes.get(..record_len) else {
            return Err(FormatError::TooShort { needed: record_len, available: bytes.len() });
        };
        let payload = record.get(RECORD_HEADER_LEN..end).unwrap_or_default();
        let expected = crc64(payload);
        if expected != header.payload_crc64 {
            return Err(FormatError::BadChecksum { expected, found: header.payload_crc64 });
        }
        if !is_padding_zero(record, end) {
            return Err(FormatError::BadField { field: "padding", reason: "not zero" });
        }
        let record = Self {
            flags: header.flags,
            segment_id: header.segment_id,
            logical_offset: header.logical_offset,
            timestamp_ms: header.timestamp_ms,
            event: ManifestEvent::decode_payload(header.record_type, payload)?,
        };
        Ok((record, record_len))
    }
}

/// Whether a record is zero from `end` on. Its padding is the upper part of its last
/// word, which is looked at as a whole: byte by byte this costs as much as the checksum
/// of a small payload.
#[inline(always)]
fn is_padding_zero(record: &[u8], end: usize) -> bool {
    let last_word = u64_at(record, record.len() - RECORD_ALIGN);
    let used_len = end + RECORD_ALIGN - record.len();
    last_word.checked_shr(8 * used_len as u32).unwrap_or(0) == 0
}

/// Refused before it is used: a hostile length must not reach the arithmetic.
#[inline]
fn check_payload_len(payload_len: u32) -> Result<usize, FormatError> {
    const FIELD: &str = "payload_len";
    match payload_len as usize {
        0 => Err(FormatError::BadField { field: FIELD, reason: "empty payload" }),
        len if len > PAYLOAD_LEN_MAX => {
            Err(FormatError::BadField { field: FIELD, reason: "longer than any chunk" })
        }
        len => Ok(len),
    }
}
