//! The catalog through its public handles, on real files: many callers, other processes,
//! killed writers, read-only disks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aof2_core::catalog::*;
use aof2_core::object::sim::SimBucket;
use aof2_core::object::{BlockingStore, ColdConfig, ObjectBody, ObjectMeta};
use aof2_core::*;
use support::{Helper, tell};

fn config(root: &Path) -> CatalogConfig {
    CatalogConfig { segment_bytes: 64 << 10, ..CatalogConfig::new(root) }
}

fn open(root: &Path) -> Catalog {
    Catalog::open(config(root)).unwrap()
}

// ---- helper processes ----

#[test]
fn helper_process() {
    let Some(role) = support::role() else { return };
    let root = support::root();
    match &*role {
        "writer" => write_until_killed(&root),
        "reader" => read_on_command(&root),
        "consumer" => consume_until_killed(&root),
        "forker" => fork_and_go_on(&root),
        other => panic!("no role {other}"),
    }
}

/// Reports `D generation sum` for what is durable.
fn write_until_killed(root: &Path) {
    let checkpoint_operations = support::setting("CHECKPOINT", 50);
    let catalog = Catalog::open(CatalogConfig { checkpoint_operations, ..config(root) }).unwrap();
    let metric = catalog.view().unwrap().metric(1, 1).unwrap();
    let mut count = metric.map_or(0, |metric| metric.count);
    tell(format_args!("open {}.", catalog.view().unwrap().generation()));
    loop {
        // Both or none: the second is what makes a half batch visible.
        let observe =
            |metric| Request::new(OperationBody::RecordMetric { scope: 1, metric, value: 1 });
        let done = catalog.submit(vec![observe(1), observe(2)]).unwrap().wait().unwrap();
        count += 1;
        tell(format_args!("D {} {count}.", done.generation));
    }
}

/// Forks with a catalog open; the child uses and drops it, the parent goes on.
fn fork_and_go_on(root: &Path) {
    let catalog = open(root);
    catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
    let guard = catalog.record_metric(1, 2, 1).unwrap();
    let mut feed = catalog.feed("reader").unwrap();
    assert!(feed.next_batch(Some(Duration::ZERO)).unwrap().is_some());
    let mut handles = Some((catalog, guard));
    // SAFETY: the child has this thread only. It calls the catalog, which must answer without
    // its threads, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: a child that hangs is ended by its own timer.
        unsafe { libc::alarm(30) };
        let (catalog, guard) = handles.take().unwrap();
        let is_forked = matches!(guard.wait(), Err(AofError::Forked))
            && matches!(catalog.view(), Err(AofError::Forked))
            && matches!(catalog.record_metric(1, 1, 1), Err(AofError::Forked))
            && matches!(feed.acknowledge(0), Err(AofError::Forked))
            && matches!(catalog.close(), Err(AofError::Forked));
        drop(catalog);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!is_forked)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; the status is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    tell(format_args!("child {status}"));
    let (catalog, guard) = handles.take().unwrap();
    guard.wait().unwrap();
    for _ in 0..20 {
        catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
    }
    catalog.checkpoint().unwrap();
    assert!(catalog.verify().unwrap().is_empty());
    catalog.close().unwrap();
    tell(format_args!("parent closed"));
}

fn counts(view: &View) -> (u64, u64) {
    let count = |metric| view.metric(1, metric).unwrap().map_or(0, |metric| metric.count);
    (count(1), count(2))
}

fn read_on_command(root: &Path) {
    let reader = CatalogReader::open(root).unwrap();
    while support::command().is_some() {
        reader.refresh().unwrap();
        let view = reader.view().unwrap();
        let (first, second) = counts(&view);
        assert_eq!(first, second, "half a batch");
        tell(format_args!("{} {first}", view.generation()));
    }
}

/// Reports `A generation` for what is acknowledged.
fn consume_until_killed(root: &Path) {
    let reader = CatalogReader::open(root).unwrap();
    let mut feed = reader.feed("consumer").unwrap();
    tell(format_args!("from {}.", feed.next_generation()));
    while let Some(batch) = feed.next_batch(None).unwrap() {
        tell(format_args!("B {}.", batch.generation));
        feed.acknowledge(batch.generation).unwrap();
        tell(format_args!("A {}.", batch.generation));
    }
}

