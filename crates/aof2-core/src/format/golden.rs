//! Golden bytes of every layout.
//!
//! Written down from the layout tables with a checksum of their own making, not
//! by the code under test. If one of these tests fails, the change breaks every
//! log that exists.

#![allow(clippy::unwrap_used)]

use super::*;

const STREAM: StreamId = StreamId::from_u64(0x1122_3344_5566_7788);
const SEGMENT: SegmentId = SegmentId::from_u64(0x102);

const HEADER_V2: &str = "\
    4d47455332464f41 0200000000000000 \
    8877665544332211 0201000000000000 \
    7b68e5cf8b010000 0000000000000000 \
    0000000000000000 abb301a1069141dd";

const RECORD_V2: &str = "\
    05000000dcc2d27b 0500000000000000 \
    7b68e5cf8b010000 0100000002000000 \
    68656c6c6f000000";

const GAP_V2: &str = "\
    10000000916e85e5 0700000000000000 \
    0000000000000000 0600000000000000 \
    0300000000000000 0000000000000000";

const FOOTER_V2: &str = "\
    0300000000000000 c800000000000000 \
    a8a7a6a5a4a3a2a1 0900000000000000 \
    0100000000000000 c869e5cf8b010000 \
    544f4f4632464f41 02ddc68a9ddcc5f4";

const HEADER_V1: &str = "\
    32464f4101004000 02010000e8030000 \
    0000000000000100 0000000000000100 \
    15cd853dfe9c9717 00178e3dfe9c9717 \
    0000000000000000 0adef1798bc65d7f";

const RECORD_V1: &str = "\
    0500000095d84474 c0d47e3dfe9c9717 \
    68656c6c6f000000";

const GAP_V1: &str = "\
    080000009286828b ffffffffffffffff \
    0300000000000000";

const FOOTER_V1: &str = "\
    544f4f4602010000 a000000002010000 \
    0300000000000000 c800000000000000 \
    00025851fe9c9717 a8a7a6a5a4a3a2a1 \
    412f3165fe9c9717 379bc6d766194775";

const WATERMARK_HEADER: &str = "\
    4b524d5732464f41 01000000e1100000 \
    8877665544332211 15cd853dfe9c9717 \
    0000000000000000 0000000000000000 \
    0000000000000000 a1582fd22f592beb";

const WATERMARK_BODY_BYTES: &str = "\
    c800000002010000 0a00000000000000 \
    f000000002010000 0b00000000000000 \
    0100000000000000 7a43f1283b91952c";

const STREAM_FILE: &str = "aof2-stream 1
name orders%2Feu%20%C3%A9
stream_id 1122334455667788
format full
created_at_ns 1700000000123456789
crc64 e58f8ae0f49bf321
";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn record(codec: &RecordCodec, meta: &RecordMeta, payload: &[u8]) -> Vec<u8> {
    let header = codec.encode_header(meta, payload);
    let mut record = header.first_word().to_le_bytes().to_vec();
    record.extend_from_slice(header.rest());
    assert_eq!(record, header.as_bytes());
    record.extend_from_slice(payload);
    record.resize(codec.record_len(payload.len()), 0);
    record
}

const META: RecordMeta = RecordMeta {
    logical_offset: 5,
    timestamp_ms: 1_700_000_000_123,
    flags: RecordFlags::SNAPSHOT_BOUNDARY,
    durable_lag: 2,
};

#[test]
fn checksum_is_crc64_nvme() {
    assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
    assert_eq!(crc64(b""), 0);
    assert_eq!(fold32(0xAE8B_1486_0A79_9888), 0xAE8B_1486 ^ 0x0A79_9888);
}

#[test]
fn header_of_version_2() {
    let header = SegmentHeader {
        format: SegmentFormat::Full,
        segment_id: SEGMENT,
        created_at_ns: 1_700_000_000_123_000_000,
        stream_id: Some(STREAM),
        base_record_count: None,
        base_offset: None,
        max_size: None,
        base_timestamp_ms: None,
    };
    assert_eq!(header.encode().to_vec(), bytes(HEADER_V2));
    assert_eq!(SegmentHeader::decode(&bytes(HEADER_V2)), Ok(Some(header)));
}

#[test]
fn header_of_version_1() {
    let header = SegmentHeader {
        format: SegmentFormat::Compact,
        segment_id: SEGMENT,
        created_at_ns: 1_700_000_000_123_456_789,
        stream_id: None,
        base_record_count: Some(1000),
        base_offset: Some(65536),
        max_size: Some(0x10000),
        base_timestamp_ms: Some(1_700_000_000_124),
    };
    assert_eq!(header.encode().to_vec(), bytes(HEADER_V1));
    assert_eq!(SegmentHeader::decode(&bytes(HEADER_V1)), Ok(Some(header)));
}

