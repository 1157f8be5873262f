//! Verifying and repairing a log whose segments are compressed: an only copy is as good
//! as a segment file, its damage is named by record, and a repair loses exactly that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aof2_core::format::{ArtifactIndex, ColdTailName, StreamIdentity, WarmFileName};
use aof2_core::io::sim::{CrashOptions, SimClock, SimStorage};
use aof2_core::io::{OsStorage, Storage};
use aof2_core::segment::{Artifact, FileSource};
use aof2_core::*;
use fastrand::Rng;
use support::{PATIENCE, setting};

const FORMATS: [SegmentFormat; 2] = [SegmentFormat::Full, SegmentFormat::Compact];
/// Records in a sealed segment: about ten frames.
const RECORDS: u64 = 40;

fn payload(i: u64) -> Vec<u8> {
    // Hard to compress, so that most bits of a frame matter.
    let mut bytes = vec![0; 300 + i as usize * 7919 % 1_000];
    Rng::with_seed(i).fill(&mut bytes);
    bytes
}

fn config(path: &Path, format: SegmentFormat) -> AofConfig {
    AofConfig {
        preallocate_segments: 0,
        ..AofConfig::new(path).segment_bytes(64 << 10).format(format)
    }
}

fn manager() -> AofManager {
    let tiers = TierConfig { frame_bytes: 4 << 10, compression_level: 1, ..TierConfig::default() };
    let config = ManagerConfig { tiers: Some(tiers), ..ManagerConfig::for_one_stream() };
    AofManager::new(config).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    id: RecordId,
    payload: Vec<u8>,
}

/// What a log holds: its records by offset.
type Model = BTreeMap<u64, Known>;

/// A log with `sealed` sealed segments and a tail, closed; `moves` does what it wants
/// with the segments before that.
fn build(path: &Path, format: SegmentFormat, sealed: u64, moves: impl FnOnce(&Aof)) -> Model {
    let manager = manager();
    let log = manager.open(config(path, format)).unwrap();
    if format == SegmentFormat::Full {
        log.set_ext_id(77).unwrap();
    }
    let mut model = Model::new();
    for i in 0..sealed * RECORDS + 10 {
        if i > 0 && i % RECORDS == 0 {
            log.seal().unwrap();
        }
        let options = AppendOptions { timestamp_ms: Some(1_000 + i * 3), ..Default::default() };
        let appended = log.append_record_with_timeout(&payload(i), &options, PATIENCE).unwrap();
        assert_eq!(appended.offset, i);
        model.insert(i, Known { id: appended.id, payload: payload(i) });
    }
    moves(&log);
    log.close().unwrap();
    model
}

fn evict_all(log: &Aof) {
    for segment in log.segments().iter().filter(|s| s.is_sealed) {
        log.evict(segment.segment_id).unwrap();
    }
}

/// Every record that a reader can reach. Starts again behind whatever it refuses.
fn read_all_on(storage: Arc<dyn Storage>, path: &Path) -> Result<Model> {
    let reader = AofReader::open_on(storage, path)?;
    let mut model = Model::new();
    let mut from = 0;
    loop {
        match read_from(&reader, from, &mut model) {
            Err(AofError::Corrupt(damage)) => {
                assert!(damage.records.end > from, "{damage}");
                from = damage.records.end;
            }
            done => return done.map(|()| model),
        }
    }
}

fn read_from(reader: &AofReader, from: u64, model: &mut Model) -> Result<()> {
    let start = Start::Offset(from);
    let options = ScanOptions { start, visibility: Visibility::Appended, ..Default::default() };
    for record in reader.scan(options)? {
        let record = record?;
        let known = Known { id: record.id, payload: record.payload.to_vec() };
        assert!(model.insert(record.offset, known).is_none(), "offset {} twice", record.offset);
    }
    Ok(())
}

fn read_all(path: &Path) -> Result<Model> {
    read_all_on(Arc::new(OsStorage), path)
}

