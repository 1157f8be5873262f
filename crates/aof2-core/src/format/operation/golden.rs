//! Golden bytes of operations and batches.
//!
//! Written down from the layout tables by a program with a checksum of its own, not by the
//! code under test. If one of these tests fails, the change breaks every catalog that exists.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::format::{SegmentId, StreamId};

const TRIM: &str = "\
    32504f4101000600 0200000000000000 0201000000000000 0700000000000000 \
    ffffffffffffffff ffffffff00000000 c775000000000000 a8a7a6a5a4a3a2a1 \
    7b68e5cf8b010000 0c00000000000000 3097d0d4bcc68dd6 05000000e8030000 \
    0000000000000000";

const UPLOAD: &str = "\
    32504f4101000300 0200060001000000 0201000000000000 0700000000000000 \
    0101000000000000 0000000001000000 c775000000000000 a8a7a6a5a4a3a2a1 \
    7b68e5cf8b010000 2400000000000000 632f97beb421ca5d 0c00000000000000 \
    b8b7b6b5b4b3b2b1 0010000000000000 0300000000000000 686f73743a390500 \
    0000020000000500 00000c0000000000 0300030000000800 0000612f31322e7a \
    7374000000000000";

const BATCH: &str = "\
    5245504f32464f41 0100000002000000 0201000000000000 c8c7c6c5c4c3c2c1 \
    1001000000000000 de16105dd7a1d790 32504f4101000600 0200000000000000 \
    0201000000000000 0700000000000000 ffffffffffffffff ffffffff00000000 \
    c775000000000000 a8a7a6a5a4a3a2a1 7b68e5cf8b010000 0c00000000000000 \
    3097d0d4bcc68dd6 05000000e8030000 0000000000000000 32504f4101000300 \
    0200060001000000 0201000000000000 0700000000000000 0101000000000000 \
    0000000001000000 c775000000000000 a8a7a6a5a4a3a2a1 7b68e5cf8b010000 \
    2400000000000000 632f97beb421ca5d 0c00000000000000 b8b7b6b5b4b3b2b1 \
    0010000000000000 0300000000000000 686f73743a390500 0000020000000500 \
    00000c0000000000 0300030000000800 0000612f31322e7a 7374000000000000";

const CHECKPOINT: &str = "\
    32504f4101001d00 0200020000000000 0500000000000000 0000000000000000 \
    ffffffffffffffff ffffffff00000000 0000000000000000 0100000000000000 \
    0200000000000000 9000000000000000 c1dfa1bba59fa457 6d65040000000000 \
    03000000c8000000 0000000002000000 0109000000000400 0000040000000040 \
    0000000000d2d100 0000000000020264 00000000000000c8 0000000000000001 \
    0200000004000000 0900000000000000 0300000001070000 0002080000000100 \
    010000000f000200 0000000000e2e100 0000000000010100 0800150000000000 \
    0000160000000000 0000000000000000";

const LEASE: &str = "\
    32504f4101001900 0200000000000000 0201000000000000 0700000000000000 \
    ffffffffffffffff ffffffff00000000 0000000000000000 a8a7a6a5a4a3a2a1 \
    7b68e5cf8b010000 1e00000000000000 9c47cea9a390c32d 1500000000000000 \
    0200000006000000 776f726b65720500 0000000000800000";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn trim() -> Operation {
    Operation {
        id: OperationId { generation: 0x0102, index: 0 },
        term: 7,
        phase: Phase::Done,
        intent: None,
        stream_id: StreamId::from_random(0x75C7),
        node_id: 0xA1A2_A3A4_A5A6_A7A8,
        timestamp_ms: 0x18B_CFE5_687B,
        actor: String::new(),
        segments: Vec::new(),
        body: OperationBody::Trim { db_id: 5, before_offset: 1000 },
    }
}

