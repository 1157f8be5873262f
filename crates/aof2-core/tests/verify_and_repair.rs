//! Damage is found, named and repaired: every flipped bit is reported with its file
//! and records, the intact rest stays readable, and a repair loses exactly what was
//! damaged.

#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aof2_core::io::sim::{SimClock, SimStorage};
use aof2_core::io::{OsStorage, Storage};
use aof2_core::*;

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

const WAIT: std::time::Duration = std::time::Duration::from_secs(60);
const FORMATS: [SegmentFormat; 2] = [SegmentFormat::Full, SegmentFormat::Compact];

fn payload(i: u64) -> Vec<u8> {
    let len = 1 + (i * 7919 % 300) as usize;
    (0..len).map(|j| (i as usize * 31 + j * 7) as u8).collect()
}

fn config(path: &Path, format: SegmentFormat) -> AofConfig {
    AofConfig::new(path).segment_bytes(64 << 10).format(format)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    id: RecordId,
    payload: Vec<u8>,
}

/// What a log holds: its records by offset.
type Model = BTreeMap<u64, Known>;

/// A log with `sealed` small sealed segments of ten records and a tail, closed.
fn build(path: &Path, format: SegmentFormat, sealed: u64) -> Result<Model> {
    let log = Aof::open(config(path, format))?;
    if format == SegmentFormat::Full {
        log.set_ext_id(77)?;
    }
    let mut model = Model::new();
    for i in 0..(sealed + 1) * 10 {
        if i > 0 && i % 10 == 0 {
            log.seal()?;
        }
        let options = AppendOptions { timestamp_ms: Some(1_000 + i * 3), ..Default::default() };
        let appended = log.append_record_with_timeout(&payload(i), &options, WAIT)?;
        assert_eq!(appended.offset, i);
        model.insert(i, Known { id: appended.id, payload: payload(i) });
    }
    log.close()?;
    Ok(model)
}

fn read_all(path: &Path, visibility: Visibility, on_corruption: OnCorruption) -> Result<Model> {
    let reader = AofReader::open(path)?;
    let options = ScanOptions { visibility, on_corruption, ..Default::default() };
    let mut model = Model::new();
    for record in reader.scan(options)? {
        let record = record?;
        let known = Known { id: record.id, payload: record.payload.to_vec() };
        assert!(model.insert(record.offset, known).is_none(), "offset {} twice", record.offset);
    }
    Ok(model)
}

fn segment_files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(path.join("segments"))
        .expect("segments")
        .map(|e| e.expect("entry").path())
        .collect();
    files.sort();
    files
}

fn copy_log(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("remove");
    }
    for dir in ["segments", "archive"] {
        fs::create_dir_all(to.join(dir)).expect("create");
    }
    for name in ["stream", "watermark"] {
        fs::copy(from.join(name), to.join(name)).expect("copy");
    }
    for file in segment_files(from) {
        let name = file.file_name().expect("name");
        fs::copy(&file, to.join("segments").join(name)).expect("copy");
    }
}

fn lost(report: &RepairReport) -> Vec<u64> {
    report.lost.iter().flat_map(|l| l.records.clone()).collect()
}

fn without(model: &Model, gone: impl IntoIterator<Item = u64>) -> Model {
    let mut model = model.clone();
    for offset in gone {
        model.remove(&offset);
    }
    model
}

/// Repairs, and checks everything that holds after any repair: healthy, exactly
/// `gone` lost, the rest as it was, writable without using an offset again.
fn repair_loses(
    path: &Path,
    format: SegmentFormat,
    model: &Model,
    gone: Range<u64>,
) -> Result<RepairReport> {
    let report = repair(path)?;
    let problems = &report.verify.problems;
    assert!(report.verify.is_healthy(), "{problems:#?}\n{:#?}", report.actions);
    let gone: Vec<u64> = gone.collect();
    assert_eq!(lost(&report), gone, "{:#?}", report.actions);
    let in_gaps: Vec<u64> = report.verify.gaps.iter().cloned().flatten().collect();
    assert_eq!(in_gaps, gone);
    let left = without(model, gone.iter().copied());
    assert_eq!(report.verify.record_count, left.len() as u64);
    assert_eq!(read_all(path, Visibility::Appended, OnCorruption::Fail)?, left);
    readers_tell_gaps(path, &gone)?;
    writes_on(path, format, &left, model.len() as u64)?;
    Ok(report)
}

/// Whoever reads a repaired log is told which records are missing, however it is read and
/// wherever it begins and ends.
fn readers_tell_gaps(path: &Path, gone: &[u64]) -> Result<()> {
    let reader = AofReader::open(path)?;
    let told = |start, end, on_corruption| -> Result<Vec<u64>> {
        let visibility = Visibility::Appended;
        let options = ScanOptions { start, end, visibility, on_corruption, ..Default::default() };
        let mut by_record = reader.scan(options)?;
        while by_record.next_record()?.is_some() {}
        let mut by_batch = reader.scan(options)?;
        while by_batch.next_batch()?.is_some() {}
        let mut by_run = reader.scan(options)?;
        while by_run.next_run()?.is_some() {}
        for scan in [&by_batch, &by_run] {
            assert_eq!(scan.skipped_ranges(), by_record.skipped_ranges());
            assert_eq!(scan.skipped(), by_record.skipped());
        }
        assert_eq!(by_record.skipped(), by_record.lost());
        let ranges = by_record.skipped_ranges();
        assert!(ranges.iter().all(|range| range.reason == SkipReason::Lost), "{ranges:?}");
        let offsets: Vec<u64> = ranges.iter().flat_map(|range| range.offsets.clone()).collect();
        assert_eq!(by_record.skipped(), offsets.len() as u64);
        Ok(offsets)
    };
    for on_corruption in [OnCorruption::Fail, OnCorruption::Skip] {
        assert_eq!(told(Start::Earliest, End::Visible, on_corruption)?, gone);
    }
    // Tasks that share a log count each of them once.
    let middle = gone.get(gone.len() / 2).copied().unwrap_or(1);
    let mut parts = told(Start::Earliest, End::Offset(middle), OnCorruption::Fail)?;
    assert!(parts.iter().all(|&offset| offset < middle));
    parts.extend(told(Start::Offset(middle), End::Visible, OnCorruption::Fail)?);
    assert_eq!(parts, gone);
    Ok(())
}