fn files_in(path: &Path, dir: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path.join(dir)) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn copy_log(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    for dir in ["segments", "warm", "cold", "archive"] {
        fs::create_dir_all(to.join(dir)).unwrap();
        for file in files_in(from, dir) {
            fs::copy(&file, to.join(dir).join(file.file_name().unwrap())).unwrap();
        }
    }
    for name in ["stream", "watermark"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

fn index_of(file: &Path) -> ArtifactIndex {
    let source = FileSource::open(&OsStorage, file).unwrap();
    Artifact::open(Arc::new(source)).unwrap().index().clone()
}

fn flip(file: &Path, byte: u64, bit: u8) {
    let mut bytes = fs::read(file).unwrap();
    bytes[byte as usize] ^= 1 << bit;
    fs::write(file, bytes).unwrap();
}

/// Makes the content of a data frame wrong, whatever zstd makes of it.
fn spoil_frame(file: &Path, index: &ArtifactIndex, frame: usize) {
    let frame = &index.frames[frame];
    let middle = frame.compressed_offset as usize + frame.compressed_len as usize / 2;
    let mut bytes = fs::read(file).unwrap();
    bytes[middle..middle + 8].fill(0x55);
    fs::write(file, bytes).unwrap();
}

/// The index frame with a wrong checksum.
fn spoil_index(file: &Path, index: &ArtifactIndex) {
    flip(file, index.footer.compressed_end() + 60, 3);
}

fn named(report: &VerifyReport) -> BTreeSet<u64> {
    report.problems.iter().flat_map(|p| p.records.clone()).collect()
}

fn without(model: &Model, gone: &BTreeSet<u64>) -> Model {
    let left = model.iter().filter(|(offset, _)| !gone.contains(offset));
    left.map(|(offset, known)| (*offset, known.clone())).collect()
}

/// Exactly the records that problems name are out of reach of a scan.
fn agrees_with_a_scan(path: &Path, model: &Model, what: &str) -> VerifyReport {
    let report = verify(path).unwrap();
    let found = read_all(path).unwrap();
    let unreadable: BTreeSet<u64> =
        model.keys().copied().filter(|offset| !found.contains_key(offset)).collect();
    assert_eq!(named(&report), unreadable, "{what}: {:#?}", report.problems);
    assert_eq!(found, without(model, &unreadable), "{what}");
    report
}

/// Repairs, and checks everything that holds after any repair: healthy, exactly `gone`
/// lost, the rest as it was, writable without using an offset again.
fn repair_loses(
    path: &Path,
    format: SegmentFormat,
    model: &Model,
    gone: Range<u64>,
) -> RepairReport {
    let gone: BTreeSet<u64> = gone.collect();
    let report = repair(path).unwrap();
    let problems = &report.verify.problems;
    assert!(report.verify.is_healthy(), "{problems:#?}\n{:#?}", report.actions);
    let lost: BTreeSet<u64> = report.lost.iter().flat_map(|l| l.records.clone()).collect();
    assert_eq!(lost, gone, "{:#?}", report.actions);
    let gaps: BTreeSet<u64> = report.verify.gaps.iter().cloned().flatten().collect();
    assert_eq!(gaps, gone);
    let mut left = without(model, &gone);
    assert_eq!(report.verify.record_count, left.len() as u64);
    assert_eq!(read_all(path).unwrap(), left);
    assert_eq!(told_missing(path), gone);
    let again = repair(path).unwrap();
    assert!(again.actions.is_empty(), "repairing twice does nothing: {:?}", again.actions);

    let manager = manager();
    let log = manager.open(config(path, format)).unwrap();
    let options = AppendOptions::default();
    let appended = log.append_record_with_timeout(b"after", &options, PATIENCE).unwrap();
    assert_eq!(appended.offset, model.len() as u64, "offsets continue");
    left.insert(appended.offset, Known { id: appended.id, payload: b"after".to_vec() });
    log.seal().unwrap();
    // What was repaired can move again.
    evict_all(&log);
    log.close().unwrap();
    let after = verify(path).unwrap();
    assert_eq!(after.problems, [], "{:#?}", report.actions);
    assert_eq!(read_all(path).unwrap(), left);
    assert_eq!(told_missing(path), gone, "compressed");
    report
}

/// Which records a scan says that a repair gave up.
fn told_missing(path: &Path) -> BTreeSet<u64> {
    let options = ScanOptions { visibility: Visibility::Appended, ..Default::default() };
    let mut scan = AofReader::open(path).unwrap().scan(options).unwrap();
    while scan.next_batch().unwrap().is_some() {}
    let told: BTreeSet<u64> =
        scan.skipped_ranges().iter().flat_map(|range| range.offsets.clone()).collect();
    assert_eq!((scan.skipped(), scan.lost()), (told.len() as u64, told.len() as u64));
    told
}

#[test]
fn a_tiered_log_verifies_healthy_and_repair_leaves_it_alone() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let mut before = None;
        let model = build(&path, format, 4, |log| {
            log.flush().unwrap();
            before = Some(verify(&path).unwrap());
            for segment in [0, 1, 3] {
                log.evict(segment).unwrap();
            }
            log.hydrate(1, Some(PATIENCE)).unwrap();
        });
        let before = before.unwrap();
        let storage: Arc<dyn Storage> = Arc::new(OsStorage);
        let mut seen = Vec::new();
        let report = verify_with(&storage, &path, &mut |p| {
            seen.push(p);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(report.record_count, model.len() as u64);
        let residency: Vec<_> = report.segments.iter().map(|s| s.residency).collect();
        use Residency::{Hot, Warm};
        assert_eq!(residency, [Warm, Hot, Hot, Warm, Hot]);
        let warm = files_in(&path, "warm");
        assert_eq!((warm.len(), &report.segments[0].path), (3, &warm[0]));
        assert!(index_of(&warm[0]).frames.len() > 5);
        // Whatever a segment is read from, it says the same.
        for (was, is) in before.segments.iter().zip(&report.segments).take(4) {
            let (path, residency) = (is.path.clone(), is.residency);
            assert_eq!(SegmentCheck { path, residency, ..was.clone() }, *is);
        }
        // Segment 1 was read twice: its file, and its copy.
        let bytes = |i: usize| report.segments[i].bytes;
        assert_eq!(seen[2].bytes_done - seen[1].bytes_done, 2 * bytes(1));
        assert!(seen.last().is_some_and(|last| last.bytes_done == last.bytes_total));
        assert!(repair(&path).unwrap().actions.is_empty());
        assert!(!path.join("quarantine").exists());
    }
}

/// What a flipped bit of an artifact does.
struct Expected {
    /// Records that readers cannot reach.
    named: Range<u64>,
    /// Those of them that are gone.
    lost: Range<u64>,
    kind: ProblemKind,
    /// Where the problem is said to be; `None` where it does not matter.
    offset: Option<u64>,
}

fn expected(index: &ArtifactIndex, byte: u64) -> Expected {
    let all = index.summary.first_offset..index.summary.end_offset();
    let none = all.start..all.start;
    for (i, frame) in index.frames.iter().enumerate() {
        if (frame.compressed_offset..frame.compressed_end()).contains(&byte) {
            let records = index.offsets_of(i);
            let offset = Some(frame.compressed_offset);
            let kind = ProblemKind::Record;
            return Expected { named: records.clone(), lost: records, kind, offset };
        }
    }
    if byte < index.footer.compressed_end() {
        let offset = Some(index.footer.compressed_offset);
        return Expected { named: none.clone(), lost: none, kind: ProblemKind::Footer, offset };
    }
    // Entries of 12 bytes per frame and nine bytes at the end; the checksum comes last.
    let entries = index.frames.len() as u64 + 2;
    let table = index.artifact_len() - 9 - entries * 12;
    let (entry, field) = (byte.wrapping_sub(table) / 12, byte.wrapping_sub(table) % 12);
    if byte >= table && field >= 8 && entry < index.frames.len() as u64 {
        let records = index.offsets_of(entry as usize);
        let offset = Some(index.frames[entry as usize].compressed_offset);
        return Expected { named: records, lost: none, kind: ProblemKind::Copy, offset };
    }
    if byte >= table && field >= 8 && entry == index.frames.len() as u64 {
        let offset = Some(index.footer.compressed_offset);
        return Expected { named: none.clone(), lost: none, kind: ProblemKind::Footer, offset };
    }
    Expected { named: all, lost: none, kind: ProblemKind::Copy, offset: None }
}

/// One bit in `AOF2_FLIP_STRIDE` is flipped, one flip in `AOF2_FLIP_REPAIRS` repaired;
/// of index and seek table many more.
fn flip_only_copies(format: SegmentFormat) {
    let stride = setting("AOF2_FLIP_STRIDE", 1_201);
    let repair_every = setting("AOF2_FLIP_REPAIRS", 6);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events");
    let originals = dir.path().join("originals");
    let model = build(&path, format, 3, |log| {
        log.flush().unwrap();
        fs::create_dir(&originals).unwrap();
        for file in files_in(&path, "segments") {
            fs::copy(&file, originals.join(file.file_name().unwrap())).unwrap();
        }
        evict_all(log);
    });
    let healthy = verify(&path).unwrap();
    assert_eq!(healthy.problems, []);
    let copy = dir.path().join("copy").join("events");
    let (mut flips, mut repairs, mut harmless) = (0_u64, 0_u64, 0_u64);
    for (segment, file) in files_in(&path, "warm").into_iter().enumerate() {
        let index = index_of(&file);
        let (tail, len) = (index.footer.compressed_offset, index.artifact_len());
        let frame_starts = index.frames.iter().map(|f| f.compressed_offset);
        let starts: Vec<u64> =
            frame_starts.flat_map(|at| at..at + 9).map(|byte| byte * 8).collect();
        let in_tail = (tail * 8..len * 8).step_by((stride / 40).max(1) as usize);
        let bits: Vec<u64> = (0..tail * 8)
            .step_by(stride as usize)
            .chain(starts.into_iter().step_by((stride / 100).max(1) as usize))
            .chain(in_tail)
            // The version: damage is not taken for a newer one.
            .chain([3, 20].map(|bit| (index.footer.compressed_end() + 16) * 8 + bit))
            .collect();
        for at in bits {
            let (byte, bit) = (at / 8, (at % 8) as u8);
            let what = format!("{format} segment {segment} byte {byte} of {len} bit {bit}");
            flip(&file, byte, bit);
            let expected = expected(&index, byte);
            let report = agrees_with_a_scan(&path, &model, &what);
            flips += 1;
            if report.problems.is_empty() {
                // zstd ignores some bits; the content is what it was.
                assert!(byte < index.footer.compressed_end(), "{what}: not noticed");
                harmless += 1;
                flip(&file, byte, bit);
                continue;
            }
            let problem = &report.problems[0];
            assert_eq!(report.problems.len(), 1, "{what}: {:#?}", report.problems);
            assert_eq!((&problem.path, problem.kind), (&file, expected.kind), "{what}");
            assert_eq!(problem.severity, Severity::Damage, "{what}");
            assert_eq!(problem.records, expected.named, "{what}: {problem}");
            if let Some(offset) = expected.offset {
                assert_eq!(problem.offset, offset, "{what}: {problem}");
            }
            if flips % repair_every == 0 {
                copy_log(&path, &copy);
                let damaged = fs::read(&file).unwrap();
                let repaired = repair_loses(&copy, format, &model, expected.lost.clone());
                assert!(repaired.lost.iter().all(|l| l.is_exact), "{what}");
                assert_eq!(repaired.quarantined.len(), 1, "{what}");
                assert!(fs::read(&repaired.quarantined[0]).unwrap() == damaged, "{what}");
                if expected.lost.is_empty() {
                    // A compact footer says when it was written, which the index does not keep.
                    let is_lost =
                        expected.kind == ProblemKind::Footer && format == SegmentFormat::Compact;
                    check_restored(&repaired, &originals, !is_lost, &what);
                }
                repairs += 1;
            }
            flip(&file, byte, bit);
        }
    }
    println!("{format}: {flips} flips, {repairs} repairs, {harmless} harmless");
    assert!(flips > 500 && repairs > 50 && harmless * 20 < flips);
    assert_eq!(verify(&path).unwrap(), healthy, "all restored");
}

/// The report names a file that has meanwhile been compressed again; its content tells.
fn check_restored(repaired: &RepairReport, originals: &Path, has_footer: bool, what: &str) {
    let [RepairAction::Salvaged { path, .. }] = &repaired.actions[..] else {
        panic!("{what}: {:?}", repaired.actions);
    };
    let id = &path.file_name().unwrap().to_str().unwrap()[..20];
    let starts = |f: &PathBuf| f.file_name().unwrap().to_str().unwrap().starts_with(id);
    let original = fs::read_dir(originals).unwrap().map(|e| e.unwrap().path()).find(starts);
    let original = fs::read(original.unwrap()).unwrap();
    let root = path.parent().unwrap().parent().unwrap();
    let again = files_in(root, "warm").into_iter().find(starts).unwrap();
    let source = FileSource::open(&OsStorage, again).unwrap();
    let artifact = Artifact::open(Arc::new(source)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let hydrated = segment::hydrate(&OsStorage, &artifact, dir.path()).unwrap();
    let hydrated = fs::read(hydrated).unwrap();
    let used = artifact.index().summary.durable_bytes as usize;
    assert!(hydrated[..used] == original[..used], "{what}: records not restored");
    let is_same = hydrated.ends_with(original.last_chunk::<64>().unwrap());
    assert!(is_same || !has_footer, "{what}: another footer");
}

#[test]
fn every_flipped_bit_of_an_only_copy_of_a_full_log_is_named_and_repaired() {
    flip_only_copies(SegmentFormat::Full);
}

#[test]
fn every_flipped_bit_of_an_only_copy_of_a_compact_log_is_named_and_repaired() {
    flip_only_copies(SegmentFormat::Compact);
}

/// A tiered log, damaged by `damage`, which is told the compressed files, oldest first.
fn damaged(
    moves: impl Fn(&Aof),
    damage: impl Fn(&Path, &[PathBuf]),
    check: impl Fn(&Path, SegmentFormat, &Model, &VerifyReport),
) {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 3, &moves);
        damage(&path, &files_in(&path, "warm"));
        let report = agrees_with_a_scan(&path, &model, "damaged");
        check(&path, format, &model, &report);
    }
}

fn kinds(report: &VerifyReport) -> Vec<ProblemKind> {
    report.problems.iter().map(|p| p.kind).collect()
}

fn evict_and_hydrate_all(log: &Aof) {
    evict_all(log);
    for segment in 0..3 {
        log.hydrate(segment, Some(PATIENCE)).unwrap();
    }
}

#[test]
fn a_damaged_copy_beside_a_good_file_costs_nothing() {
    for spoil in [
        |file: &Path| spoil_frame(file, &index_of(file), 2),
        |file: &Path| spoil_index(file, &index_of(file)),
        |file: &Path| fs::write(file, b"").unwrap(),
    ] {
        damaged(
            evict_and_hydrate_all,
            |_, warm| spoil(&warm[1]),
            |path, format, model, report| {
                let warm = files_in(path, "warm");
                assert!(kinds(report).iter().all(|kind| *kind == ProblemKind::Copy));
                assert!(!report.is_healthy());
                assert!(report.problems.iter().all(|p| p.path == warm[1]), "{report:#?}");
                assert_eq!(report.segments[1].residency, Residency::Hot);
                let repaired = repair_loses(path, format, model, 0..0);
                assert!(matches!(&repaired.actions[..],
                    [RepairAction::MovedCopy { from, .. }] if *from == warm[1]));
            },
        );
    }
}

#[test]
fn a_copy_of_something_else_is_not_taken_for_the_segment() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 3, evict_and_hydrate_all);
        // The copy is whole, but the file was repaired without it and has a gap now.
        let warm = files_in(&path, "warm")[1].clone();
        let kept = fs::read(&warm).unwrap();
        fs::remove_file(&warm).unwrap();
        flip(&files_in(&path, "segments")[1], 200, 0);
        assert_eq!(repair(&path).unwrap().lost[0].records, RECORDS..RECORDS + 1);
        fs::write(&warm, kept).unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(kinds(&report), [ProblemKind::Copy], "{:#?}", report.problems);
        assert_eq!((&report.problems[0].path, report.gaps.len()), (&warm, 1));
        let repaired = repair(&path).unwrap();
        assert!(matches!(&repaired.actions[..], [RepairAction::MovedCopy { .. }]));
        assert!(repaired.verify.is_healthy() && repaired.lost.is_empty());
        assert_eq!(repaired.verify.record_count, model.len() as u64 - 1);
    }
}

