//! Others in between: a move stands still at any of its calls of the disk or the bucket, and
//! somebody reads, trims, or wants the same change. Whoever reads finds every record, and
//! what came in between is neither lost nor left over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fastrand::Rng;
use parking_lot::Mutex;

use super::archive::seal_two;
use super::world::{Promise, ROOT, SEGMENT, World, open, setting, tier_config};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::io::sim::{Call, Fault, Op, SimStorage};
use crate::object::ObjectOp;
use crate::object::sim::{BucketCall, SimBucket};
use crate::read::{AofReader, Cursor, ScanOptions, Source, Visibility};
use crate::store::{Applied, Change, Residency};
use crate::tier::config::TierConfig;
use crate::write::RetentionPolicy;

struct Scene {
    world: World,
    promise: Mutex<Promise>,
    rng: Mutex<Rng>,
    /// Whether somebody may come in between.
    is_moving: Arc<AtomicBool>,
    failure: Mutex<Option<String>>,
}

/// Small enough for most segments to be in the bucket alone.
fn limits() -> TierConfig {
    tier_config(4 * SEGMENT, Some(2 << 10))
}

/// Whether a call is about a copy of a segment.
fn is_of_copies(path: &Path) -> bool {
    ["segments", "warm", "cold"].iter().any(|dir| path.starts_with(Path::new(ROOT).join(dir)))
}

impl Scene {
    fn new(seed: u64) -> Arc<Self> {
        let (sim, bucket) = (SimStorage::new(), SimBucket::new());
        sim.clock().set_step_ns(1_000);
        let world = open(&sim, &bucket, limits()).unwrap();
        let scene = Arc::new(Self {
            world,
            promise: Mutex::default(),
            rng: Mutex::new(Rng::with_seed(seed)),
            is_moving: Arc::default(),
            failure: Mutex::default(),
        });
        let weak: Weak<Self> = Arc::downgrade(&scene);
        sim.on_call(move |call| weak.upgrade().iter().for_each(|scene| scene.at_disk(call)));
        let weak: Weak<Self> = Arc::downgrade(&scene);
        bucket.on_call(move |call| weak.upgrade().iter().for_each(|scene| scene.at_bucket(call)));
        // Some files cannot be removed for a moment: what a move could not do it did not do.
        let is_moving = Arc::clone(&scene.is_moving);
        sim.fail_when(move |call| {
            let is_stuck = call.op == Op::Remove && is_of_copies(call.path) && call.index % 5 == 0;
            (is_stuck && is_moving.load(Ordering::SeqCst)).then_some(Fault::Os(libc::EIO))
        });
        scene
    }

    fn roll(&self, n: u64) -> u64 {
        self.rng.lock().u64(..n)
    }

    /// One at a time comes in between.
    fn come_in(&self, act: impl FnOnce() -> Result<(), String>) {
        if self.is_moving.swap(false, Ordering::SeqCst) {
            if let Err(error) = act() {
                self.failure.lock().get_or_insert(error);
            }
            self.is_moving.store(true, Ordering::SeqCst);
        }
    }

    fn at_disk(&self, call: &Call<'_>) {
        // Not while a segment is being mapped: readers of it wait for that.
        let is_change = matches!(call.op, Op::Remove | Op::Rename | Op::SyncDir | Op::CreateNew);
        if is_change && is_of_copies(call.path) {
            self.come_in(|| {
                let path = call.path.display();
                let mut reads = 0..3;
                reads
                    .try_for_each(|_| self.read())
                    .map_err(|e| format!("{:?} {path}: {e}", call.op))
            });
        }
    }

    fn at_bucket(&self, call: &BucketCall<'_>) {
        if call.op == ObjectOp::Put && call.key.ends_with(".zst") {
            self.come_in(|| match self.roll(6) {
                0 => self.trim().map_err(|e| format!("trim: {e}")),
                _ => Ok(()),
            });
        }
    }

    /// Reads a record that must be there.
    fn read(&self) -> Result<(), String> {
        let promise = self.promise.lock();
        let (first, end) = (promise.trimmed, self.world.stream.durable().count());
        if first >= end {
            return Ok(());
        }
        let offset = first + self.roll(end - first);
        let source = Arc::clone(&self.world.stream) as Arc<dyn Source>;
        let record = Cursor::read_offset(&source, offset, Visibility::Durable)
            .map_err(|e| format!("record {offset}: {e}"))?;
        match promise.payloads[offset as usize] == *record.payload {
            true => Ok(()),
            false => Err(format!("record {offset} is not what was appended")),
        }
    }

    fn trim(&self) -> Result<(), AofError> {
        let mut promise = self.promise.lock();
        let before_offset = self.roll(self.world.stream.durable().count() + 1);
        promise.trimmed = promise.trimmed.max(before_offset);
        let before_offset = Some(before_offset);
        let policy = RetentionPolicy { before_offset, ..Default::default() };
        self.world.stream.apply_retention(&policy).map(drop)
    }

    /// Runs something with others in between.
    fn moving(&self, run: impl FnOnce()) {
        self.is_moving.store(true, Ordering::SeqCst);
        run();
        self.is_moving.store(false, Ordering::SeqCst);
    }