fn writes_on(path: &Path, format: SegmentFormat, left: &Model, next: u64) -> Result<()> {
    let log = Aof::open(config(path, format))?;
    let options = AppendOptions::default();
    let appended = log.append_record_with_timeout(b"after the repair", &options, WAIT)?;
    assert_eq!(appended.offset, next, "offsets continue");
    assert!(left.values().all(|known| known.id < appended.id), "ids continue");
    log.close()?;
    let report = verify(path)?;
    assert!(report.is_healthy(), "{:#?}", report.problems);
    assert_eq!(report.record_count, left.len() as u64 + 1);
    assert_eq!(report.next_offset, next + 1);
    let mut left = left.clone();
    left.insert(next, Known { id: appended.id, payload: b"after the repair".to_vec() });
    assert_eq!(read_all(path, Visibility::Durable, OnCorruption::Fail)?, left);
    Ok(())
}

#[test]
fn verifying_and_repairing_can_be_cancelled() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    build(&path, SegmentFormat::Full, 3)?;
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    let mut steps = 0;
    let mut stop = |_| {
        steps += 1;
        if steps == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let cancelled = verify_with(&storage, &path, &mut stop);
    assert!(matches!(cancelled, Err(AofError::Cancelled)), "{cancelled:?}");
    let cancelled =
        repair_with(&storage, &SimClock::default(), &path, &mut |_| ControlFlow::Break(()));
    assert!(matches!(cancelled, Err(AofError::Cancelled)), "{cancelled:?}");
    assert_eq!(steps, 2);
    assert!(repair(&path)?.actions.is_empty());
    Ok(())
}

/// A scan used to fail on damage right behind its end.
#[test]
fn a_scan_does_not_care_about_damage_behind_its_end() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let known = build(&path, format, 0)?;
        let file = verify(&path)?.segments[0].path.clone();
        let mut bytes = fs::read(&file)?;
        let id = known[&5].id;
        bytes[id.segment_offset() as usize + format.header_len()] ^= 1;
        fs::write(&file, bytes)?;
        let reader = AofReader::open(&path)?;
        for end in [End::Offset(5), End::Id(id)] {
            let options = ScanOptions { end, ..Default::default() };
            let count = reader.scan(options)?.collect::<Result<Vec<_>, _>>()?.len();
            assert_eq!(count, 5);
            let mut scan = reader.scan(options)?;
            assert_eq!(scan.next_batch()?.map(|b| b.len()), Some(5));
            assert!(scan.next_batch()?.is_none());
        }
        let mut scan = reader.scan(ScanOptions { end: End::Offset(6), ..Default::default() })?;
        assert!(scan.any(|record| record.is_err()));
    }
    Ok(())
}

/// A lookup used to trust a damaged length that led to a later record, and to pass over
/// the records in between without a word.
#[test]
fn a_lookup_is_not_led_astray_by_a_damaged_length() -> TestResult {
    for sealed in [false, true] {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let log = Aof::open(config(&path, SegmentFormat::Full))?;
        for i in 0..10u64 {
            log.append(format!("{i:08}").as_bytes())?;
        }
        if sealed {
            log.seal()?;
        }
        log.close()?;
        let file = verify(&path)?.segments[0].path.clone();
        let mut bytes = fs::read(&file)?;
        // Record 0 says that it ends where record 2 begins.
        bytes[64..68].copy_from_slice(&48u32.to_le_bytes());
        fs::write(&file, bytes)?;
        let reader = AofReader::open(&path)?;
        for offset in 1..10 {
            assert_eq!(&*reader.read_offset(offset)?.payload, format!("{offset:08}").as_bytes());
            let options = ScanOptions { start: Start::Offset(offset), ..Default::default() };
            let seen: Vec<u64> =
                reader.scan(options)?.map(|r| r.map(|r| r.offset)).collect::<Result<_, _>>()?;
            assert_eq!(seen, (offset..10).collect::<Vec<_>>());
        }
        assert!(matches!(reader.read_offset(0), Err(AofError::Corrupt(_))));
    }
    Ok(())
}