#[test]
fn a_damaged_file_beside_a_good_copy_loses_nothing() {
    for spoil in [
        |file: &Path| flip(file, 3_000, 1),
        |file: &Path| flip(file, 8, 1),
        |file: &Path| flip(file, (64 << 10) - 10, 1),
        |file: &Path| fs::write(file, b"cut").unwrap(),
        |file: &Path| fs::write(file, vec![0; 64 << 10]).unwrap(),
    ] {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("events");
            let model = build(&path, format, 3, evict_and_hydrate_all);
            let file = files_in(&path, "segments")[1].clone();
            spoil(&file);
            let report = verify(&path).unwrap();
            assert!(!report.is_healthy());
            assert!(report.problems.iter().all(|p| p.path == file), "{:#?}", report.problems);
            assert_eq!(report.segments[1].residency, Residency::Warm);
            assert_eq!(report.record_count, model.len() as u64);
            let repaired = repair_loses(&path, format, &model, 0..0);
            assert!(
                matches!(&repaired.actions[..],
                [RepairAction::MovedCopy { from, .. }] if *from == file),
                "{repaired:#?}"
            );
        }
    }
}

#[test]
fn of_a_damaged_file_and_a_damaged_copy_the_better_one_is_kept() {
    for (records_hit, frames_hit) in [(1_u64, vec![1, 2, 3]), (30, vec![1])] {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("events");
            let model = build(&path, format, 3, evict_and_hydrate_all);
            let (file, warm) =
                (files_in(&path, "segments")[1].clone(), files_in(&path, "warm")[1].clone());
            let index = index_of(&warm);
            for offset in RECORDS + 2..RECORDS + 2 + records_hit {
                flip(&file, u64::from(model[&offset].id.segment_offset()) + 100, 0);
            }
            frames_hit.iter().for_each(|frame| spoil_frame(&warm, &index, *frame));
            let gone = match records_hit {
                1 => RECORDS + 2..RECORDS + 3,
                _ => index.offsets_of(1),
            };
            repair_loses(&path, format, &model, gone);
        }
    }
}

