//! A process with few descriptors reads and writes logs of thousands of segments, in
//! every tier, and has a thousand logs open at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_os = "linux")]

mod support;

use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use aof2_core::io::{Keeps, OpenLimit, OsStorage, SystemClock};
use aof2_core::object::sim::SimBucket;
use aof2_core::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::bucket::{cold, config, local_config, segment_file, tiers};
use support::{PATIENCE, eventually};

/// What the process may open, the harness of the tests included.
const FILES_MAX: u64 = 64;

/// One test at a time: the limit is that of the process. Threads of the one before may
/// still be on their way out, and give descriptors back while this one counts them.
fn limited() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static AT_FIRST: OnceLock<usize> = OnceLock::new();
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let at_first = *AT_FIRST.get_or_init(descriptors);
    eventually("the test before is gone", || descriptors() <= at_first);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES_MAX), maximum }).unwrap();
    guard
}

/// Descriptors that this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// In memory if there is room: thousands of syncs cost nothing there.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    match room > 1 << 30 {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn manager(bucket: &SimBucket, tiers: TierConfig) -> AofManager {
    let config = ManagerConfig { tiers: Some(tiers), ..ManagerConfig::default() };
    let bucket = Arc::new(bucket.clone());
    AofManager::on_store(config, Arc::new(OsStorage), Arc::new(SystemClock), bucket).unwrap()
}

fn payload(i: u64) -> Vec<u8> {
    (0..1_000_u64).map(|j| (i.wrapping_mul(2_654_435_761) >> (j % 24)) as u8).collect()
}

fn check(scan: Scan, records: Range<u64>) {
    support::bucket::check_payloads(scan, records, payload);
}

/// One segment for each of these records.
fn append_segments(log: &Aof, records: Range<u64>) {
    for i in records {
        log.append(&payload(i)).unwrap();
        log.seal().unwrap();
    }
}

fn count(log: &Aof, tier: Residency) -> usize {
    log.segments().iter().filter(|s| s.is_sealed && s.residency == tier).count()
}

#[test]
fn thousands_of_segments_in_every_tier_are_read_with_few_descriptors() {
    let _limited = limited();
    const EACH: u64 = 1_000;
    let dir = scratch();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    let none = TierConfig { hot_bytes: 1, warm_bytes: Some(1), jobs_max: 2, ..tiers() };
    let all = TierConfig { hot_bytes: 1 << 30, warm_bytes: None, ..none.clone() };
    // The first thousand stays in the bucket alone, the second compressed, the third as it is.
    let budgets = [
        (none.clone(), Residency::Cold),
        (TierConfig { warm_bytes: None, ..none }, Residency::Warm),
        (all.clone(), Residency::Hot),
    ];
    for (i, (budget, tier)) in (0..).zip(budgets) {
        let manager = manager(&bucket, budget);
        let log = manager.open(config(&root)).unwrap();
        append_segments(&log, i * EACH..(i + 1) * EACH);
        eventually("the tier holds them", || {
            let archived = log.tiers().unwrap().cold.unwrap().uploads_pending == 0;
            archived && count(&log, tier) == EACH as usize
        });
        log.close().unwrap();
    }
    let manager = manager(&bucket, all);
    let log = manager.open(config(&root)).unwrap();
    for tier in [Residency::Hot, Residency::Warm, Residency::Cold] {
        assert_eq!(count(&log, tier), EACH as usize, "{tier}");
    }
    let few = |what: &str| {
        let now = descriptors();
        assert!(now as u64 <= FILES_MAX * 3 / 4, "{what}: {now} descriptors");
    };

    check(log.scan(ScanOptions::default()).unwrap(), 0..3 * EACH);
    few("a scan by the writer");
    let metrics = log.metrics();
    let kept = metrics.open_files + metrics.open_maps;
    // Those being written are mapped, too.
    assert!((FILES_MAX / 4..FILES_MAX / 2 + 3).contains(&kept), "{metrics:?}");
    let store = Arc::new(bucket.clone());
    let reader = AofReader::open_on_store(Arc::new(OsStorage), store, &cold(), &root).unwrap();
    check(reader.scan(ScanOptions::default()).unwrap(), 0..3 * EACH);
    few("a scan by a reader");
    // More readers than there are descriptors to keep, each somewhere else.
    std::thread::scope(|scope| {
        for thread in 0..40 {
            let reader = &reader;
            scope.spawn(move || {
                for i in (0..3 * EACH).step_by(7) {
                    let offset = (i * 31 + thread * 501) % (3 * EACH);
                    let record = reader.read_offset(offset).unwrap();
                    assert_eq!(&*record.payload, &payload(offset)[..]);
                }
            });
        }
    });
    few("forty readers at once");
    let scrubbed = log.scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(scrubbed.is_clean(), "{scrubbed:?}");
    few("a scrub");
    log.close().unwrap();

    let report = verify(&root).unwrap();
    assert!(report.is_healthy(), "{report:?}");
    few("verify");
    let log = manager.open(config(&root)).unwrap();
    append_segments(&log, 3 * EACH..3 * EACH + 10);
    check(log.scan(ScanOptions::default()).unwrap(), 0..3 * EACH + 10);
    few("another writer");
    log.close().unwrap();

    let restored = dir.path().join("restored");
    let (files, store) = (Arc::new(OsStorage), Arc::new(bucket.clone()));
    let options = RestoreOptions::default();
    let told = &mut |_| ControlFlow::Continue(());
    restore_on(files, store, &cold(), "events", &restored, &options, told).unwrap();
    few("a restore");
    let reader = AofReader::open(&restored).unwrap();
    check(reader.scan(ScanOptions::default()).unwrap(), 0..3 * EACH + 10);
}