/// Two damaged records at the very start used to count as one.
#[test]
fn records_lost_at_the_start_of_the_log_are_all_named() -> TestResult {
    for (trimmed, lost) in [(false, 0..2u64), (true, 10..12)] {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, SegmentFormat::Full, 2)?;
        if trimmed {
            let log = Aof::open(config(&path, SegmentFormat::Full))?;
            let policy = RetentionPolicy { before_offset: Some(10), ..Default::default() };
            assert_eq!(log.apply_retention(&policy)?.earliest_offset, 10);
            log.close()?;
        }
        let file = verify(&path)?.segments[0].path.clone();
        let mut bytes = fs::read(&file)?;
        for offset in lost.clone() {
            bytes[model[&offset].id.segment_offset() as usize + 32] ^= 1;
        }
        fs::write(&file, bytes)?;
        let report = verify(&path)?;
        let damaged: Vec<u64> = report.problems.iter().flat_map(|p| p.records.clone()).collect();
        assert!(lost.clone().all(|offset| damaged.contains(&offset)), "{:?}", report.problems);
        let report = repair(&path)?;
        let named: Vec<u64> = report.lost.iter().flat_map(|l| l.records.clone()).collect();
        assert_eq!(named, lost.clone().collect::<Vec<_>>());
        assert!(report.verify.is_healthy(), "{:?}", report.verify.problems);
        let left: Vec<u64> =
            read_all(&path, Visibility::Durable, OnCorruption::Fail)?.keys().copied().collect();
        assert_eq!(left, (lost.end..30).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn a_closed_log_verifies_clean() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        build(&path, format, 3)?;
        let storage: Arc<dyn Storage> = Arc::new(OsStorage);
        let mut seen = Vec::new();
        let report = verify_with(&storage, &path, &mut |p| {
            seen.push(p);
            ControlFlow::Continue(())
        })?;
        assert_eq!(report.problems, []);
        assert_eq!((report.name.as_str(), report.format), ("events", format));
        assert_eq!((report.first_offset, report.next_offset, report.record_count), (0, 40, 40));
        assert_eq!(report.durable_offset, Some(40));
        assert_eq!(report.segments.len(), 4);
        assert_eq!(report.segments[1].first_offset, 10);
        assert_eq!(report.segments[1].first_timestamp_ms, Some(1_030));
        assert_eq!(report.segments[1].last_timestamp_ms, Some(1_057));
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted_by_key(|p| p.bytes_done));
        assert_eq!(seen[4].bytes_done, seen[4].bytes_total);
        // Repairing it changes nothing.
        let report = repair(&path)?;
        assert!(report.lost.is_empty() && report.actions.is_empty());
        assert!(!path.join("quarantine").exists());
    }
    Ok(())
}

#[test]
fn a_log_being_written_verifies_clean_all_the_time() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let mut config = config(&path, format);
        config.retention.max_bytes = Some(1 << 20);
        let log = Aof::open(config.clone())?;
        let done = AtomicBool::new(false);
        let log = Mutex::new(log);
        /// Ends the other loop even if the writer fails.
        struct SetOnDrop<'a>(&'a AtomicBool);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        std::thread::scope(|scope| -> TestResult {
            scope.spawn(|| {
                let _done = SetOnDrop(&done);
                let data = vec![5; 290];
                for i in 0..300_000u64 {
                    let mut log = log.lock().expect("log");
                    if i % 29_000 == 28_999 {
                        // Also across closing and opening.
                        log.close().expect("close");
                        *log = Aof::open(config.clone()).expect("open");
                    }
                    log.append(&data[..1 + (i * 37 % 290) as usize]).expect("append");
                    if i % 1_000 == 0 {
                        log.flush().expect("flush");
                    }
                }
            });
            let mut rounds = 0;
            while !done.load(Ordering::Acquire) || rounds < 3 {
                let report = verify(&path)?;
                assert_eq!(report.problems, [], "round {rounds}");
                rounds += 1;
            }
            println!("{format}: {rounds} rounds");
            Ok(())
        })?;
        // Only what is durable has to be in a named segment.
        log.lock().expect("log").flush()?;
        let last = verify(&path)?;
        assert!(last.first_offset > 0, "retention ran");
        assert_eq!(last.next_offset, 300_000);
        assert!(matches!(repair(&path), Err(AofError::Locked { .. })));
        drop(log);
    }
    Ok(())
}

/// Where every byte of a segment file belongs.
fn used_bytes(file: &Path, check: &SegmentCheck) -> Vec<u64> {
    let len = fs::metadata(file).expect("metadata").len();
    let footer = if check.is_sealed { len - 64..len } else { 0..0 };
    (0..check.bytes).chain(footer).collect()
}

fn flip(file: &Path, bit: u64) {
    use std::os::unix::fs::FileExt;
    let handle = fs::OpenOptions::new().read(true).write(true).open(file).expect("open");
    let mut byte = [0];
    handle.read_exact_at(&mut byte, bit / 8).expect("read");
    byte[0] ^= 1 << (bit % 8);
    handle.write_all_at(&byte, bit / 8).expect("write");
}

/// The record that loses a byte of header or payload when this byte flips.
fn record_of(format: SegmentFormat, model: &Model, index: u32, byte: u64) -> Option<u64> {
    let hit = |known: &Known| {
        let start = u64::from(known.id.segment_offset());
        let len = (format.header_len() + known.payload.len()) as u64;
        known.id.segment_index() == index && (start..start + len).contains(&byte)
    };
    model.iter().find(|(_, known)| hit(known)).map(|(offset, _)| *offset)
}

