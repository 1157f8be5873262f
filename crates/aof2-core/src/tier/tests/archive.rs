//! A machine and a bucket together: power cuts at any call of either, local tiers that
//! are lost, requests that fail before or after they were carried out.

use std::path::Path;

use fastrand::Rng;

use super::world::{Promise, SEGMENT, World, lose, setting, tie, tier_config};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::io::sim::{CrashOptions, Fault, Op, SimStorage};
use crate::manifest::ManifestIndex;
use crate::object::sim::{BucketFault, SimBucket};
use crate::object::{ObjectErrorKind, ObjectOp};
use crate::segment::ArtifactOptions;
use crate::store::{Applied, Change, Removal, Residency};
use crate::tier::activation::Priority;
use crate::tier::config::TierConfig;
use crate::tier::task::Task;
use crate::write::AppendOptions;

/// Small enough for most segments to be in the bucket alone.
fn limits() -> TierConfig {
    tier_config(4 * SEGMENT, Some(2 << 10))
}

fn open(sim: &SimStorage, bucket: &SimBucket) -> Result<World, AofError> {
    crate::tier::tests::world::open(sim, bucket, limits())
}

pub(super) fn explore(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let mut promise = Promise::default();
    let world = open(&sim, &bucket).map_err(|e| e.to_string())?;
    tie(&sim, &bucket);
    match rng.u64(..4) {
        0 => bucket.fail_when(|call| match call.index % 11 {
            3 => Some(BucketFault::Before(ObjectErrorKind::Unavailable)),
            7 => Some(BucketFault::After(ObjectErrorKind::Timeout)),
            _ => None,
        }),
        // Some segments are refused for a long time: the others must not overtake them.
        1 => bucket.fail_when(|call| {
            let is_refused = call.op == ObjectOp::Put && call.key.contains("1-0000");
            (is_refused && call.index < 90).then_some(BucketFault::Before(ObjectErrorKind::Denied))
        }),
        // What is read from the bucket comes damaged: no copy is made of that.
        2 => bucket.fail_when(|call| {
            (call.op == ObjectOp::Get && call.index % 3 == 1).then_some(BucketFault::Flip)
        }),
        _ => {}
    }
    match rng.u64(..4) {
        0 => sim.crash_at(sim.calls() + rng.u64(..900)),
        1 => sim.crash_after(sim.calls() + rng.u64(..900)),
        2 => bucket.crash_at(rng.u64(..60)),
        _ => bucket.crash_after(rng.u64(..60)),
    }
    for _ in 0..100 + rng.u64(..500) {
        let result = world.step(&mut rng, &mut promise);
        if world.is_dead() {
            break;
        }
        result.map_err(|e| e.to_string())?;
        world.note(&mut promise);
    }
    let image = sim.take_crash().unwrap_or_else(|| sim.image());
    drop(world);
    for outcome in 0..3 {
        let choice = if outcome == 0 { 0 } else { rng.u64(..1_000_000) };
        let disk = image.materialize(choice, &CrashOptions::default());
        opens_alone(&disk.image().after_kill(), &bucket.image(), &promise)
            .map_err(|e| format!("outcome {choice}, without the bucket: {e}"))?;
        check_outcome(&disk, &bucket.image(), promise.clone(), &mut rng)
            .map_err(|e| format!("outcome {choice}: {e}"))?;
    }
    bucket_alone(&bucket.image(), promise)
}

/// With nothing left but the bucket.
fn bucket_alone(bucket: &SimBucket, mut promise: Promise) -> Result<(), String> {
    let empty = SimStorage::new();
    empty.clock().advance_ms(1_000_000_000);
    let archived = promise.archived;
    let world = open(&empty, bucket).map_err(|e| format!("bucket alone: {e}"))?;
    world.check(&mut promise, archived).map_err(|e| format!("bucket alone: {e}"))
}

