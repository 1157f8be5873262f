//! Several processes and one log: one writes, any number read, forks are noticed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aof2_core::*;
use support::{Helper, PATIENCE, command, tell};

/// Longest acceptable way from "durable" to a reader in another process, on the
/// slowest machine: the usual figure is printed.
const WAKE_MAX: Duration = Duration::from_secs(5);

fn small(root: &Path) -> AofConfig {
    let mut config = AofConfig::new(root).segment_bytes(64 << 10);
    // Nothing becomes durable unless somebody asks.
    config.flush.flush_interval_ms = 0;
    config
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// When it was made, then something that tells records apart.
fn payload(i: u64) -> Vec<u8> {
    let mut bytes = now_ns().to_le_bytes().to_vec();
    bytes.extend((0..500 + i % 1000).map(|j| (i * 31 + j) as u8));
    bytes
}

fn is_intact(offset: u64, bytes: &[u8]) -> bool {
    bytes[8..].iter().copied().eq((0..500 + offset % 1000).map(|j| (offset * 31 + j) as u8))
}

fn append_until(log: &Aof, end: u64) {
    for i in log.watermarks().appended..end {
        let appended = log
            .append_record_with_timeout(&payload(i), &AppendOptions::default(), PATIENCE)
            .unwrap();
        assert_eq!(appended.offset, i);
    }
}

// ---- helpers ----

#[test]
fn helper_process() {
    match support::role().as_deref() {
        Some("holder") => hold_the_log(),
        Some("reader") => read_on_command(),
        Some("follower") => follow_to_the_end(),
        Some("forker") => fork_with_an_open_log(),
        _ => {}
    }
}

fn hold_the_log() {
    let log = match Aof::open(small(&support::root())) {
        Ok(log) => log,
        Err(error) => return tell(format_args!("{error}")),
    };
    append_until(&log, 10);
    log.flush().unwrap();
    append_until(&log, 20);
    tell(format_args!("open"));
    while command().is_some() {}
}

fn follow_to_the_end() {
    let reader = AofReader::open(support::root()).unwrap();
    let mut follow = reader.follow(ScanOptions::default()).unwrap().until_closed();
    tell(format_args!("following"));
    let mut expected = 0;
    while let Some(record) = follow.next_record(Some(PATIENCE)).unwrap() {
        let made_ns = u64::from_le_bytes(record.payload[..8].try_into().unwrap());
        assert_eq!(record.offset, expected);
        assert!(is_intact(record.offset, &record.payload));
        tell(format_args!("{} {}", record.offset, now_ns().saturating_sub(made_ns)));
        expected += 1;
    }
    tell(format_args!("end {expected}"));
}

/// Obeys: `count`, `read N`, `scan N`, `next`, `hold N`, `held`.
fn read_on_command() {
    let reader = AofReader::open(support::root()).unwrap();
    let mut held = None;
    let mut scan = None;
    tell(format_args!("open"));
    while let Some(line) = command() {
        let (word, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let offset: u64 = number.parse().unwrap();
        let answer = match word {
            "count" => reader.watermarks().map(|w| format!("{} {}", w.durable, w.appended)),
            "earliest" => reader.earliest_offset().map(|e| e.to_string()),
            "read" => reader.read_offset(offset).map(|r| intact(&r)),
            "peek" => reader.read_offset_with(offset, Visibility::Appended).map(|r| intact(&r)),
            "all" => count_intact(&reader),
            "scan" => {
                let start = Start::Offset(offset);
                reader.scan(ScanOptions { start, ..Default::default() }).map(|mut s| {
                    let first = s.next_record().unwrap().map(|r| r.offset);
                    scan = Some(s);
                    format!("{first:?}")
                })
            }
            "rest" => scan
                .take()
                .unwrap()
                .try_fold(0, |n, r| r.map(|_| n + 1))
                .map(|n: u64| n.to_string()),
            "hold" => reader.read_offset(offset).map(|r| {
                held = Some(r);
                "held".to_owned()
            }),
            "held" => Ok(intact(held.as_ref().unwrap())),
            other => panic!("{other}"),
        };
        match answer {
            Ok(answer) => tell(format_args!("{answer}")),
            Err(AofError::Trimmed { earliest }) => tell(format_args!("trimmed {earliest}")),
            Err(AofError::PastEnd { end, .. }) => tell(format_args!("past end {end}")),
            Err(error) => tell(format_args!("failed: {error}")),
        }
    }
}

fn intact(record: &Record) -> String {
    format!("{} {}", record.offset, is_intact(record.offset, &record.payload))
}

fn count_intact(reader: &AofReader) -> Result<String> {
    let mut count = 0u64;
    for record in reader.scan(ScanOptions::default())? {
        let record = record?;
        assert!(is_intact(record.offset, &record.payload));
        count += 1;
    }
    Ok(count.to_string())
}

/// Opens a log, forks, lets the child try everything, and checks its own handle.
fn fork_with_an_open_log() {
    let root = support::root();
    let manager = AofManager::new(ManagerConfig::for_one_stream()).unwrap();
    let log = manager.open(small(&root)).unwrap();
    let reader = AofReader::open(&root).unwrap();
    // All in one segment: a rollover would make more durable than was asked for.
    append_until(&log, 50);
    log.flush().unwrap();
    append_until(&log, 55);
    let mut handles = Some((manager, log, reader));
    // SAFETY: the child has this thread only. It calls the log, which must answer
    // without its threads, prints, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let (manager, log, reader) = handles.take().unwrap();
        let child = AssertUnwindSafe(|| use_after_fork(manager, log, reader, &root));
        let code = i32::from(std::panic::catch_unwind(child).is_err());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; the status is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    tell(format_args!("child {status}"));
    let (_manager, log, _reader) = handles.take().unwrap();
    append_until(&log, 200);
    log.flush().unwrap();
    tell(format_args!("parent {}", log.scan(ScanOptions::default()).unwrap().count()));
    // The test looks whether the lock is still held, then says so.
    command();
    log.close().unwrap();
    tell(format_args!("closed"));
}

fn use_after_fork(manager: AofManager, log: Aof, reader: AofReader, root: &Path) {
    // SAFETY: a child that hangs is ended by its own timer.
    unsafe { libc::alarm(30) };
    let options = AppendOptions::default();
    let forked = |what: &str, error: Option<AofError>| {
        tell(format_args!("{what} {}", matches!(error, Some(AofError::Forked))));
    };
    forked("append", log.append(b"child").err());
    forked("append_record", log.append_record(b"child").err());
    forked("batch", log.append_batch(&[b"child"], &options).err());
    forked("timeout", log.append_record_with_timeout(b"child", &options, PATIENCE).err());
    forked("flush", log.flush().err());
    let last = log.watermarks().durable;
    forked("wait", log.wait(Level::Durable, last + 1, Some(PATIENCE)).err());
    forked("wait reached", log.wait(Level::Durable, last, Some(PATIENCE)).err());
    forked("read", log.read_offset(0).err());
    forked("scan", log.scan(ScanOptions::default()).err());
    forked("follow", log.follow(ScanOptions::default()).err());
    forked("seal", log.seal().err());
    forked("retention", log.apply_retention(&RetentionPolicy::default()).err());
    forked("reader", reader.read_offset(0).err());
    // It has no thread that would flush and seal.
    forked("manager", manager.open(small(&root.with_file_name("another log"))).err());
    let opened = Aof::open(small(root));
    tell(format_args!(
        "open {}",
        match opened {
            Err(AofError::Locked { pid, .. }) => i64::from(pid),
            other => panic!("{other:?}"),
        }
    ));
    // A reader of the child's own is fine.
    let own = AofReader::open(root).unwrap();
    tell(format_args!("own reader {}", own.scan(ScanOptions::default()).unwrap().count()));
    forked("close", log.close().err());
    drop(reader);
    drop(log);
    drop(manager);
    tell(format_args!("dropped"));
}

// ---- one writer ----

fn locked_by(result: Result<Aof>) -> u32 {
    match result {
        Err(AofError::Locked { pid, .. }) => pid,
        other => panic!("a second writer got {other:?}"),
    }
}

#[test]
fn a_second_writer_is_refused_and_told_who_writes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let mut holder = Helper::start("holder", &root, &[]);
    holder.expect("open");
    assert_eq!(locked_by(Aof::open(small(&root))), holder.pid());
    // A failed attempt must not have loosened the lock.
    assert_eq!(locked_by(Aof::open(small(&root))), holder.pid());
    assert_eq!(AofReader::open(&root).unwrap().writer_pid(), Some(holder.pid()));
    holder.kill();
    let log = Aof::open(small(&root)).expect("the lock dies with its holder");
    assert_eq!(log.watermarks().durable, 20, "a kill loses nothing appended");
    assert_eq!(locked_by(Aof::open(small(&root))), std::process::id());
    let elsewhere = dir.path().join("link");
    std::os::unix::fs::symlink(&root, &elsewhere).unwrap();
    assert_eq!(locked_by(Aof::open(small(&elsewhere))), std::process::id());
    // Neither refusal nor readers in this process dropped the lock for others.
    drop(AofReader::open(&root).unwrap());
    let refusal = Helper::start("holder", &root, &[]).line();
    let writer = format!("is being written by process {};", std::process::id());
    assert!(refusal.contains(&writer), "{refusal}");
    log.close().unwrap();
    Helper::start("holder", &root, &[]).expect("open");
}

#[test]
fn a_forked_child_is_refused_and_leaves_the_log_unharmed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let mut parent = Helper::start("forker", &root, &[]);
    for what in [
        "append",
        "append_record",
        "batch",
        "timeout",
        "flush",
        "wait",
        "wait reached",
        "read",
        "scan",
        "follow",
        "seal",
        "retention",
        "reader",
        "manager",
    ] {
        parent.expect(&format!("{what} true"));
    }
    parent.expect(&format!("open {}", parent.pid()));
    parent.expect("own reader 50");
    parent.expect("close false");
    parent.expect("dropped");
    parent.expect("child 0");
    parent.expect("parent 200");
    assert_eq!(locked_by(Aof::open(small(&root))), parent.pid(), "the child took the lock along");
    parent.say("go on");
    parent.expect("closed");
    assert!(parent.finish().success());
    let log = Aof::open(small(&root)).unwrap();
    assert_eq!(log.watermarks().durable, 200);
    for record in log.scan(ScanOptions::default()).unwrap() {
        let record = record.unwrap();
        assert!(is_intact(record.offset, &record.payload));
    }
}

