//! A machine and a bucket together: power cuts at any call of either, local tiers that
//! are lost, requests that fail before or after they were carried out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Rng;
use crate::error::AofError;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::io::object::{ColdConfig, ObjectErrorKind, ObjectOp};
use crate::io::sim::{BucketFault, CrashOptions, SimBucket, SimStorage};
use crate::log::{AofConfig, Source, Stream};
use crate::manifest::{ManifestConfig, ManifestMode};
use crate::tier::{Coordinator, ReachStore, StreamTiers, TierConfig};
use crate::{AppendOptions, FlushConfig, RetentionPolicy, Scan, ScanOptions};

const ROOT: &str = "/data/events";
const SEGMENT: u64 = 64 << 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn cold() -> ColdConfig {
    ColdConfig {
        retries_max: 1,
        backoff_ms: 1,
        backoff_ms_max: 1,
        breaker_failures: 1_000,
        ..ColdConfig::new("s3://bucket/logs")
    }
}

/// What the world must hold.
#[derive(Clone, Default)]
struct Promise {
    payloads: Vec<Vec<u8>>,
    /// Records that were reported durable.
    durable: u64,
    /// Records that were reported archived.
    archived: u64,
    /// Records that may be gone.
    trimmed: u64,
}

struct World {
    sim: SimStorage,
    bucket: SimBucket,
    coordinator: Arc<Coordinator>,
    tiers: Arc<StreamTiers>,
    stream: Arc<Stream>,
}

fn open(sim: &SimStorage, bucket: &SimBucket) -> Result<World, AofError> {
    let config = TierConfig {
        hot_bytes: 4 * SEGMENT,
        warm_bytes: Some(2 << 10),
        compression_level: 1,
        frame_bytes: 8 << 10,
        cold: Some(cold()),
        cold_delete_after_ms: 0,
        archive_after_ms: 0,
        retry_ms: 1,
        retry_ms_max: 1,
        ..TierConfig::default()
    };
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let clock = Arc::new(sim.clock().clone());
    let store = Arc::new(bucket.clone());
    let coordinator = Coordinator::on_store(config, Arc::clone(&clock) as _, store)?;
    let reach = ReachStore::new(Arc::clone(&storage), Path::new(ROOT));
    let tiers = StreamTiers::new(Arc::clone(&coordinator), None, reach);
    let mut config = AofConfig::new(ROOT).segment_bytes(SEGMENT);
    config.preallocate_segments = 0;
    config.flush = FlushConfig { flush_bytes: 32 << 10, ..FlushConfig::default() };
    config.manifest_mode = ManifestMode::Enabled;
    config.manifest = ManifestConfig {
        chunk_bytes: 16 << 10,
        upload_prefix: "logs".into(),
        rotation_ms: 5,
        ..ManifestConfig::default()
    };
    let stream = Stream::open_with(config, storage, clock, Arc::clone(&tiers) as _)?;
    tiers.attach(&stream);
    Ok(World { sim: sim.clone(), bucket: bucket.clone(), coordinator, tiers, stream })
}

impl World {
    fn is_dead(&self) -> bool {
        self.sim.is_crashed() || self.bucket.is_crashed()
    }

    fn step(&self, rng: &mut Rng, promise: &mut Promise) -> Result<(), AofError> {
        let stream = &self.stream;
        match rng.below(20) {
            0..7 => self.append(rng, promise)?,
            7 => stream.flush_in_background()?,
            8 => drop(stream.finalize_step()?),
            9 => drop(stream.start_seal(false)?),
            10 => drop(stream.tend_manifest()),
            11 => self.sim.clock().advance_ms(20),
            12 if rng.below(4) == 0 => {
                let before_offset = rng.below(promise.durable + 1);
                promise.trimmed = promise.trimmed.max(before_offset);
                let before_offset = Some(before_offset);
                stream.apply_retention(&RetentionPolicy { before_offset, ..Default::default() })?;
            }
            13 => {
                let sealed = stream.table.snapshot().into_iter();
                let ids: Vec<SegmentId> = sealed
                    .filter(|e| e.sealed_info().is_some())
                    .map(|e| e.meta.segment_id)
                    .collect();
                if !ids.is_empty() {
                    let id = ids[rng.below(ids.len() as u64) as usize];
                    // The bucket may be out of reach for a moment.
                    let _ = stream.hydrate(id);
                }
            }
            14..17 => {
                let jobs = self.coordinator.plan();
                jobs.into_iter().take(1 + rng.below(3) as usize).for_each(|job| job.run());
            }
            _ => {
                let jobs = self.coordinator.plan_cold();
                jobs.into_iter().take(1 + rng.below(3) as usize).for_each(|job| job.run());
            }
        }
        Ok(())
    }

