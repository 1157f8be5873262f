//! Every table is in real use: a scenario that needs all of them, and fails without any.

use super::driver::{decide, one, open};
use crate::catalog::engine::{Engine, Request};
use crate::catalog::records::{JobState, METRIC_BOUNDS};
use crate::catalog::tables::Table;
use crate::error::AofError;
use crate::format::operation::{OperationBody as B, *};
use crate::format::{SegmentId, StreamId};
use crate::io::sim::SimStorage;

type Told = Result<(), String>;

/// Says what is wrong unless it is right.
fn ensure(what: &str, is_so: bool) -> Told {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn text(error: AofError) -> String {
    error.to_string()
}

pub(super) fn chunk(chunk_id: u32, lsn: std::ops::Range<u64>) -> ChunkFields {
    ChunkFields {
        chunk_id,
        first_page: 0,
        page_count: 1024,
        size_bytes: 4096,
        crc64: 7,
        compression: ChunkCompression::Raw,
        residency: ChunkResidency::Local,
        lsn_start: lsn.start,
        lsn_end: lsn.end,
        remote: None,
    }
}

fn delta(base_chunk_id: u32) -> ChunkMutation {
    ChunkMutation::Delta(DeltaFields {
        base_chunk_id,
        delta_id: 1,
        dirty_pages: vec![3],
        size_bytes: 64,
        crc64: 8,
        compression: ChunkCompression::Raw,
        residency: ChunkResidency::Local,
        remote: None,
    })
}

fn checkpoint(db_id: u32, generation: u32, mutations: Vec<ChunkMutation>, lsn: u64) -> B {
    B::CheckpointApply {
        db_id,
        shard: 0,
        generation,
        applied_lsn: lsn,
        mutations,
        deltas_max: 1,
        merge_job: 0,
        gc_job: 0,
    }
}

fn full(chunk_id: u32, supersedes: Option<u32>) -> ChunkMutation {
    ChunkMutation::Full { chunk: chunk(chunk_id, 0..0), supersedes }
}

fn snapshot(db_id: u32, name: &str, generation: u32) -> B {
    B::PublishSnapshot {
        db_id,
        snapshot_id: 0,
        name: name.into(),
        generation,
        offset: 0,
        expires_at_ms: None,
    }
}

/// The life of a page store, with its names, chunks, snapshots, jobs and figures.
pub(super) fn live(engine: &mut Engine) -> Told {
    let core = std::sync::Arc::clone(&engine.core);
    let view = || core.tables.view().map_err(text);
    let pages = |name: &str| B::RegisterDb {
        db_id: 0,
        name: name.into(),
        kind: DbKind::Pages,
        config_hash: 1,
    };
    one(engine, pages("app")).map_err(text)?;
    let (db, row) = view()?.database_named("app").map_err(text)?.ok_or("app has no name")?;
    ensure("the number of app", row.config_hash == 1)?;
    let again = one(engine, pages("app"));
    ensure("the name is taken", matches!(again, Err(AofError::NameTaken { .. })))?;
    one(engine, pages("other")).map_err(text)?;
    let (other, _) = view()?.database_named("other").map_err(text)?.ok_or("other has no name")?;
    ensure("numbers are not used twice", other > db)?;

    // The write-ahead log and its chunks, in order.
    for (id, lsn) in [(1, 0..10), (2, 10..20)] {
        let upload_job = (id == 1).then_some(0);
        let body = B::AppendWalChunk {
            db_id: db,
            shard: 0,
            generation: 0,
            chunk: chunk(id, lsn),
            upload_job,
        };
        one(engine, body).map_err(text)?;
    }
    let back = B::AppendWalChunk {
        db_id: db,
        shard: 0,
        generation: 0,
        chunk: chunk(3, 5..15),
        upload_job: None,
    };
    ensure("the log goes forward", one(engine, back).is_err())?;
    let order: Vec<u32> =
        view()?.wal_chunks(db).map_err(text)?.iter().map(|((_, chunk), _)| *chunk).collect();
    ensure("chunks of the log in order", order == [1, 2])?;
    let upload = view()?.pending_job(db, JobKind::Upload).map_err(text)?;
    let (upload, _) = upload.ok_or("no upload job")?;

    // A checkpoint, a snapshot of it, and what supersedes it.
    one(engine, checkpoint(db, 1, vec![full(10, None)], 10)).map_err(text)?;
    let wal = view()?.wal_state(db, 0).map_err(text)?.ok_or("no state of the log")?;
    ensure("how far the log was applied", wal.last_applied_lsn == 10)?;
    one(engine, snapshot(db, "v1", 1)).map_err(text)?;
    let (v1, _) = view()?.snapshot_named(db, "v1").map_err(text)?;
    one(engine, checkpoint(db, 2, vec![delta(10)], 10)).map_err(text)?;
    one(engine, checkpoint(db, 3, vec![delta(10)], 10)).map_err(text)?;
    ensure("deltas over the chunk", view()?.deltas(db, 10).map_err(text)?.len() == 2)?;
    let merge = view()?.pending_job(db, JobKind::Merge).map_err(text)?;
    ensure("long chains are merged", merge.is_some())?;
    one(engine, checkpoint(db, 4, vec![full(11, Some(10))], 10)).map_err(text)?;
    let at = |generation| -> Result<Vec<u32>, String> {
        let chunks = view()?.chunks_at(db, generation).map_err(text)?;
        Ok(chunks.into_iter().map(|(id, _)| id).collect())
    };
    ensure("the snapshot reads its chunk", at(1)? == [10] && at(4)? == [11])?;
    let base = |chunk_id, generation| ObjectName {
        origin_db: db,
        chunk_id,
        variant: Variant::BASE,
        generation,
    };
    let unused = view()?.unused_objects(db, 9).map_err(text)?;
    ensure("the snapshot holds its chunk", !unused.contains(&base(10, 1)))?;
    ensure("nothing holds the first chunk of the log", unused.iter().any(|o| o.chunk_id == 1))?;
    ensure("nothing holds the deltas", unused.iter().filter(|o| o.chunk_id == 10).count() == 2)?;
    one(engine, B::DropSnapshot { db_id: db, snapshot_id: v1, job_id: 0 }).map_err(text)?;
    let unused = view()?.unused_objects(db, 9).map_err(text)?;
    ensure("nothing holds the old chunk", unused.contains(&base(10, 1)))?;
    let gc = view()?.pending_job(db, JobKind::Gc).map_err(text)?;
    ensure("what is unused is told", gc.is_some())?;
    one(engine, B::CollectObjects { db_id: db, objects: unused }).map_err(text)?;
    ensure("collected", view()?.unused_objects(db, 9).map_err(text)?.is_empty())?;

    // Objects in a bucket: an intent, its outcome, and the count of the namespace.
    let url = "s3://bucket/pages".to_owned();
    one(engine, B::AddNamespace { namespace_id: 0, url, encryption: None }).map_err(text)?;
    let (namespace_id, _) = *view()?
        .namespaces()
        .map_err(text)?
        .first()
        .map(|(id, row)| (*id, row.clone()))
        .as_ref()
        .ok_or("no namespace")?;
    let object = base(11, 4);
    let body = B::UploadToTier2 { db_id: db, namespace_id, object, key: object.to_string() };
    let segment =
        SegmentRef { segment_id: SegmentId::from_u64(11), crc64: 7, bytes: 4096, epoch: 4 };
    let mut request =
        Request { phase: Phase::Intent, segments: vec![segment], ..Request::new(body) };
    let begun = decide(engine, vec![request.clone()]).map_err(text)?;
    let open = view()?.open_intents().map_err(text)?;
    ensure("the intent is open", open.len() == 1 && open[0].0 == begun[0].id)?;
    (request.phase, request.intent) = (Phase::Done, Some(begun[0].id));
    decide(engine, vec![request]).map_err(text)?;
    ensure("the intent has ended", view()?.open_intents().map_err(text)?.is_empty())?;
    let chunk = view()?.chunk(db, 11).map_err(text)?.ok_or("no chunk 11")?;
    ensure("the chunk is in the bucket", chunk.residency == ChunkResidency::LocalAndRemote)?;
    let dropped = one(engine, B::DropNamespace { namespace_id });
    ensure("a namespace in use stays", dropped.is_err())?;

    // Jobs: unique, leased once, done once.
    let enqueue = |kind| B::EnqueueJob {
        job_id: 0,
        db_id: db,
        kind,
        payload: Vec::new(),
        not_before_ms: 0,
        attempts_max: 3,
    };
    let twice = one(engine, enqueue(JobKind::Upload));
    ensure("unique", matches!(twice, Err(AofError::JobPending { job_id }) if job_id == upload))?;
    let lease = |owner: &str| B::LeaseJob {
        job_id: upload,
        run: 0,
        owner: owner.into(),
        until_ms: u64::MAX,
    };
    one(engine, lease("a")).map_err(text)?;
    ensure("leased once", matches!(one(engine, lease("b")), Err(AofError::JobPending { .. })))?;
    let beat = |run| B::HeartbeatJob { job_id: upload, run, owner: "a".into(), until_ms: u64::MAX };
    one(engine, beat(1)).map_err(text)?;
    ensure("a run that never was", one(engine, beat(2)).is_err())?;
    let job = view()?.job(upload).map_err(text)?.ok_or("no job")?;
    ensure("heartbeats", matches!(job.state, JobState::Leased { heartbeats: 1, .. }))?;
    let done = B::CompleteJob {
        job_id: upload,
        run: 1,
        outcome: JobOutcome::Done,
        message: "put".into(),
        retry_at_ms: 0,
    };
    one(engine, done.clone()).map_err(text)?;
    one(engine, done).map_err(text)?;
    one(engine, enqueue(JobKind::Upload)).map_err(text)?;

    // Figures and components.
    for value in [3, 300] {
        one(engine, B::RecordMetric { scope: db, metric: 1, value }).map_err(text)?;
    }
    let metric = view()?.metric(db, 1).map_err(text)?.ok_or("no figure")?;
    ensure("a figure", (metric.count, metric.sum, metric.max) == (2, 303, 300))?;
    ensure("its buckets", metric.buckets.len() == METRIC_BOUNDS.len() + 1)?;
    let advance = |name: &str, generation| B::AdvanceComponent {
        component_id: 0,
        name: name.into(),
        generation,
    };
    one(engine, advance("search", 7)).map_err(text)?;
    ensure("components go forward", one(engine, advance("search", 6)).is_err())?;
    let search = view()?.component("search").map_err(text)?.ok_or("no component")?;
    ensure("a component", search.generation == 7)?;

    // Versions.
    let skipped = one(engine, B::Migrate { version: 9, name: "later".into() });
    ensure("no version is left out", skipped.is_err())?;
    one(engine, B::Migrate { version: 2, name: "next".into() }).map_err(text)?;
    ensure("a version", view()?.tables_version().map_err(text)? == 2)?;

    let problems = crate::catalog::verify::verify(&view()?).map_err(text)?;
    ensure(&format!("{problems:?}"), problems.is_empty())
}

#[test]
fn the_life_of_a_page_store() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    live(&mut engine).unwrap();
}