/// The numbers of a line that was not cut.
fn numbers(line: &str, start: &str) -> Option<Vec<u64>> {
    let line = line.strip_suffix('.')?.strip_prefix(start)?;
    line.split_whitespace().map(|word| word.parse().ok()).collect()
}

// ---- tests ----

#[test]
fn what_a_killed_writer_told_is_there_and_a_reader_sees_it_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    drop(open(root));
    let mut reader = Helper::start("reader", root, &[]);
    let mut told = (0, 0);
    for round in 0..5 {
        let checkpoint = if round % 2 == 0 { 20 } else { 100_000 };
        let mut writer = Helper::start("writer", root, &[("CHECKPOINT", checkpoint)]);
        let mut lines = Vec::new();
        while lines.len() < 60 {
            lines.push(writer.line());
            if lines.len() % 20 == 0 {
                let answer = reader.ask("look");
                let seen: Vec<u64> = answer.split(' ').map(|n| n.parse().unwrap()).collect();
                let known = lines.iter().filter_map(|line| numbers(line, "D ")).next_back();
                assert!(known.is_none_or(|known| seen[1] + 1 >= known[1]), "{answer}");
            }
        }
        lines.extend(writer.kill());
        let last = lines.iter().filter_map(|line| numbers(line, "D ")).next_back().unwrap();
        told = (last[0], last[1]);
        // Nobody writes, and nobody has recovered yet.
        let answer = reader.ask("look");
        let seen: Vec<u64> = answer.split(' ').map(|n| n.parse().unwrap()).collect();
        assert!(seen[0] >= told.0 && seen[1] >= told.1, "{told:?} was told, {seen:?} is seen");
    }
    let catalog = open(root);
    // A kill costs the tables nothing but the tail of the log.
    let recovery = catalog.recovery();
    assert_eq!((&recovery.from, &recovery.discarded), (&TablesFrom::Tables, &None));
    let (first, second) = counts(&catalog.view().unwrap());
    assert!(first == second && first >= told.1);
    assert!(catalog.verify().unwrap().is_empty());
}

#[test]
fn a_killed_consumer_gets_every_batch_once_or_again_and_none_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let mut next = 0;
    let mut acknowledged = None;
    for _ in 0..4 {
        let mut consumer = Helper::start("consumer", dir.path(), &[]);
        let from = numbers(&consumer.line(), "from ").unwrap()[0];
        assert!(from <= next, "batches {next} to {from} were left out");
        assert!(acknowledged.is_none_or(|last| from > last), "{from} was acknowledged");
        next = from;
        for _ in 0..10 {
            catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
        }
        let mut lines: Vec<String> = (0..8).map(|_| consumer.line()).collect();
        lines.extend(consumer.kill());
        for line in &lines {
            if let Some(batch) = numbers(line, "B ") {
                assert_eq!(batch[0], next, "in order");
                next += 1;
            }
            if let Some(batch) = numbers(line, "A ") {
                acknowledged = Some(batch[0]);
            }
        }
    }
    assert!(acknowledged.is_some());
    // What it did not acknowledge is kept.
    for _ in 0..3 {
        catalog.checkpoint().unwrap();
    }
    let view = catalog.view().unwrap();
    let cursors = view.components().unwrap();
    let cursor = cursors.iter().find(|(_, row)| row.name == "consumer").unwrap();
    assert!(cursor.1.generation > acknowledged.unwrap());
}

#[test]
fn a_forked_child_cannot_use_or_harm_its_parents_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let forker = Helper::start("forker", dir.path(), &[]);
    forker.expect("child 0");
    forker.expect("parent closed");
    let catalog = open(dir.path());
    let recovery = catalog.recovery();
    assert_eq!((&recovery.from, &recovery.discarded), (&TablesFrom::Tables, &None));
    assert_eq!(catalog.view().unwrap().metric(1, 1).unwrap().unwrap().count, 21);
}