/// With the bucket out of reach, what was archived and not let go is still known to be.
/// Nothing here damages or loses an object, so there is never a reason to forget one.
fn opens_alone(disk: &SimStorage, away: &SimBucket, promise: &Promise) -> Result<(), String> {
    away.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let world = open(disk, away).map_err(|e| format!("open: {e}"))?;
    for entry in world.stream.store().table().snapshot() {
        let is_promised = entry.meta.first_offset >= promise.trimmed
            && entry.end_offset().is_some_and(|end| end <= promise.archived);
        if is_promised && entry.copies().cold.is_none() {
            return Err(format!("segment {} was archived", entry.meta.segment_id));
        }
    }
    Ok(())
}

fn check_outcome(
    disk: &SimStorage,
    bucket: &SimBucket,
    mut promise: Promise,
    rng: &mut Rng,
) -> Result<(), String> {
    if rng.u64(..3) == 0 {
        // What only repeats what the bucket knows.
        lose(disk, [&["cold"][..], &["manifest"], &["cold", "manifest"]][rng.usize(..3)]);
    }
    if rng.u64(..3) == 0 {
        // The power went in the middle of a large object.
        let segment_id = SegmentId::from_u64(rng.u64(..9));
        let objects = bucket.objects();
        let stream = objects.keys().find_map(|key| key.strip_suffix("/stream"));
        if let Some(stream) = stream {
            bucket.leave_upload(&format!("{stream}/{:020}-00000100.zst", segment_id.as_u64()));
        }
    }
    let durable = promise.durable;
    let world = open(disk, bucket).map_err(|e| format!("open: {e}"))?;
    world.check(&mut promise, durable)?;
    // Life goes on, and what was half done is finished.
    for _ in 0..40 {
        world.step(rng, &mut promise).map_err(|e| format!("afterwards: {e}"))?;
        world.note(&mut promise);
    }
    world.archive_all()?;
    world.note(&mut promise);
    let end = world.stream.appended().count();
    world.check(&mut promise, end)?;
    world.is_tidy()?;
    drop(world);
    lose(disk, &[""]);
    let lost = |error: String| format!("all files lost: {error}");
    let world = open(disk, bucket).map_err(|e| lost(e.to_string()))?;
    world.check(&mut promise, end).map_err(lost)?;
    world.archive_all().and_then(|()| world.is_tidy()).map_err(lost)
}

/// How many histories: `AOF2_ARCHIVE_HISTORIES`; `AOF2_CRASH_SEED` to look at one again.
#[test]
fn what_was_archived_survives_any_cut_and_any_loss() {
    let first = setting("AOF2_CRASH_SEED", 1);
    let count = setting("AOF2_ARCHIVE_HISTORIES", 60);
    for seed in first..first + count {
        explore(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A day of writing, reading and asking for segments, with a bucket that fails now and
/// then: whenever the background has had its turn and the bucket answered, both local
/// tiers are within their budgets.
#[test]
fn local_budgets_hold_whenever_the_bucket_answers() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (mut rng, mut promise) = (Rng::with_seed(11), Promise::default());
    let mut idle = 0;
    for step in 0..3_000 {
        if step % 300 == 100 {
            bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Throttled)));
        }
        if step % 300 == 200 {
            bucket.clear_faults();
        }
        world.step(&mut rng, &mut promise).unwrap();
        world.note(&mut promise);
        if rng.u64(..10) == 0 && step % 300 < 100 {
            sim.clock().advance_ms(100);
            world.coordinator.run_until_idle();
            world.coordinator.run_cold_until_idle();
            let status = world.tiers.status();
            assert!(status.hot_bytes <= 4 * SEGMENT, "step {step}: {status:?}");
            assert!(status.warm_bytes <= 2 << 10, "step {step}: {status:?}");
            idle += 1;
        }
    }
    assert!(idle > 50);
    let status = world.tiers.status();
    assert!(status.metrics.warm_evictions > 50, "{status:?}");
    assert!(status.cold.unwrap().requests.outages > 5);
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// A disk that is full in the middle of any move: the move fails, nothing is lost, and
/// it is done once there is room.
#[test]
fn a_full_disk_stops_moves_and_loses_nothing() {
    for seed in 0..setting("AOF2_FULL_DISKS", 40) {
        let (sim, bucket) = (SimStorage::new(), SimBucket::new());
        sim.clock().set_step_ns(1_000);
        let world = open(&sim, &bucket).unwrap();
        let (mut rng, mut promise) = (Rng::with_seed(seed), Promise::default());
        for _ in 0..150 {
            world.step(&mut rng, &mut promise).unwrap();
        }
        world.stream.flush_in_background().unwrap();
        let end = world.stream.durable().count();
        sim.set_capacity_len(Some(sim.used_len() + rng.u64(..60_000)));
        for _ in 0..20 {
            sim.clock().advance_ms(20);
            world.coordinator.plan().into_iter().for_each(|job| job.run());
            world.coordinator.plan_cold().into_iter().for_each(|job| job.run());
            let sealed = world.stream.store().table().snapshot();
            let away = sealed.iter().find(|e| !e.is_hot()).map(|e| e.meta.segment_id);
            if let Some(id) = away {
                let _ = world.stream.store().apply(&Change::Hydrate(id));
            }
        }
        world.check(&mut promise.clone(), end).unwrap_or_else(|e| panic!("seed {seed}, full: {e}"));
        sim.set_capacity_len(None);
        if world.stream.is_stopped() {
            // A directory that could not be synced: opened again, it is all there.
            drop(world);
            let again = open(&sim.image().after_kill(), &bucket).unwrap();
            again.check(&mut promise, end).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            continue;
        }
        sim.clock().advance_ms(100);
        world.coordinator.run_until_idle();
        world.coordinator.run_cold_until_idle();
        let status = world.tiers.status();
        let waiting = status.cold.map_or(0, |cold| cold.uploads_pending);
        assert_eq!(waiting, 0, "seed {seed}: {:?}", world.tiers.status());
        world.check(&mut promise, end).unwrap_or_else(|e| panic!("seed {seed}, after: {e}"));
    }
}