fn check_flip(
    path: &Path,
    file: &Path,
    format: SegmentFormat,
    model: &Model,
    what: &str,
) -> Result<VerifyReport> {
    let report = verify(path)?;
    let here: Vec<_> = report.problems.iter().filter(|p| p.path == file).collect();
    assert!(!here.is_empty(), "{format} {what}: not noticed: {:?}", report.problems);
    let bad: Vec<Range<u64>> = report.problems.iter().map(|p| p.records.clone()).collect();
    let is_bad = |offset: &u64| bad.iter().any(|r| r.contains(offset));
    let found = read_all(path, Visibility::Appended, OnCorruption::Skip)?;
    for (offset, known) in model {
        match found.get(offset) {
            Some(record) => assert_eq!(record, known, "{format} {what}: record {offset}"),
            None => assert!(is_bad(offset), "{format} {what}: {offset} unreadable, {bad:?}"),
        }
    }
    assert!(found.keys().all(|offset| model.contains_key(offset)), "{format} {what}: invented");
    Ok(report)
}

/// One bit in this many is flipped, one flip in this many repaired.
/// `AOF2_FLIP_STRIDE=1 AOF2_FLIP_REPAIRS=1` for all of them.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn flip_segments(format: SegmentFormat) -> TestResult {
    let stride = setting("AOF2_FLIP_STRIDE", 37);
    let repair_every = setting("AOF2_FLIP_REPAIRS", 7);
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let model = build(&path, format, 3)?;
    let healthy = verify(&path)?;
    let intact = dir.path().join("intact");
    copy_log(&path, &intact);
    let (mut flips, mut repairs) = (0u64, 0u64);
    let mut bit_in_stride = 0;
    for (index, check) in healthy.segments.iter().enumerate() {
        let file = &check.path;
        for byte in used_bytes(file, check) {
            for bit in 0..8 {
                bit_in_stride += 1;
                if bit_in_stride % stride != 0 {
                    continue;
                }
                let what = format!("segment {index} byte {byte} bit {bit}");
                flip(file, byte * 8 + bit);
                let report = check_flip(&path, file, format, &model, &what)?;
                let gone = record_of(format, &model, index as u32, byte);
                if let Some(gone) = gone {
                    let named = report.problems.iter().any(|p| {
                        let start = u64::from(model[&gone].id.segment_offset());
                        p.path == *file && p.offset == start && p.records == (gone..gone + 1)
                    });
                    assert!(named, "{what}: record {gone}: {:#?}", report.problems);
                }
                assert!(!report.is_healthy(), "{what}");
                flips += 1;
                if flips % repair_every == 0 {
                    let copy = dir.path().join("copy").join("events");
                    copy_log(&path, &copy);
                    let gone = gone.map_or(0..0, |o| o..o + 1);
                    let original =
                        fs::read(copy.join("segments").join(file.file_name().expect("name")))?;
                    let repaired = repair_loses(&copy, format, &model, gone)
                        .map_err(|e| format!("{format} {what}: {e}"))?;
                    if check.is_sealed && repaired.lost.is_empty() {
                        // Not only the records: everything is as it was.
                        let name = file.strip_prefix(&path)?;
                        let same = fs::read(copy.join(name))? == fs::read(intact.join(name))?;
                        assert!(same, "{format} {what}: not restored");
                    }
                    assert_eq!(repaired.quarantined.len(), 1, "{what}");
                    assert!(
                        fs::read(&repaired.quarantined[0])? == original,
                        "{what}: original kept"
                    );
                    repairs += 1;
                }
                flip(file, byte * 8 + bit);
            }
        }
    }
    println!("{format}: {flips} flips, {repairs} repairs");
    assert!(flips > 1_000);
    assert_eq!(verify(&path)?, healthy, "all restored");
    Ok(())
}

#[test]
fn every_flipped_bit_of_a_full_log_is_named_and_repaired() -> TestResult {
    flip_segments(SegmentFormat::Full)
}

#[test]
fn every_flipped_bit_of_a_compact_log_is_named_and_repaired() -> TestResult {
    flip_segments(SegmentFormat::Compact)
}

#[test]
fn flipped_bits_of_the_files_beside_the_segments_are_named_and_repaired() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, format, 2)?;
        let identity = fs::read(path.join("stream"))?;
        let copy = dir.path().join("copy").join("events");
        for bit in (0..identity.len() as u64 * 8).step_by(11) {
            let file = path.join("stream");
            flip(&file, bit);
            let report = check_flip(&path, &file, format, &model, &format!("stream bit {bit}"))?;
            assert_eq!(report.problems[0].kind, ProblemKind::Identity);
            if bit % 7 != 0 {
                flip(&file, bit);
                continue;
            }
            copy_log(&path, &copy);
            repair_loses(&copy, format, &model, 0..0)?;
            assert_eq!(fs::read(copy.join("stream"))?, identity, "bit {bit}");
            flip(&file, bit);
        }
        for bit in (0..64 * 8).chain(72 * 8..120 * 8).step_by(13) {
            let file = path.join("watermark");
            flip(&file, bit);
            let report = check_flip(&path, &file, format, &model, &format!("watermark bit {bit}"))?;
            assert_eq!(report.problems[0].kind, ProblemKind::Watermark);
            assert!(report.is_healthy(), "a notice");
            if bit % 7 != 0 {
                flip(&file, bit);
                continue;
            }
            copy_log(&path, &copy);
            assert_eq!(repair(&copy)?.actions, []);
            writes_on(&copy, format, &model, model.len() as u64)?;
            flip(&file, bit);
        }
    }
    Ok(())
}