    fn append(&self, rng: &mut Rng, promise: &mut Promise) -> Result<(), AofError> {
        let fill = promise.payloads.len();
        let len = 200 + rng.below(14_000) as usize;
        let payload: Vec<u8> = (0..len).map(|i| (fill * 31 + i / 40) as u8).collect();
        match self.stream.append_now(&payload, &AppendOptions::default()) {
            Ok(_) => promise.payloads.push(payload),
            Err(AofError::WouldBlock(_)) => {
                self.stream.flush_in_background()?;
                self.stream.prepare_step()?;
                self.stream.finalize_step()?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A watermark is a promise from the moment it can be read.
    fn note(&self, promise: &mut Promise) {
        promise.durable = promise.durable.max(self.stream.durable.count());
        promise.archived = promise.archived.max(self.stream.archived.count());
    }

    /// Everything from the first record there is to the last, and no other.
    fn check(&self, promise: &mut Promise, at_least: u64) -> Result<(), String> {
        let (earliest, end) = (self.stream.table.earliest(), self.stream.durable.count());
        if end < at_least || earliest > promise.trimmed {
            return Err(format!(
                "{earliest}..{end} are there, {}..{at_least} must be",
                promise.trimmed
            ));
        }
        if end > promise.payloads.len() as u64 {
            return Err(format!("{end} records, {} were appended", promise.payloads.len()));
        }
        let source = Arc::clone(&self.stream) as Arc<dyn Source>;
        let scan = Scan::new(source, ScanOptions::default()).map_err(|e| e.to_string())?;
        let mut expected = earliest;
        for record in scan {
            let record = record.map_err(|e| format!("after {expected}: {e}"))?;
            let payload = promise.payloads.get(expected as usize);
            if record.offset != expected || payload.is_none_or(|p| *p != *record.payload) {
                return Err(format!("record {expected} is not what was appended"));
            }
            expected += 1;
        }
        if expected != end {
            return Err(format!("the scan ends at {expected} of {end}"));
        }
        promise.payloads.truncate(end as usize);
        promise.durable = promise.durable.min(end);
        promise.archived = promise.archived.min(end);
        Ok(())
    }
}

/// Dead machines ask for nothing.
fn tie(sim: &SimStorage, bucket: &SimBucket) {
    let watched = sim.clone();
    bucket.fail_when(move |_| {
        watched.is_crashed().then_some(BucketFault::Before(ObjectErrorKind::Unavailable))
    });
    let (cut, at) = (sim.clone(), sim.clone());
    bucket.on_crash(move || cut.crash_at(at.calls()));
}

/// Removes the files below these directories; all files for the root.
fn lose(sim: &SimStorage, dirs: &[&str]) {
    let lost = |path: &PathBuf| dirs.iter().any(|dir| path.starts_with(Path::new(ROOT).join(dir)));
    for path in sim.files().into_iter().filter(lost) {
        sim.remove(&path).unwrap();
    }
}

fn explore(seed: u64) -> Result<(), String> {
    let mut rng = Rng(seed);
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let mut promise = Promise::default();
    let world = open(&sim, &bucket).map_err(|e| e.to_string())?;
    tie(&sim, &bucket);
    match rng.below(3) {
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
        _ => {}
    }
    match rng.below(4) {
        0 => sim.crash_at(sim.calls() + rng.below(900)),
        1 => sim.crash_after(sim.calls() + rng.below(900)),
        2 => bucket.crash_at(rng.below(60)),
        _ => bucket.crash_after(rng.below(60)),
    }
    for _ in 0..100 + rng.below(500) {
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
        let choice = if outcome == 0 { 0 } else { rng.below(1_000_000) };
        let disk = image.materialize(choice, &CrashOptions::default());
        check_outcome(&disk, &bucket.image(), promise.clone(), &mut rng)
            .map_err(|e| format!("outcome {choice}: {e}"))?;
    }
    // And with nothing left but the bucket.
    let empty = SimStorage::new();
    empty.clock().advance_ms(1_000_000_000);
    let archived = promise.archived;
    let world = open(&empty, &bucket.image()).map_err(|e| format!("bucket alone: {e}"))?;
    world.check(&mut promise.clone(), archived).map_err(|e| format!("bucket alone: {e}"))
}

fn check_outcome(
    disk: &SimStorage,
    bucket: &SimBucket,
    mut promise: Promise,
    rng: &mut Rng,
) -> Result<(), String> {
    if rng.below(3) == 0 {
        // What only repeats what the bucket knows.
        lose(disk, [&["cold"][..], &["manifest"], &["cold", "manifest"]][rng.below(3) as usize]);
    }
    let durable = promise.durable;
    let world = open(disk, bucket).map_err(|e| format!("open: {e}"))?;
    world.check(&mut promise, durable)?;
    // Life goes on, and what was half done is finished.
    for _ in 0..40 {
        world.step(rng, &mut promise).map_err(|e| format!("afterwards: {e}"))?;
        world.note(&mut promise);
    }
    disk.clock().advance_ms(1_000);
    let stream = &world.stream;
    for _ in 0..20 {
        stream.start_seal(false).map_err(|e| e.to_string())?;
        stream.flush_in_background().map_err(|e| e.to_string())?;
        stream.prepare_step().map_err(|e| e.to_string())?;
        stream.finalize_step().map_err(|e| e.to_string())?;
        world.coordinator.settle();
        disk.clock().advance_ms(20);
        world.coordinator.settle_cold();
        disk.clock().advance_ms(20);
    }
    world.note(&mut promise);
    let end = stream.appended.count();
    if stream.archived.count() < end {
        let state = world.tiers.status();
        return Err(format!("archived {} of {end}: {state:?}", stream.archived.count()));
    }
    let found = stream.compare_manifest().map_err(|e| e.to_string())?;
    if !found.is_empty() {
        return Err(format!("the manifest disagrees with the files: {found:?}"));
    }
    world.check(&mut promise, end)?;
    let segments = stream.table.snapshot();
    let sealed = segments.iter().filter(|e| e.sealed_info().is_some()).count();
    let objects = bucket.objects();
    let stored = objects.keys().filter(|key| key.ends_with(".zst")).count();
    if stored != sealed {
        let keys: Vec<_> = objects.keys().collect();
        return Err(format!("{sealed} sealed segments, {stored} objects: {keys:?}"));
    }
    if !bucket.uploads().is_empty() {
        return Err("an upload in parts was left unfinished".into());
    }
    drop(world);
    lose(disk, &[""]);
    let world = open(disk, bucket).map_err(|e| format!("all files lost: {e}"))?;
    world.check(&mut promise, end).map_err(|e| format!("all files lost: {e}"))
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
    let (mut rng, mut promise) = (Rng(11), Promise::default());
    let mut settled = 0;
    for step in 0..3_000 {
        if step % 300 == 100 {
            bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Throttled)));
        }
        if step % 300 == 200 {
            bucket.clear_faults();
        }
        world.step(&mut rng, &mut promise).unwrap();
        world.note(&mut promise);
        if rng.below(10) == 0 && step % 300 < 100 {
            sim.clock().advance_ms(100);
            world.coordinator.settle();
            world.coordinator.settle_cold();
            let status = world.tiers.status();
            assert!(status.hot_bytes <= 4 * SEGMENT, "step {step}: {status:?}");
            assert!(status.warm_bytes <= 2 << 10, "step {step}: {status:?}");
            settled += 1;
        }
    }
    assert!(settled > 50);
    let status = world.tiers.status();
    assert!(status.metrics.warm_evictions > 50 && status.metrics.cold_failures > 0, "{status:?}");
    let end = world.stream.durable.count();
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
        let (mut rng, mut promise) = (Rng(seed), Promise::default());
        for _ in 0..150 {
            world.step(&mut rng, &mut promise).unwrap();
        }
        world.stream.flush_in_background().unwrap();
        let end = world.stream.durable.count();
        sim.set_capacity_len(Some(sim.used_len() + rng.below(60_000)));
        for _ in 0..20 {
            sim.clock().advance_ms(20);
            world.coordinator.plan().into_iter().for_each(|job| job.run());
            world.coordinator.plan_cold().into_iter().for_each(|job| job.run());
            let sealed = world.stream.table.snapshot();
            let away = sealed.iter().find(|e| !e.is_hot()).map(|e| e.meta.segment_id);
            if let Some(id) = away {
                let _ = world.stream.hydrate(id);
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
        world.coordinator.settle();
        world.coordinator.settle_cold();
        let status = world.tiers.status();
        let waiting = status.cold.map_or(0, |cold| cold.uploads_pending);
        assert_eq!(waiting, 0, "seed {seed}: {:?}", world.tiers.status());
        world.check(&mut promise, end).unwrap_or_else(|e| panic!("seed {seed}, after: {e}"));
    }
}

/// Whoever asks, and whatever the plan says: the last copy of a segment stays.
#[test]
fn the_last_copy_stays_in_every_tier() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket).unwrap();
    let stream = &world.stream;
    let mut promise = Promise::default();
    let mut rng = Rng(3);
    while stream.table.snapshot().iter().filter(|e| e.sealed_info().is_some()).count() < 2 {
        world.append(&mut rng, &mut promise).unwrap();
        stream.flush_in_background().unwrap();
        stream.finalize_step().unwrap();
    }
    let id = SegmentId::from_u64(0);
    let refused = |result: Result<u64, AofError>| {
        assert!(matches!(result, Err(AofError::LastCopy(_))), "{result:?}");
    };
    refused(stream.evict_hot(id));
    let options = crate::segment::ArtifactOptions { level: 1, frame_bytes: 8 << 10 };
    stream.compress(id, 1, &options).unwrap();
    stream.evict_hot(id).unwrap();
    refused(stream.evict_warm(id));
    world.coordinator.settle_cold();
    let entry = stream.sealed_entry(id).unwrap();
    assert!(entry.away_copies().cold.is_some());
    stream.evict_warm(id).unwrap();
    let key = stream.cold_key(&entry).unwrap();
    refused(stream.lose_cold(id, &key).map(|()| 0));
    let end = stream.durable.count();
    world.check(&mut promise, end).unwrap();
}