#[test]
fn footer_of_version_2() {
    let footer = SegmentFooter {
        format: SegmentFormat::Full,
        record_count: 3,
        durable_bytes: 200,
        segment_crc64: 0xA1A2_A3A4_A5A6_A7A8,
        ext_id: 9,
        flags: FOOTER_SEALED,
        last_timestamp_ms: 1_700_000_000_456,
        segment_id: None,
        last_record_id: None,
        sealed_at_ns: None,
    };
    assert_eq!(footer.encode().to_vec(), bytes(FOOTER_V2));
    assert_eq!(SegmentFooter::decode(SegmentFormat::Full, &bytes(FOOTER_V2)), Ok(Some(footer)));
}

#[test]
fn footer_of_version_1() {
    let footer = SegmentFooter {
        format: SegmentFormat::Compact,
        record_count: 3,
        durable_bytes: 200,
        segment_crc64: 0xA1A2_A3A4_A5A6_A7A8,
        ext_id: 0,
        flags: FOOTER_SEALED,
        last_timestamp_ms: 1_700_000_000_456,
        segment_id: Some(SEGMENT),
        last_record_id: Some(RecordId::from_parts(0x102, 160)),
        sealed_at_ns: Some(1_700_000_000_789_000_001),
    };
    assert_eq!(footer.encode().to_vec(), bytes(FOOTER_V1));
    assert_eq!(SegmentFooter::decode(SegmentFormat::Compact, &bytes(FOOTER_V1)), Ok(Some(footer)));
}

#[test]
fn record_of_version_2() {
    let codec = RecordCodec::new(SegmentFormat::Full, STREAM, SEGMENT);
    assert_eq!(record(&codec, &META, b"hello"), bytes(RECORD_V2));
    let found = bytes(RECORD_V2);
    let found = codec.decode(&found).unwrap().unwrap();
    assert_eq!(found.payload, b"hello");
    assert_eq!(found.head.logical_offset, Some(5));
    assert_eq!(found.head.timestamp_ms, META.timestamp_ms);
    assert_eq!(found.head.flags, RecordFlags::SNAPSHOT_BOUNDARY);
    assert_eq!(found.head.durable_lag, Some(2));
    assert_eq!(found.head.record_len, 40);
    assert_eq!(found.gap(), None);
}

#[test]
fn record_of_version_1() {
    let codec = RecordCodec::new(SegmentFormat::Compact, STREAM, SEGMENT);
    assert_eq!(record(&codec, &META, b"hello"), bytes(RECORD_V1));
    let found = bytes(RECORD_V1);
    let found = codec.decode(&found).unwrap().unwrap();
    assert_eq!(found.payload, b"hello");
    assert_eq!(found.head.logical_offset, None);
    assert_eq!(found.head.timestamp_ms, META.timestamp_ms);
    assert_eq!(found.head.flags, RecordFlags::NONE);
    assert_eq!(found.head.record_len, 24);
    assert_eq!(found.gap(), None);
}

#[test]
fn gaps_of_both_versions() {
    for (format, golden) in [(SegmentFormat::Full, GAP_V2), (SegmentFormat::Compact, GAP_V1)] {
        let codec = RecordCodec::new(format, STREAM, SEGMENT);
        let golden = bytes(golden);
        assert_eq!(codec.encode_gap(7, 3, golden.len()), Some(golden.clone()));
        let found = codec.decode(&golden).unwrap().unwrap();
        assert_eq!(found.gap(), Some(Gap { lost_count: 3 }));
    }
}

#[test]
fn watermark() {
    let header = WatermarkHeader {
        writer_pid: 4321,
        stream_id: STREAM,
        writer_epoch_ns: 1_700_000_000_123_456_789,
    };
    assert_eq!(header.encode().to_vec(), bytes(WATERMARK_HEADER));
    assert_eq!(WatermarkHeader::decode(&bytes(WATERMARK_HEADER)), Ok(header));
    let body = WatermarkBody {
        durable_position: RecordId::from_parts(0x102, 200).as_u64(),
        durable_count: 10,
        appended_position: RecordId::from_parts(0x102, 240).as_u64(),
        appended_count: 11,
        state: WatermarkState::Closed,
    };
    assert_eq!(body.encode(STREAM).to_vec(), bytes(WATERMARK_BODY_BYTES));
    assert_eq!(WatermarkBody::decode(STREAM, &bytes(WATERMARK_BODY_BYTES)), Ok(body));
}

