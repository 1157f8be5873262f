//! What callers may not do, and what ends however the rest of the catalog ends.

use std::sync::Arc;

use super::driver::{config, decide, one, open};
use super::scenario::chunk;
use crate::catalog::engine::Request;
use crate::catalog::records::NamespaceRecord;
use crate::catalog::{Catalog, IntentHost};
use crate::error::{AofError, Result};
use crate::format::operation::{OperationBody as B, *};
use crate::format::{SegmentId, StreamId};
use crate::io::Storage;
use crate::io::sim::{Fault, Op, SimStorage};

fn catalog(sim: &SimStorage) -> Catalog {
    Catalog::open_on(config(), sim.share(), Arc::new(sim.clock().clone())).unwrap()
}

fn is_refused<T: std::fmt::Debug>(told: Result<T>) {
    assert!(matches!(told, Err(AofError::Refused { .. })), "{told:?}");
}

#[test]
fn nobody_but_the_catalog_changes_its_version_or_the_places_of_cursors() {
    let catalog = catalog(&SimStorage::new());
    for body in [
        B::Migrate { version: 2, name: "mine".into() },
        B::AdvanceCursor { component_id: 0, name: "search".into(), next_generation: 9 },
        B::ExpireCursor { component_id: 1 },
    ] {
        is_refused(catalog.submit(vec![Request::new(body)]));
    }
}

fn job(job_id: u64, kind: JobKind) -> B {
    let payload = Vec::new();
    B::EnqueueJob { job_id, db_id: 0, kind, payload, not_before_ms: 0, attempts_max: 1 }
}

#[test]
fn a_job_has_a_number_that_was_reserved_and_that_no_job_had() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    is_refused(one(engine, job(1, JobKind::Gc)));
    is_refused(one(engine, job(7, JobKind::Gc)));
    one(engine, B::ReserveJobId { job_id: 0 }).unwrap();
    one(engine, job(1, JobKind::Gc)).unwrap();
    let done = B::CompleteJob {
        job_id: 1,
        run: 0,
        outcome: JobOutcome::Done,
        message: String::new(),
        retry_at_ms: 0,
    };
    one(engine, done).unwrap();
    // The row of the first goes with the next of its kind; its number stays taken.
    one(engine, job(0, JobKind::Gc)).unwrap();
    is_refused(one(engine, job(1, JobKind::Merge)));
}

#[test]
fn a_number_that_leaves_none_for_the_next_is_refused() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    let register = |db_id, name: &str| B::RegisterDb {
        db_id,
        name: name.into(),
        kind: DbKind::Pages,
        config_hash: 1,
    };
    let snapshot = |snapshot_id, name: &str| B::PublishSnapshot {
        db_id: 1,
        snapshot_id,
        name: name.into(),
        generation: 0,
        offset: 0,
        expires_at_ms: None,
    };
    one(engine, register(0, "app")).unwrap();
    for near in [u32::MAX, u32::MAX - 1] {
        is_refused(one(engine, register(near, "far")));
        is_refused(one(engine, snapshot(near, "far")));
        let namespace =
            B::AddNamespace { namespace_id: near, url: "s3://bucket".into(), encryption: None };
        is_refused(one(engine, namespace));
        let component =
            B::AdvanceComponent { component_id: near, name: "far".into(), generation: 1 };
        is_refused(one(engine, component));
    }
    for near in [u64::MAX, u64::MAX - 1] {
        is_refused(one(engine, B::ReserveJobId { job_id: near }));
    }
    one(engine, register(0, "next")).unwrap();
    one(engine, snapshot(0, "next")).unwrap();
    one(engine, job(0, JobKind::Gc)).unwrap();
}

#[test]
fn waiting_for_a_generation_ends_when_the_catalog_is_closed_or_fails() {
    let sim = SimStorage::new();
    let catalog = catalog(&sim);
    let waiting = {
        let catalog = catalog.clone();
        std::thread::spawn(move || catalog.wait_generation(1_000_000, None))
    };
    sim.fail_when(|call| {
        (call.op == Op::MapSync).then_some(Fault::Error(std::io::ErrorKind::Other))
    });
    assert!(catalog.record_metric(1, 1, 1).unwrap().wait().is_err());
    let told = waiting.join().unwrap();
    assert!(matches!(told, Err(AofError::Poisoned { .. })), "{told:?}");

    let sim = SimStorage::new();
    let catalog = self::catalog(&sim);
    let waiting = {
        let catalog = catalog.clone();
        std::thread::spawn(move || catalog.wait_generation(1_000_000, None))
    };
    catalog.close().unwrap();
    let told = waiting.join().unwrap();
    assert!(matches!(told, Err(AofError::Closed)), "{told:?}");
}

#[test]
fn a_checkpoint_that_panics_is_told_and_the_catalog_can_be_closed() {
    let sim = SimStorage::new();
    let catalog = catalog(&sim);
    sim.on_call(|call| {
        let is_checkpoint = call.path.to_string_lossy().ends_with(".ckpt.tmp");
        assert!(!is_checkpoint || std::thread::panicking(), "no checkpoint on this disk");
    });
    let told = catalog.checkpoint();
    assert!(matches!(told, Err(AofError::Poisoned { .. })), "{told:?}");
    sim.on_call(|_| {});
    catalog.checkpoint().unwrap();
    let closers: Vec<_> = (0..3)
        .map(|_| {
            let catalog = catalog.clone();
            std::thread::spawn(move || {
                catalog.close().unwrap();
                catalog.view().map(drop)
            })
        })
        .collect();
    for closer in closers {
        let told = closer.join().unwrap();
        assert!(matches!(told, Err(AofError::Closed)), "{told:?}");
    }
}