/// Whoever asks, and whatever the plan says: the last copy of a segment stays.
#[test]
pub(super) fn the_last_copy_stays_in_every_tier() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let stream = &world.stream;
    let mut promise = Promise::default();
    let mut rng = Rng::with_seed(3);
    while stream.store().table().snapshot().iter().filter(|e| e.sealed_info().is_some()).count() < 2
    {
        world.append(&mut rng, &mut promise).unwrap();
        stream.flush_in_background().unwrap();
        stream.finalize_step().unwrap();
    }
    let id = SegmentId::from_u64(0);
    let refused = |result: Result<Applied, AofError>| {
        assert!(matches!(result, Err(AofError::LastCopy(_))), "{result:?}");
    };
    refused(stream.store().apply(&Change::Evict(id, Residency::Hot)));
    stream.store().apply(&Change::Compress(id)).unwrap();
    stream.store().apply(&Change::Evict(id, Residency::Hot)).unwrap();
    refused(stream.store().apply(&Change::Evict(id, Residency::Warm)));
    world.coordinator.run_cold_until_idle();
    let entry = stream.store().sealed_entry(id).unwrap();
    assert!(entry.copies().cold.is_some());
    stream.store().apply(&Change::Evict(id, Residency::Warm)).unwrap();
    refused(stream.store().apply(&Change::Forget(id)));
    let end = stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// Whoever asks for it: a segment file stays while the copy that would be left is damaged,
/// or is not in the bucket any more.
#[test]
fn a_segment_file_stays_unless_the_copy_that_is_left_is_good() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    store.apply(&Change::Compress(id)).unwrap();
    let entry = store.sealed_entry(id).unwrap();
    let warm = entry.copies().warm.unwrap().source().name().to_owned();
    sim.flip_bit(&warm, 8 * 100).unwrap();
    let evict = Change::Evict(id, Residency::Hot);
    let refused = store.apply(&evict);
    assert!(matches!(refused, Err(AofError::Corrupt(_))), "{refused:?}");
    sim.flip_bit(&warm, 8 * 100).unwrap();
    world.coordinator.run_cold_until_idle();
    store.apply(&Change::Evict(id, Residency::Warm)).unwrap();
    let key = store.cold_key(&entry).unwrap();
    bucket.fail_at(bucket.calls(), BucketFault::Before(ObjectErrorKind::Denied));
    let refused = store.apply(&evict);
    assert!(matches!(refused, Err(AofError::Cold(_))), "{refused:?}");
    assert!(bucket.remove(&key));
    let refused = store.apply(&evict);
    assert!(matches!(refused, Err(AofError::LastCopy(_))), "{refused:?}");
    assert!(entry.is_hot());
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// Seals segments until there are two.
pub(super) fn seal_two(world: &World, promise: &mut Promise) {
    let mut rng = Rng::with_seed(3);
    let sealed = || {
        world.stream.store().table().snapshot().into_iter().filter(|e| e.sealed_info().is_some())
    };
    while sealed().count() < 2 {
        world.append(&mut rng, promise).unwrap();
        world.stream.flush_in_background().unwrap();
        world.stream.finalize_step().unwrap();
    }
}