/// Builds a log, damages it, and gives its parts to a check.
fn damaged(
    sealed: u64,
    damage: impl Fn(&Path, &[PathBuf]),
    check: impl Fn(&Path, SegmentFormat, &Model, &VerifyReport) -> TestResult,
) -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, format, sealed)?;
        damage(&path, &segment_files(&path));
        let report = verify(&path)?;
        check(&path, format, &model, &report).map_err(|e| format!("{format}: {e}"))?;
        let again = repair(&path)?;
        assert!(again.lost.is_empty() && again.actions.is_empty(), "repairing twice does nothing");
    }
    Ok(())
}

fn kinds(report: &VerifyReport) -> Vec<ProblemKind> {
    report.problems.iter().map(|p| p.kind).collect()
}

#[test]
fn missing_segments_in_the_middle_become_gaps() -> TestResult {
    for missing in [1..2, 2..4] {
        let range = missing.clone();
        damaged(
            5,
            |_, files| {
                files[range.clone()].iter().for_each(|f| fs::remove_file(f).expect("remove"))
            },
            |path, format, model, report| {
                assert_eq!(kinds(report), [ProblemKind::MissingSegment]);
                let gone = missing.start as u64 * 10..missing.end as u64 * 10;
                assert_eq!(report.problems[0].records, gone);
                let found = read_all(path, Visibility::Durable, OnCorruption::Skip)?;
                assert_eq!(found, without(model, gone.clone()));
                repair_loses(path, format, model, gone)?;
                Ok(())
            },
        )?;
    }
    Ok(())
}

#[test]
fn a_missing_newest_segment_becomes_a_gap_and_its_offsets_are_not_used_again() -> TestResult {
    damaged(
        3,
        |_, files| fs::remove_file(&files[3]).expect("remove"),
        |path, format, model, report| {
            assert_eq!(kinds(report), [ProblemKind::MissingRecords]);
            assert_eq!(report.problems[0].records, 30..40);
            repair_loses(path, format, model, 30..40)?;
            Ok(())
        },
    )?;
    // All of them, and several at the end.
    for kept in [0, 2] {
        damaged(
            3,
            |_, files| files[kept..].iter().for_each(|f| fs::remove_file(f).expect("remove")),
            |path, format, model, report| {
                assert_eq!(kinds(report), [ProblemKind::MissingRecords]);
                repair_loses(path, format, model, kept as u64 * 10..40)?;
                Ok(())
            },
        )?;
    }
    Ok(())
}

#[test]
fn of_a_truncated_file_the_records_before_the_cut_survive() -> TestResult {
    for (index, len) in [(1usize, 900u64), (0, 700), (1, 10), (2, 0), (3, 1000)] {
        damaged(
            3,
            |_, files| {
                let file = fs::OpenOptions::new().write(true).open(&files[index]).expect("open");
                file.set_len(len).expect("truncate");
            },
            |path, format, model, report| {
                assert!(kinds(report).contains(&ProblemKind::Size), "{:#?}", report.problems);
                let first = model
                    .iter()
                    .find(|(_, k)| {
                        let end = u64::from(k.id.segment_offset())
                            + (format.header_len() + k.payload.len()).next_multiple_of(8) as u64;
                        k.id.segment_index() as usize == index && end > len
                    })
                    .map(|(offset, _)| *offset)
                    .expect("a record is cut");
                let end = (index as u64 + 1) * 10;
                repair_loses(path, format, model, first..end)?;
                Ok(())
            },
        )?;
    }
    Ok(())
}

#[test]
fn a_file_that_has_grown_loses_nothing() -> TestResult {
    damaged(
        2,
        |_, files| {
            let file = fs::OpenOptions::new().write(true).open(&files[1]).expect("open");
            file.set_len((64 << 10) + 4096).expect("grow");
        },
        |path, format, model, report| {
            assert_eq!(kinds(report), [ProblemKind::Size]);
            repair_loses(path, format, model, 0..0)?;
            Ok(())
        },
    )
}

fn zero(file: &Path, range: Range<u64>) {
    use std::os::unix::fs::FileExt;
    let handle = fs::OpenOptions::new().write(true).open(file).expect("open");
    let zeros = vec![0; (range.end - range.start) as usize];
    handle.write_all_at(&zeros, range.start).expect("write");
}

#[test]
fn zeroed_headers_and_footers_are_rebuilt_byte_for_byte() -> TestResult {
    const LEN: u64 = 64 << 10;
    for index in 0..3 {
        for (range, kind) in [(0..64, ProblemKind::Header), (LEN - 64..LEN, ProblemKind::Footer)] {
            damaged(
                3,
                |_, files| zero(&files[index], range.clone()),
                |path, format, model, report| {
                    let files = segment_files(path);
                    // The last sealed one looks like one that is about to be sealed.
                    if !(kind == ProblemKind::Footer && index == 2) {
                        assert_eq!(kinds(report), [kind]);
                        assert_eq!(report.problems[0].path, files[index]);
                    }
                    let found = read_all(path, Visibility::Durable, OnCorruption::Skip)?;
                    assert_eq!(&found, model);
                    let before = fs::read(&files[index])?;
                    repair_loses(path, format, model, 0..0)?;
                    let after = fs::read(&files[index])?;
                    assert_eq!(before[64..2000], after[64..2000]);
                    Ok(())
                },
            )?;
        }
    }
    Ok(())
}

