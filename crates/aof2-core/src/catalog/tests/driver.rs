//! An engine on a simulated machine, and what it decides drawn from a seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use crate::catalog::config::CatalogConfig;
use crate::catalog::database::Applied;
use crate::catalog::engine::{Engine, Group, Request};
use crate::catalog::guard::Promise;
use crate::catalog::open::open_engine;
use crate::catalog::recover::Recovery;
use crate::catalog::replay::{apply_batch, batch_of};
use crate::catalog::state::{ReadTables, State};
use crate::catalog::tables::{Key, Table};
use crate::catalog::view::View;
use crate::error::{AofError, Result};
use crate::format::operation::*;
use crate::format::{SegmentId, StreamId};
use crate::io::sim::SimStorage;

pub(super) const ROOT: &str = "/data";

/// All rows of all tables.
pub(super) type Rows = BTreeMap<(Table, Key), Vec<u8>>;

pub(super) fn config() -> CatalogConfig {
    CatalogConfig { segment_bytes: 64 << 10, ..CatalogConfig::new(ROOT) }.actor("test")
}

pub(super) fn open(sim: &SimStorage) -> Result<(Engine, Recovery)> {
    open_with(sim, config())
}

pub(super) fn open_with(sim: &SimStorage, config: CatalogConfig) -> Result<(Engine, Recovery)> {
    open_engine(config, Arc::new(sim.clone()), Arc::new(sim.clock().clone()))
}

/// Decides one group.
pub(super) fn decide(engine: &mut Engine, requests: Vec<Request>) -> Result<Arc<[Operation]>> {
    let (promise, completion) = Promise::new();
    engine.commit([Group { actor: "test".into(), requests, promise }].into());
    completion.wait(None).unwrap_or(Err(AofError::Closed))
}

pub(super) fn one(engine: &mut Engine, body: OperationBody) -> Result<OperationBody> {
    Ok(decide(engine, vec![Request::new(body)])?[0].body.clone())
}

pub(super) fn dump(view: &View) -> Rows {
    let mut rows = Rows::new();
    for table in Table::ALL {
        view.walk(table, &[], &mut |key, value| {
            rows.insert((table, key.to_vec()), value.to_vec());
            Ok(true)
        })
        .unwrap();
    }
    rows
}

/// What batches add up to, in plain memory.
pub(super) fn fold(rows: &mut Rows, applied: &mut Applied, batches: &[OperationBatch]) {
    for batch in batches {
        let mut state = State::new(rows);
        apply_batch(&mut state, applied, batch, Path::new(ROOT)).unwrap();
        let changes = state.into_changes();
        for (place, value) in changes {
            match value {
                Some(value) => rows.insert(place, value),
                None => rows.remove(&place),
            };
        }
        applied.generation = Some(batch.generation);
        applied.batch_crc64 = batch.encode().1;
    }
}

/// All batches of the log, which must go back to the first.
pub(super) fn batches(engine: &Engine) -> Vec<OperationBatch> {
    let scan = engine.core.log.scan(Default::default()).unwrap();
    scan.map(|record| batch_of(&record.unwrap(), Path::new(ROOT)).unwrap().0).collect()
}

/// Whether the tables are what the log adds up to, and agree with each other.
pub(super) fn check(engine: &Engine) -> std::result::Result<(), String> {
    let view = engine.core.tables.view().map_err(|e| e.to_string())?;
    let problems = crate::catalog::verify::verify(&view).map_err(|e| e.to_string())?;
    if !problems.is_empty() {
        return Err(format!("{problems:?}"));
    }
    if engine.core.log.earliest_offset() > 0 {
        return Ok(());
    }
    let mut rows = Rows::new();
    let mut applied = Applied::nothing(engine.core.log.stream_id().as_u64());
    fold(&mut rows, &mut applied, &batches(engine));
    if rows != dump(&view) || applied != view.applied() {
        return Err("the tables are not what the log adds up to".into());
    }
    Ok(())
}

