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

use fastrand::Rng;

use super::world::{Promise, ROOT, SEGMENT, World, lose, setting, tie, tier_config};
use crate::check::{ScrubOptions, ScrubOutcome, ScrubReport, scrub_now};
use crate::error::AofError;
use crate::format::{SEGMENT_FOOTER_LEN, SegmentFooter, SegmentId, crc64};
use crate::io::Storage;
use crate::io::sim::{CrashImage, CrashOptions, SimStorage};
use crate::object::sim::SimBucket;
use crate::read::{OnCorruption, Source};
use crate::read::{Scan, ScanOptions};
use crate::segment::{Artifact, FileSource};
use crate::store::Change;
use crate::store::{Residency, SealedInfo, SegmentEntry};
use crate::tier::config::TierConfig;
use crate::tier::task::Lane;

/// Room for everything, or, if it is tight, for nothing that another tier holds.
fn open(sim: &SimStorage, bucket: &SimBucket, is_tight: bool) -> Result<World, AofError> {
    let limits = match is_tight {
        true => tier_config(SEGMENT, Some(1)),
        false => tier_config(64 * SEGMENT, None),
    };
    let config = TierConfig { scrub_interval_ms: 1, scrub_bytes_per_second: u64::MAX, ..limits };
    crate::tier::tests::world::open(sim, bucket, config)
}

impl World {
    fn scrub(&self) -> Result<ScrubReport, AofError> {
        let mut go_on = |_: &_| ControlFlow::Continue(());
        scrub_now(&self.stream, &*self.tiers, &ScrubOptions::default(), &mut go_on)
    }

    /// The same, segment by segment, as the background does it.
    fn scrub_in_background(&self) {
        self.sim.clock().advance_ms(10);
        for _ in 0..=self.stream.store().table().len() {
            let mut jobs = self.coordinator.due(Lane::Scrub).jobs.into_iter();
            let Some(job) = jobs.next() else { return };
            job.run();
        }
    }

    /// One turn of everything else that the background does.
    fn run_the_rest(&self) {
        self.sim.clock().advance_ms(20);
        self.coordinator.plan().into_iter().for_each(|job| job.run());
        self.coordinator.plan_cold().into_iter().for_each(|job| job.run());
    }

    fn sealed(&self) -> Vec<Arc<SegmentEntry>> {
        let entries = self.stream.store().table().snapshot().into_iter();
        entries.filter(|entry| entry.sealed_info().is_some()).collect()
    }
}

/// A sealed segment, as it was when all its copies were good.
#[derive(Clone)]
struct Known {
    id: SegmentId,
    first_offset: u64,
    info: SealedInfo,
    copies: BTreeSet<Residency>,
}

impl Known {
    fn of(entry: &SegmentEntry) -> Self {
        let held = entry.copies();
        let copies = Residency::ALL.into_iter().filter(|tier| held.is_in(*tier)).collect();
        let (meta, info) = (&entry.meta, *entry.sealed_info().unwrap());
        Self { id: meta.segment_id, first_offset: meta.first_offset, info, copies }
    }

    fn is_told_by(&self, footer: &SegmentFooter) -> bool {
        self.info.is_same_content(&SealedInfo::from(footer))
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
        let sealed_count = 3 + rng.usize(..3);
        let archived_count = rng.usize(..=sealed_count);
        while world.sealed().len() < sealed_count {
            world.append(rng, &mut promise).map_err(|e| e.to_string())?;
            world.stream.flush_in_background().map_err(|e| e.to_string())?;
            world.stream.finalize_step().map_err(|e| e.to_string())?;
            if world.sealed().len() <= archived_count {
                sim.clock().advance_ms(20);
                world.coordinator.run_until_idle();
                world.coordinator.run_cold_until_idle();
            }
        }
        for entry in world.sealed() {
            spread(&world, &entry, rng).map_err(|e| e.to_string())?;
        }
        world.note(&mut promise);
        let segments = world.sealed().iter().map(|entry| Known::of(entry)).collect();
        let is_tight = rng.bool();
        Ok(Self { is_tight, disk: sim.image(), bucket: bucket.image(), promise, segments })
    }

