//! The stored sparse index of a sealed segment: where walking its records can start.
//!
//! ```text
//!    0 u64 magic "AOF2INDX"     8 u32 version = 1     12 u32 point_count
//!   16 u64 stream_id           24 u64 segment_id
//!   32 u64 durable_bytes       40 u64 segment_crc64, as in the segment's footer
//!   48 u64 zero                56 u64 crc64 of bytes 0..56 and of all points
//!   64 points, 24 bytes each, ordered:
//!       0 u32 position   4 u32 zero   8 u64 offset   16 u64 timestamp_before_ms
//! ```
//!
//! The file is a shortcut and never the truth: it names the exact content it was
//! made from, and one that does not validate, or is not there, costs a walk.

use super::bytes::{block, put, u32_at, u64_at};
use super::{Crc64, FormatError, SEGMENT_BYTES_MAX, SEGMENT_HEADER_LEN, SegmentId, StreamId};

const MAGIC: u64 = 0x414F_4632_494E_4458;
const VERSION: u32 = 1;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const POINT_COUNT: usize = VERSION + 4;
    pub const STREAM_ID: usize = POINT_COUNT + 4;
    pub const SEGMENT_ID: usize = STREAM_ID + 8;
    pub const DURABLE_BYTES: usize = SEGMENT_ID + 8;
    pub const SEGMENT_CRC: usize = DURABLE_BYTES + 8;
    pub const RESERVED: usize = SEGMENT_CRC + 8;
    pub const CRC: usize = RESERVED + 8;
}

mod point {
    pub const POSITION: usize = 0;
    pub const ZERO: usize = POSITION + 4;
    pub const OFFSET: usize = ZERO + 4;
    pub const TIMESTAMP: usize = OFFSET + 8;
    pub const LEN: usize = TIMESTAMP + 8;
}

const HEADER_LEN: usize = header::CRC + 8;
/// Bytes of a segment that one point of its index covers.
pub const INDEX_SPACING: u32 = 64 << 10;
/// Length of the longest index there is.
pub const SEGMENT_INDEX_LEN_MAX: usize =
    HEADER_LEN + (SEGMENT_BYTES_MAX / INDEX_SPACING as u64) as usize * point::LEN;

const _: () = assert!(HEADER_LEN == 64 && point::LEN == 24);

/// A record's place: where walking can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPoint {
    /// Byte of the file where the record starts.
    pub position: u32,
    /// Its logical offset.
    pub offset: u64,
    /// Largest timestamp of all records before it in the segment.
    pub timestamp_before_ms: u64,
}

/// The content an index was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedSegment {
    /// Stream of the segment.
    pub stream_id: StreamId,
    /// The segment.
    pub segment_id: SegmentId,
    /// Bytes of header and records.
    pub durable_bytes: u64,
    /// Checksum over them.
    pub segment_crc64: u64,
}

/// A sparse index and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentIndex {
    /// What it is of.
    pub of: IndexedSegment,
    /// Its points, ordered by position.
    pub points: Vec<IndexPoint>,
}

