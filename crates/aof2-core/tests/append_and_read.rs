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

/// A follower used to end at once when the writer closed the log, whatever its timeout.
#[test]
fn a_follower_goes_on_with_the_next_writer() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    Aof::open(small(&path))?.close()?;
    let reader = AofReader::open(&path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for visibility in [Visibility::Durable, Visibility::Appended] {
        let options = ScanOptions { start: Start::Latest, visibility, ..Default::default() };
        let mut follow = reader.follow(options)?;
        let mut in_a_task = reader.follow(options)?;
        for i in 0..3 {
            let before = std::time::Instant::now();
            let short = Duration::from_millis(3);
            assert!(follow.next_record(Some(short))?.is_none());
            assert!(!follow.is_finished() && before.elapsed() >= short, "nobody writes now");
            let log = Aof::open(small(&path))?;
            log.append(&payload(i))?;
            log.close()?;
            let record = follow.next_record(Some(Duration::from_secs(60)))?.expect("record");
            assert_eq!(&*record.payload, &payload(i)[..]);
            let record = runtime.block_on(in_a_task.next_record_async())?.expect("record");
            assert_eq!(&*record.payload, &payload(i)[..]);
        }
        let mut to_the_end = reader.follow(ScanOptions::default())?.until_closed();
        while to_the_end.next_record(None)?.is_some() {}
        assert!(to_the_end.is_finished());
        assert!(runtime.block_on(to_the_end.next_record_async())?.is_none());
    }
    Ok(())
}

/// A scan whose consumer appends what it reads never ended.
#[test]
fn a_scan_ends_where_the_log_ended_when_it_started() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("events")))?;
    for visibility in [Visibility::Durable, Visibility::Appended] {
        log.append(b"one")?;
        log.append(b"two")?;
        log.flush()?;
        let count = log.watermarks().durable;
        let far = RecordId::from_parts(u32::MAX, 64);
        for end in
            [End::Visible, End::Now, End::Offset(u64::MAX), End::Timestamp(u64::MAX), End::Id(far)]
        {
            let options = ScanOptions { end, visibility, ..Default::default() };
            let before = log.watermarks().appended;
            let (mut scan, mut batches) = (log.scan(options)?, log.scan(options)?);
            let mut runs = log.scan(options)?;
            while let Some(record) = scan.next_record()? {
                log.append(&record.payload)?;
                log.flush()?;
                assert!(log.watermarks().durable <= before + before, "it does not end");
            }
            assert_eq!((scan.next_offset(), scan.next_record()?.is_none()), (before, true));
            let mut seen = 0;
            while let Some(batch) = batches.next_batch()? {
                seen += batch.len() as u64;
            }
            let mut counted = 0;
            while let Some(run) = runs.next_run()? {
                counted += run.offsets.end - run.offsets.start;
            }
            assert_eq!((seen, counted), (before, before));
        }
        assert!(log.watermarks().durable > count);
    }
    let now = ScanOptions { end: End::Now, ..Default::default() };
    let (count, mut follow) = (log.watermarks().durable, log.follow(now)?);
    log.append(b"later")?;
    log.flush()?;
    for offset in 0..count {
        assert_eq!(follow.next_record(None)?.map(|record| record.offset), Some(offset));
    }
    assert!(follow.next_record(None)?.is_none() && follow.is_finished());
    Ok(())
}

/// A record that was just appended could not be read for some milliseconds, and the error
/// said that there was none.
#[test]
fn a_writer_reads_its_own_appends_and_others_are_told_that_they_are_not_durable() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let mut config = small(&path);
    config.flush.flush_interval_ms = 0;
    let log = Aof::open(config)?;
    log.append(b"durable")?;
    log.flush()?;
    let id = log.append(b"appended")?;
    let made_up = RecordId::from_parts(id.segment_index(), id.segment_offset() + 8);
    for record in [log.read(id)?, log.try_read(id)?, log.read_offset(1)?, log.try_read_offset(1)?] {
        assert_eq!((record.id, &*record.payload), (id, &b"appended"[..]));
    }
    let reader = AofReader::open(&path)?;
    let durable = Visibility::Durable;
    let (from_id, from_offset) = (
        ScanOptions { start: Start::Id(id), ..Default::default() },
        ScanOptions { start: Start::Offset(2), ..Default::default() },
    );
    for error in [
        reader.read(id).err(),
        reader.try_read(id).err(),
        log.read_with(id, durable).err(),
        log.try_read_with(id, durable).err(),
        log.scan(from_id).err(),
        reader.follow(from_id).err(),
    ] {
        let error = error.expect("not durable yet");
        assert!(matches!(error, AofError::NotDurable(it) if it == id), "{error:?}");
        assert!(error.to_string().contains("not durable yet; flush"), "{error}");
    }
    log.append(b"another")?;
    for error in [
        reader.read_offset(1).err(),
        reader.try_read_offset(1).err(),
        log.read_offset_with(1, durable).err(),
        log.scan(from_offset).err(),
    ] {
        let error = error.expect("not durable yet");
        assert!(matches!(error, AofError::PastEnd { end: 1, is_appended: true, .. }), "{error:?}");
        assert!(error.to_string().contains("not durable yet"), "{error}");
    }
    for visibility in [durable, Visibility::Appended] {
        let error = log.read_with(made_up, visibility).expect_err("no record starts there");
        assert!(matches!(error, AofError::NoSuchRecord(_)), "{error:?}");
        let error = log.read_offset_with(3, visibility).expect_err("nothing was appended there");
        assert!(matches!(error, AofError::PastEnd { is_appended: false, .. }), "{error:?}");
    }
    log.flush()?;
    assert_eq!(&*reader.read(id)?.payload, b"appended");
    Ok(())
}