// ---- readers in other processes ----

#[test]
fn a_follower_in_another_process_sees_records_as_they_become_durable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let log = Aof::open(small(&root)).unwrap();
    let mut follower = Helper::start("follower", &root, &[]);
    follower.expect("following");
    let mut delays_ns = Vec::new();
    let mut trimmed = 0;
    for i in 0..400 {
        append_until(&log, i + 1);
        log.flush().unwrap();
        let start = Instant::now();
        let line = follower.line();
        assert!(start.elapsed() < WAKE_MAX, "record {i} took {:?}", start.elapsed());
        let (offset, delay_ns) = line.split_once(' ').unwrap();
        assert_eq!(offset, i.to_string());
        delays_ns.push(delay_ns.parse::<u64>().unwrap());
        if i % 100 == 99 {
            let policy = RetentionPolicy { before_offset: Some(i), ..Default::default() };
            trimmed += log.apply_retention(&policy).unwrap().segments.len();
        }
    }
    assert!(trimmed >= 3, "retention removed only {trimmed} segments");
    // Many at once, across rollovers.
    append_until(&log, 2_000);
    log.flush().unwrap();
    for i in 400..2_000 {
        assert_eq!(follower.line().split_once(' ').unwrap().0, i.to_string());
    }
    append_until(&log, 2_010);
    log.close().unwrap();
    for i in 2_000..2_010 {
        assert_eq!(follower.line().split_once(' ').unwrap().0, i.to_string());
    }
    follower.expect("end 2010");
    assert!(follower.finish().success());
    delays_ns.sort_unstable();
    let at = |q: usize| Duration::from_nanos(delays_ns[delays_ns.len() * q / 100]);
    println!("append to other process: median {:?}, 99th percentile {:?}", at(50), at(99));
}

