//! Golden bytes of every layout of the manifest.
//!
//! Written down from the layout tables with a checksum of their own making, not
//! by the code under test. If one of these tests fails, the change breaks every
//! manifest that exists.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::format::{SegmentId, StreamId};
use std::path::Path;

const CHUNK_HEADER: &str = "\
    474f4c4d32464f41 0100000040000000 \
    0600000000000000 e803000000000000 \
    c000000000000000 8800000000000000 \
    b8b7b6b5b4b3b2b1 0100000000000000";

const SEGMENT_OPENED: &str = "\
    000000000c000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    f8a40dcdeba78258 0000010000000000 \
    0300000000000000";

const SEAL_SEGMENT: &str = "\
    0100000021000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    451289e3371d4a2f c800000000000000 \
    a8a7a6a5a4a3a2a1 0900000000000000 \
    0b00000000000000 0100000000000000";

const COMPRESSION_STARTED: &str = "\
    0200000004000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    ea0ba78bcb2204e8 4d00000000000000";

const COMPRESSION_DONE: &str = "\
    030000000c000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    b47ace5bdaaad00b 9600000000000000 \
    0200000000000000";

const COMPRESSION_FAILED: &str = "\
    0400000004000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    2233231b9905a9ef 0100000000000000";

const UPLOAD_STARTED: &str = "\
    050000000f000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    f09d9e0a867401e9 0d00612f37356337 \
    2f31322e7a737400";

const UPLOAD_DONE: &str = "\
    0600000015000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    688712c075a5d25b 0d000400612f3735 \
    63372f31322e7a73 7422653722000000";

const UPLOAD_FAILED: &str = "\
    0700000013000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    e2df5b33a008b1db 0d0002000000612f \
    373563372f31322e 7a73740000000000";

const TIER2_DELETE_QUEUED: &str = "\
    080000000f000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    f09d9e0a867401e9 0d00612f37356337 \
    2f31322e7a737400";

const TIER2_DELETED: &str = "\
    090000000f000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    f09d9e0a867401e9 0d00612f37356337 \
    2f31322e7a737400";

const HYDRATION_STARTED: &str = "\
    0a00000008000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    e5d2dc9ef8233d4f 0200000000000000";

const HYDRATION_DONE: &str = "\
    0b00000008000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    88394483f4ca723b c800000000000000";

const HYDRATION_FAILED: &str = "\
    0c00000004000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    eafa10fbb10c4e0c 0400000000000000";

const LOCAL_EVICTED: &str = "\
    0d00000008000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    6934943bbde59be5 0000010000000000";

const SNAPSHOT_MARKER: &str = "\
    0e00000018000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    4607fa8eb472a356 0600000000000000 \
    0004000000000000 0800000000000000";

const CUSTOM_EVENT: &str = "\
    0f0000000b000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    483b28387d8c2ffe 2a00000005006865 \
    6c6c6f0000000000";

const UNKNOWN: &str = "\
    3412018005000000 0201000000000000 \
    0500000000000000 7b68e5cf8b010000 \
    4d1d2380d237a416 6c61746572000000";

const SNAPSHOT: &str = "\
    50414e5332464f41 0300000080000000 0800000000000000 0200000000000000 \
    0600000000000000 0004000000000000 2e00000000000000 0401000000000000 \
    0100000000000000 0100000000000000 0100000000000000 4c00000000000000 \
    0700000000000000 0600000000000000 0500000000000000 0180000000000000 \
    0201000000000000 0000010000000000 03000000ffff0100 7b68e5cf8b010000 \
    8468e5cf8b010000 2900000000000000 c800000000000000 a8a7a6a5a4a3a2a1 \
    0900000000000000 0b00000000000000 7c68e5cf8b010000 9600000000000000 \
    020000004d000000 0200000000000000 c800000000000000 0000010000000000 \
    0100000002000000 0400000000000000 0000000000000000 0800000004000000 \
    0301000000000000 0801010000000000 0000000001000000 7d68e5cf8b010000 \
    7d68e5cf8b010000 2a00000000000000 0000000000000000 0000000000000000 \
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
    0000000000000000 0000000000000000 0c00000000000000 0000000000000000 \
    0301000000000000 0801010000000000 7e68e5cf8b010000 7f68e5cf8b010000 \
    2b00000000000000 0200000001000000 0300000008000000 0c00000000000000 \
    0101000000000000 8068e5cf8b010000 2c00000000000000 1400000000000000 \
    0800000000000000 0401000000000000 2d00000000000000 1c00000000000000 \
    3000000000000000 612f31322e7a7374 22653722612f3133 2e7a7374612f3131 \
    2e7a737402000000 0400000004010000 0000000005000000 000000007b68e5cf \
    8b010000ea0ba78b cb2204e84d000000 0000000000000000 29b35bf27273de59";

const SNAPSHOT_OF_NOTHING: &str = "\
    50414e5332464f41 0300000080000000 0000000000000000 0000000000000000 \
    0000000000000000 4000000000000000 0000000000000000 0000000000000000 \
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
    bcf5a2bcfce5e357";