#[test]
fn a_zeroed_stretch_of_records_is_one_gap() -> TestResult {
    for (index, is_tail) in [(0, false), (1, false), (3, true)] {
        for range in [64..700u64, 300..1200, 500..1900] {
            damaged(
                3,
                |_, files| zero(&files[index], range.clone()),
                |path, format, model, report| {
                    let hit: Vec<u64> = model
                        .iter()
                        .filter(|(_, k)| {
                            let start = u64::from(k.id.segment_offset());
                            let end = start + (format.header_len() + k.payload.len()) as u64;
                            k.id.segment_index() as usize == index
                                && start < range.end
                                && end > range.start
                        })
                        .map(|(offset, _)| *offset)
                        .collect();
                    let gone = hit[0]..hit[hit.len() - 1] + 1;
                    assert_eq!(
                        kinds(report),
                        [ProblemKind::Record],
                        "{is_tail} {:#?}",
                        report.problems
                    );
                    assert_eq!(report.problems[0].records, gone);
                    let repaired = repair_loses(path, format, model, gone)?;
                    assert!(repaired.lost.iter().all(|l| l.is_exact));
                    Ok(())
                },
            )?;
        }
    }
    Ok(())
}

/// Compact records do not say which they are. With two stretches gone, only their sum
/// is known; the records outside keep their contents and the end keeps its offset.
#[test]
fn what_cannot_be_counted_exactly_is_said_to_be_uncertain() -> TestResult {
    damaged(
        3,
        |_, files| {
            zero(&files[1], 200..500);
            zero(&files[1], 1000..1400);
        },
        |path, format, model, report| {
            let full = format == SegmentFormat::Full;
            assert_eq!(kinds(report), [ProblemKind::Record, ProblemKind::Record]);
            let repaired = repair(path)?;
            assert!(repaired.verify.is_healthy(), "{:#?}", repaired.verify.problems);
            assert!(repaired.lost.iter().all(|l| l.is_exact == full));
            let left = 40 - lost(&repaired).len() as u64;
            assert_eq!(repaired.verify.record_count, left);
            let found = read_all(path, Visibility::Durable, OnCorruption::Fail)?;
            let known: Vec<_> =
                model.values().filter(|k| found.values().any(|f| f == *k)).collect();
            assert_eq!(known.len() as u64, left, "contents and ids");
            writes_on(path, format, &found, 40)?;
            Ok(())
        },
    )
}

/// A log of log records: with a record's payload being a record, a search behind
/// damage finds records that were never appended. And with all records of one length,
/// a damaged length may lead to the record after the next.
#[test]
fn records_inside_payloads_are_not_taken_for_records_and_damaged_lengths_not_believed() -> TestResult
{
    for format in FORMATS {
        for nested in [true, false] {
            let dir = tempfile::tempdir()?;
            let path = dir.path().join("events");
            let log = Aof::open(config(&path, format))?;
            let data = match nested {
                true => {
                    let inside = AofConfig::new(dir.path().join("inside")).format(format);
                    let inside = Aof::open(inside)?;
                    inside.append(&[7; 100])?;
                    inside.append(&[8; 100])?;
                    inside.flush()?;
                    let file = inside.segments()[0].path.clone();
                    fs::read(file)?[64..300].to_vec()
                }
                false => vec![9; 48],
            };
            let mut model = Model::new();
            for i in 0..20 {
                if i == 10 {
                    log.seal()?;
                }
                let id = log.append(&data)?;
                model.insert(i, Known { id, payload: data.clone() });
            }
            log.close()?;
            let start = u64::from(model[&4].id.segment_offset());
            // The last byte of the header, or bit 6 of the length.
            let bit = match nested {
                true => (start + format.header_len() as u64) * 8 - 3,
                false => start * 8 + 6,
            };
            flip(&segment_files(&path)[0], bit);
            assert_eq!(verify(&path)?.problems[0].records, 4..5, "{format} {nested}");
            repair_loses(&path, format, &model, 4..5)?;
        }
    }
    Ok(())
}

/// What a killed writer leaves: no footer, no clean close.
#[test]
fn damage_in_what_a_killed_writer_left_is_repaired() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let (path, copy) = (dir.path().join("events"), dir.path().join("copy").join("events"));
        let log = Aof::open(config(&path, format))?;
        let mut model = Model::new();
        for i in 0..30 {
            if i == 20 {
                log.flush()?;
            }
            model.insert(i, Known { id: log.append(&payload(i))?, payload: payload(i) });
            if i == 9 {
                log.seal()?;
            }
        }
        log.flush()?;
        copy_log(&path, &copy);
        assert_eq!(verify(&copy)?.problems, []);
        let tail = segment_files(&copy).into_iter().find(|f| f.to_string_lossy().contains("0001_"));
        flip(&tail.expect("tail"), u64::from(model[&15].id.segment_offset()) * 8 + 80);
        let report = verify(&copy)?;
        assert_eq!(kinds(&report), [ProblemKind::Record]);
        assert!(!report.is_healthy());
        assert!(matches!(Aof::open(config(&copy, format)), Err(AofError::Corrupt(_))));
        repair_loses(&copy, format, &model, 15..16)?;
    }
    Ok(())
}

#[test]
fn bytes_behind_the_records_of_a_sealed_segment_are_reported_and_removed() -> TestResult {
    damaged(
        3,
        |_, files| flip(&files[1], 40_000 * 8),
        |path, format, model, report| {
            assert_eq!(kinds(report), [ProblemKind::Beyond]);
            assert_eq!(report.problems[0].offset, 40_000);
            repair_loses(path, format, model, 0..0)?;
            Ok(())
        },
    )
}