#[test]
fn another_process_sees_appended_records_only_when_it_asks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let log = Aof::open(small(&root)).unwrap();
    append_until(&log, 5);
    log.flush().unwrap();
    append_until(&log, 8);
    let mut reader = Helper::start("reader", &root, &[]);
    reader.expect("open");
    assert_eq!(reader.ask("count"), "5 8");
    assert_eq!(reader.ask("read 4"), "4 true");
    assert_eq!(reader.ask("read 5"), "past end 5");
    assert_eq!(reader.ask("peek 7"), "7 true");
    assert_eq!(reader.ask("peek 8"), "past end 8");
    append_until(&log, 9);
    assert_eq!(reader.ask("peek 8"), "8 true");
    log.flush().unwrap();
    assert_eq!(reader.ask("count"), "9 9");
    assert_eq!(reader.ask("read 8"), "8 true");
    append_until(&log, 1_000);
    log.flush().unwrap();
    assert_eq!(reader.ask("count"), "1000 1000");
    assert_eq!(reader.ask("all"), "1000");
    assert!(reader.finish().success());
}

/// Trims to the newest segments and returns the earliest offset that is left.
fn trim(log: &Aof) -> u64 {
    let policy = RetentionPolicy { before_offset: Some(u64::MAX), ..Default::default() };
    let report = log.apply_retention(&policy).unwrap();
    assert!(!report.held_back);
    assert!(report.segments.len() > 3);
    assert_eq!(report.earliest_offset, log.earliest_offset());
    report.earliest_offset
}