#[test]
fn damaged_frames_are_told_apart_from_a_damaged_index() {
    // Frames and what is lost with a damaged index on top.
    for (frames, with_index) in [
        (vec![4], false),
        (vec![4], true),
        (vec![0], true),
        (vec![2, 5], false),
        (vec![2, 5], true),
    ] {
        damaged(
            evict_all,
            |_, warm| {
                let index = index_of(&warm[1]);
                frames.iter().for_each(|frame| spoil_frame(&warm[1], &index, *frame));
                if with_index {
                    spoil_index(&warm[1], &index);
                }
            },
            |path, format, model, report| {
                let pristine = tempfile::tempdir().unwrap();
                let again = pristine.path().join("events");
                build(&again, format, 3, evict_all);
                let index = index_of(&files_in(&again, "warm")[1]);
                let lost: Vec<u64> = frames.iter().flat_map(|f| index.offsets_of(*f)).collect();
                if with_index {
                    // Readers cannot get at any of them.
                    let all: Vec<u64> = named(report).into_iter().collect();
                    assert_eq!(all, (RECORDS..2 * RECORDS).collect::<Vec<_>>());
                }
                let repaired = repair(path).unwrap();
                assert!(repaired.verify.is_healthy(), "{:#?}", repaired.verify.problems);
                let mut told: Vec<u64> =
                    repaired.lost.iter().flat_map(|l| l.records.clone()).collect();
                told.sort_unstable();
                let is_exact = repaired.lost.iter().all(|l| l.is_exact);
                // Compact records do not say which they are.
                let is_countable =
                    format == SegmentFormat::Full || !with_index || frames.len() == 1;
                assert_eq!(is_exact, is_countable, "{:#?}", repaired.lost);
                if is_countable {
                    assert_eq!(told, lost, "{format} {frames:?} {with_index}");
                }
                assert_eq!(told.len(), lost.len());
                let left = read_all(path).unwrap();
                assert_eq!(left.len(), model.len() - lost.len());
                if is_countable {
                    assert_eq!(left, without(model, &lost.iter().copied().collect()));
                }
            },
        );
    }
}