#[test]
fn segments_of_another_log_and_garbage_are_moved_to_quarantine() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let models = [build(&a, format, 3)?, build(&b, format, 3)?];
        let (file_a, file_b) = (segment_files(&a)[1].clone(), segment_files(&b)[1].clone());
        let aside = dir.path().join("aside");
        fs::rename(&file_a, &aside)?;
        fs::rename(&file_b, &file_a)?;
        fs::rename(&aside, &file_b)?;
        fs::write(a.join("segments/garbage.seg"), b"garbage")?;
        fs::write(a.join("segments/notes.txt"), b"mine")?;
        for (path, file, model) in [(&a, &file_a, &models[0]), (&b, &file_b, &models[1])] {
            let report = verify(path)?;
            let foreign = report.problems.iter().any(|p| {
                p.kind == ProblemKind::Foreign && p.path == *file && p.severity == Severity::Damage
            });
            assert!(foreign, "{format}: {:#?}", report.problems);
            let repaired = repair_loses(path, format, model, 10..20)?;
            assert!(!file.exists());
            assert!(repaired.quarantined.iter().any(|q| q.file_name() == file.file_name()));
        }
        assert!(!a.join("segments/garbage.seg").exists());
        assert!(a.join("quarantine/garbage.seg").exists());
        assert!(a.join("segments/notes.txt").exists());
    }
    Ok(())
}

#[test]
fn renamed_segments_get_their_names_back() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, format, 3)?;
        let file = segment_files(&path)[1].clone();
        let name = file.file_name().expect("name").to_string_lossy().into_owned();
        for (from, to) in [("0000000000001_", "0000000000009_"), ("1_0000000", "1_0001000")] {
            let renamed = path.join("segments").join(name.replacen(from, to, 1));
            assert_ne!(renamed, file);
            fs::rename(&file, &renamed)?;
            let report = verify(&path)?;
            let found = report.problems.iter().any(|p| p.kind == ProblemKind::Name);
            assert!(found, "{format}: {:#?}", report.problems);
            let repaired = repair(&path)?;
            assert!(repaired.verify.is_healthy() && repaired.lost.is_empty(), "{repaired:#?}");
            assert!(file.exists());
        }
        writes_on(&path, format, &model, 40)?;
    }
    Ok(())
}

#[test]
fn a_missing_stream_file_is_written_again() -> TestResult {
    damaged(
        2,
        |path, _| fs::remove_file(path.join("stream")).expect("remove"),
        |path, format, model, report| {
            assert_eq!(kinds(report), [ProblemKind::Identity]);
            repair_loses(path, format, model, 0..0)?;
            Ok(())
        },
    )
}

#[test]
fn several_damages_at_once_are_all_repaired() -> TestResult {
    damaged(
        5,
        |path, files| {
            fs::write(path.join("stream"), b"nonsense").expect("write");
            zero(&files[0], 0..64);
            flip(&files[0], 70 * 8);
            fs::remove_file(&files[1]).expect("remove");
            zero(&files[2], 300..600);
            zero(&files[2], (64 << 10) - 64..64 << 10);
            flip(&files[5], 100 * 8);
        },
        |path, format, model, report| {
            assert!(!report.is_healthy());
            let repaired = repair(path)?;
            assert!(repaired.verify.is_healthy(), "{:#?}", repaired.verify.problems);
            let left = without(model, lost(&repaired));
            assert!(left.len() > 40, "{:?}", repaired.lost);
            assert_eq!(read_all(path, Visibility::Durable, OnCorruption::Fail)?, left);
            writes_on(path, format, &left, 60)?;
            Ok(())
        },
    )
}

#[test]
fn a_torn_tail_is_a_notice_and_repair_leaves_it_to_recovery() -> TestResult {
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, format, 1)?;
        let tail = segment_files(&path)[1].clone();
        let end = verify(&path)?.segments[1].bytes;
        flip(&tail, (end + 5) * 8);
        let before = fs::read(&tail)?;
        let report = verify(&path)?;
        assert_eq!(kinds(&report), [ProblemKind::TornTail], "{format}");
        assert_eq!(report.problems[0].offset, end);
        assert!(report.is_healthy());
        assert_eq!(repair(&path)?.actions, []);
        assert!(fs::read(&tail)? == before);
        writes_on(&path, format, &model, 20)?;
    }
    Ok(())
}

#[test]
fn a_directory_without_a_log_is_refused_and_left_alone() -> TestResult {
    let dir = tempfile::tempdir()?;
    assert!(matches!(verify(dir.path()), Err(AofError::NotALog { .. })));
    assert!(matches!(repair(dir.path()), Err(AofError::NotALog { .. })));
    assert!(matches!(verify(dir.path().join("nowhere")), Err(AofError::NotALog { .. })));
    assert_eq!(fs::read_dir(dir.path())?.count(), 0);
    Ok(())
}

/// Copies a log from real files onto a simulated machine, durable.
fn onto(machine: &SimStorage, path: &Path) -> Result<(), std::io::Error> {
    let root = Path::new("/events");
    for dir in ["segments", "archive"] {
        machine.create_dir_all(&root.join(dir))?;
    }
    let put = |from: &Path, to: &Path| -> std::io::Result<()> {
        let file = machine.create_new(to)?;
        file.write_all_at(&fs::read(from)?, 0)?;
        file.sync()
    };
    for name in ["stream", "watermark"] {
        put(&path.join(name), &root.join(name))?;
    }
    for file in segment_files(path) {
        put(&file, &root.join("segments").join(file.file_name().expect("name")))?;
    }
    for dir in ["/", "/events", "/events/segments"] {
        machine.sync_dir(Path::new(dir))?;
    }
    Ok(())
}

