//! Records of either version as bytes: the hot path of appending and reading.
//!
//! A record is a header, a payload of at least one byte and zero padding to eight
//! bytes. Its first eight bytes are `u32 payload_len, u32 checksum` in both
//! versions and are never all zero, so that a writer publishes a record by
//! storing that word last and a reader takes a zero word for the end.
//!
//! The checksum is [`crc64`](crate::format::crc64) folded to 32 bits over
//!
//! ```text
//! version 2:  stream_id u64, segment_id u64, payload_len u32, header bytes 8..32, payload
//! version 1:                                 payload_len u32, header bytes 8..16, payload
//! ```

use super::bytes::{all_zero, put, u32_at, u64_at};
use super::checksum::FrameCrc;
use super::record::{FIRST_WORD_LEN, GAP_FLAGS, HEADER_LEN_MAX, LOST_COUNT_LEN};
use super::segment::NS_PER_MS;
use super::segment_v1;
use super::segment_v1::GAP_TIMESTAMP_NS;
use super::segment_v2;
use super::segment_v2::RecordFields;
use super::{
    Crc64, DecodedRecord, PAYLOAD_LEN_MAX, RECORD_ALIGN, RecordFault, RecordFlags, RecordHead,
    RecordHeaderBytes, RecordMeta, SegmentFormat, SegmentId, StreamId, fold32,
};

const PAYLOAD_LEN: usize = 0;
const CHECKSUM: usize = 4;

const _: () = assert!(segment_v1::record::PAYLOAD_LEN == PAYLOAD_LEN);
const _: () = assert!(segment_v2::record::PAYLOAD_LEN == PAYLOAD_LEN);
const _: () = assert!(segment_v1::record::CHECKSUM == CHECKSUM);
const _: () = assert!(segment_v2::record::CHECKSUM == CHECKSUM);
const _: () = assert!(segment_v1::record::HEADER_LEN <= HEADER_LEN_MAX);
const _: () = assert!(segment_v2::record::HEADER_LEN == HEADER_LEN_MAX);

/// Encodes and decodes the records of one segment.
#[derive(Clone, Copy, Debug)]
pub struct RecordCodec {
    format: SegmentFormat,
    /// The checksum after what every record of the segment starts with.
    identity: FrameCrc,
}

impl RecordCodec {
    /// The codec of a segment.
    ///
    /// The only place where a segment's identity enters its records' checksums:
    /// in version 2 bytes left over from another segment or stream never validate.
    pub fn new(format: SegmentFormat, stream_id: StreamId, segment_id: SegmentId) -> Self {
        let mut identity = Crc64::new();
        let with_identity = !crate::planted::is(crate::planted::Bug::NoIdentityInChecksum);
        if format == SegmentFormat::Full && with_identity {
            identity.update(&stream_id.as_u64().to_le_bytes());
            identity.update(&segment_id.as_u64().to_le_bytes());
        }
        Self { format, identity: FrameCrc::new(identity) }
    }

    /// The segment's layout.
    #[inline]
    pub const fn format(&self) -> SegmentFormat {
        self.format
    }