    /// One copy of some of the segments that have another.
    fn victims(&self, rng: &mut Rng) -> Vec<(Known, Residency)> {
        let spare = self.segments.iter().filter(|known| known.copies.len() > 1);
        let chosen = spare.filter_map(|known| {
            let tiers: Vec<Residency> = known.copies.iter().copied().collect();
            let tier = tiers[rng.usize(..tiers.len())];
            (rng.u64(..3) > 0).then(|| (known.clone(), tier))
        });
        chosen.collect()
    }
}

/// Gives a segment the copies that chance says.
fn spread(world: &World, entry: &SegmentEntry, rng: &mut Rng) -> Result<(), AofError> {
    let (stream, id) = (&world.stream, entry.meta.segment_id);
    if entry.copies().cold.is_none() && rng.u64(..3) > 0 {
        stream.store().apply(&Change::Compress(id))?;
    }
    let is_archived = entry.copies().cold.is_some();
    match rng.u64(..5) {
        0 if entry.copies().compressed().is_some() => {
            stream.store().apply(&Change::Evict(id, Residency::Hot)).map(drop)
        }
        1 if is_archived => stream.store().apply(&Change::Evict(id, Residency::Warm)).map(drop),
        2 if is_archived => stream
            .store()
            .apply(&Change::Evict(id, Residency::Hot))
            .and_then(|_| stream.store().apply(&Change::Evict(id, Residency::Warm)))
            .map(drop),
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
        of[rng.usize(..of.len())]
    }

    /// The bytes afterwards, if there are any. A bit changes in this place.
    fn apply(self, mut bytes: Vec<u8>, place: Range<usize>, rng: &mut Rng) -> Option<Vec<u8>> {
        match self {
            Self::Flip => {
                let at = place.start + rng.usize(..place.len());
                bytes[at] ^= 1 << rng.u64(..8);
            }
            Self::Cut => bytes.truncate(rng.usize(..bytes.len())),
            Self::Lost => return None,
        }
        Some(bytes)
    }
}

/// Damages a file, durably and behind everybody's back, and gives what is left of it. One
/// that may be mapped keeps its length.
fn harm_file(
    sim: &SimStorage,
    known: &Known,
    tier: Residency,
    is_open: bool,
    rng: &mut Rng,
) -> Option<Vec<u8>> {
    let dir = if tier == Residency::Hot { "segments" } else { "warm" };
    let path = files_of(sim, dir, known.id).pop().unwrap();
    let bytes = sim.read_file(&path).unwrap();
    let (used, len) = (known.info.durable_bytes as usize, bytes.len());
    let changed = match tier {
        Residency::Hot => {
            let place = match rng.u64(..3) {
                0 => len - SEGMENT_FOOTER_LEN..len,
                _ => 0..used,
            };
            let harms: &[Harm] = match is_open {
                true => &[Harm::Flip, Harm::Flip, Harm::Lost],
                false => &[Harm::Flip, Harm::Cut, Harm::Lost],
            };
            Harm::pick(harms, rng).apply(bytes, place, rng)
        }
        _ => Harm::pick(&[Harm::Flip, Harm::Cut, Harm::Lost], rng).apply(bytes, 0..len, rng),
    };
    match &changed {
        Some(bytes) => sim.write_file(&path, bytes).unwrap(),
        None => {
            sim.remove(&path).unwrap();
            sim.sync_dir(path.parent().unwrap()).unwrap();
        }
    }
    changed
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
    if let Some(bytes) = Harm::pick(harms, rng).apply(object.bytes.to_vec(), 0..len, rng) {
        bucket.insert(&key, bytes.into(), object.meta);
    }
}

/// What a run of histories came to: one that cuts nothing and heals nothing shows nothing.
#[derive(Default)]
pub(super) struct Tally {
    cuts: u64,
    /// Copies that the scrub after the cut had to replace.
    healed: u64,
}

/// The power goes at some call from now on, if there are so many.
fn cut(sim: &SimStorage, bucket: &SimBucket, rng: &mut Rng) {
    tie(sim, bucket);
    match rng.u64(..4) {
        0 => sim.crash_at(sim.calls() + rng.u64(..250)),
        1 => sim.crash_after(sim.calls() + rng.u64(..250)),
        2 => bucket.crash_at(bucket.calls() + rng.u64(..30)),
        _ => bucket.crash_after(bucket.calls() + rng.u64(..30)),
    }
}