/// The directory `cold/` only repeats what the bucket knows. Without it, a log whose newest
/// segment has no footer yet was once taken for one that had diverged from the bucket.
#[test]
fn a_log_that_lost_its_cold_directory_goes_on_behind_what_is_archived() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    world.archive_all().unwrap();
    let store = world.stream.store();
    let sealed = store.table().snapshot().into_iter().filter(|e| e.sealed_info().is_some());
    for id in sealed.map(|entry| entry.meta.segment_id) {
        store.apply(&Change::Evict(id, Residency::Hot)).unwrap();
        store.apply(&Change::Evict(id, Residency::Warm)).unwrap();
    }
    let behind = b"behind what is archived";
    world.stream.append_now(behind, &AppendOptions::default()).unwrap();
    promise.payloads.push(behind.to_vec());
    world.stream.flush_in_background().unwrap();
    let end = world.stream.durable().count();
    drop(world);
    let disk = sim.image().after_kill();
    lose(&disk, &["cold"]);
    let world = open(&disk, &bucket.image()).unwrap();
    world.check(&mut promise, end).unwrap();
}

/// An object that somebody deleted behind our back is missed before the compressed file
/// goes, which is the only copy then: it stays, and is uploaded again.
#[test]
pub(super) fn an_object_that_vanished_is_missed_before_its_file_goes() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (stream, id) = (&world.stream, SegmentId::from_u64(0));
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    stream.store().apply(&Change::Compress(id)).unwrap();
    stream.store().apply(&Change::Evict(id, Residency::Hot)).unwrap();
    while stream.store().sealed_entry(id).unwrap().copies().cold.is_none() {
        world.coordinator.plan_cold().into_iter().take(1).for_each(|job| job.run());
    }
    let key = stream.store().cold_key(&stream.store().sealed_entry(id).unwrap()).unwrap();
    assert!(bucket.remove(&key));
    world.archive_all().unwrap();
    let end = stream.durable().count();
    world.check(&mut promise, end).unwrap();
    world.is_tidy().unwrap();
}

/// Retention that failed half way, with the segment file gone and the compressed one still
/// there, once failed for ever: the file that was gone could not be removed again.
#[test]
fn a_segment_that_was_removed_half_way_is_removed_by_the_next_try() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    seal_two(&world, &mut Promise::default());
    store.apply(&Change::Compress(id)).unwrap();
    let is_in_warm = |path: &Path| path.parent().is_some_and(|dir| dir.ends_with("warm"));
    sim.fail_when(move |call| {
        (call.op == Op::Remove && is_in_warm(call.path)).then_some(Fault::Os(13))
    });
    let drop = Change::Drop(id, Removal::Delete);
    let failed = store.apply(&drop);
    assert!(matches!(failed, Err(AofError::Io { .. })), "{failed:?}");
    sim.clear_faults();
    assert!(store.apply(&drop).unwrap().is_done);
    assert!(store.table().find(id.as_u32()).is_none());
}