fn upload() -> Operation {
    let object =
        ObjectName { origin_db: 5, chunk_id: 12, variant: Variant::SEGMENT, generation: 3 };
    Operation {
        id: OperationId { generation: 0x0102, index: 1 },
        intent: Some(OperationId { generation: 0x0101, index: 0 }),
        actor: "host:9".into(),
        segments: vec![SegmentRef {
            segment_id: SegmentId::from_u64(12),
            crc64: 0xB1B2_B3B4_B5B6_B7B8,
            bytes: 4096,
            epoch: 3,
        }],
        body: OperationBody::UploadToTier2 {
            db_id: 5,
            namespace_id: 2,
            object,
            key: "a/12.zst".into(),
        },
        ..trim()
    }
}

fn checkpoint() -> Operation {
    let name = ObjectName { origin_db: 4, chunk_id: 9, variant: Variant::BASE, generation: 3 };
    let chunk = ChunkFields {
        chunk_id: 9,
        first_page: 1024,
        page_count: 1024,
        size_bytes: 4_194_304,
        crc64: 0xD1D2,
        compression: ChunkCompression::Zstd,
        residency: ChunkResidency::LocalAndRemote,
        lsn_start: 100,
        lsn_end: 200,
        remote: Some(RemoteObject { namespace_id: 2, name }),
    };
    let delta = DeltaFields {
        base_chunk_id: 8,
        delta_id: 1,
        dirty_pages: vec![15],
        size_bytes: 512,
        crc64: 0xE1E2,
        compression: ChunkCompression::Raw,
        residency: ChunkResidency::Local,
        remote: None,
    };
    Operation {
        id: OperationId { generation: 5, index: 0 },
        term: 0,
        phase: Phase::Done,
        intent: None,
        stream_id: None,
        node_id: 1,
        timestamp_ms: 2,
        actor: "me".into(),
        segments: Vec::new(),
        body: OperationBody::CheckpointApply {
            db_id: 4,
            shard: 0,
            generation: 3,
            applied_lsn: 200,
            mutations: vec![
                ChunkMutation::Full { chunk, supersedes: Some(7) },
                ChunkMutation::Delta(delta),
            ],
            deltas_max: 8,
            merge_job: 21,
            gc_job: 22,
        },
    }
}

fn lease() -> Operation {
    Operation {
        stream_id: None,
        body: OperationBody::LeaseJob {
            job_id: 21,
            run: 2,
            owner: "worker".into(),
            until_ms: (1 << 63) + 5,
        },
        ..trim()
    }
}

fn is_golden(operation: &Operation, golden: &str) {
    let mut bytes = Vec::new();
    operation.encode(&mut bytes);
    assert_eq!(bytes, unhex(golden), "{}", operation.body.name());
    assert_eq!(Operation::decode(&unhex(golden)).unwrap(), (operation.clone(), bytes.len()));
}

#[test]
fn operations_have_these_bytes() {
    is_golden(&trim(), TRIM);
    is_golden(&upload(), UPLOAD);
    is_golden(&checkpoint(), CHECKPOINT);
    is_golden(&lease(), LEASE);
}

#[test]
fn a_batch_has_these_bytes() {
    let batch = OperationBatch {
        generation: 0x0102,
        previous_crc64: 0xC1C2_C3C4_C5C6_C7C8,
        operations: vec![trim(), upload()],
    };
    let (bytes, crc) = batch.encode();
    assert_eq!(bytes, unhex(BATCH));
    assert_eq!(OperationBatch::decode(&bytes), Ok((batch, crc)));
}

#[test]
fn numbers_of_types_never_change() {
    let numbers: Vec<u16> = OPERATION_TYPES.iter().map(|(number, _)| *number).collect();
    let expected: Vec<u16> = (1..=8).chain(16..=37).collect();
    assert_eq!(numbers, expected);
    assert_eq!(OPERATION_TYPES[2], (3, "UploadToTier2"));
    assert_eq!(OPERATION_TYPES[8], (16, "Migrate"));
    assert_eq!(OPERATION_TYPES[29], (37, "ExpireCursor"));
}