/// What a frame says of itself is lost as well: the frames behind it are placed by the
/// end of the segment.
#[test]
fn a_frame_without_its_header_does_not_displace_those_behind_it() {
    for frame in [0, 3] {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("events");
            let model = build(&path, format, 3, evict_all);
            let warm = files_in(&path, "warm")[1].clone();
            let index = index_of(&warm);
            let mut bytes = fs::read(&warm).unwrap();
            let at = index.frames[frame].compressed_offset as usize;
            bytes[at..at + 12].fill(0);
            fs::write(&warm, bytes).unwrap();
            spoil_index(&warm, &index);
            agrees_with_a_scan(&path, &model, "frame without header");
            repair_loses(&path, format, &model, index.offsets_of(frame));
        }
    }
}

/// Nothing of the artifact tells how long a large segment was; the next one does.
#[test]
fn a_large_segment_of_which_little_is_left_keeps_its_place() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        {
            let manager = manager();
            let large = config(&path, format).segment_bytes(512 << 10);
            let log = manager.open(large).unwrap();
            for i in 0..310 {
                if i == 300 {
                    log.seal().unwrap();
                }
                let options = AppendOptions::default();
                log.append_record_with_timeout(&payload(i), &options, PATIENCE).unwrap();
            }
            log.evict(0).unwrap();
            log.close().unwrap();
        }
        let warm = files_in(&path, "warm")[0].clone();
        let index = index_of(&warm);
        assert!(index.summary.durable_bytes > 128 << 10);
        let file = fs::OpenOptions::new().write(true).open(&warm).unwrap();
        file.set_len(index.frames[1].compressed_offset + 3).unwrap();
        let repaired = repair(&path).unwrap();
        assert!(repaired.verify.is_healthy(), "{:#?}", repaired.verify.problems);
        let lost: Vec<_> = repaired.lost.iter().map(|l| (l.records.clone(), l.is_exact)).collect();
        assert_eq!(lost, [(index.frames[1].first_offset..300, true)], "{format}");
        assert_eq!(repaired.verify.segments[0].bytes, u64::from(index.summary.durable_bytes));
        let left: Vec<u64> = read_all(&path).unwrap().into_keys().collect();
        assert_eq!(left, (0..index.frames[1].first_offset).chain(300..310).collect::<Vec<_>>());
    }
}