/// A segment whose only copy is damaged cannot come back. Whoever asked for it after that
/// was known once waited for ever, because nothing was planned for it any more.
#[test]
fn a_segment_that_cannot_come_back_is_refused_at_once() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    seal_two(&world, &mut Promise::default());
    store.apply(&Change::Compress(id)).unwrap();
    store.apply(&Change::Evict(id, Residency::Hot)).unwrap();
    let warm = store.sealed_entry(id).unwrap().copies().warm.unwrap();
    sim.flip_bit(warm.source().name(), 8 * 100).unwrap();
    let asked = world.tiers.ask(id, Priority::Wanted).unwrap();
    world.coordinator.run_until_idle();
    let now = Some(std::time::Instant::now());
    assert!(matches!(asked.wait(now), Err(AofError::Corrupt(_))));
    let again = world.tiers.ask(id, Priority::Wanted).unwrap().wait(now);
    assert!(matches!(again, Err(AofError::Corrupt(_))), "{again:?}");
    // One that is there needs nothing done.
    let there = SegmentId::from_u64(1);
    let damage = again.map(drop).unwrap_err();
    world.tiers.note(&world.stream, Task::Compress(there), &Err(damage.clone()));
    assert_eq!(world.tiers.ask(there, Priority::Wanted).unwrap().wait(now).unwrap(), 0);
}

/// A move that is given up while somebody waits for the same segment: nothing is planned
/// for it any more, so whoever waits is told.
#[test]
fn whoever_waits_for_a_segment_hears_that_it_is_given_up() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    seal_two(&world, &mut Promise::default());
    store.compress_and_evict(id).unwrap();
    let asked = world.tiers.ask(id, Priority::Wanted).unwrap();
    let damage = AofError::Corrupt(Box::new(crate::error::Damage {
        path: store.layout().warm_dir(),
        offset: 0,
        records: 0..1,
        reason: "a flipped bit".into(),
    }));
    world.tiers.note(&world.stream, Task::Evict(id), &Err(damage));
    let heard = asked.wait(Some(std::time::Instant::now()));
    assert!(matches!(heard, Err(AofError::Corrupt(_))), "{heard:?}");
}

/// An object that is missing is forgotten by whoever comes first. The other one finds
/// nothing to do, and the compressed file leaves once the segment is uploaded again: it was
/// once given up for good.
#[test]
fn a_compressed_file_whose_object_is_forgotten_meanwhile_leaves_later() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    store.apply(&Change::Compress(id)).unwrap();
    while store.sealed_entry(id).unwrap().copies().cold.is_none() {
        world.coordinator.plan_cold().into_iter().take(1).for_each(|job| job.run());
    }
    store.apply(&Change::Forget(id)).unwrap();
    assert!(!store.drop_warm(id).unwrap());
    world.archive_all().unwrap();
    assert!(
        store.drop_warm(id).unwrap() || store.sealed_entry(id).unwrap().copies().warm.is_none()
    );
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
    world.is_tidy().unwrap();
}

/// Bytes that change on their way from the bucket may decompress to the same records. What
/// was then named a copy of the object was not one, and the object was once given up
/// because it differed from it.
#[test]
fn a_copy_that_is_fetched_is_the_object_byte_for_byte() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
    seal_two(&world, &mut Promise::default());
    world.archive_all().unwrap();
    let entry = store.sealed_entry(id).unwrap();
    let key = store.cold_key(&entry).unwrap();
    store.apply(&Change::Evict(id, Residency::Warm)).unwrap();
    for offset in 0..bucket.objects()[&key].bytes.len() as u64 {
        bucket.damage(&key, offset, 1);
        let fetched = store.apply(&Change::Fetch(id));
        assert!(matches!(fetched, Err(AofError::Corrupt(_))), "byte {offset}: {fetched:?}");
        bucket.damage(&key, offset, 1);
    }
    store.apply(&Change::Fetch(id)).unwrap();
}