#[test]
fn many_callers_share_batches_and_each_gets_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    std::thread::scope(|scope| {
        for caller in 0..16 {
            let catalog = catalog.acting_as(format!("caller {caller}"));
            scope.spawn(move || {
                for round in 0..20 {
                    let name = format!("db-{caller}-{round}");
                    let done =
                        catalog.register_db(&name, DbKind::Pages, 7).unwrap().wait().unwrap();
                    let view = catalog.view().unwrap();
                    assert!(view.generation() >= done.generation);
                    assert_eq!(view.database(done.value).unwrap().unwrap().name, name);
                }
            });
        }
    });
    let metrics = catalog.metrics().unwrap();
    assert_eq!((metrics.databases, metrics.operations, metrics.queued), (320, 321, 0));
    assert!(metrics.batches <= 321);
    let by_caller = |caller: &str| {
        let audit = catalog.audit(0).unwrap().map(Result::unwrap);
        audit.filter(|operation| operation.actor == caller).count()
    };
    assert_eq!((by_caller("caller 3"), by_caller("nobody")), (20, 0));
    let text = metrics.to_prometheus("root");
    assert!(text.contains("# TYPE aof2_catalog_operations_total counter"), "{text}");
}

#[test]
fn one_operation_that_cannot_hold_refuses_its_group_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let register = |name: &str| {
        let name = name.to_owned();
        let kind = DbKind::Pages;
        Request::new(OperationBody::RegisterDb { db_id: 0, name, kind, config_hash: 0 })
    };
    let good = catalog.submit(vec![register("a"), register("b")]).unwrap();
    let bad = catalog.submit(vec![register("c"), register("a")]).unwrap();
    let later = catalog.submit(vec![register("d")]).unwrap();
    good.wait().unwrap();
    assert!(matches!(bad.wait(), Err(AofError::NameTaken { name, .. }) if name == "a"));
    later.wait().unwrap();
    let view = catalog.view().unwrap();
    let names: Vec<String> =
        view.databases().unwrap().into_iter().map(|(_, row)| row.name).collect();
    assert_eq!(names, ["a", "b", "d"]);
    // The numbers of what was refused were not used up.
    assert_eq!(view.database_named("d").unwrap().unwrap().0, 3);
}

#[test]
fn a_view_stays_as_it_is_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
    let view = catalog.view().unwrap();
    let generation = view.generation();
    for _ in 0..50 {
        catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
    }
    catalog.checkpoint().unwrap();
    assert_eq!(view.metric(1, 1).unwrap().unwrap().count, 1);
    assert_eq!(view.generation(), generation);
    assert_eq!(catalog.view().unwrap().metric(1, 1).unwrap().unwrap().count, 51);
    assert!(catalog.wait_generation(generation + 50, None).unwrap());
    assert!(!catalog.wait_generation(generation + 500, Some(Duration::ZERO)).unwrap());
}

#[test]
fn a_job_is_leased_once_retried_with_backoff_and_taken_over_when_its_lease_ends() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let reserved = catalog.reserve_job_id().unwrap().wait().unwrap().value;
    let spec = JobSpec { attempts_max: 2, ..JobSpec::new(0, JobKind::Merge) };
    let job_id = catalog.enqueue_job_as(reserved, spec.clone()).unwrap().wait().unwrap().value;
    assert_eq!(job_id, reserved);
    let again = catalog.enqueue_job(spec).unwrap().wait();
    assert!(matches!(again, Err(AofError::JobPending { job_id: found }) if found == job_id));

    let lease = Duration::from_secs(3600);
    let kinds = [JobKind::Merge];
    let (leased, _) = catalog.lease_job("a", &kinds, lease).unwrap().unwrap();
    assert_eq!(leased, job_id);
    assert!(catalog.lease_job("b", &kinds, lease).unwrap().is_none(), "a has it");
    assert!(catalog.lease_job("b", &[JobKind::Gc], lease).unwrap().is_none());
    catalog.heartbeat_job(job_id, 1, "a", Duration::ZERO).unwrap().wait().unwrap();
    // Its lease has ended: somebody else goes on.
    let (taken, job) = catalog.lease_job("a", &kinds, lease).unwrap().unwrap();
    assert_eq!((taken, job.runs), (job_id, 2));
    // The run before is over, also if its worker has the same name.
    let late = catalog.heartbeat_job(job_id, 1, "a", lease).unwrap().wait();
    assert!(matches!(late, Err(AofError::Refused { .. })), "{late:?}");
    let late = catalog.complete_job(job_id, 1, JobOutcome::Done, "").unwrap().wait();
    assert!(matches!(late, Err(AofError::Refused { .. })), "{late:?}");

    let before_ms = job.updated_ms;
    for _ in 0..2 {
        catalog.complete_job(job_id, 2, JobOutcome::Failed, "no space").unwrap().wait().unwrap();
    }
    let job = catalog.view().unwrap().job(job_id).unwrap().unwrap();
    assert_eq!((&job.state, job.failures), (&JobState::Pending, 1), "one run fails once");
    assert!(job.not_before_ms >= before_ms + 1_000, "it waits before it runs again");
    assert!(catalog.lease_job("b", &kinds, lease).unwrap().is_none(), "not due yet");
    let spec = JobSpec { attempts_max: 1, ..JobSpec::new(0, JobKind::Gc) };
    catalog.enqueue_job(spec).unwrap().wait().unwrap();
    let (job_id, job) = catalog.lease_job("b", &[JobKind::Gc], lease).unwrap().unwrap();
    let failed = catalog.complete_job(job_id, job.runs, JobOutcome::Failed, "no space");
    failed.unwrap().wait().unwrap();
    let job = catalog.view().unwrap().job(job_id).unwrap().unwrap();
    assert_eq!((job.state, job.message.as_str()), (JobState::Failed, "no space"));
    assert_eq!(catalog.metrics().unwrap().jobs_failed, 1);
}