    fn step(&self) -> Result<(), AofError> {
        let (world, stream) = (&self.world, &self.world.stream);
        let count = 1 + self.roll(3) as usize;
        match self.roll(20) {
            0..8 => world.append(&mut self.rng.lock(), &mut self.promise.lock())?,
            8 => stream.flush_in_background()?,
            9 => drop(stream.finalize_step()?),
            10 => drop(stream.start_seal(false)?),
            11 => world.sim.clock().advance_ms(20),
            12 => {
                let mut rng = self.rng.lock().fork();
                self.moving(|| world.ask(&mut rng));
            }
            // An object was found damaged: its segment is uploaded again, and may go meanwhile.
            13 => {
                let entries = stream.store().table().snapshot();
                if let Some(entry) = entries.get(self.roll(entries.len() as u64 + 1) as usize) {
                    let _ = stream.store().apply(&Change::Forget(entry.meta.segment_id));
                }
            }
            14..16 => {
                let jobs = world.coordinator.plan();
                self.moving(|| jobs.into_iter().take(count).for_each(|job| job.run()));
            }
            _ => {
                let jobs = world.coordinator.plan_cold();
                self.moving(|| jobs.into_iter().take(count).for_each(|job| job.run()));
            }
        }
        Ok(())
    }
}

/// One history; an error says what was broken.
pub(super) fn explore(seed: u64) -> Result<(), String> {
    let scene = Scene::new(seed);
    for _ in 0..100 + scene.roll(300) {
        scene.step().map_err(|e| e.to_string())?;
        scene.failure.lock().take().map_or(Ok(()), Err)?;
        let found = scene.world.stream.store().compare_manifest().map_err(|e| e.to_string())?;
        if !found.is_empty() {
            return Err(format!("the manifest disagrees with the files: {found:?}"));
        }
    }
    scene.world.archive_all()?;
    let end = scene.world.stream.appended().count();
    let mut promise = scene.promise.lock();
    scene.world.check(&mut promise, end)?;
    scene.world.is_tidy()?;
    // What is kept of the objects is lost, and comes back from the bucket.
    let disk = scene.world.sim.image().after_kill();
    let is_index = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tail");
    for path in disk.files().into_iter().filter(is_index) {
        disk.remove(&path).unwrap();
    }
    let again = open(&disk, &scene.world.bucket.image(), limits());
    let again = again.map_err(|e| format!("indexes lost: {e}"))?;
    again.check(&mut promise, end).map_err(|e| format!("indexes lost: {e}"))
}

/// How many histories: `AOF2_MEANWHILE_HISTORIES`; `AOF2_CRASH_SEED` to look at one again.
#[test]
fn whoever_comes_in_between_finds_every_record() {
    let first = setting("AOF2_CRASH_SEED", 1);
    for seed in first..first + setting("AOF2_MEANWHILE_HISTORIES", 60) {
        explore(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Makes a change twice at once: the second begins while the first syncs its new file.
fn make_twice(world: &World, change: &Change) -> [Result<Applied, AofError>; 2] {
    let second = Arc::new(Mutex::new(None));
    let (started, stream, same) =
        (Arc::clone(&second), Arc::downgrade(&world.stream), change.clone());
    let is_started = AtomicBool::new(false);
    world.sim.on_call(move |call| {
        let Some(stream) = stream.upgrade().filter(|_| call.op == Op::Sync) else { return };
        if !is_of_copies(call.path) || is_started.swap(true, Ordering::SeqCst) {
            return;
        }
        let (store, same) = (Arc::clone(&stream), same.clone());
        let thread = std::thread::spawn(move || store.store().apply(&same));
        while !thread.is_finished() && stream.store().waiting() == 0 {
            std::thread::yield_now();
        }
        *started.lock() = Some(thread);
    });
    let first = world.stream.store().apply(change);
    world.sim.on_call(|_| {});
    let second = second.lock().take().expect("a new file was synced");
    [first, second.join().unwrap()]
}

/// Of two who want the same change of a segment one makes it, and the other finds it made.
#[test]
pub(super) fn one_change_of_a_segment_is_made_at_a_time() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket, tier_config(4 * SEGMENT, None)).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    let id = SegmentId::from_u64(0);
    let one_of = |made: [Result<Applied, AofError>; 2]| {
        let done: Vec<bool> = made.into_iter().map(|made| made.unwrap().is_done).collect();
        assert_eq!(done, [true, false]);
    };
    one_of(make_twice(&world, &Change::Compress(id)));
    world.stream.store().apply(&Change::Evict(id, Residency::Hot)).unwrap();
    one_of(make_twice(&world, &Change::Hydrate(id)));
    let end = world.stream.durable().count();
    world.check(&mut promise, end).unwrap();
}

/// A reader of the directory that comes to a segment just after it was compressed and its
/// file removed, which its list of names does not show yet. It once took the segment for
/// lost.
#[test]
fn a_segment_that_moves_while_a_directory_is_opened_is_found() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket, limits()).unwrap();
    let mut promise = Promise::default();
    seal_two(&world, &mut promise);
    let end = world.stream.durable().count();
    let (stream, has_moved) = (Arc::clone(&world.stream), AtomicBool::new(false));
    let first = stream.store().table().first().unwrap().path.clone();
    sim.on_call(move |call| {
        if call.op == Op::Open && call.path == first && !has_moved.swap(true, Ordering::SeqCst) {
            stream.store().compress_and_evict(SegmentId::from_u64(1)).unwrap();
        }
    });
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let reader = AofReader::open_on(storage, ROOT).unwrap();
    assert!(!world.stream.store().sealed_entry(SegmentId::from_u64(1)).unwrap().is_hot());
    let scan = reader.scan(ScanOptions::default()).unwrap();
    let payloads: Vec<_> = scan.map(|record| record.unwrap().payload.to_vec()).collect();
    assert_eq!(payloads, promise.payloads[..end as usize]);
}