/// One record stamped in nanoseconds kept its segment, and all behind it, for ever.
#[test]
fn timestamps_that_no_calendar_has_are_refused() -> TestResult {
    let dir = tempfile::tempdir()?;
    for (format, last) in
        [(SegmentFormat::Full, TIMESTAMP_MS_MAX), (SegmentFormat::Compact, u64::MAX / 1_000_000)]
    {
        let log = Aof::open(small(&dir.path().join(format.as_str())).format(format))?;
        let at = |ms| AppendOptions { timestamp_ms: Some(ms), ..Default::default() };
        let id = log.append_record_with(b"late", &at(last))?.id;
        assert_eq!(log.read(id)?.timestamp_ms, last);
        for (ms, unit) in [
            (last + 1, "microseconds"),
            (1_763_000_000_000_000, if last < 1 << 44 { "nanoseconds" } else { "microseconds" }),
            (1_763_000_000_000_000_000, "nanoseconds"),
            (u64::MAX, "nanoseconds"),
        ] {
            let one = log.append_record_with(b"x", &at(ms)).err();
            let many = log.append_batch(&["x", "y"], &at(ms)).err();
            for error in [one, many] {
                let Some(AofError::InvalidRecord { reason }) = error else {
                    panic!("{ms} was taken: {error:?}")
                };
                assert!(reason.contains(&last.to_string()), "{reason}");
                if ms > 1_763_000_000_000_000 {
                    assert!(reason.contains(unit), "{reason}");
                }
            }
        }
        assert_eq!(log.watermarks().appended, 1, "nothing was written");
    }
    Ok(())
}

#[test]
fn retention_says_which_segment_stays_and_why() -> TestResult {
    let dir = tempfile::tempdir()?;
    let log = Aof::open(small(&dir.path().join("events")))?;
    let by_age = RetentionPolicy { max_age_ms: Some(1_000), ..Default::default() };
    assert_eq!(log.apply_retention(&by_age)?.kept.map(|k| k.reason), Some(KeptReason::Unsealed));
    for timestamp_ms in [1_000, TIMESTAMP_MS_MAX, 2_000, 3_000] {
        let options = AppendOptions { timestamp_ms: Some(timestamp_ms), ..Default::default() };
        log.append_record_with_timeout(b"x", &options, Duration::from_secs(60))?;
        log.seal()?;
    }
    let kept = |policy: &RetentionPolicy| -> Result<_> {
        let kept = log.apply_retention(policy)?.kept.expect("something stays");
        Ok((kept.segment_id, kept.reason, kept.last_timestamp_ms))
    };
    let keep_all = RetentionPolicy::default();
    assert_eq!(kept(&keep_all)?, (0, KeptReason::WithinLimits, Some(1_000)));
    assert!(!log.metrics().retention_in_future);
    // The first one goes, the second would stay for some thousand years.
    assert_eq!(kept(&by_age)?, (1, KeptReason::FutureTimestamp, Some(TIMESTAMP_MS_MAX)));
    assert_eq!(log.earliest_offset(), 1);
    assert!(log.metrics().retention_in_future);
    let text = log.metrics().to_prometheus();
    assert!(text.contains("aof2_retention_in_future{stream=\"events\"} 1\n"), "{text}");
    let held = log.read_offset(1)?;
    let past_it = RetentionPolicy { before_offset: Some(2), ..by_age };
    assert_eq!(kept(&past_it)?.1, KeptReason::Held);
    drop(held);
    assert_eq!(kept(&past_it)?, (3, KeptReason::Newest, Some(3_000)));
    assert!(!log.metrics().retention_in_future);
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