fn small(rng: &mut Rng, max: u32) -> u32 {
    1 + rng.u32(..max)
}

fn chunk(rng: &mut Rng, at: u64) -> ChunkFields {
    ChunkFields {
        chunk_id: small(rng, 12),
        first_page: rng.u32(..4) * 1024,
        page_count: 1024,
        size_bytes: 4096,
        crc64: rng.u64(..),
        compression: ChunkCompression::Raw,
        residency: ChunkResidency::Local,
        lsn_start: at,
        lsn_end: at + rng.u64(1..10),
        remote: None,
    }
}

fn object(rng: &mut Rng) -> ObjectName {
    let variants = [Variant::BASE, Variant::WAL, Variant::SEGMENT, Variant::delta(1)];
    ObjectName {
        origin_db: small(rng, 4),
        chunk_id: small(rng, 12),
        variant: variants[rng.usize(..variants.len())],
        generation: rng.u32(..6),
    }
}

fn mutation(rng: &mut Rng) -> ChunkMutation {
    if rng.bool() {
        let supersedes = rng.bool().then(|| small(rng, 12));
        return ChunkMutation::Full { chunk: chunk(rng, 0), supersedes };
    }
    ChunkMutation::Delta(DeltaFields {
        base_chunk_id: small(rng, 12),
        delta_id: 1,
        dirty_pages: vec![rng.u8(..)],
        size_bytes: 64,
        crc64: rng.u64(..),
        compression: ChunkCompression::Raw,
        residency: ChunkResidency::Local,
        remote: None,
    })
}

fn name(rng: &mut Rng) -> String {
    format!("name-{}", rng.u32(..6))
}

/// A request that often, but not always, can hold.
pub(super) fn draw(rng: &mut Rng, view: &View) -> Request {
    use OperationBody as B;
    let db_id = small(rng, 5);
    let job_id = u64::from(small(rng, 8));
    // Sometimes one that is over.
    let runs = view.job(job_id).unwrap().map_or(0, |job| job.runs);
    let run = runs.saturating_sub(u32::from(rng.u32(..4) == 0));
    let current = view.database(db_id).unwrap().map_or(0, |row| row.generation);
    let wal_end = view.wal_state(db_id, 0).unwrap().map_or(0, |wal| wal.last_sealed_lsn);
    let kind = JobKind::ALL[rng.usize(..JobKind::ALL.len())];
    let until_ms = rng.u64(..4_000_000_000_000);
    let body = match rng.u32(..34) {
        0..=1 => B::RegisterDb { db_id: 0, name: name(rng), kind: DbKind::Pages, config_hash: 1 },
        2 => B::CreateStream { db_id: 0, name: name(rng), config_hash: 2 },
        3 if rng.u32(..4) == 0 => B::UpdateDbStatus { db_id, status: DbStatus::Dropped },
        3 => B::UpdateDbStatus { db_id, status: DbStatus::ReadOnly },
        4 => B::ForkDb {
            db_id: 0,
            name: name(rng),
            parent_db: db_id,
            generation: current.saturating_sub(rng.u32(..2)),
            offset: rng.u64(..10),
            config_hash: 3,
        },
        5 => B::RemoveDb { db_id, job_id: 0 },
        6 => B::AddNamespace { namespace_id: 0, url: "s3://bucket".into(), encryption: None },
        7 => B::DropNamespace { namespace_id: small(rng, 3) },
        8 => B::ReserveJobId { job_id: 0 },
        9..=10 => B::EnqueueJob {
            job_id: 0,
            db_id: rng.u32(..4),
            kind,
            payload: vec![1],
            not_before_ms: 0,
            attempts_max: 2,
        },
        11 => B::LeaseJob { job_id, run: 0, owner: "a".into(), until_ms },
        12 => B::HeartbeatJob { job_id, run, owner: "a".into(), until_ms },
        13..=14 => B::CompleteJob {
            job_id,
            run,
            outcome: if rng.bool() { JobOutcome::Done } else { JobOutcome::Failed },
            message: "told".into(),
            retry_at_ms: until_ms,
        },
        15..=16 => B::AppendWalChunk {
            db_id,
            shard: 0,
            generation: current,
            chunk: chunk(rng, wal_end),
            upload_job: rng.bool().then_some(0),
        },
        17..=20 => B::CheckpointApply {
            db_id,
            shard: 0,
            generation: current + 1,
            applied_lsn: wal_end.saturating_sub(rng.u64(..10)),
            mutations: (0..1 + rng.u32(..3)).map(|_| mutation(rng)).collect(),
            deltas_max: 1,
            merge_job: 0,
            gc_job: 0,
        },
        21 => B::SetResidency { db_id, object: object(rng), residency: ChunkResidency::Evicted },
        22 => {
            let objects = view.unused_objects(db_id, 2).unwrap();
            B::CollectObjects { db_id, objects }
        }
        23..=24 => B::PublishSnapshot {
            db_id,
            snapshot_id: 0,
            name: name(rng),
            generation: current.saturating_sub(rng.u32(..2)),
            offset: rng.u64(..10),
            expires_at_ms: None,
        },
        25 => B::DropSnapshot { db_id, snapshot_id: small(rng, 4), job_id: 0 },
        26 => B::RecordMetric { scope: rng.u32(..2), metric: rng.u32(..2), value: rng.u64(..99) },
        27 => {
            let generation = rng.u64(..9);
            B::AdvanceComponent { component_id: 0, name: name(rng), generation }
        }
        28 => B::Trim { db_id, before_offset: rng.u64(..9) },
        29 => {
            let policy = Policy { max_bytes: Some(rng.u64(..9)), ..Default::default() };
            B::SetPolicy { db_id, policy }
        }
        _ => return outside(rng, view, db_id),
    };
    let stream_id = StreamId::from_random(rng.u64(..3));
    Request { stream_id, ..Request::new(body) }
}

