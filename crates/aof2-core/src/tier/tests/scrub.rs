//! Scrubbing on a machine that loses power: one copy of a segment is damaged, and the
//! power goes at any call of the disk or of the bucket while the copy is being replaced.
//! Once the log is opened and scrubbed again every record is there, and every copy of
//! every segment is good.
//!
//! Whether a copy is good is decided here from its bytes, not by what the scrub says.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Rng;
use super::world::{Promise, ROOT, SEGMENT, World, lose, setting, tie, tier_config};
use crate::error::AofError;
use crate::format::{SEGMENT_FOOTER_LEN, SegmentFooter, SegmentId, crc64};
use crate::io::Storage;
use crate::io::sim::{CrashImage, CrashOptions, SimBucket, SimStorage};
use crate::log::{OnCorruption, Residency, SealedInfo, SegmentEntry, Source};
use crate::segment::{Artifact, ArtifactOptions, FileSource};
use crate::tier::scrub::{ScrubOptions, ScrubOutcome, ScrubReport, scrub_now};
use crate::{Scan, ScanOptions, TierConfig};

/// Room for everything, or, if it is tight, for nothing that another tier holds.
fn open(sim: &SimStorage, bucket: &SimBucket, is_tight: bool) -> Result<World, AofError> {
    let limits = match is_tight {
        true => tier_config(SEGMENT, Some(1)),
        false => tier_config(64 * SEGMENT, None),
    };
    let config = TierConfig { scrub_interval_ms: 1, scrub_bytes_per_second: u64::MAX, ..limits };
    super::world::open(sim, bucket, config)
}

impl World {
    fn scrub(&self) -> Result<ScrubReport, AofError> {
        let mut go_on = |_: &_| ControlFlow::Continue(());
        scrub_now(&self.stream, &self.tiers, &ScrubOptions::default(), &mut go_on)
    }

    /// The same, segment by segment, as the background does it.
    fn scrub_in_background(&self) {
        self.sim.clock().advance_ms(10);
        for _ in 0..=self.stream.table.len() {
            let Some(job) = self.coordinator.plan_scrub() else { return };
            job.run();
        }
    }

    /// One turn of everything else that the background does.
    fn tend(&self) {
        self.sim.clock().advance_ms(20);
        self.coordinator.plan().into_iter().for_each(|job| job.run());
        self.coordinator.plan_cold().into_iter().for_each(|job| job.run());
    }

    fn sealed(&self) -> Vec<Arc<SegmentEntry>> {
        let entries = self.stream.table.snapshot().into_iter();
        entries.filter(|entry| entry.sealed_info().is_some()).collect()
    }
}

/// A sealed segment, as it was when all its copies were good.
#[derive(Clone)]
struct Known {
    id: SegmentId,
    info: SealedInfo,
    copies: BTreeSet<Residency>,
}

impl Known {
    fn of(entry: &SegmentEntry) -> Self {
        let away = entry.away_copies();
        let mut copies = BTreeSet::new();
        copies.extend(entry.is_hot().then_some(Residency::Hot));
        copies.extend(away.warm.map(|_| Residency::Warm));
        copies.extend(away.cold.map(|_| Residency::Cold));
        Self { id: entry.meta.segment_id, info: *entry.sealed_info().unwrap(), copies }
    }

    fn is_told_by(&self, footer: &SegmentFooter) -> bool {
        let told = SealedInfo::from(footer);
        (told.record_count, told.durable_bytes, told.segment_crc64)
            == (self.info.record_count, self.info.durable_bytes, self.info.segment_crc64)
    }

    /// Whether these are the bytes of its segment file, as far as they are used.
    fn is_file(&self, bytes: &[u8]) -> bool {
        let used = self.info.durable_bytes as usize;
        let Some(footer_at) = bytes.len().checked_sub(SEGMENT_FOOTER_LEN) else { return false };
        let footer = SegmentFooter::decode(crate::SegmentFormat::Full, &bytes[footer_at..]);
        bytes.len() as u64 == SEGMENT
            && crc64(&bytes[..used]) == self.info.segment_crc64
            && matches!(footer, Ok(Some(footer)) if self.is_told_by(&footer))
    }

