//! Who comes first when the object store is slower than the writers, and when there is
//! nothing to look for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::format::first_object_epoch;
use crate::io::sim::SimStorage;
use crate::io::{OpenMode, Storage};
use crate::manifest::ManifestMode;
use crate::object::sim::{BucketFault, SimBucket};
use crate::object::{ColdConfig, ObjectErrorKind, ObjectOp};
use crate::store::Change;
use crate::store::SegmentEntry;
use crate::tier::config::TierConfig;
use crate::tier::coordinator::Coordinator;
use crate::tier::stream::StreamTiers;
use crate::tier::task::{Job, Lane, Task};
use crate::write::{AofConfig, Stream};
use crate::write::{AppendOptions, RetentionPolicy};

const SEGMENT: u64 = 64 << 10;
const RETRY_MS: u64 = 1_000;

pub(super) struct Machine {
    pub(super) sim: SimStorage,
    pub(super) bucket: SimBucket,
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) streams: Vec<(Arc<Stream>, Arc<StreamTiers>)>,
}

impl Machine {
    pub(super) fn new(names: &[&str], change: impl FnOnce(&mut TierConfig)) -> Self {
        let (sim, bucket) = (SimStorage::new(), SimBucket::new());
        let cold = ColdConfig {
            retries_max: 0,
            breaker_failures: 1_000,
            ..ColdConfig::new("s3://bucket/logs")
        };
        let mut config = TierConfig {
            compression_level: 1,
            cold: Some(cold),
            cold_delete_after_ms: 0,
            archive_after_ms: 0,
            retry_ms: RETRY_MS,
            retry_ms_max: RETRY_MS,
            ..TierConfig::default()
        };
        change(&mut config);
        let clock = Arc::new(sim.clock().clone());
        let store = Arc::new(bucket.clone());
        let coordinator = Coordinator::on_store(config, clock, store).unwrap();
        let mut machine = Self { sim, bucket, coordinator, streams: Vec::new() };
        names.iter().for_each(|name| machine.open(name));
        machine
    }

    fn open(&mut self, name: &str) {
        let storage: Arc<dyn Storage> = Arc::new(self.sim.clone());
        let root = Path::new("/data").join(name);
        let mut config = AofConfig::new(&root).segment_bytes(SEGMENT);
        config.preallocate_segments = 0;
        config.manifest_mode = ManifestMode::Enabled;
        config.manifest.upload_prefix = "logs".into();
        let clock = Arc::new(self.sim.clock().clone());
        let (stream, tiers) = StreamTiers::open(&self.coordinator, config, storage, clock).unwrap();
        self.streams.push((stream, tiers));
    }

    /// Gives every stream so many more sealed segments, and compresses them.
    pub(super) fn seal_segments(&self, count: usize) {
        for at in 0..self.streams.len() {
            (0..count).for_each(|_| self.seal_one(at));
        }
        self.coordinator.run_until_idle();
    }

    /// Gives a stream one more sealed segment.
    pub(super) fn seal_one(&self, at: usize) {
        let (stream, _) = &self.streams[at];
        stream.append_now(&[7; 2_000], &AppendOptions::default()).unwrap();
        stream.start_seal(false).unwrap();
        stream.flush_in_background().unwrap();
        stream.prepare_step().unwrap();
        while stream.finalize_step().unwrap() {}
    }

    /// Segments of a stream in the bucket.
    pub(super) fn stored(&self, at: usize) -> usize {
        let stream_id = self.streams[at].0.store().stream_id().to_string();
        let keys = self.bucket.objects().into_keys();
        keys.filter(|key| key.ends_with(".zst") && key.contains(&stream_id)).count()
    }

    fn pause(&self, lane: Lane) -> Option<Duration> {
        let due = self.coordinator.due(lane);
        assert!(due.jobs.is_empty(), "{:?}", due.jobs);
        due.pause
    }
}