#[test]
fn a_thousand_logs_of_one_manager_take_no_descriptors_and_little_memory() {
    let _limited = limited();
    const LOGS: u64 = 1_000;
    let dir = scratch();
    let manager = manager(&SimBucket::new(), tiers());
    let open = |i: u64| {
        let root = dir.path().join(format!("log-{i}"));
        manager.open(AofConfig::new(root).segment_bytes(256 << 10)).unwrap()
    };
    let first = open(LOGS);
    eventually("the first log is quiet", || descriptors() < 32);
    let (files, memory) = (descriptors(), resident_bytes());
    let second = open(LOGS + 1);
    if descriptors() > files {
        eprintln!("not tested: on this file system a lock takes a descriptor");
        return;
    }
    let logs: Vec<Aof> = (0..LOGS).map(open).collect();
    for (i, log) in logs.iter().enumerate() {
        log.append(&payload(i as u64)).unwrap();
    }
    for (i, log) in logs.iter().enumerate() {
        log.flush().unwrap();
        let record = log.read_offset(0).unwrap();
        assert_eq!(&*record.payload, &payload(i as u64)[..]);
    }
    let memory = resident_bytes().saturating_sub(memory) / LOGS;
    assert!(memory < 192 << 10, "{memory} bytes of memory for each log");
    eventually("idle logs without descriptors", || descriptors() <= files + 8);
    // They are locked all the same.
    let other = AofManager::new(ManagerConfig::default()).unwrap();
    let locked = other.open(AofConfig::new(dir.path().join("log-7")));
    assert!(matches!(locked, Err(AofError::Locked { pid, .. }) if pid == std::process::id()));
    for log in logs.iter().take(20) {
        log.seal().unwrap();
    }
    drop((first, second));
    manager.shutdown().unwrap();
}

/// Closes the files that are kept, as one too many would.
fn close_kept_files() {
    while OpenLimit::process().relieve(Keeps::File) {}
}

#[test]
fn reads_go_on_when_others_use_up_the_descriptors() {
    let _limited = limited();
    let dir = scratch();
    let bucket = SimBucket::new();
    let manager = manager(&bucket, TierConfig { cold: None, hot_bytes: 1, ..tiers() });
    let log = manager.open(local_config(&dir.path().join("events"))).unwrap();
    append_segments(&log, 0..60);
    eventually("all are compressed", || count(&log, Residency::Warm) == 60);
    check(log.scan(ScanOptions::default()).unwrap(), 0..60);
    let hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!hogs.is_empty() && log.metrics().open_files > 0);
    check(log.scan(ScanOptions::default()).unwrap(), 0..60);
    drop(hogs);
}

#[test]
fn a_writer_without_descriptors_waits_for_one() {
    let _limited = limited();
    let dir = scratch();
    let manager = AofManager::new(ManagerConfig::default()).unwrap();
    let flushed = manager.open(local_config(&dir.path().join("flushed"))).unwrap();
    flushed.append(b"one").unwrap();
    flushed.flush().unwrap();
    let fresh = manager.open(local_config(&dir.path().join("fresh"))).unwrap();
    close_kept_files();
    let hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // The footer needs the file.
    let seal = flushed.seal();
    assert!(matches!(seal, Err(AofError::Io { .. })), "{seal:?}");
    let second = flushed.append(b"two");
    // The name of a new segment needs its directory, unless the background was quicker.
    fresh.append(b"one").unwrap();
    let flush = fresh.flush();
    assert!(matches!(flush, Ok(()) | Err(AofError::Io { .. })), "{flush:?}");
    assert!(!flushed.metrics().poisoned && !fresh.metrics().poisoned);
    drop(hogs);
    // What failed in the background meanwhile is told once, and tried again.
    eventually("the footer", || flushed.seal().is_ok());
    if second.is_err() {
        eventually("a segment to write into", || flushed.append(b"two").is_ok());
    }
    eventually("the name", || fresh.flush().is_ok());
    manager.shutdown().unwrap();
    for (name, count) in [("flushed", 2), ("fresh", 1)] {
        let reader = AofReader::open(dir.path().join(name)).unwrap();
        assert_eq!(reader.scan(ScanOptions::default()).unwrap().count(), count, "{name}");
    }
}