/// The object of a segment that came back to the hot tier is no worse because the segment
/// was compressed again, whatever that made of it: another time in its index, or other
/// bytes altogether.
#[test]
fn an_object_stays_archived_though_its_segment_is_compressed_again() {
    for level in [1, 9] {
        let (sim, bucket) = (SimStorage::new(), SimBucket::new());
        sim.clock().set_step_ns(1_000);
        let world = open(&sim, &bucket).unwrap();
        let (store, id) = (world.stream.store(), SegmentId::from_u64(0));
        let mut promise = Promise::default();
        seal_two(&world, &mut promise);
        world.archive_all().unwrap();
        let entry = store.sealed_entry(id).unwrap();
        let key = store.cold_key(&entry).unwrap();
        for tier in [Residency::Hot, Residency::Warm] {
            store.apply(&Change::Evict(id, tier)).unwrap();
        }
        store.apply(&Change::Hydrate(id)).unwrap();
        store.set_compression(ArtifactOptions { level, frame_bytes: 8 << 10 });
        store.apply(&Change::Compress(id)).unwrap();
        let warm = entry.copies().warm.unwrap();
        let file = sim.read_file(warm.source().name()).unwrap();
        assert_eq!(file == bucket.objects()[&key].bytes, level == 1);
        assert!(store.drop_warm(id).unwrap());
        assert_eq!(store.cold_key(&entry), Some(key));
        let end = world.stream.durable().count();
        world.check(&mut promise, end).unwrap();
    }
}

/// What is archived and synced is opened again without the bucket, which may be out of
/// reach just then.
#[test]
fn an_archived_log_is_opened_without_its_bucket() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    world.archive_all().unwrap();
    let disk = sim.image().materialize(0, &CrashOptions::default());
    let away = bucket.image();
    away.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let world = open(&disk, &away).unwrap();
    assert_eq!(world.stream.store().archived().count(), promise.payloads.len() as u64);
    away.clear_faults();
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// The answer to an upload is lost, retention lets the segment go, and the power goes: the
/// object is nobody's, and known to be ours because its upload had been written down.
#[test]
fn an_object_whose_segment_went_before_it_was_known_is_deleted() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    // Deletes wait, and with them what they make durable.
    let config = TierConfig { cold_delete_after_ms: 1 << 40, ..limits() };
    let world = crate::tier::tests::world::open(&sim, &bucket, config).unwrap();
    let (stream, id) = (&world.stream, SegmentId::from_u64(0));
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    world.archive_all().unwrap();
    stream.store().apply(&Change::Hydrate(id)).unwrap();
    let entry = stream.store().sealed_entry(id).unwrap();
    stream.store().apply(&Change::Forget(id)).unwrap();
    bucket.fail_when(|call| {
        let is_answer_lost =
            matches!(call.op, ObjectOp::Put | ObjectOp::Head) && call.key.ends_with(".zst");
        is_answer_lost.then_some(BucketFault::After(ObjectErrorKind::Timeout))
    });
    for _ in 0..20 {
        sim.clock().advance_ms(20);
        world.coordinator.plan().into_iter().for_each(|job| job.run());
        world.coordinator.plan_cold().into_iter().for_each(|job| job.run());
    }
    let of_segment = |bucket: &SimBucket| {
        let start = format!("/{:020}-", id.as_u64());
        bucket.objects().keys().filter(|key| key.contains(&start)).count()
    };
    assert_eq!(of_segment(&bucket), 2, "{:?}", world.tiers.status());
    promise.trimmed = entry.end_offset().unwrap();
    let before_offset = Some(promise.trimmed);
    let policy = crate::write::RetentionPolicy { before_offset, ..Default::default() };
    assert_eq!(stream.apply_retention(&policy).unwrap().segments.len(), 1);
    let disk = sim.image().materialize(0, &CrashOptions::default());
    let bucket = bucket.image();
    let world = open(&disk, &bucket).unwrap();
    world.archive_all().unwrap();
    assert_eq!(of_segment(&bucket), 0);
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// Retention lets two segments go, and the power goes before that is durable. The manifest
/// knows that the first was archived, and not how the last upload of the second ended: the
/// first alone would come back, with a hole behind it.
#[test]
fn segments_that_come_back_leave_no_hole() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let config = TierConfig { cold_delete_after_ms: 1 << 40, ..limits() };
    let world = crate::tier::tests::world::open(&sim, &bucket, config).unwrap();
    let (stream, id) = (&world.stream, SegmentId::from_u64(1));
    let mut promise = Promise::default();
    for sealed in 1..4 {
        world.append(&mut Rng::with_seed(sealed), &mut promise).unwrap();
        world.archive_all().unwrap();
    }
    stream.store().apply(&Change::Hydrate(id)).unwrap();
    stream.store().apply(&Change::Forget(id)).unwrap();
    bucket.fail_when(|call| {
        let is_answer_lost =
            matches!(call.op, ObjectOp::Put | ObjectOp::Head) && call.key.ends_with(".zst");
        is_answer_lost.then_some(BucketFault::After(ObjectErrorKind::Timeout))
    });
    let again = format!("/{:020}-00000101", id.as_u64());
    while !bucket.objects().keys().any(|key| key.contains(&again)) {
        sim.clock().advance_ms(20);
        world.coordinator.plan().into_iter().for_each(|job| job.run());
        world.coordinator.plan_cold().into_iter().for_each(|job| job.run());
    }
    promise.trimmed = stream.store().sealed_entry(id).unwrap().end_offset().unwrap();
    let before_offset = Some(promise.trimmed);
    let policy = crate::write::RetentionPolicy { before_offset, ..Default::default() };
    assert_eq!(stream.apply_retention(&policy).unwrap().segments.len(), 2);
    let disk = sim.image().materialize(0, &CrashOptions::default());
    let bucket = bucket.image();
    let world = open(&disk, &bucket).unwrap();
    let end = world.stream.durable().count();
    world.check(&mut promise.clone(), end).unwrap();
    world.archive_all().unwrap();
    world.is_tidy().unwrap();
    world.check(&mut promise, end).unwrap();
}

