//! Two machines and one bucket. Each writes the same log, loses power, is killed, paused
//! in the middle of any request and resumed much later. Whatever happens: a record that
//! was reported as archived is in the bucket, under its offset, for good; nobody else is
//! told that of another record; and a writer that was taken over says so.
//!
//! A machine stands still while the other runs, at any request, before or after it is
//! carried out. What it does to its own disk in between concerns nobody else, so standing
//! still there is no other history.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use fastrand::Rng;
use parking_lot::Mutex;

use super::world::{ROOT, SEGMENT, World, setting, tie, tier_config};
use crate::error::AofError;
use crate::format::WriterKey;
use crate::io::Storage;
use crate::io::sim::{CrashOptions, SimStorage};
use crate::object::sim::{BucketFault, SimBucket};
use crate::object::{Capabilities, ColdConfig, ObjectErrorKind, ObjectOp};
use crate::read::Source;
use crate::read::{Scan, ScanOptions};
use crate::write::{AofConfig, AppendOptions, RetentionPolicy, Stream};

/// Records by their offset.
type Records = BTreeMap<u64, Vec<u8>>;

/// What was promised to whoever asked any of the machines.
#[derive(Default)]
struct History {
    archived: Records,
    /// Records before it may be gone: the writer at the time let them go.
    trimmed: u64,
    appended: u64,
}

struct Machine {
    index: usize,
    disk: SimStorage,
    bucket: SimBucket,
    world: Option<World>,
    /// What its log holds.
    known: Records,
    noted: u64,
}

struct Scene {
    bucket: SimBucket,
    machines: [Mutex<Option<Machine>>; 2],
    rng: Mutex<Rng>,
    history: Mutex<History>,
    failure: Mutex<Option<String>>,
    /// How many disks there were: each draws numbers of its own.
    disks: Mutex<u64>,
}

fn roll(scene: &Scene, n: u64) -> u64 {
    scene.rng.lock().u64(..n)
}

impl Scene {
    fn new(seed: u64) -> Arc<Self> {
        let scene = Arc::new(Self {
            bucket: SimBucket::new(),
            machines: Default::default(),
            rng: Mutex::new(Rng::with_seed(seed)),
            history: Mutex::default(),
            failure: Mutex::default(),
            disks: Mutex::new(seed << 8),
        });
        for index in 0..2 {
            let machine = Machine::new(&scene, index);
            *scene.machines[index].lock() = Some(machine);
        }
        scene
    }

    fn new_disk(&self) -> SimStorage {
        let mut disks = self.disks.lock();
        *disks += 1;
        let disk = SimStorage::new();
        disk.clock().set_step_ns(1_000);
        disk.seed_random(*disks << 20);
        disk
    }

    /// Lets a machine do something, unless it stands still.
    fn step(self: &Arc<Self>, index: usize) {
        let Some(mut machine) = self.machines[index].lock().take() else { return };
        if let Err(error) = machine.step(self) {
            self.failure.lock().get_or_insert(format!("machine {index}: {error}"));
        }
        *self.machines[index].lock() = Some(machine);
    }

    fn failed(&self) -> Result<(), String> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }
}

impl Machine {
    fn new(scene: &Arc<Scene>, index: usize) -> Self {
        let mut machine = Self {
            index,
            disk: scene.new_disk(),
            bucket: scene.bucket.clone(),
            world: None,
            known: Records::new(),
            noted: 0,
        };
        machine.power_on(scene, machine.disk.clone());
        machine
    }

    /// A process on this disk asks the bucket from now on.
    fn power_on(&mut self, scene: &Arc<Scene>, disk: SimStorage) {
        self.disk = disk;
        self.bucket = scene.bucket.for_another_machine();
        tie(&self.disk, &self.bucket);
        let (scene, other): (Weak<Scene>, usize) = (Arc::downgrade(scene), 1 - self.index);
        self.bucket.on_call(move |call| {
            let Some(scene) = scene.upgrade() else { return };
            // Several reads may be on their way at once: their order is not ours to choose.
            if call.op == ObjectOp::Get || roll(&scene, 8) != 0 {
                return;
            }
            for _ in 0..roll(&scene, 40) {
                scene.step(other);
            }
        });
    }