/// A repair cut at any call, with any of the states that a power cut may leave, is
/// finished by the next one and loses nothing more.
#[test]
fn a_repair_may_be_cut_anywhere_and_run_again() -> TestResult {
    use aof2_core::io::sim::CrashOptions;
    for format in FORMATS {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let model = build(&path, format, 3)?;
        let files = segment_files(&path);
        fs::write(path.join("stream"), b"nonsense")?;
        flip(&files[0], 100 * 8);
        fs::remove_file(&files[1])?;
        zero(&files[2], (64 << 10) - 64..64 << 10);
        flip(&files[3], 100 * 8);
        let mut states = 0;
        for cut in 0.. {
            let machine = SimStorage::new();
            onto(&machine, &path)?;
            machine.crash_at(machine.calls() + cut);
            let storage: Arc<dyn Storage> = Arc::new(machine.clone());
            let cut_short = repair_with(&storage, &SimClock::default(), "/events", &mut |_| {
                ControlFlow::Continue(())
            });
            let Some(image) = machine.take_crash() else {
                assert!(cut_short?.verify.is_healthy());
                break;
            };
            for seed in 0..3 {
                let machine = image.materialize(seed, &CrashOptions::default());
                let storage: Arc<dyn Storage> = Arc::new(machine.clone());
                let report = repair_with(&storage, &SimClock::default(), "/events", &mut |_| {
                    ControlFlow::Continue(())
                })?;
                let problems = &report.verify.problems;
                assert!(
                    report.verify.is_healthy(),
                    "{format} cut {cut} seed {seed}: {problems:#?}"
                );
                let gone: Vec<u64> = report.verify.gaps.iter().cloned().flatten().collect();
                assert_eq!(
                    report.verify.record_count + gone.len() as u64,
                    40,
                    "{format} cut {cut}"
                );
                let reader = AofReader::open_on(storage, "/events")?;
                let options =
                    ScanOptions { visibility: Visibility::Appended, ..Default::default() };
                let mut found = Model::new();
                for record in reader.scan(options)? {
                    let record = record?;
                    let known = Known { id: record.id, payload: record.payload.to_vec() };
                    found.insert(record.offset, known);
                }
                assert_eq!(found, without(&model, gone), "{format} cut {cut} seed {seed}");
                states += 1;
            }
        }
        println!("{format}: {states} states");
        assert!(states > 100);
    }
    Ok(())
}

/// A power cut is not damage: whatever state it leaves, verifying finds nothing worse
/// than what recovery removes, repairing has nothing to do, and after opening and
/// closing there is not even that.
#[test]
fn what_a_power_cut_leaves_is_not_taken_for_damage() -> TestResult {
    use aof2_core::io::sim::CrashOptions;
    let root = Path::new("/events");
    let mut states = 0;
    for round in 0..setting("AOF2_CUT_ROUNDS", 40) {
        let format = FORMATS[round as usize % 2];
        let machine = SimStorage::new();
        machine.clock().set_step_ns(1_000);
        let open = |machine: &SimStorage| -> Result<Aof> {
            let storage: Arc<dyn Storage> = Arc::new(machine.clone());
            let clock = Arc::new(machine.clock().clone());
            AofManager::on(ManagerConfig::for_one_stream(), storage, clock)?
                .open(config(root, format))
        };
        machine.crash_at(20 + round * 17 % 331);
        // Fails where the power goes.
        let _ = (|| -> Result<()> {
            for run in 0..4 {
                let log = open(&machine)?;
                for i in 0..60 {
                    let data = vec![i as u8 + 1; 1 + (i * 977 + run * 31) % 6_000];
                    log.append_record_with_timeout(&data, &AppendOptions::default(), WAIT)?;
                    if i % 9 == 4 {
                        log.flush()?;
                    }
                }
                log.close()?;
            }
            Ok(())
        })();
        let image = machine.take_crash().unwrap_or_else(|| machine.image());
        for seed in 0..6 {
            let what = format!("{format} round {round} seed {seed}");
            let machine = image.materialize(seed, &CrashOptions::default());
            let storage: Arc<dyn Storage> = Arc::new(machine.clone());
            let report = match verify_with(&storage, root, &mut |_| ControlFlow::Continue(())) {
                // The log had not been made yet.
                Err(AofError::NotALog { .. }) => continue,
                other => other?,
            };
            assert!(report.is_healthy(), "{what}: {:#?}", report.problems);
            let other = image.materialize(seed, &CrashOptions::default());
            let other: Arc<dyn Storage> = Arc::new(other);
            let repaired =
                repair_with(
                    &other,
                    &SimClock::default(),
                    root,
                    &mut |_| ControlFlow::Continue(()),
                )?;
            assert_eq!(repaired.actions, [], "{what}");
            let log = open(&machine).map_err(|e| format!("{what}: {e}"))?;
            log.append(b"after")?;
            let count = log.watermarks().appended;
            log.close()?;
            let report = verify_with(&storage, root, &mut |_| ControlFlow::Continue(()))?;
            assert_eq!(report.problems, [], "{what}");
            assert_eq!(report.next_offset, count, "{what}");
            states += 1;
        }
    }
    println!("{states} states");
    assert!(states > 50);
    Ok(())
}