#[test]
fn of_a_truncated_artifact_the_frames_before_the_cut_survive() {
    for segment in [0_usize, 2] {
        for kept_frames in [0_usize, 1, 6] {
            damaged(
                evict_all,
                |_, warm| {
                    let index = index_of(&warm[segment]);
                    let cut = index.frames[kept_frames].compressed_offset + 5;
                    let file = fs::OpenOptions::new().write(true).open(&warm[segment]).unwrap();
                    file.set_len(cut).unwrap();
                },
                |path, format, model, report| {
                    let all = segment as u64 * RECORDS..(segment as u64 + 1) * RECORDS;
                    assert_eq!(named(report), all.clone().collect());
                    let repaired = repair_loses_some(path, format, model, all.clone());
                    let first = repaired.lost[0].records.start;
                    assert_eq!(repaired.lost.len(), 1);
                    assert_eq!(repaired.lost[0].records.end, all.end);
                    assert_eq!(first == all.start, kept_frames == 0, "{:?}", repaired.lost);
                },
            );
        }
    }
}

/// Like [`repair_loses`], where how many are lost of `among` is up to the check.
fn repair_loses_some(
    path: &Path,
    format: SegmentFormat,
    model: &Model,
    among: Range<u64>,
) -> RepairReport {
    let copy = path.with_extension("copy");
    copy_log(path, &copy);
    let lost = repair(&copy).unwrap().lost;
    assert!(lost.iter().all(|l| among.start <= l.records.start && l.records.end <= among.end));
    let gone = lost.first().map_or(0..0, |l| l.records.clone());
    repair_loses(path, format, model, gone)
}

#[test]
fn an_artifact_that_is_gone_is_a_missing_segment() {
    damaged(
        evict_all,
        |_, warm| fs::remove_file(&warm[1]).unwrap(),
        |path, format, model, report| {
            assert_eq!(kinds(report), [ProblemKind::MissingSegment]);
            repair_loses(path, format, model, RECORDS..2 * RECORDS);
        },
    );
}

#[test]
fn leftovers_strangers_and_foreign_artifacts_are_named() {
    damaged(
        evict_all,
        |path, warm| {
            let temporary = format!("{}.tmp", warm[0].file_name().unwrap().to_str().unwrap());
            fs::write(path.join("warm").join(temporary), b"half").unwrap();
            fs::write(path.join("warm").join("notes.txt"), b"").unwrap();
        },
        |path, _, _, report| {
            let mut notices = kinds(report);
            notices.sort_by_key(|kind| format!("{kind:?}"));
            assert_eq!(notices, [ProblemKind::Foreign, ProblemKind::Leftover]);
            assert!(report.is_healthy());
            assert!(repair(path).unwrap().actions.is_empty());
        },
    );
    // A copy of another stream's segment, under a name of ours.
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("events"), dir.path().join("other"));
        let model = build(&path, format, 3, evict_and_hydrate_all);
        build(&other, format, 3, evict_all);
        let warm = files_in(&path, "warm")[1].clone();
        fs::copy(&files_in(&other, "warm")[1], &warm).unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(kinds(&report), [ProblemKind::Foreign]);
        assert_eq!(report.problems[0].path, warm);
        let repaired = repair_loses(&path, format, &model, 0..0);
        assert!(matches!(&repaired.actions[..], [RepairAction::MovedForeign { .. }]));
    }
}