    /// Whether these are the bytes of a compressed copy.
    fn is_artifact(&self, bytes: &[u8]) -> bool {
        let (lab, path) = (SimStorage::new(), Path::new("/copy"));
        lab.write_file(path, bytes).unwrap();
        let opened =
            FileSource::open(&lab, path).and_then(|source| Artifact::open(Arc::new(source)));
        let is_good = |artifact: Artifact| {
            self.is_told_by(&artifact.footer()) && artifact.verify(&mut |_| {}).is_ok()
        };
        opened.is_ok_and(is_good)
    }
}

/// The files of a segment below a directory of the log.
fn files_of(sim: &SimStorage, dir: &str, id: SegmentId) -> Vec<PathBuf> {
    let (dir, start) = (Path::new(ROOT).join(dir), format!("{:020}_", id.as_u64()));
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        path.starts_with(&dir) && name.starts_with(&start) && !name.ends_with(".tmp")
    };
    sim.files().into_iter().filter(is_of).collect()
}

/// The objects of a segment, oldest first.
fn keys_of(bucket: &SimBucket, id: SegmentId) -> Vec<String> {
    let of_segment = format!("/{:020}-", id.as_u64());
    bucket.objects().into_keys().filter(|key| key.contains(&of_segment)).collect()
}

/// A log at rest whose segments have one, two or three copies.
struct Subject {
    /// Whether its tiers are over their limits from now on.
    is_tight: bool,
    disk: CrashImage,
    bucket: SimBucket,
    promise: Promise,
    segments: Vec<Known>,
}

impl Subject {
    fn make(rng: &mut Rng) -> Result<Self, String> {
        let (sim, bucket) = (SimStorage::new(), SimBucket::new());
        sim.clock().set_step_ns(1_000);
        let world = open(&sim, &bucket, false).map_err(|e| e.to_string())?;
        let mut promise = Promise::default();
        let sealed_count = 3 + rng.below(3) as usize;
        let archived_count = rng.below(sealed_count as u64 + 1) as usize;
        while world.sealed().len() < sealed_count {
            world.append(rng, &mut promise).map_err(|e| e.to_string())?;
            world.stream.flush_in_background().map_err(|e| e.to_string())?;
            world.stream.finalize_step().map_err(|e| e.to_string())?;
            if world.sealed().len() <= archived_count {
                sim.clock().advance_ms(20);
                world.coordinator.settle();
                world.coordinator.settle_cold();
            }
        }
        for entry in world.sealed() {
            spread(&world, &entry, rng).map_err(|e| e.to_string())?;
        }
        world.note(&mut promise);
        let segments = world.sealed().iter().map(|entry| Known::of(entry)).collect();
        let is_tight = rng.below(2) == 0;
        Ok(Self { is_tight, disk: sim.image(), bucket: bucket.image(), promise, segments })
    }

    /// One copy of some of the segments that have another.
    fn victims(&self, rng: &mut Rng) -> Vec<(Known, Residency)> {
        let spare = self.segments.iter().filter(|known| known.copies.len() > 1);
        let chosen = spare.filter_map(|known| {
            let tiers: Vec<Residency> = known.copies.iter().copied().collect();
            let tier = tiers[rng.below(tiers.len() as u64) as usize];
            (rng.below(3) > 0).then(|| (known.clone(), tier))
        });
        chosen.collect()
    }
}

/// Gives a segment the copies that chance says.
fn spread(world: &World, entry: &SegmentEntry, rng: &mut Rng) -> Result<(), AofError> {
    let (stream, id) = (&world.stream, entry.meta.segment_id);
    if entry.away_copies().cold.is_none() && rng.below(3) > 0 {
        stream.compress(id, 1, &ArtifactOptions { level: 1, frame_bytes: 8 << 10 })?;
    }
    let is_archived = entry.away_copies().cold.is_some();
    match rng.below(5) {
        0 if !entry.away_copies().is_empty() => stream.evict_hot(id).map(drop),
        1 if is_archived => stream.evict_warm(id).map(drop),
        2 if is_archived => stream.evict_hot(id).and_then(|_| stream.evict_warm(id)).map(drop),
        _ => Ok(()),
    }
}