/// An object goes only once that is written down durably: otherwise a log that is opened
/// without its bucket names an object that is gone, and does not know that it is.
#[test]
pub(super) fn a_delete_is_durable_before_its_object_goes() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    world.archive_all().unwrap();
    promise.trimmed = world.stream.store().table().first().unwrap().end_offset().unwrap();
    let before_offset = Some(promise.trimmed);
    let policy = crate::write::RetentionPolicy { before_offset, ..Default::default() };
    assert_eq!(world.stream.apply_retention(&policy).unwrap().segments.len(), 1);
    let stored = || bucket.objects().keys().filter(|key| key.ends_with(".zst")).count();
    let objects = stored();
    while stored() == objects {
        world.coordinator.plan_cold().into_iter().for_each(|job| job.run());
    }
    let disk = sim.image().materialize(0, &CrashOptions::default());
    let away = bucket.image();
    away.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let world = open(&disk, &away).unwrap();
    let is_queued = |index: &ManifestIndex, key: &String| {
        index.pending_deletes().any(|delete| delete.key == *key)
    };
    for key in world.missing_objects() {
        let store = world.stream.store();
        assert!(store.look_at_manifest(|index| is_queued(index, &key)).unwrap(), "{key}");
    }
    away.clear_faults();
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
    world.archive_all().unwrap();
    assert_eq!(world.missing_objects(), Vec::<String>::new());
}

/// A log that lost its disk gets its manifest back as far as it was uploaded: what was
/// deleted after that it still names, and nobody else would ever tell it.
#[test]
fn a_manifest_that_came_back_names_no_object_that_was_deleted_since() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    world.archive_all().unwrap();
    let store = world.stream.store();
    let chunks = || bucket.objects().keys().filter(|key| key.ends_with(".mlog")).count();
    while chunks() == 0 {
        store.maintain_manifest();
        sim.clock().advance_ms(20);
        world.coordinator.run_cold_until_idle();
    }
    let first = store.table().first().unwrap();
    let key = store.cold_key(&first).unwrap();
    promise.trimmed = first.end_offset().unwrap();
    let before_offset = Some(promise.trimmed);
    let policy = crate::write::RetentionPolicy { before_offset, ..Default::default() };
    assert_eq!(world.stream.apply_retention(&policy).unwrap().segments.len(), 1);
    world.coordinator.run_cold_until_idle();
    assert!(!bucket.objects().contains_key(&key));
    let names = |world: &World| {
        let named = |index: &ManifestIndex| {
            index.segments().any(|segment| segment.cold_key.as_deref() == Some(&key))
        };
        world.stream.store().look_at_manifest(named).unwrap()
    };
    assert!(!names(&world));
    let world = open(&SimStorage::new(), &bucket).unwrap();
    assert!(names(&world));
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
    world.archive_all().unwrap();
    assert!(!names(&world));
    world.is_tidy().unwrap();
}