    fn step(&mut self, scene: &Arc<Scene>) -> Result<(), String> {
        if self.disk.is_crashed() || self.bucket.is_crashed() {
            self.cut(scene);
            return Ok(());
        }
        let Some(world) = self.world.take() else {
            return match roll(scene, 3) {
                0 => self.open(scene),
                _ => Ok(()),
            };
        };
        let done = self.work(scene, &world);
        let is_dead = self.disk.is_crashed() || self.bucket.is_crashed();
        if !is_dead {
            self.note(scene, &world)?;
        }
        let goes_on = match done {
            _ if is_dead => true,
            Ok(goes_on) => goes_on,
            Err(error) if world.stream.is_stopped() => {
                let is_told = matches!(error, AofError::Fenced { .. } | AofError::Diverged(_));
                if !is_told {
                    return Err(format!("a fenced writer said: {error}"));
                }
                let status = world.tiers.status().cold.and_then(|cold| cold.error);
                if status.as_deref() != Some(&*error.to_string()) {
                    return Err(format!("{error}, but the status of the cold tier is {status:?}"));
                }
                roll(scene, 4) != 0
            }
            Err(error) => return Err(error.to_string()),
        };
        if goes_on {
            self.world = Some(world);
        }
        Ok(())
    }

    /// Whether the process goes on.
    fn work(&mut self, scene: &Arc<Scene>, world: &World) -> Result<bool, AofError> {
        let stream = &world.stream;
        match roll(scene, 26) {
            0..8 => self.append(scene, world)?,
            8 => stream.flush_in_background()?,
            9 => drop(stream.finalize_step()?),
            10 => drop(stream.start_seal(false)?),
            11 => drop(stream.store().maintain_manifest()),
            12 => self.disk.clock().advance_ms(20),
            13 if roll(scene, 4) == 0 => self.trim(scene, world)?,
            14..17 => {
                let jobs = world.coordinator.plan();
                jobs.into_iter().take(1 + roll(scene, 3) as usize).for_each(|job| job.run());
            }
            17..23 => {
                let jobs = world.coordinator.plan_cold();
                jobs.into_iter().take(1 + roll(scene, 3) as usize).for_each(|job| job.run());
            }
            23 if roll(scene, 6) == 0 => match roll(scene, 2) {
                0 => self.disk.crash_at(self.disk.calls() + roll(scene, 200)),
                _ => self.bucket.crash_at(self.bucket.calls() + roll(scene, 12)),
            },
            // Killed, or closed without having anything to do.
            24 if roll(scene, 6) == 0 => return Ok(false),
            25 if roll(scene, 4) == 0 => self.set_faults(scene),
            _ => {}
        }
        Ok(true)
    }

    fn set_faults(&self, scene: &Arc<Scene>) {
        self.bucket.clear_faults();
        tie(&self.disk, &self.bucket);
        let phase = roll(scene, 11);
        if roll(scene, 2) == 0 {
            self.bucket.fail_when(move |call| match (call.index + phase) % 11 {
                3 => Some(BucketFault::Before(ObjectErrorKind::Unavailable)),
                7 => Some(BucketFault::After(ObjectErrorKind::Timeout)),
                _ => None,
            });
        }
    }