#[test]
fn without_the_rows_of_any_table_the_scenario_fails() {
    for table in Table::ALL {
        let (mut engine, _) = open(&SimStorage::new()).unwrap();
        engine.without = Some(table);
        let told = live(&mut engine);
        assert!(told.is_err(), "nobody missed the rows of {}", table.name());
        println!("{}: {}", table.name(), told.unwrap_err());
    }
}

#[test]
fn a_fork_holds_what_it_began_with_until_it_is_removed() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    let core = std::sync::Arc::clone(&engine.core);
    let view = || core.tables.view().unwrap();
    one(
        engine,
        B::RegisterDb { db_id: 0, name: "app".into(), kind: DbKind::Pages, config_hash: 1 },
    )
    .unwrap();
    one(engine, checkpoint(1, 1, vec![full(1, None)], 0)).unwrap();
    let fork = |generation| B::ForkDb {
        db_id: 0,
        name: "trial".into(),
        parent_db: 1,
        generation,
        offset: 5,
        config_hash: 1,
    };
    let too_old = one(engine, fork(0));
    assert!(matches!(too_old, Err(AofError::Trimmed { .. })), "{too_old:?}");
    one(engine, fork(1)).unwrap();
    let (trial, row) = view().database_named("trial").unwrap().unwrap();
    assert_eq!(row.origin.as_ref().map(|o| (o.db_id, o.generation, o.offset)), Some((1, 1, 5)));
    one(engine, checkpoint(1, 2, vec![full(2, Some(1))], 0)).unwrap();
    assert!(view().unused_objects(1, 9).unwrap().is_empty(), "the fork reads chunk 1");
    // Its hold is not a snapshot that can be dropped.
    let hold = row.origin.unwrap().snapshot_id;
    assert!(one(engine, B::DropSnapshot { db_id: 1, snapshot_id: hold, job_id: 0 }).is_err());
    assert!(one(engine, B::RemoveDb { db_id: trial, job_id: 0 }).is_err(), "it is in use");
    one(engine, B::UpdateDbStatus { db_id: trial, status: DbStatus::Dropped }).unwrap();
    one(engine, B::RemoveDb { db_id: trial, job_id: 0 }).unwrap();
    assert_eq!(view().unused_objects(1, 9).unwrap().len(), 1);
    assert!(view().pending_job(1, JobKind::Gc).unwrap().is_some());
    assert!(crate::catalog::verify::verify(&view()).unwrap().is_empty());
}