/// What becomes of a copy.
#[derive(Clone, Copy)]
enum Harm {
    /// One bit changes.
    Flip,
    /// Its end is missing.
    Cut,
    Lost,
}

impl Harm {
    fn pick(of: &[Self], rng: &mut Rng) -> Self {
        of[rng.below(of.len() as u64) as usize]
    }

    /// The bytes afterwards, if there are any. A bit changes in one of these places.
    fn apply(self, mut bytes: Vec<u8>, places: &[Range<usize>], rng: &mut Rng) -> Option<Vec<u8>> {
        match self {
            Self::Flip => {
                let place = &places[rng.below(places.len() as u64) as usize];
                let at = place.start + rng.below(place.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
            Self::Cut => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            Self::Lost => return None,
        }
        Some(bytes)
    }
}

/// Damages a file, durably and behind everybody's back. One that may be mapped keeps its
/// length.
fn harm_file(sim: &SimStorage, known: &Known, tier: Residency, is_open: bool, rng: &mut Rng) {
    let dir = if tier == Residency::Hot { "segments" } else { "warm" };
    let path = files_of(sim, dir, known.id).pop().unwrap();
    let bytes = sim.read_file(&path).unwrap();
    let (used, len) = (known.info.durable_bytes as usize, bytes.len());
    let changed = match tier {
        Residency::Hot => {
            let places = [0..used, 0..used, len - SEGMENT_FOOTER_LEN..len];
            let harms: &[Harm] = match is_open {
                true => &[Harm::Flip, Harm::Flip, Harm::Lost],
                false => &[Harm::Flip, Harm::Cut, Harm::Lost],
            };
            Harm::pick(harms, rng).apply(bytes, &places, rng)
        }
        _ => Harm::pick(&[Harm::Flip, Harm::Cut, Harm::Lost], rng).apply(bytes, &[0..len], rng),
    };
    match changed {
        Some(bytes) => sim.write_file(&path, &bytes).unwrap(),
        None => {
            sim.remove(&path).unwrap();
            sim.sync_dir(path.parent().unwrap()).unwrap();
        }
    }
}

/// Damages an object. Where tiers rely on what the bucket says of it before they drop
/// another copy, the damage is one that the bucket sees: its own checksum covers the rest.
fn harm_object(bucket: &SimBucket, known: &Known, is_tight: bool, rng: &mut Rng) {
    let key = keys_of(bucket, known.id).pop().unwrap();
    let object = bucket.objects()[&key].clone();
    let len = object.bytes.len();
    let harms: &[Harm] = match is_tight {
        true => &[Harm::Cut, Harm::Lost],
        false => &[Harm::Flip, Harm::Cut, Harm::Lost],
    };
    bucket.remove(&key);
    if let Some(bytes) = Harm::pick(harms, rng).apply(object.bytes.to_vec(), &[0..len], rng) {
        bucket.insert(&key, bytes.into(), object.meta);
    }
}

/// The power goes at some call from now on, if there are so many.
fn cut(sim: &SimStorage, bucket: &SimBucket, rng: &mut Rng) {
    tie(sim, bucket);
    match rng.below(4) {
        0 => sim.crash_at(sim.calls() + rng.below(500)),
        1 => sim.crash_after(sim.calls() + rng.below(500)),
        2 => bucket.crash_at(bucket.calls() + rng.below(60)),
        _ => bucket.crash_after(bucket.calls() + rng.below(60)),
    }
}

/// Scrubs until the power goes, if it does.
fn scrub_until_cut(world: &World, rng: &mut Rng) -> Result<(), String> {
    // The tiers may come first, and meet the damage before it is known.
    for _ in 0..rng.below(3) {
        if !world.is_dead() {
            world.tend();
        }
    }
    if rng.below(2) == 0 {
        world.scrub_in_background();
    } else {
        let scrubbed = world.scrub();
        if !world.is_dead() {
            scrubbed.map_err(|e| format!("scrub: {e}"))?;
        }
    }
    for _ in 0..3 {
        if !world.is_dead() {
            world.tend();
        }
    }
    Ok(())
}

/// A machine and what a cut left of its disk; the bucket as it was then.
fn after_cut(sim: &SimStorage, bucket: &SimBucket) -> (CrashImage, SimBucket) {
    (sim.take_crash().unwrap_or_else(|| sim.image()), bucket.image())
}

fn explore(seed: u64) -> Result<(), String> {
    let mut rng = Rng(seed);
    let subject = Subject::make(&mut rng).map_err(|e| format!("making it: {e}"))?;
    for round in 0..3 {
        let (sim, bucket) = (subject.disk.after_kill(), subject.bucket.image());
        let victims = subject.victims(&mut rng);
        let told: Vec<_> = victims.iter().map(|(known, tier)| (known.id.as_u64(), *tier)).collect();
        let (image, bucket) = subject
            .scrub_damaged(&sim, &bucket, &victims, &mut rng)
            .map_err(|e| format!("round {round}, {told:?}: {e}"))?;
        for outcome in 0..2 {
            let choice = if outcome == 0 { 0 } else { rng.below(1_000_000) };
            let disk = image.materialize(choice, &CrashOptions::default());
            check_outcome(disk, bucket.image(), &subject, &mut rng)
                .map_err(|e| format!("round {round}, {told:?}, outcome {choice}: {e}"))?;
        }
    }
    Ok(())
}

impl Subject {
    fn open(&self, sim: &SimStorage, bucket: &SimBucket) -> Result<World, AofError> {
        open(sim, bucket, self.is_tight)
    }

    /// Damages copies, and scrubs until the power goes. The damage is there when the log
    /// is opened, or comes later.
    fn scrub_damaged(
        &self,
        sim: &SimStorage,
        bucket: &SimBucket,
        victims: &[(Known, Residency)],
        rng: &mut Rng,
    ) -> Result<(CrashImage, SimBucket), String> {
        let is_open = rng.below(2) == 0;
        let mut world = match is_open {
            true => Some(self.open(sim, bucket).map_err(|e| format!("open: {e}"))?),
            false => None,
        };
        for (known, tier) in victims {
            match tier {
                Residency::Cold => harm_object(bucket, known, self.is_tight, rng),
                _ => harm_file(sim, known, *tier, is_open, rng),
            }
        }
        cut(sim, bucket, rng);
        if world.is_none() {
            world = match self.open(sim, bucket) {
                Ok(world) => Some(world),
                Err(_) if sim.is_crashed() || bucket.is_crashed() => None,
                Err(error) => return Err(format!("open: {error}")),
            };
        }
        if let Some(world) = &world {
            scrub_until_cut(world, rng)?;
        }
        Ok(after_cut(sim, bucket))
    }
}

fn check_outcome(
    mut disk: SimStorage,
    mut bucket: SimBucket,
    subject: &Subject,
    rng: &mut Rng,
) -> Result<(), String> {
    if rng.below(3) == 0 {
        // The power goes once more.
        let (image, left) = subject.scrub_damaged(&disk, &bucket, &[], rng)?;
        disk = image.materialize(rng.below(1_000_000), &CrashOptions::default());
        bucket = left;
    }
    let mut promise = subject.promise.clone();
    let world = subject.open(&disk, &bucket).map_err(|e| format!("open: {e}"))?;
    reads_nothing_wrong(&world, &promise)?;
    if rng.below(3) == 0 {
        world.tend();
    }
    let report = world.scrub().map_err(|e| format!("scrub: {e}"))?;
    all_healed(&report)?;
    let durable = promise.durable;
    world.check(&mut promise, durable).map_err(|e| format!("scrubbed: {e}"))?;
    copies_are_good(&world, &subject.segments).map_err(|e| format!("scrubbed: {e}"))?;
    world.settle()?;
    copies_are_good(&world, &subject.segments).map_err(|e| format!("settled: {e}"))?;
    let again = world.scrub().map_err(|e| format!("second scrub: {e}"))?;
    if !again.findings.is_empty() || !again.unreached.is_empty() {
        return Err(format!("found by the second scrub: {again:?}"));
    }
    let end = world.stream.appended.count();
    world.check(&mut promise, end)?;
    world.is_tidy()?;
    drop(world);
    lose(&disk, &[""]);
    let world = subject.open(&disk, &bucket).map_err(|e| format!("bucket alone: {e}"))?;
    world.check(&mut promise, end).map_err(|e| format!("bucket alone: {e}"))
}

/// Damage may keep records away until it is healed, and never changes them.
fn reads_nothing_wrong(world: &World, promise: &Promise) -> Result<(), String> {
    let source = Arc::clone(&world.stream) as Arc<dyn Source>;
    let options = ScanOptions { on_corruption: OnCorruption::Skip, ..ScanOptions::default() };
    for record in Scan::new(source, options).map_err(|e| e.to_string())? {
        // Out of reach: a copy that is gone is no damage to step over.
        let Ok(record) = record else { break };
        let expected = promise.payloads.get(record.offset as usize);
        if expected.is_none_or(|payload| *payload != *record.payload) {
            return Err(format!("record {} is not what was appended", record.offset));
        }
    }
    Ok(())
}

/// Whatever was found could be replaced: there was a good copy of everything.
fn all_healed(report: &ScrubReport) -> Result<(), String> {
    let is_healed = |outcome: &ScrubOutcome| matches!(outcome, ScrubOutcome::Healed { .. });
    let healed = report.findings.iter().all(|finding| is_healed(&finding.outcome));
    match healed && report.unreached.is_empty() && report.is_complete {
        true => Ok(()),
        false => Err(format!("not healed: {report:?}")),
    }
}

/// Every copy under a name that the log reads from is good, there is one at least where
/// the table says so, and no good one was moved out of the way.
fn copies_are_good(world: &World, segments: &[Known]) -> Result<(), String> {
    let (sim, bucket) = (&world.sim, &world.bucket);
    for known in segments {
        let entry = world.stream.sealed_entry(known.id).map_err(|e| e.to_string())?;
        let objects = bucket.objects();
        let key = world.stream.cold_key(&entry);
        let hot = files_of(sim, "segments", known.id);
        let warm = files_of(sim, "warm", known.id);
        for tier in Known::of(&entry).copies {
            let is_good = match tier {
                Residency::Hot => hot.iter().any(|p| known.is_file(&sim.read_file(p).unwrap())),
                Residency::Warm => {
                    warm.iter().any(|p| known.is_artifact(&sim.read_file(p).unwrap()))
                }
                Residency::Cold => {
                    let object = key.as_ref().and_then(|key| objects.get(key));
                    object.is_some_and(|object| known.is_artifact(&object.bytes))
                }
            };
            if !is_good {
                return Err(format!("the {tier} copy of segment {} is not good", known.id));
            }
        }
        for path in hot.iter().filter(|p| !known.is_file(&sim.read_file(p).unwrap())) {
            return Err(format!("{} is damaged", path.display()));
        }
        for path in warm.iter().filter(|p| !known.is_artifact(&sim.read_file(p).unwrap())) {
            return Err(format!("{} is damaged", path.display()));
        }
        for path in files_of(sim, "quarantine", known.id) {
            let bytes = sim.read_file(&path).unwrap();
            if known.is_file(&bytes) || known.is_artifact(&bytes) {
                return Err(format!("{} is good", path.display()));
            }
        }
    }
    Ok(())
}

/// How many histories: `AOF2_SCRUB_HISTORIES`; `AOF2_CRASH_SEED` to look at one again.
#[test]
fn what_a_good_copy_held_survives_any_cut_of_a_scrub() {
    let first = setting("AOF2_CRASH_SEED", 1);
    let count = setting("AOF2_SCRUB_HISTORIES", 30);
    for seed in first..first + count {
        explore(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