/// Whichever stream is named first, and however much each has waiting.
#[test]
fn every_stream_gets_its_turn() {
    let machine = Machine::new(&["a", "b", "c"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(6);
    // One job after the other, each from a new plan.
    while let Some(job) = machine.coordinator.plan_cold().into_iter().next() {
        job.run();
        let stored: Vec<usize> = (0..3).map(|at| machine.stored(at)).collect();
        let (least, most) = (stored.iter().min().unwrap(), stored.iter().max().unwrap());
        assert!(most - least <= 2, "{stored:?}");
    }
    assert_eq!((machine.stored(0), machine.stored(2)), (6, 6));
}

/// Somebody may look, find no free hand, and look again: that was nobody's turn.
#[test]
fn a_look_that_starts_nothing_costs_nobody_his_turn() {
    let machine = Machine::new(&["a", "b"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(6);
    for _ in 0..6 {
        drop(machine.coordinator.plan_cold());
        machine.coordinator.plan_cold().into_iter().next().unwrap().run();
    }
    assert!(machine.stored(0) > 0 && machine.stored(1) > 0);
}

/// A stream that is written faster than it is compressed, and a quiet one.
#[test]
fn the_segments_of_every_stream_are_compressed_in_turn() {
    let machine = Machine::new(&["busy", "quiet"], |_| {});
    machine.seal_one(1);
    for _ in 0..4 {
        machine.seal_one(0);
        machine.seal_one(0);
        machine.coordinator.plan().into_iter().next().unwrap().run();
    }
    assert_eq!(machine.streams[1].1.status().warm_segments, 1);
    assert!(machine.streams[0].1.status().warm_segments > 0);
}

#[test]
fn room_is_made_before_the_next_upload() {
    let machine = Machine::new(&["a", "b"], |config| config.warm_bytes = Some(1));
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(5);
    let warm = || machine.streams.iter().map(|(_, tiers)| tiers.status().warm_segments).sum();
    let stored = || machine.stored(0) + machine.stored(1);
    let next = || machine.coordinator.plan_cold().into_iter().next();
    while let Some(job) = next() {
        let (stored_before, warm_before): (usize, u64) = (stored(), warm());
        job.run();
        if stored() > stored_before {
            next().unwrap().run();
            assert_eq!(warm(), warm_before - 1);
        }
    }
    assert_eq!((stored(), warm()), (10, 0));
}

#[test]
fn what_is_being_done_is_not_done_twice() {
    let machine = Machine::new(&["a"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(2);
    // One upload of a stream at a time, and a look at the next file.
    let running = machine.coordinator.plan_cold();
    assert_eq!(running.len(), 2, "{running:?}");
    assert!(machine.coordinator.plan_cold().is_empty());
    drop(running);
    assert_eq!(machine.coordinator.plan_cold().len(), 2);
}

/// A file that changes after it was verified, and before it is uploaded.
#[test]
fn what_was_verified_ahead_is_what_is_uploaded() {
    let machine = Machine::new(&["a"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(2);
    let jobs = machine.coordinator.plan_cold();
    assert_eq!(jobs.len(), 2);
    jobs.into_iter().for_each(Job::run);
    let (stream, tiers) = &machine.streams[0];
    let entry = stream.store().table().snapshot().into_iter().nth(1).unwrap();
    assert!(stream.store().is_verified_ahead(entry.meta.segment_id) && machine.stored(0) == 1);
    let path = entry.copies().warm.unwrap().source().name().to_owned();
    let file = machine.sim.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0x55; 8], 40).unwrap();
    for _ in 0..10 {
        machine.coordinator.run_cold_until_idle();
        machine.sim.clock().advance_ms(RETRY_MS);
    }
    assert_eq!(machine.stored(0), 1, "damaged bytes became the archive");
    assert!(tiers.status().cold.unwrap().error.is_some());
}

/// An upload by hand, before the background did anything: the prefix is claimed and
/// nothing is left out, so that the bucket alone is a log without a hole.
#[test]
fn an_upload_by_hand_takes_those_before_it_along() {
    let machine = Machine::new(&["a"], |_| {});
    machine.seal_segments(4);
    let (stream, tiers) = &machine.streams[0];
    let id = stream.store().table().snapshot()[2].meta.segment_id;
    let uploaded = tiers.upload_through(stream, id).unwrap();
    assert!(uploaded > 0);
    let has_cold = |entry: &Arc<SegmentEntry>| entry.copies().cold.is_some();
    let archived: Vec<bool> =
        stream.store().table().snapshot().iter().take(4).map(has_cold).collect();
    assert_eq!(archived, [true, true, true, false]);
    assert!(machine.bucket.objects().keys().any(|key| key.ends_with("/stream")));
    assert_eq!(tiers.upload_through(stream, id).unwrap(), 0);
}

/// What failed is looked at when its time comes, not all the time.
#[test]
fn a_failed_request_is_waited_for() {
    let machine = Machine::new(&["a"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(3);
    machine.coordinator.run_cold_until_idle();
    assert_eq!(machine.pause(Lane::Cold), None);
    let refuse = |call: &crate::object::sim::BucketCall<'_>| {
        let fault = BucketFault::Before(ObjectErrorKind::Unavailable);
        (call.op == ObjectOp::Delete).then_some(fault)
    };
    machine.bucket.fail_when(refuse);
    let (stream, _) = &machine.streams[0];
    stream.flush_in_background().unwrap();
    let policy = RetentionPolicy { before_offset: Some(1), ..RetentionPolicy::default() };
    stream.apply_retention(&policy).unwrap();
    machine.coordinator.run_cold_until_idle();
    machine.sim.clock().advance_ms(RETRY_MS / 4);
    let pause = machine.pause(Lane::Cold).unwrap();
    assert_eq!(pause, Duration::from_millis(RETRY_MS - RETRY_MS / 4));
    machine.bucket.clear_faults();
    machine.sim.clock().advance_ms(RETRY_MS);
    let before = machine.bucket.calls();
    machine.coordinator.run_cold_until_idle();
    assert_eq!((machine.pause(Lane::Cold), machine.stored(0)), (None, 2));
    assert_eq!(machine.bucket.calls() - before, 1, "deleted once");
}

/// The old object of a segment is deleted when the new one is there: in any other order
/// the new one could get the old key, and a delete that is tried again would hit it.
#[test]
fn a_key_is_never_used_twice() {
    let machine = Machine::new(&["a"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(1);
    machine.coordinator.run_cold_until_idle();
    let (stream, tiers) = &machine.streams[0];
    for epoch in 0..3 {
        let entry = stream.store().table().first().unwrap();
        assert_eq!(entry.copies().cold.unwrap().epoch, first_object_epoch(1) + epoch);
        stream.store().apply(&Change::Forget(entry.meta.segment_id)).unwrap();
        stream.store().commit_manifest().unwrap();
        // Whatever is planned last is done first.
        while let Some(job) = machine.coordinator.plan_cold().pop() {
            job.run();
            machine.sim.clock().advance_ms(1_000);
            stream.store().commit_manifest().unwrap();
        }
        assert_eq!((machine.stored(0), tiers.status().cold.unwrap().deletes_pending), (1, 0));
    }
}

/// A log that was archived elsewhere before: nothing of it is looked for here.
#[test]
fn an_object_of_another_prefix_is_left_alone() {
    let machine = Machine::new(&["a"], |_| {});
    machine.seal_segments(1);
    machine.coordinator.run_cold_until_idle();
    let (stream, _) = &machine.streams[0];
    let entry = stream.store().table().first().unwrap();
    let key = stream.store().cold_key(&entry).unwrap().replace("logs/", "elsewhere/");
    stream.store().queue_delete(entry.meta.segment_id, &key).unwrap();
    let before = machine.bucket.calls();
    machine.coordinator.run_cold_until_idle();
    assert_eq!((machine.bucket.calls(), machine.stored(0)), (before, 1));
}

/// A segment that could not be compressed and is gone since then is nobody's work.
#[test]
fn a_failed_move_of_a_segment_that_is_gone_is_forgotten() {
    let machine = Machine::new(&["a"], |_| {});
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(2);
    let (stream, tiers) = &machine.streams[0];
    let task = Task::Compress(crate::format::SegmentId::from_u64(0));
    tiers.backoff.lock().fail(task, machine.coordinator.now_ms(), u64::MAX);
    assert_eq!(machine.pause(Lane::Moves), Some(Duration::from_millis(RETRY_MS)));
    machine.coordinator.run_cold_until_idle();
    let policy = RetentionPolicy { before_offset: Some(1), ..RetentionPolicy::default() };
    stream.apply_retention(&policy).unwrap();
    machine.sim.clock().advance_ms(2 * RETRY_MS);
    assert_eq!(machine.pause(Lane::Moves), None);
}

/// What a lane runs is not planned again, in the lane of moves either.
#[test]
fn a_move_that_is_being_made_is_not_made_twice() {
    let machine = Machine::new(&["a"], |_| {});
    machine.seal_one(0);
    let running = machine.coordinator.plan();
    assert_eq!(running.len(), 1, "{running:?}");
    assert!(machine.coordinator.plan().is_empty());
    drop(running);
    assert_eq!(machine.coordinator.plan().len(), 1);
}

/// A log that cannot seal, as on a full disk, must not be asked to all the time.
#[test]
fn a_seal_that_failed_waits_like_everything_else() {
    let machine = Machine::new(&["a"], |config| config.archive_after_ms = 4 * RETRY_MS);
    let (stream, tiers) = &machine.streams[0];
    stream.append_now(b"slow", &AppendOptions::default()).unwrap();
    machine.sim.clock().advance_ms(4 * RETRY_MS);
    assert_eq!(machine.coordinator.plan().len(), 1);
    tiers.backoff.lock().fail(Task::Seal, machine.coordinator.now_ms(), u64::MAX);
    assert_eq!(machine.pause(Lane::Moves), Some(Duration::from_millis(RETRY_MS)));
    machine.sim.clock().advance_ms(RETRY_MS);
    assert_eq!(machine.coordinator.plan().len(), 1);
}

/// A compressed file that must stay for a while is dropped when that is over, though
/// nobody notifies the lane.
#[test]
fn compressed_files_leave_when_their_time_is_over() {
    let machine = Machine::new(&["a"], |config| {
        config.warm_bytes = Some(1);
        config.warm_min_ms = 5_000;
    });
    machine.coordinator.run_cold_until_idle();
    machine.seal_segments(1);
    machine.coordinator.run_cold_until_idle();
    assert_eq!(machine.pause(Lane::Cold), Some(Duration::from_millis(5_000)));
    machine.sim.clock().advance_ms(5_000);
    machine.coordinator.run_cold_until_idle();
    assert_eq!(machine.streams[0].1.status().warm_segments, 0);
}

/// A simulated day in which nobody writes: no request to the bucket, and hardly a look.
#[test]
fn an_idle_manager_asks_nothing() {
    let machine = Machine::new(&["a", "b"], |config| config.archive_after_ms = 300_000);
    machine.seal_segments(2);
    machine.coordinator.run_cold_until_idle();
    machine.coordinator.run_until_idle();
    let before = machine.bucket.calls();
    let end_ms = machine.coordinator.now_ms() + 24 * 3_600_000;
    let mut looks = 0;
    while machine.coordinator.now_ms() < end_ms {
        let pauses = [machine.pause(Lane::Moves), machine.pause(Lane::Cold)];
        let Some(pause) = pauses.into_iter().flatten().min() else { break };
        machine.sim.clock().advance_ms(pause.as_millis() as u64);
        looks += 1;
    }
    assert_eq!(machine.bucket.calls(), before);
    assert!(looks <= 24 * 60, "{looks} looks");
}