    fn append(&mut self, scene: &Arc<Scene>, world: &World) -> Result<(), AofError> {
        let number = {
            let mut history = scene.history.lock();
            history.appended += 1;
            history.appended
        };
        let len = 200 + roll(scene, 14_000) as usize;
        let mut payload = format!("{} {number} ", self.index).into_bytes();
        payload.resize(len, number as u8);
        match world.stream.append_now(&payload, &AppendOptions::default()) {
            Ok(appended) => drop(self.known.insert(appended.offset, payload)),
            Err(AofError::WouldBlock(_)) => {
                world.stream.flush_in_background()?;
                world.stream.prepare_step()?;
                world.stream.finalize_step()?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn trim(&mut self, scene: &Arc<Scene>, world: &World) -> Result<(), AofError> {
        let before_offset = roll(scene, world.stream.durable().count() + 1);
        // Only a writer that nobody has taken over may let go what others rely on.
        let epoch = world.stream.store().cold().writer().epoch();
        if epoch.is_some() && epoch >= last_continued(&scene.bucket) {
            let mut history = scene.history.lock();
            history.trimmed = history.trimmed.max(before_offset);
        }
        let before_offset = Some(before_offset);
        let policy = RetentionPolicy { before_offset, ..Default::default() };
        world.stream.apply_retention(&policy).map(drop)
    }

    /// What the archived watermark says is a promise from the moment it can be read.
    fn note(&mut self, scene: &Arc<Scene>, world: &World) -> Result<(), String> {
        let mut history = scene.history.lock();
        for offset in self.noted..world.stream.store().archived().count() {
            let Some(payload) = self.known.get(&offset) else { continue };
            let told = history.archived.entry(offset).or_insert_with(|| payload.clone());
            if told != payload {
                return Err(format!("two records are archived under offset {offset}"));
            }
        }
        self.noted = world.stream.store().archived().count();
        Ok(())
    }

    /// The power goes.
    fn cut(&mut self, scene: &Arc<Scene>) {
        let image = self.disk.take_crash().unwrap_or_else(|| self.disk.image());
        self.world = None;
        let disk = image.materialize(roll(scene, 1_000_000), &CrashOptions::default());
        self.power_on(scene, disk);
    }

    fn open(&mut self, scene: &Arc<Scene>) -> Result<(), String> {
        if self.world.is_none() && roll(scene, 8) == 0 {
            // The machine is lost, and another one takes its place.
            self.power_on(scene, scene.new_disk());
        }
        let config = tier_config(4 * SEGMENT, Some(2 << 10));
        let world = match crate::tier::tests::world::open(&self.disk, &self.bucket, config) {
            Ok(world) => world,
            Err(AofError::Diverged(_) | AofError::NameTaken { .. }) => {
                // The directory is moved away, and the log brought back from the bucket.
                self.power_on(scene, scene.new_disk());
                return Ok(());
            }
            Err(AofError::Cold(_) | AofError::Fenced { .. }) => return Ok(()),
            Err(_) if self.disk.is_crashed() || self.bucket.is_crashed() => return Ok(()),
            Err(error) if is_manifest_trouble(&error) => return Ok(()),
            Err(error) => return Err(format!("open: {error}")),
        };
        if self.disk.is_crashed() || self.bucket.is_crashed() {
            return Ok(());
        }
        // Somebody else may have it since, and let records go.
        let epoch = world.stream.store().cold().writer().epoch();
        let is_last = epoch.is_some() && epoch == last_claim(&scene.bucket);
        self.known = match records(&world) {
            Ok(known) => known,
            Err(_) if !is_last || self.disk.is_crashed() || self.bucket.is_crashed() => {
                return Ok(());
            }
            Err(error) => return Err(format!("opened: {error}")),
        };
        self.noted = 0;
        if is_last {
            contains(&self.known, &scene.history.lock())
                .map_err(|e| format!("opened: {e}\n{}", describe(&world, &scene.bucket)))?;
        }
        self.note(scene, &world)?;
        self.world = Some(world);
        Ok(())
    }
}

/// Chunks of the manifest that could not be fetched are asked for again.
fn is_manifest_trouble(error: &AofError) -> bool {
    matches!(error, AofError::Io { op: "fetch manifest chunks", .. })
}

fn control(bucket: &SimBucket) -> Vec<WriterKey> {
    let objects = bucket.objects();
    let parse = |key: &String| WriterKey::parse(key.get(key.find("/writer/")? + 1..)?);
    objects.keys().filter_map(parse).collect()
}

/// The writer that claimed the log last.
fn last_claim(bucket: &SimBucket) -> Option<u32> {
    let is_claim = |key: &WriterKey| matches!(key, WriterKey::Claim { .. });
    control(bucket).iter().filter(|key| is_claim(key)).map(WriterKey::epoch).max()
}

/// The last writer that has said where it continues.
fn last_continued(bucket: &SimBucket) -> Option<u32> {
    let is_from = |key: &WriterKey| matches!(key, WriterKey::From(_));
    control(bucket).iter().filter(|key| is_from(key)).map(WriterKey::epoch).max()
}

/// Everything that a log holds.
fn records(world: &World) -> Result<Records, String> {
    let source = Arc::clone(&world.stream) as Arc<dyn Source>;
    let scan = Scan::new(source, ScanOptions::default()).map_err(|e| e.to_string())?;
    let read = scan.map(|record| record.map(|r| (r.offset, r.payload.to_vec())));
    read.collect::<Result<_, _>>().map_err(|e| e.to_string())
}

/// What a log and the bucket hold, for whoever looks into a failure.
fn describe(world: &World, bucket: &SimBucket) -> String {
    let segments = world.stream.store().table().snapshot();
    let segments = segments.iter().map(|e| {
        let copies = e.copies();
        format!(
            "{}: {}..{:?} hot {} warm {} cold {:?}",
            e.meta.segment_id,
            e.meta.first_offset,
            e.end_offset(),
            e.is_hot(),
            copies.warm.is_some(),
            copies.cold.map(|cold| cold.epoch),
        )
    });
    let changes = bucket.changes();
    let changes = changes.into_iter().filter(|change| !change.contains("manifest"));
    let files = world.sim.files().into_iter().map(|path| path.display().to_string());
    let lines: Vec<String> = segments.chain(files).chain(changes).collect();
    format!("claim {:?}\n{}", world.stream.store().cold().writer().epoch(), lines.join("\n"))
}

/// Whether everything that was archived is among these records.
fn contains(known: &Records, history: &History) -> Result<(), String> {
    let kept = history.archived.range(history.trimmed..);
    // The last ones may be gone too: whole segments go.
    for (offset, payload) in kept {
        match known.get(offset) {
            Some(found) if found == payload => {}
            Some(_) => return Err(format!("record {offset} is another one than was archived")),
            None => return Err(format!("record {offset} was archived and is not there")),
        }
    }
    Ok(())
}

/// One history; an error says what was broken.
pub(super) fn explore(seed: u64) -> Result<(), String> {
    let scene = Scene::new(seed);
    for _ in 0..150 + roll(&scene, 400) {
        scene.step(roll(&scene, 2) as usize);
        scene.failed()?;
    }
    let mut machines: Vec<Machine> =
        scene.machines.iter().filter_map(|machine| machine.lock().take()).collect();
    for machine in &mut machines {
        machine.bucket.clear_faults();
        machine.disk.clear_faults();
        machine.bucket.on_call(|_| {});
        if machine.disk.is_crashed() || machine.bucket.is_crashed() {
            machine.cut(&scene);
            machine.bucket.on_call(|_| {});
        }
    }
    // A third machine, with nothing but the bucket.
    let disk = scene.new_disk();
    disk.clock().advance_ms(1_000_000_000);
    let config = || tier_config(4 * SEGMENT, Some(2 << 10));
    let third =
        crate::tier::tests::world::open(&disk, &scene.bucket.for_another_machine(), config())
            .map_err(|e| format!("bucket alone: {e}"))?;
    let found = records(&third).map_err(|e| format!("bucket alone: {e}"))?;
    contains(&found, &scene.history.lock()).map_err(|e| format!("bucket alone: {e}"))?;
    for machine in &mut machines {
        let Some(world) = machine.world.take() else { continue };
        is_fenced(&world).map_err(|e| format!("machine {}: {e}", machine.index))?;
        machine.note(&scene, &world)?;
    }
    // What they put too late is removed by the next writer.
    drop(third);
    let last =
        crate::tier::tests::world::open(&disk, &scene.bucket.for_another_machine(), config())
            .map_err(|e| format!("the last writer: {e}"))?;
    last.archive_all().map_err(|e| format!("the last writer: {e}"))?;
    last.is_tidy().map_err(|_| format!("untidy: {}", describe(&last, &scene.bucket)))?;
    let found = records(&last).map_err(|e| format!("the last writer: {e}"))?;
    contains(&found, &scene.history.lock()).map_err(|e| format!("the last writer: {e}"))
}

/// Whoever had the log before can do nothing more, and says why.
fn is_fenced(world: &World) -> Result<(), String> {
    let stream = &world.stream;
    let before = stream.store().archived().count();
    for _ in 0..4 {
        if stream.is_stopped() {
            break;
        }
        let told = |error: AofError| match error {
            AofError::Fenced { .. } | AofError::Diverged(_) | AofError::WouldBlock(_) => Ok(()),
            error => Err(error.to_string()),
        };
        stream.append_now(b"too late", &AppendOptions::default()).map(drop).or_else(told)?;
        stream.flush_in_background().or_else(told)?;
        stream.start_seal(false).map(drop).or_else(told)?;
        stream.prepare_step().map(drop).or_else(told)?;
        stream.finalize_step().map(drop).or_else(told)?;
        world.sim.clock().advance_ms(1_000);
        world.coordinator.run_until_idle();
        world.coordinator.run_cold_until_idle();
    }
    if stream.store().archived().count() != before {
        return Err("a fenced writer reported a record as archived".into());
    }
    let refused = stream.append_now(b"too late", &AppendOptions::default()).map(drop);
    match refused {
        Err(AofError::Fenced { .. } | AofError::Diverged(_)) => Ok(()),
        other => Err(format!("taken over, and said {other:?}: {:?}", world.tiers.status().cold)),
    }
}

/// Two logs of one name, on two machines: one gets the name, the other is refused before
/// anything of it is changed.
pub(super) fn names_are_unique() -> Result<(), String> {
    let scene = Scene::new(1);
    let config = || tier_config(4 * SEGMENT, None);
    let (here, there) = (scene.new_disk(), scene.new_disk());
    let open = |disk: &SimStorage| {
        crate::tier::tests::world::open_as(
            disk,
            &scene.bucket.for_another_machine(),
            config(),
            |_| {},
        )
    };
    let first = open(&here).map_err(|e| e.to_string())?;
    first.stream.append_now(b"here", &AppendOptions::default()).map_err(|e| e.to_string())?;
    first.archive_all()?;
    // A log of its own, that was written without the bucket.
    crate::tier::tests::world::write_locally(&there, b"there").map_err(|e| e.to_string())?;
    let files = there.files();
    let objects = scene.bucket.objects();
    match open(&there) {
        Err(AofError::NameTaken { name, .. }) if name == "events" => {}
        Err(error) => return Err(format!("refused with {error}")),
        Ok(world) => {
            let held = records(&world)?;
            return Err(format!("a name was given twice; the second log holds {held:?}"));
        }
    }
    if there.files() != files || scene.bucket.objects() != objects {
        return Err("a refused log changed something".into());
    }
    // An empty directory of that name is not the log, unless that is asked for.
    let empty = scene.new_disk();
    match open(&empty) {
        Err(AofError::NameTaken { .. }) if empty.files().is_empty() => {}
        Err(error) => return Err(format!("refused with {error}: {:?}", empty.files())),
        Ok(world) => {
            let held = records(&world)?.len();
            return Err(format!("an empty directory became another log, with {held} records"));
        }
    }
    let recovered =
        crate::tier::tests::world::open(&empty, &scene.bucket.for_another_machine(), config())
            .map_err(|e| e.to_string())?;
    let held = records(&recovered)?;
    match held.get(&0).is_some_and(|payload| payload == b"here") {
        true => Ok(()),
        false => Err(format!("the log came back as {held:?}")),
    }
}

#[test]
fn a_name_belongs_to_one_log() {
    names_are_unique().unwrap();
}

/// Without a bucket there is nothing to recover from: a new, empty log must not look like
/// the one that was to come back.
#[test]
fn a_log_without_a_bucket_cannot_be_recovered() {
    let disk = SimStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let config = AofConfig::new(ROOT).recover();
    match Stream::open(config, storage, Arc::new(disk.clock().clone())) {
        Err(AofError::InvalidConfig { field: "recover", .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(disk.files().is_empty());
}

/// A store that cannot refuse to create what exists is written to only by whoever says
/// that nobody else does.
#[test]
fn a_store_without_conditional_creation_must_be_exclusive() {
    let bucket = SimBucket::with_capabilities(Capabilities::MINIMAL);
    let disk = SimStorage::new();
    let config = tier_config(4 * SEGMENT, None);
    let refused = crate::tier::tests::world::open(&disk, &bucket, config.clone());
    let Err(AofError::InvalidConfig { field: "cold_exclusive", reason }) = refused else {
        panic!("{:?}", refused.map(|_| ()));
    };
    assert!(reason.contains("conditional creation"), "{reason}");
    assert!(!bucket.objects().keys().any(|key| key.contains("writer")));
    let mut config = config;
    config.cold = config.cold.map(|cold| ColdConfig { exclusive: true, ..cold });
    let world = crate::tier::tests::world::open(&disk, &bucket, config).unwrap();
    world.stream.append_now(b"alone", &AppendOptions::default()).unwrap();
    world.archive_all().unwrap();
}

/// A log that was opened while its bucket was out of reach, and that another machine went
/// on with meanwhile, is told so before it uploads anything.
#[test]
fn a_log_opened_without_its_bucket_is_claimed_before_the_first_upload() {
    let scene = Scene::new(1);
    let config = || tier_config(4 * SEGMENT, None);
    let here = scene.new_disk();
    let world =
        crate::tier::tests::world::open(&here, &scene.bucket.for_another_machine(), config())
            .unwrap();
    world.stream.append_now(b"shared", &AppendOptions::default()).unwrap();
    world.archive_all().unwrap();
    drop(world);
    let away = scene.bucket.for_another_machine();
    away.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let alone = crate::tier::tests::world::open(&here, &away, config()).unwrap();
    alone.stream.append_now(b"only here", &AppendOptions::default()).unwrap();
    let there = scene.new_disk();
    let other =
        crate::tier::tests::world::open(&there, &scene.bucket.for_another_machine(), config())
            .unwrap();
    other.stream.append_now(b"only there", &AppendOptions::default()).unwrap();
    other.archive_all().unwrap();
    away.clear_faults();
    let _ = alone.archive_all();
    let refused = alone.stream.append_now(b"more", &AppendOptions::default());
    assert!(matches!(refused, Err(AofError::Diverged(_))), "{refused:?}");
    assert_eq!(alone.stream.store().archived().count(), 1);
    // Reads go on, and the other writer was never bothered.
    assert_eq!(records(&alone).unwrap().len(), 2);
    other.stream.append_now(b"goes on", &AppendOptions::default()).unwrap();
    other.archive_all().unwrap();
    // And so it stays when it is opened again.
    drop(alone);
    let again =
        crate::tier::tests::world::open(&here, &scene.bucket.for_another_machine(), config());
    let Err(AofError::Diverged(diverged)) = again.map(|_| ()) else { panic!("opened") };
    assert_eq!(diverged.offset, 1);
    assert!(!other.stream.is_stopped());
}

/// Another machine went on with the log and dropped everything that this one has. Opening it
/// here removes that and takes up what follows; if the bucket goes away in between, the log
/// once looked damaged as long as the bucket was away.
#[test]
fn a_takeover_that_is_interrupted_never_looks_like_damage() {
    let scene = Scene::new(1);
    let config = || tier_config(4 * SEGMENT, None);
    let here = scene.new_disk();
    let open = |disk: &SimStorage, bucket: &SimBucket| super::world::open(disk, bucket, config());
    let world = open(&here, &scene.bucket.for_another_machine()).unwrap();
    world.stream.append_now(b"dropped", &AppendOptions::default()).unwrap();
    world.archive_all().unwrap();
    drop(world);
    let other = open(&scene.new_disk(), &scene.bucket.for_another_machine()).unwrap();
    for payload in [b"second", b"third.", b"fourth"] {
        other.stream.append_now(payload, &AppendOptions::default()).unwrap();
        other.archive_all().unwrap();
    }
    let policy = RetentionPolicy { before_offset: Some(2), ..Default::default() };
    assert_eq!(other.stream.apply_retention(&policy).unwrap().segments.len(), 2);
    other.archive_all().unwrap();
    let expected = records(&other).unwrap();
    assert_eq!(expected.keys().copied().collect::<Vec<_>>(), [2, 3]);
    drop(other);
    let down = |bucket: &SimBucket, from: u64| {
        bucket.fail_when(move |call| {
            let is_late = call.index >= from;
            is_late.then_some(BucketFault::Before(ObjectErrorKind::Unavailable))
        });
    };
    let mut refused = 0;
    for from in 0..60 {
        let (disk, bucket) = (here.image().after_kill(), scene.bucket.image());
        down(&bucket, from);
        let first = open(&disk, &bucket).map(drop);
        let away = bucket.image();
        down(&away, 0);
        for outcome in [first, open(&disk, &away).map(drop)] {
            match outcome {
                Ok(()) => {}
                Err(AofError::Cold(_)) => refused += 1,
                Err(error) => panic!("without the bucket from request {from} on: {error}"),
            }
        }
        let back = open(&disk, &bucket.image()).unwrap();
        assert_eq!(records(&back).unwrap(), expected, "request {from}");
    }
    assert!(refused > 0, "the bucket never went away in between");
}

/// How many interleavings: `AOF2_WRITER_HISTORIES`; `AOF2_CRASH_SEED` to look at one again.
#[test]
fn two_machines_with_one_bucket_never_lose_what_was_archived() {
    let first = setting("AOF2_CRASH_SEED", 1);
    let count = setting("AOF2_WRITER_HISTORIES", 300);
    for seed in first..first + count {
        explore(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The histories are worth something: writers are taken over in the middle of their work.
#[test]
fn the_two_machines_do_meet() {
    let (mut claims, mut archived) = (0, 0);
    let first = setting("AOF2_CRASH_SEED", 1);
    for seed in first..first + 29 {
        let scene = Scene::new(seed);
        for _ in 0..300 {
            scene.step(roll(&scene, 2) as usize);
        }
        claims += u64::from(last_claim(&scene.bucket).unwrap_or(0));
        archived += scene.history.lock().archived.len();
        assert_eq!(*scene.failure.lock(), None, "seed {seed}");
    }
    assert!(claims > 60 && archived > 300, "{claims} claims, {archived} records archived");
}