#[test]
fn snapshots_go_when_their_time_is_up_or_there_are_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let db_id = catalog.register_db("app", DbKind::Pages, 0).unwrap().wait().unwrap().value;
    let publish = |name: &str, expires_at_ms| {
        let name = name.to_owned();
        let spec = SnapshotSpec { db_id, name, generation: 0, offset: 0, expires_at_ms };
        catalog.publish_snapshot(spec).unwrap().wait().unwrap()
    };
    publish("over", Some(1));
    publish("oldest", None);
    publish("old", Some(u64::MAX));
    publish("new", None);
    let dropped = || -> Vec<String> {
        catalog.drop_expired_snapshots().unwrap().into_iter().map(|row| row.name).collect()
    };
    assert_eq!(dropped(), ["over"]);
    assert!(dropped().is_empty());
    let policy = Policy { snapshots_max: Some(2), ..Default::default() };
    catalog.set_policy(db_id, policy).unwrap().wait().unwrap();
    assert_eq!(dropped(), ["oldest"]);
    let gone = catalog.view().unwrap().snapshot_named(db_id, "over");
    assert!(matches!(gone, Err(AofError::NoSuchSnapshot { name }) if name == "over"));
}

#[test]
fn a_second_writer_is_refused_while_the_first_one_lives() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let second = Catalog::open(config(dir.path()));
    assert!(matches!(second, Err(AofError::Locked { .. })), "{second:?}");
    let mut writer = Helper::start("reader", dir.path(), &[]);
    writer.ask("look");
    drop(catalog);
    open(dir.path());
}

