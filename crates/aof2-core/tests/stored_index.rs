//! The stored indexes of sealed segments change how fast a record is found, never
//! which one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use aof2_core::*;
use proptest::prelude::*;

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

const RECORDS: u64 = 3_000;

fn payload(i: u64) -> Vec<u8> {
    vec![i as u8; 1 + (i * 7919 % 900) as usize]
}

fn timestamp_ms(i: u64) -> u64 {
    1_000 + i * 10
}

/// A log of several sealed segments of 512 KiB and an unsealed one.
fn build(path: &Path, format: SegmentFormat) -> TestResult {
    let log = Aof::open(AofConfig::new(path).segment_bytes(512 << 10).format(format))?;
    for i in 0..RECORDS {
        let options = AppendOptions { timestamp_ms: Some(timestamp_ms(i)), ..Default::default() };
        log.append_record_with_timeout(&payload(i), &options, std::time::Duration::from_secs(60))?;
    }
    log.close()?;
    Ok(())
}

fn index_files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(path.join("index")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// Every way of finding a place, in a reader that knows nothing yet.
fn check_lookups(path: &Path) -> TestResult {
    for i in (0..RECORDS).step_by(97) {
        let record = AofReader::open(path)?.read_offset(i)?;
        assert_eq!((record.offset, &*record.payload), (i, &payload(i)[..]));
        let reader = AofReader::open(path)?;
        assert_eq!(reader.offset_at(timestamp_ms(i), Visibility::Durable)?, i);
        assert_eq!(reader.offset_at(timestamp_ms(i) - 5, Visibility::Durable)?, i);
        let start = Start::Id(record.id);
        let mut scan = AofReader::open(path)?.scan(ScanOptions { start, ..Default::default() })?;
        assert_eq!(scan.next_record()?.map(|r| r.offset), Some(i));
    }
    Ok(())
}

#[test]
fn lookups_find_the_same_records_with_without_and_in_spite_of_stored_indexes() -> TestResult {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        build(&path, format)?;
        let files = index_files(&path);
        assert!(files.len() >= 2, "{files:?}");
        check_lookups(&path)?;
        // The index of another segment under this one's name.
        fs::copy(&files[1], &files[0])?;
        check_lookups(&path)?;
        // Torn, as a crash leaves it.
        let bytes = fs::read(&files[1])?;
        fs::write(&files[1], &bytes[..bytes.len() - 3])?;
        check_lookups(&path)?;
        fs::remove_dir_all(path.join("index"))?;
        check_lookups(&path)?;
        assert!(verify(&path)?.is_healthy());
    }
    Ok(())
}

/// A lookup that used the index must not depend on what lies before its point: that is
/// how the test sees that the index is used at all.
#[test]
fn a_lookup_starts_at_the_nearest_stored_point() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    build(&path, SegmentFormat::Compact)?;
    let info = AofReader::open(&path)?.segments()?[0].clone();
    // Compact records do not say which they are: damage in front of a record makes
    // counting impossible, unless counting starts behind it.
    let mut bytes = fs::read(&info.path)?;
    bytes[64 + 16] ^= 1;
    bytes[64 + 4] ^= 1;
    fs::write(&info.path, &bytes)?;
    let target = info.record_count - 1;
    assert_eq!(&*AofReader::open(&path)?.read_offset(target)?.payload, &payload(target)[..]);
    fs::remove_dir_all(path.join("index"))?;
    assert!(AofReader::open(&path)?.read_offset(target).is_err());
    Ok(())
}

#[test]
fn indexes_go_with_their_segments() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    build(&path, SegmentFormat::Full)?;
    let before = index_files(&path).len();
    let log = Aof::open(AofConfig::new(&path).segment_bytes(512 << 10))?;
    let first = log.segments()[0].record_count;
    log.apply_retention(&RetentionPolicy { before_offset: Some(first), ..Default::default() })?;
    assert_eq!(index_files(&path).len(), before - 1);
    Ok(())
}

#[test]
fn a_log_that_was_told_so_stores_no_index() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let config = AofConfig { enable_sparse_index: false, ..AofConfig::new(&path) };
    let log = Aof::open(config)?;
    log.append(&[7; 300_000])?;
    log.seal()?;
    assert!(!path.join("index").exists());
    Ok(())
}

/// Offsets of all runs, and in how many runs they came.
fn runs(log: &AofReader, options: ScanOptions) -> Result<(Vec<u64>, usize)> {
    let mut scan = log.scan(options)?;
    let (mut offsets, mut count) = (Vec::new(), 0);
    while let Some(run) = scan.next_run()? {
        offsets.extend(run.offsets);
        count += 1;
    }
    Ok((offsets, count))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn runs_are_the_offsets_of_the_records(
        compact in any::<bool>(), lose in any::<Option<(u8, u8)>>(),
        start in 0..RECORDS, end in 0..RECORDS + 10,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let format = if compact { SegmentFormat::Compact } else { SegmentFormat::Full };
        build(&path, format).unwrap();
        if let Some((segment, at)) = lose {
            // A repair leaves a gap somewhere.
            let infos = AofReader::open(&path).unwrap().segments().unwrap();
            let info = &infos[usize::from(segment) % infos.len()];
            let mut bytes = fs::read(&info.path).unwrap();
            let place = 80 + usize::from(at) * 1_000 % (info.used_bytes as usize - 100);
            bytes[place] ^= 0x55;
            fs::write(&info.path, bytes).unwrap();
            repair(&path).unwrap();
        }
        let reader = AofReader::open(&path).unwrap();
        let id = reader.scan(Default::default()).unwrap().nth(end as usize / 2).unwrap().unwrap().id;
        for end in [End::Visible, End::Offset(end), End::Timestamp(timestamp_ms(end)), End::Id(id)] {
            let options =
                ScanOptions { start: Start::Offset(start), end, ..Default::default() };
            let expected: Vec<u64> =
                reader.scan(options).unwrap().map(|r| r.unwrap().offset).collect();
            let (offsets, _) = runs(&reader, options).unwrap();
            prop_assert_eq!(offsets, expected);
        }
    }
}

#[test]
fn a_run_of_a_sealed_segment_needs_nothing_but_its_footer() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    build(&path, SegmentFormat::Full)?;
    let infos = AofReader::open(&path)?.segments()?;
    let mut bytes = fs::read(&infos[0].path)?;
    let used = infos[0].used_bytes as usize;
    bytes[64..used].fill(0xA5);
    fs::write(&infos[0].path, bytes)?;
    let reader = AofReader::open(&path)?;
    let (offsets, count) = runs(&reader, ScanOptions::default())?;
    assert_eq!(offsets, (0..RECORDS).collect::<Vec<_>>());
    assert!(count <= infos.len() + 1, "{count}");
    assert!(reader.scan(ScanOptions::default())?.next_record().is_err());
    Ok(())
}