impl SegmentIndex {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        put(&mut bytes, header::MAGIC, MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, VERSION.to_le_bytes());
        put(&mut bytes, header::POINT_COUNT, (self.points.len() as u32).to_le_bytes());
        put(&mut bytes, header::STREAM_ID, self.of.stream_id.as_u64().to_le_bytes());
        put(&mut bytes, header::SEGMENT_ID, self.of.segment_id.as_u64().to_le_bytes());
        put(&mut bytes, header::DURABLE_BYTES, self.of.durable_bytes.to_le_bytes());
        put(&mut bytes, header::SEGMENT_CRC, self.of.segment_crc64.to_le_bytes());
        for p in &self.points {
            let mut entry = [0; point::LEN];
            put(&mut entry, point::POSITION, p.position.to_le_bytes());
            put(&mut entry, point::OFFSET, p.offset.to_le_bytes());
            put(&mut entry, point::TIMESTAMP, p.timestamp_before_ms.to_le_bytes());
            bytes.extend_from_slice(&entry);
        }
        let crc = checksum(&bytes);
        put(&mut bytes, header::CRC, crc.to_le_bytes());
        bytes
    }

    /// Reads a file back. Points are ordered and lie inside the segment.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let head = block::<HEADER_LEN>(bytes)
            .ok_or(FormatError::TooShort { needed: HEADER_LEN, available: bytes.len() })?;
        let found = u64_at(head, header::MAGIC);
        if found != MAGIC {
            return Err(FormatError::BadMagic { found });
        }
        let version = u32_at(head, header::VERSION);
        if version != VERSION {
            return Err(FormatError::UnsupportedVersion { found: version });
        }
        let points = bytes.get(HEADER_LEN..).unwrap_or_default();
        if points.len() != u32_at(head, header::POINT_COUNT) as usize * point::LEN {
            return Err(bad("point_count", "the file has another length"));
        }
        let (expected, found) = (checksum(bytes), u64_at(head, header::CRC));
        if expected != found {
            return Err(FormatError::BadChecksum { expected, found });
        }
        let index = Self {
            of: IndexedSegment {
                stream_id: StreamId::from_u64(u64_at(head, header::STREAM_ID)),
                segment_id: SegmentId::from_u64(u64_at(head, header::SEGMENT_ID)),
                durable_bytes: u64_at(head, header::DURABLE_BYTES),
                segment_crc64: u64_at(head, header::SEGMENT_CRC),
            },
            points: points.chunks_exact(point::LEN).map(decode_point).collect(),
        };
        let inside = SEGMENT_HEADER_LEN as u64..=index.of.durable_bytes;
        if !index.points.iter().all(|p| inside.contains(&u64::from(p.position))) {
            return Err(bad("position", "it lies outside the segment"));
        }
        if !index.points.is_sorted_by(|a, b| a.position < b.position && a.offset < b.offset) {
            return Err(bad("position", "the points are not ordered"));
        }
        Ok(index)
    }
}

fn decode_point(entry: &[u8]) -> IndexPoint {
    IndexPoint {
        position: u32_at(entry, point::POSITION),
        offset: u64_at(entry, point::OFFSET),
        timestamp_before_ms: u64_at(entry, point::TIMESTAMP),
    }
}

fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(bytes.get(..header::CRC).unwrap_or_default());
    crc.update(bytes.get(HEADER_LEN..).unwrap_or_default());
    crc.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(count: u32) -> SegmentIndex {
        let points = (1..=count)
            .map(|i| IndexPoint {
                position: 64 + i * 8,
                offset: u64::from(i) * 3,
                timestamp_before_ms: 1_000 + u64::from(i),
            })
            .collect();
        let of = IndexedSegment {
            stream_id: StreamId::legacy_of_name("events"),
            segment_id: SegmentId::from_u64(7),
            durable_bytes: 1 << 20,
            segment_crc64: 0x0123_4567_89AB_CDEF,
        };
        SegmentIndex { of, points }
    }

    #[test]
    fn the_bytes_are_pinned() {
        let bytes = index(1).encode();
        assert_eq!(bytes.len(), 88);
        assert_eq!(&bytes[..16], b"XDNI2FOA\x01\0\0\0\x01\0\0\0");
        assert_eq!(
            &bytes[24..48],
            b"\x07\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\xEF\xCD\xAB\x89\x67\x45\x23\x01"
        );
        assert_eq!(&bytes[64..88], b"\x48\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\xE9\x03\0\0\0\0\0\0");
        assert_eq!(u64_at(&bytes, 56), checksum(&bytes));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_every_flipped_bit_is_noticed(
            count in 0u32..40, byte in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let index = index(count);
            let mut bytes = index.encode();
            prop_assert_eq!(SegmentIndex::decode(&bytes).unwrap(), index);
            let at = byte.index(bytes.len());
            bytes[at] ^= 1 << bit;
            // The gap of the header is covered by the checksum like everything else.
            prop_assert!(SegmentIndex::decode(&bytes).is_err());
        }

        #[test]
        fn a_cut_file_is_refused(count in 0u32..40, len in any::<prop::sample::Index>()) {
            let bytes = index(count).encode();
            prop_assert!(SegmentIndex::decode(&bytes[..len.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = SegmentIndex::decode(&bytes);
        }
    }
}