#[test]
fn a_renamed_artifact_gets_its_name_back() {
    for (id, base, time) in [(1, 1, 0), (1, 0, 1), (7, 0, 0)] {
        for format in FORMATS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("events");
            let model = build(&path, format, 3, evict_all);
            let warm = files_in(&path, "warm")[1].clone();
            let name = WarmFileName::parse(warm.file_name().unwrap().to_str().unwrap()).unwrap();
            let wrong = WarmFileName {
                segment_id: SegmentId::from_u64(id),
                base_offset: name.base_offset + base * 64,
                sealed_at_ns: name.sealed_at_ns + time,
            };
            let wrong = path.join("warm").join(wrong.to_string());
            fs::rename(&warm, &wrong).unwrap();
            let report = verify(&path).unwrap();
            assert_eq!(kinds(&report), [ProblemKind::Name], "{:#?}", report.problems);
            assert_eq!(report.problems[0].path, wrong);
            let copy = dir.path().join("copy");
            copy_log(&path, &copy);
            let repaired = repair(&copy).unwrap();
            assert!(matches!(&repaired.actions[..], [RepairAction::Renamed { .. }]));
            assert!(copy.join("warm").join(warm.file_name().unwrap()).exists());
            repair_loses(&path, format, &model, 0..0);
        }
    }
}

#[test]
fn a_log_without_its_stream_file_is_known_by_its_artifacts() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 3, |log| {
            log.seal().unwrap();
            evict_all(log);
        });
        assert_eq!(files_in(&path, "segments"), Vec::<PathBuf>::new());
        let known = StreamIdentity::decode(&fs::read(path.join("stream")).unwrap()).unwrap();
        fs::remove_file(path.join("stream")).unwrap();
        fs::remove_file(path.join("watermark")).unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(kinds(&report), [ProblemKind::Identity]);
        assert_eq!((report.stream_id, report.format), (known.stream_id, format));
        repair_loses(&path, format, &model, 0..0);
    }
}

/// The object store is not asked, and what may be there is not given up.
#[test]
fn a_segment_in_the_object_store_is_neither_missing_nor_replaced() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 3, evict_all);
        let warm = files_in(&path, "warm")[1].clone();
        let name = WarmFileName::parse(warm.file_name().unwrap().to_str().unwrap()).unwrap();
        let kept = path.join("cold").join(ColdTailName { artifact: name, epoch: 0 }.to_string());
        fs::create_dir_all(path.join("cold")).unwrap();
        fs::write(&kept, index_of(&warm).encode_tail()).unwrap();
        fs::remove_file(&warm).unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(report.segments[1].residency, Residency::Cold);
        assert_eq!(report.record_count, model.len() as u64);
        assert!(repair(&path).unwrap().actions.is_empty());

        flip(&kept, 50, 0);
        let report = verify(&path).unwrap();
        assert_eq!(kinds(&report), [ProblemKind::Copy]);
        assert_eq!((&report.problems[0].path, &report.problems[0].records), (&kept, &(40..80)));
        assert_eq!(repair(&path).unwrap().actions, []);
        assert!(kept.exists());
    }
}

#[test]
fn a_log_whose_segments_move_verifies_clean_all_the_time() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        build(&path, format, 4, |_| {});
        let manager = manager();
        let log = manager.open(config(&path, format)).unwrap();
        let done = AtomicBool::new(false);
        /// Ends the other loop even if this one fails.
        struct SetOnDrop<'a>(&'a AtomicBool);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                let mut moves = 0_u64;
                while !done.load(Ordering::Acquire) {
                    let segment = moves * 7 % 4;
                    log.evict(segment).unwrap();
                    if !moves.is_multiple_of(3) {
                        log.hydrate((segment + 1) % 4, Some(PATIENCE)).unwrap();
                    }
                    moves += 1;
                }
                moves
            });
            let _done = SetOnDrop(&done);
            let mut moved = 0;
            for round in 0..setting("AOF2_VERIFY_ROUNDS", 150) {
                let report = verify(&path).unwrap();
                assert_eq!(report.problems, [], "round {round}");
                assert_eq!(report.segments.len(), 5, "round {round}");
                assert_eq!(report.record_count, 4 * RECORDS + 10, "round {round}");
                moved += report.segments.iter().filter(|s| s.residency == Residency::Warm).count();
            }
            done.store(true, Ordering::Release);
            assert!(mover.join().unwrap() > 0 && moved > 0);
        });
    }
}

