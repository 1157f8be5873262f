//! A log on real files: what is appended is what is read, across rollovers,
//! reopening and processes' worth of handles.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use aof2_core::*;

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn payload(i: u64) -> Vec<u8> {
    let len = 1 + (i * 7919 % 700) as usize;
    (0..len).map(|j| (i as usize * 31 + j) as u8).collect()
}

fn small(path: &std::path::Path) -> AofConfig {
    AofConfig::new(path).segment_bytes(64 << 10)
}

fn check_all(scan: Scan, count: u64) -> TestResult {
    let mut expected = 0;
    for record in scan {
        let record = record?;
        assert_eq!(record.offset, expected);
        assert_eq!(&*record.payload, &payload(expected)[..], "record {expected}");
        expected += 1;
    }
    assert_eq!(expected, count);
    Ok(())
}

#[test]
fn records_come_back_in_order_across_rollovers_and_reopening() -> TestResult {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events");
        let log = Aof::open(small(&path).format(format))?;
        let mut ids = Vec::new();
        for i in 0..5_000 {
            ids.push(log.append(&payload(i))?);
        }
        log.flush()?;
        assert_eq!(log.watermarks(), Watermarks { appended: 5_000, durable: 5_000, archived: 0 });
        assert!(log.segments().len() > 20);
        check_all(log.scan(ScanOptions::default())?, 5_000)?;
        for (i, id) in ids.iter().enumerate().step_by(97) {
            let record = log.read(*id)?;
            assert_eq!(record.offset, i as u64);
            assert_eq!(&*record.payload, &payload(i as u64)[..]);
            assert_eq!(log.read_offset(i as u64)?.id, *id);
        }
        log.close()?;
        let log = Aof::open(small(&path))?;
        assert_eq!(log.format(), format);
        assert_eq!(log.watermarks().durable, 5_000);
        for i in 5_000..6_000 {
            log.append(&payload(i))?;
        }
        log.flush()?;
        check_all(log.scan(ScanOptions::default())?, 6_000)?;
        let reader = AofReader::open(&path)?;
        check_all(reader.scan(ScanOptions::default())?, 6_000)?;
        assert_eq!(reader.watermarks()?.durable, 6_000);
        drop(log);
        check_all(AofReader::open(&path)?.scan(ScanOptions::default())?, 6_000)?;
    }
    Ok(())
}

#[test]
fn a_thousand_rollovers_under_load_just_work() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("busy")))?;
    let data = vec![7u8; 30 << 10];
    for _ in 0..2_000 {
        log.append(&data)?;
    }
    log.flush()?;
    assert!(log.metrics().rollovers >= 1_000);
    assert_eq!(log.scan(ScanOptions::default())?.count(), 2_000);
    Ok(())
}

#[test]
fn a_follower_in_another_handle_sees_records_as_they_become_durable() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(small(&path))?;
    let reader = AofReader::open(&path)?;
    let follower = std::thread::spawn(move || -> Result<u64> {
        let mut follow = reader.follow(ScanOptions::default())?;
        let mut seen = 0;
        while seen < 3_000 {
            let Some(record) = follow.next_record(Some(Duration::from_secs(20)))? else { break };
            assert_eq!(record.offset, seen);
            seen += 1;
        }
        Ok(seen)
    });
    let mut own = log.follow(ScanOptions { start: Start::Latest, ..Default::default() })?;
    for i in 0..3_000 {
        log.append(&payload(i))?;
    }
    for i in 0..3_000 {
        let record = own.next_record(Some(Duration::from_secs(20)))?.expect("record");
        assert_eq!(record.offset, i);
    }
    assert_eq!(follower.join().expect("follower")?, 3_000);
    Ok(())
}

/// A follower with an end used to wait for the record behind it.
#[test]
fn a_follower_ends_at_its_end_without_waiting_for_the_record_behind_it() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("events")))?;
    let ids: Vec<RecordId> = (0..3).map(|i| log.append(&payload(i))).collect::<Result<_, _>>()?;
    log.flush()?;
    for end in [End::Offset(3), End::Id(RecordId::from_u64(ids[2].as_u64() + 1))] {
        let mut follow = log.follow(ScanOptions { end, ..Default::default() })?;
        for offset in 0..3 {
            assert_eq!(follow.next_record(None)?.map(|r| r.offset), Some(offset));
            assert!(!follow.is_finished());
        }
        // Nothing is behind the end, and nobody will write it: waiting would be for ever.
        assert!(follow.next_record(None)?.is_none());
        assert!(follow.is_finished());
    }
    Ok(())
}

#[test]
fn a_follower_tells_the_end_of_the_log_from_a_timeout() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("events")))?;
    let mut follow = log.follow(ScanOptions::default())?;
    assert!(follow.next_record(Some(Duration::from_millis(1)))?.is_none());
    assert!(!follow.is_finished());
    log.append(b"the last one")?;
    log.close()?;
    assert!(follow.next_record(None)?.is_some());
    assert!(follow.next_record(None)?.is_none());
    assert!(follow.is_finished());
    Ok(())
}

#[test]
fn a_seal_can_be_awaited_in_pieces() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("events")))?;
    log.append(b"one")?;
    let mut sealing = log.sealing();
    while !sealing.wait(Some(Duration::from_micros(1)))? {}
    assert!(log.segments()[0].is_sealed);
    // Waiting on does not seal what was appended since.
    log.append(b"two")?;
    assert!(sealing.wait(None)?);
    assert!(!log.segments()[1].is_sealed);
    Ok(())
}