#[test]
fn a_reader_in_another_process_that_comes_too_late_is_told_where_the_log_begins() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let log = Aof::open(small(&root)).unwrap();
    append_until(&log, 1_000);
    log.flush().unwrap();
    log.seal().unwrap();
    let mut reader = Helper::start("reader", &root, &[]);
    reader.expect("open");
    let mut scanner = Helper::start("reader", &root, &[]);
    scanner.expect("open");
    assert_eq!(scanner.ask("scan 0"), "Some(0)");
    let mut from_start = Helper::start("reader", &root, &[]);
    from_start.expect("open");
    let earliest = trim(&log);
    let trimmed = format!("trimmed {earliest}");
    assert_eq!(reader.ask("read 0"), trimmed);
    assert_eq!(reader.ask("read 0"), trimmed);
    assert_eq!(reader.ask(&format!("read {earliest}")), format!("{earliest} true"));
    assert_eq!(reader.ask("scan 1"), trimmed);
    assert_eq!(scanner.ask("rest"), trimmed);
    assert_eq!(reader.ask("earliest"), earliest.to_string());
    // Who asks for whatever is there is not told off for coming late.
    assert_eq!(from_start.ask("all"), (1_000 - earliest).to_string());
    let mut late = Helper::start("reader", &root, &[]);
    late.expect("open");
    assert_eq!(late.ask("read 0"), trimmed);
    assert_eq!(late.ask("all"), (1_000 - earliest).to_string());
}

#[test]
fn a_reader_of_the_writers_own_that_comes_too_late_is_told_where_the_log_begins() {
    let dir = tempfile::tempdir().unwrap();
    let log = Aof::open(small(&dir.path().join("log"))).unwrap();
    append_until(&log, 1_000);
    log.flush().unwrap();
    let first = log.read_offset(0).unwrap().id;
    let from = |start| ScanOptions { start, ..Default::default() };
    let mut behind = log.follow(from(Start::Offset(0))).unwrap();
    assert_eq!(behind.next_record(Some(PATIENCE)).unwrap().unwrap().offset, 0);
    // A reader of this process holds its segment back, and so all that follow.
    let policy = RetentionPolicy { before_offset: Some(500), ..Default::default() };
    assert!(log.apply_retention(&policy).unwrap().held_back);
    assert_eq!(log.earliest_offset(), 0);
    drop(behind);
    let earliest = trim(&log);
    let is_trimmed = |error: Option<AofError>| match error {
        Some(AofError::Trimmed { earliest: e }) => assert_eq!(e, earliest),
        other => panic!("too late, but got {other:?}"),
    };
    is_trimmed(log.read_offset(0).err());
    is_trimmed(log.read(first).err());
    is_trimmed(log.scan(from(Start::Offset(earliest - 1))).err());
    is_trimmed(log.follow(from(Start::Id(first))).err());
    assert_eq!(log.scan(ScanOptions::default()).unwrap().count() as u64, 1_000 - earliest);
}

#[test]
fn payloads_outlive_the_log_and_the_segments_they_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let log = Aof::open(small(&root)).unwrap();
    append_until(&log, 500);
    log.flush().unwrap();
    let mut reader = Helper::start("reader", &root, &[]);
    reader.expect("open");
    assert_eq!(reader.ask("hold 3"), "held");
    trim(&log);
    assert_eq!(reader.ask("held"), "3 true", "the file is gone, the map is not");
    let sealed = log.read_offset(log.earliest_offset()).unwrap();
    let newest = log.read_offset(499).unwrap();
    let through_reader = AofReader::open(&root).unwrap().read_offset(499).unwrap();
    log.close().unwrap();
    drop(log);
    std::fs::remove_dir_all(&root).unwrap();
    for record in [&sealed, &newest, &through_reader] {
        assert!(is_intact(record.offset, &record.payload));
    }
    assert_eq!(reader.ask("held"), "3 true");
}

/// A reader once took segments that it had not looked for yet for lost: the writer had
/// published a position at the very start of a segment without records.
#[test]
fn a_reader_finds_the_segments_before_a_position_at_the_start_of_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let log = Aof::open(small(&root)).unwrap();
    append_until(&log, 1);
    log.seal().unwrap();
    let reader = AofReader::open(&root).unwrap();
    for end in 2..5 {
        append_until(&log, end);
        log.seal().unwrap();
    }
    log.close().unwrap();
    let _log = Aof::open(small(&root)).unwrap();
    let records = reader.scan(ScanOptions::default()).unwrap().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(records.len(), 4);
}