fn onto(machine: &SimStorage, path: &Path) {
    let root = Path::new("/events");
    let put = |from: &Path, to: &Path| {
        let file = machine.create_new(to).unwrap();
        file.write_all_at(&fs::read(from).unwrap(), 0).unwrap();
        file.sync().unwrap();
    };
    for dir in ["segments", "warm", "archive"] {
        machine.create_dir_all(&root.join(dir)).unwrap();
        for file in files_in(path, dir) {
            put(&file, &root.join(dir).join(file.file_name().unwrap()));
        }
    }
    for name in ["stream", "watermark"] {
        put(&path.join(name), &root.join(name));
    }
    for dir in ["/", "/events", "/events/segments", "/events/warm"] {
        machine.sync_dir(Path::new(dir)).unwrap();
    }
}

/// A repair cut at any call, with any of the states that a power cut may leave, is
/// finished by the next one and loses nothing more.
#[test]
fn a_repair_of_a_tiered_log_may_be_cut_anywhere_and_run_again() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 5, |log| {
            evict_all(log);
            log.hydrate(1, Some(PATIENCE)).unwrap();
            log.hydrate(2, Some(PATIENCE)).unwrap();
        });
        let warm = files_in(&path, "warm");
        let index: Vec<_> = warm.iter().map(|file| index_of(file)).collect();
        // Only copies, a copy beside a good file, a file beside a good copy.
        spoil_frame(&warm[0], &index[0], 3);
        spoil_frame(&warm[1], &index[1], 2);
        flip(&files_in(&path, "segments")[1], 1_000, 0);
        spoil_index(&warm[3], &index[3]);
        spoil_frame(&warm[4], &index[4], 0);
        let gone: BTreeSet<u64> = index[0].offsets_of(3).chain(index[4].offsets_of(0)).collect();
        let left = without(&model, &gone);
        let run = |machine: &SimStorage| {
            let storage: Arc<dyn Storage> = Arc::new(machine.clone());
            repair_with(&storage, &SimClock::default(), "/events", &mut |_| {
                ControlFlow::Continue(())
            })
        };
        let mut states = 0;
        for cut in 0.. {
            let machine = SimStorage::new();
            onto(&machine, &path);
            machine.crash_at(machine.calls() + cut);
            let cut_short = run(&machine);
            let Some(image) = machine.take_crash() else {
                assert!(cut_short.unwrap().verify.is_healthy());
                break;
            };
            for seed in 0..2 {
                let machine = image.materialize(seed, &CrashOptions::default());
                let what = format!("{format} cut {cut} seed {seed}");
                let report = run(&machine).unwrap();
                let problems = &report.verify.problems;
                assert!(report.verify.is_healthy(), "{what}: {problems:#?}");
                let gaps: BTreeSet<u64> = report.verify.gaps.iter().cloned().flatten().collect();
                assert_eq!(gaps, gone, "{what}");
                let storage: Arc<dyn Storage> = Arc::new(machine);
                let found = read_all_on(storage, Path::new("/events")).unwrap();
                assert_eq!(found, left, "{what}");
                states += 1;
            }
        }
        println!("{format}: {states} states");
        assert!(states > 100);
    }
}

/// Whatever moved and whatever was damaged: the problems name the records that a scan
/// cannot reach, no others, and a repair keeps everything that a scan could read.
#[test]
fn random_moves_and_damage_are_judged_as_a_reader_sees_them() {
    for seed in 1..=setting("AOF2_SEEDS", 24) {
        let mut rng = Rng::with_seed(seed);
        let format = FORMATS[rng.usize(..2)];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let model = build(&path, format, 4, |log| {
            for _ in 0..rng.u64(..12) {
                let segment = rng.u64(..4);
                match rng.u64(..3) {
                    0 => log.hydrate(segment, Some(PATIENCE)).unwrap(),
                    _ => log.evict(segment).unwrap(),
                };
            }
        });
        let mut what = format!("seed {seed} {format}");
        for file in files_in(&path, "warm") {
            if rng.u64(..3) == 0 {
                continue;
            }
            for _ in 0..=rng.u64(..2) {
                let (byte, bit) = (rng.u64(..fs::metadata(&file).unwrap().len()), rng.u64(..8));
                flip(&file, byte, bit as u8);
                what.push_str(&format!(", {} {byte}.{bit}", file.display()));
            }
        }
        agrees_with_a_scan(&path, &model, &what);
        let readable = read_all(&path).unwrap();
        let repaired = repair(&path).unwrap();
        assert!(repaired.verify.is_healthy(), "{what}: {:#?}", repaired.verify.problems);
        let left = agrees_with_a_scan(&path, &model_after(&model, &repaired), &what);
        assert!(left.is_healthy(), "{what}");
        let found = read_all(&path).unwrap();
        assert!(readable.iter().all(|(offset, known)| found.get(offset) == Some(known)), "{what}");
        assert_eq!(left.record_count, found.len() as u64, "{what}");
    }
}

fn model_after(model: &Model, repaired: &RepairReport) -> Model {
    without(model, &repaired.verify.gaps.iter().cloned().flatten().collect())
}
