//! Operations of any type and content, drawn from a seed: for tests here and above.

use fastrand::Rng;

use super::*;
use crate::format::{SegmentId, StreamId};

fn text(rng: &mut Rng) -> String {
    (0..rng.usize(..12))
        .map(|_| *rng.choice(&['a', 'ß', '/', '-', '0', '語']).unwrap_or(&'x'))
        .collect()
}

fn some<T>(rng: &mut Rng, value: T) -> Option<T> {
    rng.bool().then_some(value)
}

fn code<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

fn object(rng: &mut Rng) -> ObjectName {
    let variants = [Variant::BASE, Variant::WAL, Variant::SEGMENT, Variant::delta(rng.u16(..))];
    ObjectName {
        origin_db: rng.u32(..),
        chunk_id: rng.u32(..),
        variant: code(rng, &variants),
        generation: rng.u32(..),
    }
}

fn remote(rng: &mut Rng) -> Option<RemoteObject> {
    let remote = RemoteObject { namespace_id: rng.u32(..), name: object(rng) };
    some(rng, remote)
}

fn chunk(rng: &mut Rng) -> ChunkFields {
    ChunkFields {
        chunk_id: rng.u32(..),
        first_page: rng.u32(..),
        page_count: rng.u32(..),
        size_bytes: rng.u64(..),
        crc64: rng.u64(..),
        compression: code(rng, ChunkCompression::ALL),
        residency: code(rng, ChunkResidency::ALL),
        lsn_start: rng.u64(..),
        lsn_end: rng.u64(..),
        remote: remote(rng),
    }
}

fn delta(rng: &mut Rng) -> DeltaFields {
    DeltaFields {
        base_chunk_id: rng.u32(..),
        delta_id: rng.u16(..),
        dirty_pages: text(rng).into_bytes(),
        size_bytes: rng.u64(..),
        crc64: rng.u64(..),
        compression: code(rng, ChunkCompression::ALL),
        residency: code(rng, ChunkResidency::ALL),
        remote: remote(rng),
    }
}

fn mutation(rng: &mut Rng) -> ChunkMutation {
    let supersedes = rng.u32(..);
    match rng.bool() {
        true => ChunkMutation::Full { chunk: chunk(rng), supersedes: some(rng, supersedes) },
        false => ChunkMutation::Delta(delta(rng)),
    }
}

fn segment(rng: &mut Rng) -> SegmentRef {
    SegmentRef {
        segment_id: SegmentId::from_u64(rng.u64(..)),
        crc64: rng.u64(..),
        bytes: rng.u64(..),
        epoch: rng.u32(..),
    }
}

fn list<T>(rng: &mut Rng, mut item: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..rng.usize(..4)).map(|_| item(rng)).collect()
}

/// A body of the type with this number.
pub(crate) fn body(number: u16, rng: &mut Rng) -> OperationBody {
    use OperationBody as B;
    let (db_id, n32, n64) = (rng.u32(..), rng.u32(..), rng.u64(..));
    let at = rng.u64(..);
    let optional = some(rng, at);
    match number {
        1 => B::EvictToTier1 { db_id },
        2 => B::PromoteToTier0 { db_id },
        3 => B::UploadToTier2 { db_id, namespace_id: n32, object: object(rng), key: text(rng) },
        4 => B::DeleteFromTier2 { db_id, namespace_id: n32, object: object(rng), key: text(rng) },
        5 => B::CompactRange { db_id, outputs: list(rng, segment) },
        6 => B::Trim { db_id, before_offset: n64 },
        7 => {
            let policy = Policy {
                max_age_ms: optional,
                max_bytes: some(rng, n64),
                snapshots_max: some(rng, n32),
            };
            B::SetPolicy { db_id, policy }
        }
        8 => B::CreateStream { db_id, name: text(rng), config_hash: n64 },
        16 => B::Migrate { version: n32, name: text(rng) },
        17 => {
            B::RegisterDb { db_id, name: text(rng), kind: code(rng, DbKind::ALL), config_hash: n64 }
        }
        18 => B::UpdateDbStatus { db_id, status: code(rng, DbStatus::ALL) },
        19 => B::ForkDb {
            db_id,
            name: text(rng),
            parent_db: n32,
            generation: rng.u32(..),
            offset: n64,
            config_hash: at,
        },
        20 => B::RemoveDb { db_id, job_id: n64 },
        21 => {
            let encryption = text(rng);
            B::AddNamespace { namespace_id: n32, url: text(rng), encryption: some(rng, encryption) }
        }
        22 => B::DropNamespace { namespace_id: n32 },
        23 => B::ReserveJobId { job_id: n64 },
        24 => B::EnqueueJob {
            job_id: n64,
            db_id,
            kind: code(rng, JobKind::ALL),
            payload: text(rng).into_bytes(),
            not_before_ms: at,
            attempts_max: n32,
        },
        25 => B::LeaseJob { job_id: n64, run: n32, owner: text(rng), until_ms: at },
        26 => B::HeartbeatJob { job_id: n64, run: n32, owner: text(rng), until_ms: at },
        27 => B::CompleteJob {
            job_id: n64,
            run: n32,
            outcome: code(rng, JobOutcome::ALL),
            message: text(rng),
            retry_at_ms: at,
        },
        28 => B::AppendWalChunk {
            db_id,
            shard: rng.u16(..),
            generation: n32,
            chunk: chunk(rng),
            upload_job: optional,
        },
        29 => B::CheckpointApply {
            db_id,
            shard: rng.u16(..),
            generation: n32,
            applied_lsn: n64,
            mutations: list(rng, mutation),
            deltas_max: rng.u16(..),
            merge_job: at,
            gc_job: rng.u64(..),
        },
        30 => B::SetResidency {
            db_id,
            object: object(rng),
            residency: code(rng, ChunkResidency::ALL),
        },
        31 => B::CollectObjects { db_id, objects: list(rng, object) },
        32 => B::PublishSnapshot {
            db_id,
            snapshot_id: n32,
            name: text(rng),
            generation: rng.u32(..),
            offset: n64,
            expires_at_ms: optional,
        },
        33 => B::DropSnapshot { db_id, snapshot_id: n32, job_id: n64 },
        34 => B::RecordMetric { scope: db_id, metric: n32, value: n64 },
        35 => B::AdvanceComponent { component_id: n32, name: text(rng), generation: n64 },
        36 => B::AdvanceCursor { component_id: n32, name: text(rng), next_generation: n64 },
        _ => B::ExpireCursor { component_id: n32 },
    }
}

/// An operation in some place of some batch.
pub(crate) fn operation(number: u16, rng: &mut Rng) -> Operation {
    let intent = OperationId { generation: rng.u64(..), index: rng.u32(..) };
    Operation {
        id: OperationId { generation: rng.u64(..), index: rng.u32(..) },
        term: rng.u64(..),
        phase: code(rng, Phase::ALL),
        intent: some(rng, intent),
        stream_id: StreamId::from_random(rng.u64(..3)),
        node_id: rng.u64(..),
        timestamp_ms: rng.u64(..),
        actor: text(rng),
        segments: list(rng, segment),
        body: body(number, rng),
    }
}

/// A batch of one to four operations.
pub(crate) fn batch(rng: &mut Rng) -> OperationBatch {
    let generation = rng.u64(..);
    let operations = (0..1 + rng.u32(..4)).map(|index| {
        let number = code(rng, OPERATION_TYPES).0;
        Operation { id: OperationId { generation, index }, ..operation(number, rng) }
    });
    let operations = operations.collect();
    OperationBatch { generation, previous_crc64: rng.u64(..), operations }
}