/// A bucket that does not answer for one of its keys.
struct Bucket;

impl IntentHost for Bucket {
    fn holds(&self, _: &NamespaceRecord, _: &str, _: u64, _: u64) -> Result<bool> {
        Ok(false)
    }

    fn delete(&self, _: &NamespaceRecord, key: &str) -> Result<()> {
        match key {
            "silent" => Err(AofError::Timeout { what: "a bucket that does not answer" }),
            _ => Ok(()),
        }
    }
}

fn segment(chunk_id: u32) -> SegmentRef {
    SegmentRef {
        segment_id: SegmentId::from_u64(u64::from(chunk_id)),
        crc64: 1,
        bytes: 2,
        epoch: 1,
    }
}

fn delete(object: ObjectName, key: &str) -> Request {
    let body = B::DeleteFromTier2 { db_id: 1, namespace_id: 1, object, key: key.into() };
    Request { phase: Phase::Intent, segments: vec![segment(object.chunk_id)], ..Request::new(body) }
}

/// A page store whose checkpoint 1 has chunk 1, and whose checkpoint 2 superseded it.
fn superseded() -> Vec<B> {
    let checkpoint = |generation, chunk_id, supersedes| B::CheckpointApply {
        db_id: 1,
        shard: 0,
        generation,
        applied_lsn: 0,
        mutations: vec![ChunkMutation::Full { chunk: chunk(chunk_id, 0..1), supersedes }],
        deltas_max: 1,
        merge_job: 0,
        gc_job: 0,
    };
    vec![
        B::RegisterDb { db_id: 0, name: "app".into(), kind: DbKind::Pages, config_hash: 1 },
        B::AddNamespace { namespace_id: 0, url: "s3://bucket".into(), encryption: None },
        checkpoint(1, 1, None),
        checkpoint(2, 2, Some(1)),
    ]
}

fn base(chunk_id: u32, generation: u32) -> ObjectName {
    ObjectName { origin_db: 1, chunk_id, variant: Variant::BASE, generation }
}

#[test]
fn an_intent_that_cannot_be_ended_stops_no_other_and_no_start() {
    let catalog = catalog(&SimStorage::new());
    let submit = |requests| catalog.submit(requests).unwrap().wait().unwrap();
    for body in superseded() {
        submit(vec![Request::new(body)]);
    }
    let silent = submit(vec![delete(base(2, 2), "silent")]).operation_id;
    let collected = submit(vec![delete(base(1, 1), "old")]).operation_id;
    catalog.collect_objects(1, vec![base(1, 1)]).unwrap().wait().unwrap();
    let rolled = catalog.roll_forward(&Bucket).unwrap();
    assert_eq!((rolled.done, rolled.aborted), (vec![collected], vec![]));
    assert_eq!(rolled.failed.len(), 1);
    assert_eq!(rolled.failed[0].0, silent);
    assert!(catalog.verify().unwrap().is_empty());
}

#[test]
fn the_only_copy_of_what_is_in_use_is_not_deleted() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    for body in superseded() {
        one(engine, body).unwrap();
    }
    let object = base(2, 2);
    let body = B::UploadToTier2 { db_id: 1, namespace_id: 1, object, key: "2".into() };
    let upload = Request { phase: Phase::Intent, segments: vec![segment(2)], ..Request::new(body) };
    let intent = decide(engine, vec![upload.clone()]).unwrap()[0].id;
    let done = Request { phase: Phase::Done, intent: Some(intent), ..upload };
    decide(engine, vec![done]).unwrap();
    let residency = |residency| B::SetResidency { db_id: 1, object, residency };
    one(engine, residency(ChunkResidency::RemoteArchived)).unwrap();
    is_refused(decide(engine, vec![delete(object, "2")]));
    one(engine, residency(ChunkResidency::LocalAndRemote)).unwrap();
    decide(engine, vec![delete(object, "2")]).unwrap();
}

#[test]
fn a_log_is_not_trimmed_past_what_a_snapshot_or_fork_holds() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    let create = B::CreateStream { db_id: 0, name: "events".into(), config_hash: 1 };
    let stream_id = StreamId::from_random(0x75C7);
    decide(engine, vec![Request { stream_id, ..Request::new(create) }]).unwrap();
    let snapshot = B::PublishSnapshot {
        db_id: 1,
        snapshot_id: 0,
        name: "monday".into(),
        generation: 0,
        offset: 100,
        expires_at_ms: None,
    };
    one(engine, snapshot).unwrap();
    one(engine, B::Trim { db_id: 1, before_offset: 100 }).unwrap();
    let told = one(engine, B::Trim { db_id: 1, before_offset: 101 }).unwrap_err();
    assert!(told.to_string().contains("monday"), "{told}");
    one(engine, B::DropSnapshot { db_id: 1, snapshot_id: 1, job_id: 0 }).unwrap();
    one(engine, B::Trim { db_id: 1, before_offset: 101 }).unwrap();
}