/// A log with one compressed segment of many windows, and a reader in the middle of it.
fn in_the_middle(root: &Path, manager: &AofManager) -> (Aof, AofReader, Scan) {
    let log = manager.open(local_config(root)).unwrap();
    append_segment_of(&log, 0..50);
    log.evict(0).unwrap();
    let reader = AofReader::open(root).unwrap();
    let options = ScanOptions { batch_bytes: 1, ..ScanOptions::default() };
    let mut scan = reader.scan(options).unwrap();
    for i in 0..3 {
        assert_eq!(scan.next_record().unwrap().unwrap().offset, i);
    }
    (log, reader, scan)
}

fn append_segment_of(log: &Aof, records: Range<u64>) {
    for i in records {
        log.append(&payload(i)).unwrap();
    }
    log.seal().unwrap();
}

fn local() -> AofManager {
    let tiers = TierConfig { frame_bytes: 4 << 10, ..TierConfig::default() };
    AofManager::new(ManagerConfig { tiers: Some(tiers), ..ManagerConfig::default() }).unwrap()
}

#[test]
fn a_scan_goes_on_in_another_copy_when_the_file_it_reads_is_gone() {
    let _limited = limited();
    let dir = scratch();
    let root = dir.path().join("events");
    let (log, _reader, scan) = in_the_middle(&root, &local());
    log.hydrate(0, Some(PATIENCE)).unwrap();
    close_kept_files();
    std::fs::remove_file(segment_file(&root, "warm", 0)).unwrap();
    check(scan, 3..50);
}

#[test]
fn a_scan_says_that_the_segment_was_trimmed_when_retention_removed_its_file() {
    let _limited = limited();
    let dir = scratch();
    let root = dir.path().join("events");
    let (log, _reader, mut scan) = in_the_middle(&root, &local());
    append_segment_of(&log, 50..60);
    append_segment_of(&log, 60..61);
    log.apply_retention(&RetentionPolicy { before_offset: Some(50), ..Default::default() })
        .unwrap();
    // What is open stays readable.
    assert_eq!(scan.next_record().unwrap().unwrap().offset, 3);
    close_kept_files();
    let rest: Result<Vec<_>> = std::iter::from_fn(|| scan.next_record().transpose()).collect();
    assert!(matches!(rest, Err(AofError::Trimmed { earliest: 50 })), "{rest:?}");
}

#[test]
fn a_file_that_was_replaced_while_it_was_closed_is_recognised() {
    let _limited = limited();
    let dir = scratch();
    let root = dir.path().join("events");
    let (log, reader, scan) = in_the_middle(&root, &local());
    let warm = segment_file(&root, "warm", 0);
    let before = std::fs::read(&warm).unwrap();
    // Another copy of the same bytes is as good.
    close_kept_files();
    let copy = dir.path().join("copy");
    std::fs::write(&copy, &before).unwrap();
    std::fs::rename(&copy, &warm).unwrap();
    assert_eq!(reader.read_offset(40).unwrap().offset, 40);
    // The same segment, compressed differently under the same name.
    log.hydrate(0, Some(PATIENCE)).unwrap();
    let (other_root, other) = (dir.path().join("other"), local());
    drop(log);
    copy_dir(&root, &other_root);
    std::fs::remove_file(segment_file(&other_root, "warm", 0)).unwrap();
    let tiers = TierConfig { frame_bytes: 8 << 10, ..TierConfig::default() };
    drop(other);
    let other = AofManager::new(ManagerConfig { tiers: Some(tiers), ..ManagerConfig::default() });
    let other = other
        .unwrap()
        .open(AofConfig { name: Some("events".into()), ..local_config(&other_root) })
        .unwrap();
    other.evict(0).unwrap();
    let replacement = std::fs::read(segment_file(&other_root, "warm", 0)).unwrap();
    assert_ne!(replacement, before);
    std::fs::remove_file(segment_file(&root, "segments", 0)).unwrap();
    close_kept_files();
    std::fs::write(&copy, &replacement).unwrap();
    std::fs::rename(&copy, &warm).unwrap();
    check(scan, 3..50);
    check(reader.scan(ScanOptions::default()).unwrap(), 0..50);
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
