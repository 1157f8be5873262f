//! A record never reaches past its bytes, and one that validates is exactly what
//! the encoder would have written.
#![no_main]

use aof2_core::format::{
    Crc64, DecodedRecord, RecordCodec, RecordHead, RecordMeta, SegmentFormat, SegmentId, StreamId,
    fold32,
};
use libfuzzer_sys::fuzz_target;

const STREAM: u64 = 1;
const SEGMENT: u64 = 2;

fuzz_target!(|bytes: &[u8]| {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let (stream, segment) = (StreamId::from_u64(STREAM), SegmentId::from_u64(SEGMENT));
        let codec = RecordCodec::new(format, stream, segment);
        check(&codec, bytes);
        if let Ok(Some(head)) = codec.peek(bytes) {
            let sealed = with_valid_checksum(&codec, bytes, &head);
            assert!(matches!(codec.decode(&sealed), Ok(Some(_))));
            check(&codec, &sealed);
        }
    }
});

fn check(codec: &RecordCodec, bytes: &[u8]) {
    let Ok(Some(head)) = codec.peek(bytes) else {
        assert!(!matches!(codec.decode(bytes), Ok(Some(_))));
        return;
    };
    let len = head.record_len as usize;
    assert!(len <= bytes.len() && len == codec.record_len(head.payload_len as usize));
    let verified = codec.verify(bytes, &head);
    match codec.decode(bytes) {
        Ok(Some(record)) => {
            assert_eq!((record.head, verified), (head, Ok(())));
            check_encoding(codec, &record, &bytes[..len]);
            check_gap(codec, &record);
        }
        Ok(None) => panic!("a head was found"),
        Err(fault) => assert_eq!(verified, Err(fault)),
    }
}

/// Version 1 keeps nanoseconds and a head milliseconds, so there only records
/// stamped at a whole millisecond come back as they were.
fn check_encoding(codec: &RecordCodec, record: &DecodedRecord<'_>, bytes: &[u8]) {
    let head = record.head;
    let ms = head.timestamp_ms.wrapping_mul(1_000_000).to_le_bytes();
    if codec.format() == SegmentFormat::Compact && ms != bytes[8..16] {
        return;
    }
    let meta = RecordMeta {
        logical_offset: head.logical_offset.unwrap_or(0),
        timestamp_ms: head.timestamp_ms,
        flags: head.flags,
        durable_lag: head.durable_lag.unwrap_or(0),
    };
    let header = codec.encode_header(&meta, record.payload);
    let mut again = [header.as_bytes(), record.payload].concat();
    again.resize(bytes.len(), 0);
    assert_eq!(again, bytes);
}

fn check_gap(codec: &RecordCodec, record: &DecodedRecord<'_>) {
    let Some(gap) = record.gap() else { return };
    let offset = record.head.logical_offset.unwrap_or(0);
    let len = record.head.record_len as usize;
    let bytes = codec.encode_gap(offset, gap.lost_count, len).unwrap();
    let again = codec.decode(&bytes).unwrap().unwrap();
    assert_eq!((again.gap(), again.head.record_len as usize), (Some(gap), len));
}

/// The record with the checksum that the documented bytes have, computed in the
/// plain way, and zero padding.
fn with_valid_checksum(codec: &RecordCodec, bytes: &[u8], head: &RecordHead) -> Vec<u8> {
    let mut bytes = bytes[..head.record_len as usize].to_vec();
    let end = codec.header_len() + head.payload_len as usize;
    bytes[end..].fill(0);
    let mut crc = Crc64::new();
    if codec.format() == SegmentFormat::Full {
        crc.update(&STREAM.to_le_bytes());
        crc.update(&SEGMENT.to_le_bytes());
    }
    crc.update(&bytes[..4]);
    crc.update(&bytes[8..end]);
    bytes[4..8].copy_from_slice(&fold32(crc.finish()).to_le_bytes());
    bytes
}