/// Scrubs until the power goes, if it does.
fn scrub_until_cut(world: &World, rng: &mut Rng) -> Result<(), String> {
    // The tiers may come first, and meet the damage before it is known.
    for _ in 0..rng.u64(..3) {
        if !world.is_dead() {
            world.run_the_rest();
            world.ask_back(rng);
        }
    }
    if rng.bool() {
        world.scrub_in_background();
    } else {
        let scrubbed = world.scrub();
        if !world.is_dead() {
            scrubbed.map_err(|e| format!("scrub: {e}"))?;
        }
    }
    for _ in 0..3 {
        if !world.is_dead() {
            world.run_the_rest();
        }
    }
    Ok(())
}

/// What a cut left.
struct AfterCut {
    disk: CrashImage,
    bucket: SimBucket,
    /// The files that had been damaged before, as they were then.
    harmed: Vec<Vec<u8>>,
}

pub(super) fn explore(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let subject = Subject::make(&mut rng).map_err(|e| format!("making it: {e}"))?;
    for round in 0..3 {
        let (sim, bucket) = (subject.disk.after_kill(), subject.bucket.image());
        let victims = subject.victims(&mut rng);
        let told: Vec<_> = victims.iter().map(|(known, tier)| (known.id.as_u64(), *tier)).collect();
        let left = subject
            .scrub_damaged(&sim, &bucket, &victims, &mut rng)
            .map_err(|e| format!("round {round}, {told:?}: {e}"))?;
        tally.cuts += u64::from(sim.is_crashed());
        for outcome in 0..2 {
            let choice = if outcome == 0 { 0 } else { rng.u64(..1_000_000) };
            check_outcome(&left, choice, &subject, &mut rng, tally)
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
    ) -> Result<AfterCut, String> {
        let is_open = rng.bool();
        let mut world = match is_open {
            true => Some(self.open(sim, bucket).map_err(|e| format!("open: {e}"))?),
            false => None,
        };
        let mut harmed = Vec::new();
        for (known, tier) in victims {
            match tier {
                Residency::Cold => harm_object(bucket, known, self.is_tight, rng),
                _ => harmed.extend(harm_file(sim, known, *tier, is_open, rng)),
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
        let disk = sim.take_crash().unwrap_or_else(|| sim.image());
        Ok(AfterCut { disk, bucket: bucket.image(), harmed })
    }
}

fn check_outcome(
    left: &AfterCut,
    choice: u64,
    subject: &Subject,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut disk = left.disk.materialize(choice, &CrashOptions::default());
    let mut bucket = left.bucket.image();
    no_other_damage(&disk, &subject.segments, &left.harmed)?;
    if rng.u64(..3) == 0 {
        let again = subject.scrub_damaged(&disk, &bucket, &[], rng)?;
        disk = again.disk.materialize(rng.u64(..1_000_000), &CrashOptions::default());
        bucket = again.bucket;
        no_other_damage(&disk, &subject.segments, &left.harmed)
            .map_err(|e| format!("cut again: {e}"))?;
    }
    let mut promise = subject.promise.clone();
    let world = subject.open(&disk, &bucket).map_err(|e| format!("open: {e}"))?;
    reads_nothing_wrong(&world, &promise)?;
    for _ in 0..rng.u64(..4) {
        world.run_the_rest();
    }
    let damaged = still_there(&world, &left.harmed);
    let report = world.scrub().map_err(|e| format!("scrub: {e}"))?;
    all_healed(&report)?;
    tally.healed += report.healed();
    let durable = promise.durable;
    world.check(&mut promise, durable).map_err(|e| format!("scrubbed: {e}"))?;
    copies_are_good(&world, &subject.segments).map_err(|e| format!("scrubbed: {e}"))?;
    world.archive_all()?;
    copies_are_good(&world, &subject.segments).map_err(|e| format!("archived: {e}"))?;
    if !subject.is_tight {
        nothing_is_lost(&world, &report, &damaged)?;
    }
    let again = world.scrub().map_err(|e| format!("second scrub: {e}"))?;
    if !again.findings.is_empty() || !again.unreached.is_empty() {
        return Err(format!("found by the second scrub: {again:?}"));
    }
    let end = world.stream.appended().count();
    world.check(&mut promise, end)?;
    world.is_tidy()?;
    drop(world);
    lose(&disk, &[""]);
    let world = subject.open(&disk, &bucket).map_err(|e| format!("bucket alone: {e}"))?;
    world.check(&mut promise, end).map_err(|e| format!("bucket alone: {e}"))
}

/// No file under a name that the log reads from is worth less than it was: a copy that was
/// being made has its name once it is whole, and not before.
fn no_other_damage(
    disk: &SimStorage,
    segments: &[Known],
    harmed: &[Vec<u8>],
) -> Result<(), String> {
    for known in segments {
        for path in files_of(disk, "segments", known.id) {
            let bytes = disk.read_file(&path).unwrap();
            if !known.is_file(&bytes) && !harmed.contains(&bytes) {
                return Err(format!("{} is damaged, and was not before", path.display()));
            }
        }
        for path in files_of(disk, "warm", known.id) {
            let bytes = disk.read_file(&path).unwrap();
            if !known.is_artifact(&bytes) && !harmed.contains(&bytes) {
                return Err(format!("{} is damaged, and was not before", path.display()));
            }
        }
    }
    Ok(())
}

/// Those of the damaged files that are on the disk under some name. A copy that opening
/// passed over may have been replaced by the tiers.
fn still_there(world: &World, harmed: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let files = world.sim.files();
    let files: Vec<_> = files.iter().map(|path| world.sim.read_file(path).unwrap()).collect();
    harmed.iter().filter(|bytes| files.contains(bytes)).cloned().collect()
}

/// With room for everything: what is called healed is there again, and what it replaced
/// is kept for whoever wants to look at it.
fn nothing_is_lost(world: &World, report: &ScrubReport, damaged: &[Vec<u8>]) -> Result<(), String> {
    for finding in &report.findings {
        let id = SegmentId::from_u64(finding.segment_id);
        let entry = world.stream.store().sealed_entry(id).map_err(|e| e.to_string())?;
        if !Known::of(&entry).copies.contains(&finding.tier) {
            return Err(format!("called healed, and not there: {finding:?}"));
        }
    }
    match still_there(world, damaged).len() == damaged.len() {
        true => Ok(()),
        false => Err("a damaged file was thrown away".into()),
    }
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
    no_other_damage(sim, segments, &[])?;
    for known in segments {
        let entry = world.stream.store().sealed_entry(known.id).map_err(|e| e.to_string())?;
        let objects = bucket.objects();
        let key = world.stream.store().cold_key(&entry);
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
    let count = setting("AOF2_SCRUB_HISTORIES", 20);
    let mut tally = Tally::default();
    for seed in first..first + count {
        explore(seed, &mut tally).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let expected = count / 2;
    let Tally { cuts, healed } = tally;
    assert!(cuts >= expected && healed >= expected, "{cuts} cuts, {healed} copies healed");
}

/// The only copy of a segment is damaged, and the power may go while that is found: what
/// is left of it stays under its name, for a repair to save what it can.
#[test]
fn the_only_copy_of_a_segment_stays_however_damaged() {
    let mut damaged = 0;
    for seed in 0..setting("AOF2_SCRUB_HISTORIES", 15) {
        damaged += scrub_only_copies(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(damaged > 0);
}

fn scrub_only_copies(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed);
    let mut subject = Subject::make(&mut rng)?;
    subject.is_tight = false;
    let (sim, bucket) = (subject.disk.after_kill(), subject.bucket.image());
    let alone: Vec<&Known> =
        subject.segments.iter().filter(|known| known.copies.len() == 1).collect();
    for known in &alone {
        flip_record(&sim, &bucket, known);
    }
    let before: Vec<_> = alone.iter().map(|known| copies_of(&sim, &bucket, known)).collect();
    let left = subject.scrub_damaged(&sim, &bucket, &[], &mut rng)?;
    let disk = left.disk.materialize(rng.u64(..1_000_000), &CrashOptions::default());
    let bucket = left.bucket;
    let world = subject.open(&disk, &bucket).map_err(|e| format!("open: {e}"))?;
    let report = world.scrub().map_err(|e| format!("scrub: {e}"))?;
    reads_nothing_wrong(&world, &subject.promise)?;
    for (known, before) in alone.iter().zip(before) {
        let is_told = report.findings.iter().any(|finding| {
            let is_left = matches!(finding.outcome, ScrubOutcome::NeedsRepair { .. });
            is_left && finding.segment_id == known.id.as_u64()
        });
        if !is_told || copies_of(&disk, &bucket, known) != before {
            return Err(format!("segment {} is not left as it was: {report:?}", known.id));
        }
    }
    // Those behind it are archived, and must not hide that it is not.
    (0..20).for_each(|_| world.run_the_rest());
    let archived = world.stream.store().archived().count();
    for known in alone.iter().filter(|known| !known.copies.contains(&Residency::Cold)) {
        if archived > known.first_offset {
            return Err(format!("segment {} is called archived", known.id));
        }
    }
    Ok(alone.len() as u64)
}

/// Changes a record in the only copy of a segment.
fn flip_record(sim: &SimStorage, bucket: &SimBucket, known: &Known) {
    match known.copies.first().unwrap() {
        Residency::Cold => assert!(bucket.damage(&keys_of(bucket, known.id)[0], 100, 1)),
        Residency::Warm => sim.flip_bit(&files_of(sim, "warm", known.id)[0], 800).unwrap(),
        Residency::Hot => sim.flip_bit(&files_of(sim, "segments", known.id)[0], 8_000).unwrap(),
    }
}

/// The bytes of every copy of a segment, under names that the log reads from.
fn copies_of(sim: &SimStorage, bucket: &SimBucket, known: &Known) -> Vec<Vec<u8>> {
    let files = ["segments", "warm"].map(|dir| files_of(sim, dir, known.id));
    let files = files.iter().flatten().map(|path| sim.read_file(path).unwrap());
    let objects = bucket.objects();
    let objects = keys_of(bucket, known.id).into_iter().map(|key| objects[&key].bytes.to_vec());
    files.chain(objects).collect()
}

/// The index at the end of a compressed file is damaged while the log is open and knows it
/// by heart: reading goes on, and still the file is not what is uploaded.
#[test]
fn a_file_whose_index_changed_does_not_become_the_archive() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket, false).unwrap();
    let (mut promise, mut rng) = (Promise::default(), Rng::with_seed(3));
    while world.sealed().is_empty() {
        world.append(&mut rng, &mut promise).unwrap();
        world.stream.flush_in_background().unwrap();
        world.stream.finalize_step().unwrap();
    }
    world.coordinator.run_until_idle();
    let known = Known::of(&world.sealed()[0]);
    let path = files_of(&sim, "warm", known.id).pop().unwrap();
    let len = sim.read_file(&path).unwrap().len() as u64;
    sim.flip_bit(&path, 8 * (len - 20)).unwrap();
    assert!(!known.is_artifact(&sim.read_file(&path).unwrap()));
    world.coordinator.run_cold_until_idle();
    assert!(keys_of(&bucket, known.id).is_empty());
    assert_eq!(world.scrub().unwrap().healed(), 1);
    world.archive_all().unwrap();
    drop(world);
    let world = open(&SimStorage::new(), &bucket, false).unwrap();
    let end = promise.payloads.len() as u64;
    world.check(&mut promise, end).unwrap();
}

/// The index of an object is damaged, and the power goes anywhere while the segment is
/// taken from it: the object is not left behind when another takes its place.
#[test]
fn a_damaged_object_is_deleted_wherever_the_cut_comes() {
    let (sim, bucket) = (SimStorage::new(), SimBucket::new());
    sim.clock().set_step_ns(1_000);
    let world = open(&sim, &bucket, false).unwrap();
    let mut promise = Promise::default();
    world.append(&mut Rng::with_seed(3), &mut promise).unwrap();
    world.archive_all().unwrap();
    let id = world.sealed()[0].meta.segment_id;
    let key = keys_of(&bucket, id).pop().unwrap();
    let len = bucket.objects()[&key].bytes.len() as u64;
    assert!(bucket.damage(&key, len - 20, 1));
    let image = sim.image();
    for call in 0.. {
        let (sim, bucket) = (image.after_kill(), bucket.image());
        let world = open(&sim, &bucket, false).unwrap();
        sim.crash_after(sim.calls() + call);
        let _ = world.stream.store().apply(&Change::Forget(id));
        let Some(left) = sim.take_crash() else { break };
        let disk = left.materialize(0, &CrashOptions::default());
        let world = open(&disk, &bucket, false).unwrap();
        world.scrub().unwrap();
        world.archive_all().unwrap();
        world.is_tidy().unwrap_or_else(|error| panic!("cut after {call}: {error}"));
        world.check(&mut promise, 1).unwrap();
    }
}