#[test]
fn a_dropped_database_frees_its_name_and_keeps_what_snapshots_hold() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    let core = std::sync::Arc::clone(&engine.core);
    let view = || core.tables.view().unwrap();
    let register =
        B::RegisterDb { db_id: 0, name: "app".into(), kind: DbKind::Pages, config_hash: 1 };
    one(engine, register.clone()).unwrap();
    one(engine, checkpoint(1, 1, vec![full(1, None)], 0)).unwrap();
    one(engine, snapshot(1, "v1", 1)).unwrap();
    let taken = one(engine, snapshot(1, "v1", 1));
    assert!(matches!(taken, Err(AofError::NameTaken { .. })), "{taken:?}");
    one(engine, B::UpdateDbStatus { db_id: 1, status: DbStatus::Dropped }).unwrap();
    one(engine, register).unwrap();
    assert!(view().unused_objects(1, 9).unwrap().is_empty(), "the snapshot holds chunk 1");
    let gone = one(engine, B::DropSnapshot { db_id: 1, snapshot_id: 9, job_id: 0 });
    assert!(matches!(gone, Err(AofError::NoSuchSnapshot { .. })), "{gone:?}");
    one(engine, B::DropSnapshot { db_id: 1, snapshot_id: 1, job_id: 0 }).unwrap();
    let unused = view().unused_objects(1, 9).unwrap();
    assert_eq!(unused.len(), 1);
    one(engine, B::CollectObjects { db_id: 1, objects: unused }).unwrap();
    one(engine, B::RemoveDb { db_id: 1, job_id: 0 }).unwrap();
    assert!(view().database(1).unwrap().is_none());
    assert!(crate::catalog::verify::verify(&view()).unwrap().is_empty());
}

#[test]
fn a_log_is_registered_trimmed_and_given_a_policy() {
    let (mut engine, _) = open(&SimStorage::new()).unwrap();
    let engine = &mut engine;
    let core = std::sync::Arc::clone(&engine.core);
    let create = B::CreateStream { db_id: 0, name: "events".into(), config_hash: 1 };
    let stream_id = StreamId::from_random(0x75C7);
    decide(engine, vec![Request { stream_id, ..Request::new(create) }]).unwrap();
    one(engine, B::Trim { db_id: 1, before_offset: 100 }).unwrap();
    let policy = Policy { max_bytes: Some(1 << 30), ..Default::default() };
    one(engine, B::SetPolicy { db_id: 1, policy }).unwrap();
    let (_, row) = core.tables.view().unwrap().database_named("events").unwrap().unwrap();
    assert_eq!((row.kind, row.stream_id, row.start_offset), (DbKind::Log, 0x75C7, 100));
    assert_eq!(row.policy, policy);
    let before_start = one(engine, snapshot(1, "old", 0));
    assert!(matches!(before_start, Err(AofError::Trimmed { earliest: 100 })), "{before_start:?}");
}