#[test]
fn stream_file() {
    let identity = StreamIdentity {
        name: "orders/eu é".into(),
        stream_id: STREAM,
        format: SegmentFormat::Full,
        created_at_ns: 1_700_000_000_123_456_789,
        lineage: None,
    };
    assert_eq!(String::from_utf8(identity.encode()).unwrap(), STREAM_FILE);
    assert_eq!(StreamIdentity::decode(STREAM_FILE.as_bytes()), Ok(identity));
    assert_eq!(StreamId::legacy_of_name("events").to_string(), "75c7669a2ddb000a");
}

#[test]
fn stream_file_of_a_fork() {
    let identity = StreamIdentity {
        name: "trial".into(),
        stream_id: STREAM,
        format: SegmentFormat::Full,
        created_at_ns: 5,
        lineage: Some(0xff),
    };
    let text = "aof2-stream 2\nname trial\nstream_id 1122334455667788\nformat full\n\
                created_at_ns 5\nlineage 00000000000000ff\n";
    assert_eq!(String::from_utf8(identity.encode()).unwrap(), sealed(text));
    assert_eq!(StreamIdentity::decode(sealed(text).as_bytes()), Ok(identity));
}

#[test]
fn lineage_file() {
    let lineage = Lineage {
        stream_id: STREAM,
        root: "..".into(),
        start: OwnStart {
            segment: SegmentId::from_u64(4),
            offset: 300,
            bytes: 70_000,
            timestamp_ms: 99,
        },
        origins: vec![Inheritance {
            origin: StreamId::from_u64(0xff),
            first_segment: SegmentId::from_u64(1),
            last_segment: SegmentId::from_u64(3),
            cut: 4096,
            first_offset: 10,
            end_offset: 300,
            last_position: 4000,
            last_crc64: 0xabc,
            name: "orders/eu é".into(),
            path: "../orders".into(),
        }],
    };
    let text = "aof2-lineage 1\nstream_id 1122334455667788\nroot ..\nstart 4 300 70000 99\n\
                origin 00000000000000ff 1 3 4096 10 300 4000 0000000000000abc \
                orders%2Feu%20%C3%A9 ..%2Forders\n";
    assert_eq!(String::from_utf8(lineage.encode()).unwrap(), sealed(text));
    assert_eq!(Lineage::decode(sealed(text).as_bytes()), Ok(lineage.clone()));
    let name = Lineage::file_name(lineage.checksum());
    assert_eq!(Lineage::parse_file_name(&name), Some(crc64(sealed(text).as_bytes())));
}

#[test]
fn hold_file() {
    let hold = Hold {
        origin: StreamId::from_u64(0xff),
        kind: HolderKind::Snapshot,
        holder: STREAM,
        name: "before it".into(),
        path: ".".into(),
        first_segment: SegmentId::from_u64(1),
        last_segment: SegmentId::from_u64(3),
        cut: 4096,
        first_offset: 10,
        end_offset: 300,
        created_at_ms: 7,
        expires_at_ms: Some(8),
        is_pending: false,
    };
    let text = "aof2-hold 1\norigin 00000000000000ff\nholder snapshot 1122334455667788 \
                before%20it .\nsegments 1 3 4096\noffsets 10 300\ncreated_at_ms 7\n\
                expires_at_ms 8\nstate held\n";
    assert_eq!(String::from_utf8(hold.encode()).unwrap(), sealed(text));
    assert_eq!(Hold::decode(sealed(text).as_bytes()), Ok(hold.clone()));
    let fork = Hold { kind: HolderKind::Fork, expires_at_ms: None, is_pending: true, ..hold };
    assert_eq!(fork.file_name(), "fork-1122334455667788.hold");
    assert_eq!(Hold::decode(&fork.encode()), Ok(fork));
}

/// A text with the line that ends it.
fn sealed(text: &str) -> String {
    format!("{text}crc64 {:016x}\n", crc64(text.as_bytes()))
}

#[test]
fn file_names() {
    let segment = SegmentFileName {
        segment_id: SegmentId::from_u64(12),
        base_offset: 34,
        created_at_ns: u64::MAX,
    };
    let name = "00000000000000000012_00000000000000000034_18446744073709551615.seg";
    assert_eq!(segment.format(), name);
    assert_eq!(SegmentFileName::parse(name), Some(segment));
    let archive = ArchiveFileName { segment_id: SegmentId::from_u64(12), sealed_at_ns: 34 };
    let name = "00000000000000000012_00000000000000000034.seg";
    assert_eq!(archive.format(), name);
    assert_eq!(ArchiveFileName::parse(name), Some(archive));
    let spare = SpareFileName { ordinal: 7 };
    assert_eq!(spare.format(), "spare_00000000000000000007.seg.tmp");
    assert_eq!(SpareFileName::parse("spare_00000000000000000007.seg.tmp"), Some(spare));
}