    /// Bytes of a record's header.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.format.header_len()
    }

    /// Bytes that a record takes: header, payload and padding.
    #[inline]
    pub const fn record_len(&self, payload_len: usize) -> usize {
        (self.header_len() + payload_len).next_multiple_of(RECORD_ALIGN)
    }

    /// The header of a record; the first eight bytes (payload length, checksum)
    /// are what the writer publishes last.
    ///
    /// The payload has 1 to [`PAYLOAD_LEN_MAX`] bytes: the caller has refused any
    /// other.
    #[inline]
    pub fn encode_header(&self, meta: &RecordMeta, payload: &[u8]) -> RecordHeaderBytes {
        match self.format {
            SegmentFormat::Full => self.header_v2(
                RecordFields {
                    logical_offset: meta.logical_offset,
                    append_ts_ms: meta.timestamp_ms,
                    flags: meta.flags,
                    durable_lag: meta.durable_lag,
                },
                payload,
            ),
            SegmentFormat::Compact => {
                let ns = meta.timestamp_ms.saturating_mul(NS_PER_MS);
                // All ones would make the record a gap.
                self.header_v1(ns.min(GAP_TIMESTAMP_NS - 1), payload)
            }
        }
    }

    #[inline]
    fn header_v2(&self, fields: RecordFields, payload: &[u8]) -> RecordHeaderBytes {
        let words = fields.words();
        let checksum = self.checksum_v2(payload.len() as u32, words, payload);
        let mut bytes = [0; HEADER_LEN_MAX];
        put(&mut bytes, 0, first_word(payload, checksum));
        put(&mut bytes, segment_v2::record::LOGICAL_OFFSET, words[0].to_le_bytes());
        put(&mut bytes, segment_v2::record::APPEND_TS_MS, words[1].to_le_bytes());
        put(&mut bytes, segment_v2::record::FLAGS, words[2].to_le_bytes());
        RecordHeaderBytes { bytes, len: segment_v2::record::HEADER_LEN }
    }

    #[inline]
    fn header_v1(&self, timestamp_ns: u64, payload: &[u8]) -> RecordHeaderBytes {
        let checksum = self.checksum_v1(payload.len() as u32, timestamp_ns, payload);
        let mut bytes = [0; HEADER_LEN_MAX];
        put(&mut bytes, 0, first_word(payload, checksum));
        put(&mut bytes, segment_v1::record::TIMESTAMP_NS, timestamp_ns.to_le_bytes());
        RecordHeaderBytes { bytes, len: segment_v1::record::HEADER_LEN }
    }

    #[inline]
    fn checksum_v2(&self, payload_len: u32, words: [u64; 3], payload: &[u8]) -> u32 {
        let frame = [u64::from(payload_len) << 32, words[0], words[1], words[2]];
        fold32(self.identity.checksum(frame, payload))
    }

    #[inline]
    fn checksum_v1(&self, payload_len: u32, timestamp_ns: u64, payload: &[u8]) -> u32 {
        let frame = [u64::from(payload_len) << 32, timestamp_ns];
        fold32(self.identity.checksum(frame, payload))
    }

    /// Reads a record's header without verifying anything but lengths.
    ///
    /// `bytes` starts at the record and runs to the end of the record space.
    /// `Ok(None)` when the first eight bytes are zero, or fewer than eight are
    /// left: the end. On success the record lies within `bytes`.
    #[inline]
    pub fn peek(&self, bytes: &[u8]) -> Result<Option<RecordHead>, RecordFault> {
        self.peek_header(bytes, bytes.len() as u64)
    }

    /// [`RecordCodec::peek`] of a record of which only the header need be in `bytes`;
    /// `available` is how many follow from its start.
    pub(crate) fn peek_header(
        &self,
        bytes: &[u8],
        available: u64,
    ) -> Result<Option<RecordHead>, RecordFault> {
        let Some(first_word) = bytes.first_chunk::<FIRST_WORD_LEN>() else {
            return Ok(None);
        };
        if *first_word == [0; FIRST_WORD_LEN] {
            return Ok(None);
        }
        let payload_len = u32_at(first_word, PAYLOAD_LEN);
        if payload_len == 0 {
            return Err(RecordFault::EmptyPayload);
        }
        let needed = (self.header_len() as u64 + u64::from(payload_len))
            .next_multiple_of(RECORD_ALIGN as u64);
        // The second condition keeps `record_len` within 32 bits however long
        // `bytes` is.
        if needed > available || payload_len as usize > PAYLOAD_LEN_MAX {
            return Err(RecordFault::Truncated { needed, available });
        }
        let head = RecordHead {
            payload_len,
            checksum: u32_at(first_word, CHECKSUM),
            logical_offset: None,
            timestamp_ms: 0,
            flags: RecordFlags::NONE,
            durable_lag: None,
            record_len: needed as u32,
        };
        Ok(Some(self.with_fields(head, bytes)))
    }

    /// Adds the fields behind the first word, which are known to be there.
    #[inline(always)]
    fn with_fields(&self, head: RecordHead, bytes: &[u8]) -> RecordHead {
        match self.format {
            SegmentFormat::Full => {
                let fields = RecordFields::from_words(segment_v2::record_words(bytes));
                RecordHead {
                    logical_offset: Some(fields.logical_offset),
                    timestamp_ms: fields.append_ts_ms,
                    flags: fields.flags,
                    durable_lag: Some(fields.durable_lag),
                    ..head
                }
            }
            SegmentFormat::Compact => match u64_at(bytes, segment_v1::record::TIMESTAMP_NS) {
                GAP_TIMESTAMP_NS => RecordHead { flags: GAP_FLAGS, ..head },
                ns => RecordHead { timestamp_ms: ns / NS_PER_MS, ..head },
            },
        }
    }

    /// Reads and verifies a record: [`peek`](Self::peek), checksum and padding.
    #[inline]
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Option<DecodedRecord<'a>>, RecordFault> {
        let Some(head) = self.peek(bytes)? else {
            return Ok(None);
        };
        let payload = self.check(bytes, &head)?;
        Ok(Some(DecodedRecord { head, payload }))
    }

    /// Verifies the checksum and the padding of a record already peeked. `bytes`
    /// starts at the record.
    #[inline]
    pub fn verify(&self, bytes: &[u8], head: &RecordHead) -> Result<(), RecordFault> {
        self.check(bytes, head).map(|_payload| ())
    }

    /// Verifies a record and gives its payload.
    #[inline]
    fn check<'a>(&self, bytes: &'a [u8], head: &RecordHead) -> Result<&'a [u8], RecordFault> {
        let header_len = self.header_len();
        let end = header_len + head.payload_len as usize;
        let record_len = end.next_multiple_of(RECORD_ALIGN);
        let Some(record) = bytes.get(..record_len) else {
            return Err(RecordFault::Truncated {
                needed: record_len as u64,
                available: bytes.len() as u64,
            });
        };
        let (header, payload) = record[..end].split_at(header_len);
        let expected = match self.format {
            SegmentFormat::Full => {
                self.checksum_v2(head.payload_len, segment_v2::record_words(header), payload)
            }
            SegmentFormat::Compact => {
                let timestamp_ns = u64_at(header, segment_v1::record::TIMESTAMP_NS);
                self.checksum_v1(head.payload_len, timestamp_ns, payload)
            }
        };
        if expected != head.checksum {
            return Err(RecordFault::Checksum { expected, found: head.checksum });
        }
        if !all_zero(&record[end..]) {
            return Err(RecordFault::Padding);
        }
        Ok(payload)
    }

    /// The bytes of a [`Gap`](crate::format::Gap) that fills a region exactly.
    ///
    /// `None` when no record has that length: not a multiple of eight, or shorter
    /// than the shortest record or longer than the longest.
    pub fn encode_gap(
        &self,
        logical_offset: u64,
        lost_count: u64,
        region_len: usize,
    ) -> Option<Vec<u8>> {
        let header_len = self.header_len();
        let payload_len = region_len.checked_sub(header_len)?;
        let fits = region_len.is_multiple_of(RECORD_ALIGN)
            && (LOST_COUNT_LEN..=PAYLOAD_LEN_MAX).contains(&payload_len);
        if !fits {
            return None;
        }
        let mut region = vec![0; region_len];
        put(&mut region, header_len, lost_count.to_le_bytes());
        let payload = &region[header_len..];
        let header = match self.format {
            SegmentFormat::Full => {
                let fields = RecordFields {
                    logical_offset,
                    append_ts_ms: 0,
                    flags: GAP_FLAGS,
                    durable_lag: 0,
                };
                self.header_v2(fields, payload)
            }
            SegmentFormat::Compact => self.header_v1(GAP_TIMESTAMP_NS, payload),
        };
        region[..header_len].copy_from_slice(header.as_bytes());
        Some(region)
    }
}

#[inline]
fn first_word(payload: &[u8], checksum: u32) -> [u8; FIRST_WORD_LEN] {
    debug_assert!((1..=PAYLOAD_LEN_MAX).contains(&payload.len()));
    (u64::from(checksum) << 32 | payload.len() as u64).to_le_bytes()
}