const SEGMENT: SegmentId = SegmentId::from_u64(0x102);
const TIMESTAMP_MS: u64 = 1_700_000_000_123;
const KEY: &str = "a/75c7/12.zst";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn record(flags: u16, event: ManifestEvent<'_>) -> ManifestRecord<'_> {
    let (segment_id, logical_offset, timestamp_ms) = (SEGMENT, 5, TIMESTAMP_MS);
    ManifestRecord { flags, segment_id, logical_offset, timestamp_ms, event }
}

#[test]
fn chunk_header() {
    let header = ChunkHeader {
        chunk_index: 6,
        base_record: 1000,
        tail_offset: 192,
        committed_len: 136,
        chunk_crc64: 0xB1B2_B3B4_B5B6_B7B8,
        flags: ChunkFlags::SEALED,
    };
    assert_eq!(header.encode().to_vec(), bytes(CHUNK_HEADER));
    assert_eq!(ChunkHeader::decode(&bytes(CHUNK_HEADER)), Ok(header));
}

#[test]
fn every_record_type() {
    let sealed = ManifestEvent::SealSegment {
        durable_bytes: 200,
        segment_crc64: 0xA1A2_A3A4_A5A6_A7A8,
        ext_id: 9,
        coordinator_watermark: 11,
        flush_failure: true,
    };
    let marker =
        ManifestEvent::SnapshotMarker { chunk_index: 6, chunk_offset: 1024, snapshot_id: 8 };
    let events = [
        (
            "SegmentOpened",
            SEGMENT_OPENED,
            ManifestEvent::SegmentOpened { base_offset: 65536, epoch: 3 },
        ),
        ("SealSegment", SEAL_SEGMENT, sealed),
        (
            "CompressionStarted",
            COMPRESSION_STARTED,
            ManifestEvent::CompressionStarted { job_id: 77 },
        ),
        (
            "CompressionDone",
            COMPRESSION_DONE,
            ManifestEvent::CompressionDone { compressed_bytes: 150, dictionary_id: 2 },
        ),
        (
            "CompressionFailed",
            COMPRESSION_FAILED,
            ManifestEvent::CompressionFailed { reason: ReasonCode::CODEC },
        ),
        ("UploadStarted", UPLOAD_STARTED, ManifestEvent::UploadStarted { key: KEY }),
        ("UploadDone", UPLOAD_DONE, ManifestEvent::UploadDone { key: KEY, etag: "\"e7\"" }),
        (
            "UploadFailed",
            UPLOAD_FAILED,
            ManifestEvent::UploadFailed { key: KEY, reason: ReasonCode::AUTH },
        ),
        ("Tier2DeleteQueued", TIER2_DELETE_QUEUED, ManifestEvent::Tier2DeleteQueued { key: KEY }),
        ("Tier2Deleted", TIER2_DELETED, ManifestEvent::Tier2Deleted { key: KEY }),
        ("HydrationStarted", HYDRATION_STARTED, ManifestEvent::HydrationStarted { source_tier: 2 }),
        ("HydrationDone", HYDRATION_DONE, ManifestEvent::HydrationDone { resident_bytes: 200 }),
        (
            "HydrationFailed",
            HYDRATION_FAILED,
            ManifestEvent::HydrationFailed { reason: ReasonCode::MISSING },
        ),
        ("LocalEvicted", LOCAL_EVICTED, ManifestEvent::LocalEvicted { reclaimed_bytes: 65536 }),
        ("SnapshotMarker", SNAPSHOT_MARKER, marker),
        ("CustomEvent", CUSTOM_EVENT, ManifestEvent::CustomEvent { schema_id: 42, blob: b"hello" }),
    ];
    for (record_type, (name, golden, event)) in events.into_iter().enumerate() {
        assert_eq!(event.name(), name);
        assert_eq!(usize::from(event.record_type()), record_type);
        check_record(golden, record(0, event));
    }
}

#[test]
fn a_record_of_a_later_version_keeps_type_flags_and_payload() {
    let event = ManifestEvent::Unknown { record_type: 0x1234, payload: b"later" };
    assert_eq!(event.name(), "Unknown");
    check_record(UNKNOWN, record(0x8001, event));
}

fn check_record(golden: &str, record: ManifestRecord<'_>) {
    let mut encoded = b"before".to_vec();
    record.encode(&mut encoded).unwrap();
    assert_eq!(encoded[6..], bytes(golden), "{}", record.event.name());
    assert_eq!(record.encoded_len(), bytes(golden).len());
    assert_eq!(ManifestRecord::decode(&bytes(golden)), Ok((record, encoded.len() - 6)));
}

#[test]
fn snapshot() {
    let full = ManifestSegment {
        opened_at_ms: TIMESTAMP_MS,
        updated_at_ms: TIMESTAMP_MS + 9,
        last_record: 41,
        hot: true,
        durable_bytes: Some(200),
        segment_crc64: Some(0xA1A2_A3A4_A5A6_A7A8),
        ext_id: Some(9),
        watermark: Some(11),
        sealed_at_ms: Some(TIMESTAMP_MS + 1),
        flush_failure: Some(true),
        warm_bytes: Some(150),
        dictionary_id: Some(2),
        cold_key: Some("a/12.zst".into()),
        cold_etag: Some("\"e7\"".into()),
        resident_bytes: 200,
        reclaimed_bytes: 65536,
        compression_job: Some(77),
        hydration_source: Some(2),
        compression_failure: Some(1),
        upload_failure: Some(2),
        hydration_failure: Some(4),
        ..ManifestSegment::opened(SEGMENT, 65536, 3)
    };
    let young = ManifestSegment {
        opened_at_ms: TIMESTAMP_MS + 2,
        updated_at_ms: TIMESTAMP_MS + 2,
        last_record: 42,
        ..ManifestSegment::opened(SegmentId::from_u64(0x103), 65800, 0)
    };
    let upload = PendingUpload {
        key: "a/13.zst".into(),
        segment_id: SegmentId::from_u64(0x103),
        logical_offset: 65800,
        started_at_ms: TIMESTAMP_MS + 3,
        updated_at_ms: TIMESTAMP_MS + 4,
        last_record: 43,
        attempts: 2,
        failure: Some(ReasonCode::UNAVAILABLE),
    };
    let delete = PendingDelete {
        key: "a/11.zst".into(),
        segment_id: SegmentId::from_u64(0x101),
        queued_at_ms: TIMESTAMP_MS + 5,
        last_record: 44,
    };
    let waiting_for = SegmentId::from_u64(0x104);
    let mut waiting = Vec::new();
    let event = ManifestEvent::CompressionStarted { job_id: 77 };
    ManifestRecord { segment_id: waiting_for, ..record(0, event) }.encode(&mut waiting).unwrap();
    let counts = FoldCounts {
        unknown_records: 7,
        late_records: 6,
        unresolved_dropped: 5,
        unknown_flags: 0x8001,
    };
    let image = SnapshotImage {
        snapshot_id: 8,
        chunk_index: 6,
        chunk_offset: 1024,
        next_record: 46,
        opened_end: 0x104,
        segments: vec![full, young],
        pending_uploads: vec![upload],
        pending_deletes: vec![delete],
        unresolved: vec![UnresolvedRecord { segment_id: waiting_for, ordinal: 45, bytes: waiting }],
        counts,
    };
    assert_eq!(image.encode(), bytes(SNAPSHOT));
    assert_eq!(SnapshotImage::decode(&bytes(SNAPSHOT)), Ok(image));
}

#[test]
fn snapshot_of_nothing() {
    let image = SnapshotImage {
        snapshot_id: 0,
        chunk_index: 0,
        chunk_offset: 64,
        next_record: 0,
        opened_end: 0,
        segments: Vec::new(),
        pending_uploads: Vec::new(),
        pending_deletes: Vec::new(),
        unresolved: Vec::new(),
        counts: FoldCounts::default(),
    };
    assert_eq!(image.encode(), bytes(SNAPSHOT_OF_NOTHING));
    assert_eq!(image.encode().len(), SNAPSHOT_LEN_MIN);
    assert_eq!(SnapshotImage::decode(&bytes(SNAPSHOT_OF_NOTHING)), Ok(image));
}

#[test]
fn file_names_and_keys() {
    let chunk = ChunkFileName { chunk_index: 12 };
    assert_eq!(chunk.format(), "00000000000000000012.mlog");
    assert_eq!(chunk.format_temporary(), "00000000000000000012.mlog.tmp");
    assert_eq!(ChunkFileName::parse("00000000000000000012.mlog"), Some(chunk));
    assert_eq!(ChunkFileName::parse_temporary("00000000000000000012.mlog.tmp"), Some(chunk));
    let snapshot = SnapshotFileName { snapshot_id: 34 };
    assert_eq!(snapshot.format(), "snapshot_00000000000000000034.bin");
    assert_eq!(snapshot.format_temporary(), "snapshot_00000000000000000034.bin.tmp");
    assert_eq!(SnapshotFileName::parse("snapshot_00000000000000000034.bin"), Some(snapshot));
    let temporary = "snapshot_00000000000000000034.bin.tmp";
    assert_eq!(SnapshotFileName::parse_temporary(temporary), Some(snapshot));
    let stream = StreamId::from_u64(0x1122_3344_5566_7788);
    assert_eq!(manifest_dir(stream), Path::new("manifest/01234605616436508552"));
    let key = "logs/manifest/1122334455667788/00000000000000000012.mlog";
    let name = StoredChunkName { stream_id: stream, lineage: 0, chunk_index: 12 };
    assert_eq!((name.key("logs").as_str(), name.key("logs/").as_str()), (key, key));
    assert_eq!(name.key(""), key["logs/".len()..]);
    assert_eq!(StoredChunkName::parse(key), Some(name));
    assert_eq!(StoredChunkName::parse(&key["logs/".len()..]), Some(name));
    let name = StoredChunkName { lineage: 0x1a, ..name };
    let key = "logs/manifest/1122334455667788/0000001a/00000000000000000012.mlog";
    assert_eq!(name.key("logs"), key);
    assert_eq!(StoredChunkName::parse(key), Some(name));
}