#[test]
fn a_reader_works_in_a_directory_that_it_may_not_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    let catalog = open(&root);
    catalog.register_db("app", DbKind::Pages, 0).unwrap().wait().unwrap();
    catalog.checkpoint().unwrap();
    catalog.register_db("later", DbKind::Pages, 0).unwrap().wait().unwrap();
    drop(catalog);
    let mut everything = vec![root.clone()];
    let mut index = 0;
    while let Some(path) = everything.get(index).cloned() {
        if path.is_dir() {
            everything.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        index += 1;
    }
    let listing = everything.clone();
    let set = |mode: u32| {
        for path in &listing {
            let mode = if path.is_dir() { mode | 0o111 } else { mode };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o444);
    let reader = CatalogReader::open(&root).unwrap();
    let view = reader.view().unwrap();
    assert!(view.database_named("later").unwrap().is_some());
    assert!(reader.verify().unwrap().is_empty());
    let mut changes = reader.changes_from(0).unwrap();
    assert!(changes.next_batch(Some(Duration::ZERO)).unwrap().is_some());
    set(0o644);
    let mut after = vec![root.clone()];
    let mut index = 0;
    while let Some(path) = after.get(index).cloned() {
        if path.is_dir() {
            after.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        index += 1;
    }
    assert_eq!(after.len(), everything.len(), "a reader wrote something");
}

#[test]
fn a_directory_without_a_catalog_is_no_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let refused = CatalogReader::open(dir.path());
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let address = Catalog::open(CatalogConfig::new("s3://bucket/prefix"));
    assert!(address.is_err(), "{address:?}");
}

#[test]
fn intents_that_a_crash_left_are_rolled_forward() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = Arc::new(SimBucket::new());
    let cold = ColdConfig::new("s3://bucket/archive");
    let store = BlockingStore::new(bucket, &cold, Arc::new(aof2_core::io::SystemClock)).unwrap();
    let catalog = open(dir.path());
    let id = StreamId::from_random(7).unwrap();
    let db_id = catalog.create_stream("events", id, 0).unwrap().wait().unwrap().value;
    let namespace = catalog.add_namespace("s3://bucket/archive", None).unwrap().wait().unwrap();
    let bytes = b"compressed segment";
    let crc64 = aof2_core::format::crc64(bytes);
    let spec = |segment: u32, epoch: u32| ObjectSpec {
        db_id,
        namespace_id: namespace.value,
        object: ObjectName {
            origin_db: db_id,
            chunk_id: segment,
            variant: Variant::SEGMENT,
            generation: epoch,
        },
        key: format!("{segment}-{epoch}.zst"),
        segment: SegmentRef {
            segment_id: SegmentId::from_u64(u64::from(segment)),
            crc64,
            bytes: bytes.len() as u64,
            epoch,
        },
    };
    let put = catalog.begin_upload(spec(1, 1)).unwrap().wait().unwrap().value;
    let lost = catalog.begin_upload(spec(2, 1)).unwrap().wait().unwrap().value;
    let twice = catalog.begin_upload(spec(2, 1)).unwrap().wait();
    assert!(matches!(twice, Err(AofError::Refused { .. })), "{twice:?}");
    let body = ObjectBody::from(bytes::Bytes::from_static(bytes));
    store
        .put_new("archive/1-1.zst", body, ObjectMeta { crc64nvme: crc64, ..Default::default() })
        .unwrap();
    drop(catalog);

    // Another process starts where that one was killed.
    let catalog = open(dir.path());
    assert_eq!(catalog.metrics().unwrap().open_intents, 2);
    let rolled = catalog.roll_forward(&store).unwrap();
    assert_eq!((rolled.done, rolled.aborted), (vec![put], vec![lost]));
    let view = catalog.view().unwrap();
    let chunk = view.chunk(db_id, 1).unwrap().unwrap();
    assert_eq!((chunk.residency, chunk.size_bytes), (ChunkResidency::LocalAndRemote, 18));
    assert!(view.chunk(db_id, 2).unwrap().is_none());
    assert_eq!(view.namespace(namespace.value).unwrap().unwrap().object_count, 1);

    // A delete is repeated; deleting what is gone is deleting it.
    let delete = catalog.begin_delete(spec(1, 1)).unwrap().wait().unwrap().value;
    store.delete("archive/1-1.zst").unwrap();
    assert_eq!(catalog.roll_forward(&store).unwrap().done, [delete]);
    assert!(catalog.view().unwrap().chunk(db_id, 1).unwrap().is_none());
    let failed = catalog.begin_upload(spec(2, 2)).unwrap().wait().unwrap().value;
    catalog.end_intent(failed, Phase::Failed).unwrap().wait().unwrap();
    assert!(catalog.end_intent(failed, Phase::Done).is_err(), "it has ended");
    assert!(catalog.verify().unwrap().is_empty());
}

#[test]
fn guards_can_be_awaited_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let done = runtime.block_on(catalog.record_metric(1, 1, 5).unwrap().wait_async()).unwrap();
    assert!(catalog.view().unwrap().generation() >= done.generation);
    // Nobody waits for it, and it is done all the same.
    drop(catalog.record_metric(1, 1, 6).unwrap());
    let last = catalog.record_metric(1, 1, 7).unwrap();
    last.wait_timeout(support::PATIENCE).unwrap();
    assert_eq!(catalog.view().unwrap().metric(1, 1).unwrap().unwrap().sum, 18);
}

#[test]
fn components_tell_how_far_they_have_got() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let app = catalog.register_db("app", DbKind::Pages, 0).unwrap().wait().unwrap();
    catalog.advance_component("search", app.generation).unwrap().wait().unwrap();
    let search = catalog.view().unwrap().component("search").unwrap().unwrap();
    assert_eq!(search.generation, app.generation);
    let back = catalog.advance_component("search", 0).unwrap().wait();
    assert!(matches!(back, Err(AofError::Refused { .. })), "{back:?}");
}