/// An intent, or how one ended.
fn outside(rng: &mut Rng, view: &View, db_id: u32) -> Request {
    use OperationBody as B;
    let intents = view.open_intents().unwrap();
    if let Some((id, intent)) = intents.get(rng.usize(..4)) {
        let phase = Phase::ALL[1 + rng.usize(..3)];
        return crate::catalog::intents::outcome(*id, intent, phase).unwrap();
    }
    let (namespace_id, key) = (small(rng, 2), "key".to_owned());
    let mut object = object(rng);
    object.origin_db = db_id;
    // Half of the time something that is there.
    view.each_chunk(db_id, |chunk_id, row| {
        object = ObjectName {
            origin_db: db_id,
            chunk_id,
            variant: row.variant,
            generation: row.generation,
        };
        rng.bool()
    })
    .unwrap();
    let body = match rng.u32(..4) {
        0 => B::DeleteFromTier2 { db_id, namespace_id, object, key },
        1 => B::CompactRange { db_id, outputs: Vec::new() },
        _ => B::UploadToTier2 { db_id, namespace_id, object, key },
    };
    let segment = SegmentRef {
        segment_id: SegmentId::from_u64(u64::from(object.chunk_id)),
        crc64: 1,
        bytes: 2,
        epoch: object.generation,
    };
    Request { phase: Phase::Intent, segments: vec![segment], ..Request::new(body) }
}

/// A machine with a catalog in which something happened.
pub(super) fn lived(seed: u64, steps: usize) -> (SimStorage, Engine) {
    let sim = SimStorage::new();
    sim.seed_random(seed);
    let (mut engine, _) = open(&sim).unwrap();
    let mut rng = Rng::with_seed(seed);
    for _ in 0..steps {
        let view = engine.core.tables.view().unwrap();
        let requests = (0..1 + rng.u32(..2)).map(|_| draw(&mut rng, &view)).collect();
        drop(view);
        let _ = decide(&mut engine, requests);
        sim.clock().advance_ms(rng.u64(..1000));
    }
    (sim, engine)
}
