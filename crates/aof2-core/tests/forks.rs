//! Forks and snapshots of logs on a real disk.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use aof2_core::{
    Aof, AofConfig, AofError, AofManager, AofReader, AppendOptions, ForkAt, KeptReason, LogRoot,
    ManagerConfig, ReadableLog, RetentionPolicy, ScanOptions, Start, TierConfig, Visibility,
    verify,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn config(path: &Path) -> AofConfig {
    AofConfig::new(path).segment_bytes(64 << 10)
}

fn payload(log: &str, n: u64) -> Vec<u8> {
    let mut payload = format!("{log} {n} ").into_bytes();
    payload.resize(1000 + (n % 7) as usize, b'.');
    payload
}

fn fill(log: &Aof, name: &str, offsets: std::ops::Range<u64>) -> TestResult {
    for n in offsets {
        let options = AppendOptions { timestamp_ms: Some(1_000 * (n + 1)), ..Default::default() };
        let wait = std::time::Duration::from_secs(60);
        let record = log.append_record_with_timeout(&payload(name, n), &options, wait)?;
        assert_eq!(record.offset, n);
    }
    log.flush()?;
    Ok(())
}

fn payloads(log: &impl ReadableLog) -> Result<Vec<Vec<u8>>, AofError> {
    log.scan(ScanOptions::default())?.map(|record| Ok(record?.payload.to_vec())).collect()
}

fn expected(parts: &[(&str, std::ops::Range<u64>)]) -> Vec<Vec<u8>> {
    parts.iter().flat_map(|(name, range)| range.clone().map(|n| payload(name, n))).collect()
}

#[test]
fn a_fork_begins_with_its_parents_records_and_goes_its_own_way() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..300)?;
    for (name, at) in [("empty", 0), ("early", 10), ("boundary", 63), ("late", 299), ("end", 300)] {
        let forked = root.fork("events", name, &ForkAt::Offset(at))?;
        assert_eq!(forked.offset, at);
        let before = expected(&[("events", 0..at)]);
        // Another process reads it before anybody wrote it.
        assert_eq!(payloads(&AofReader::open(&forked.path)?)?, before, "{name}");
        let fork = Aof::open(config(&forked.path))?;
        assert_ne!(fork.stream_id(), events.stream_id());
        assert_eq!(payloads(&fork)?, before, "{name}");
        fill(&fork, name, at..at + 150)?;
        let all = expected(&[("events", 0..at), (name, at..at + 150)]);
        assert_eq!(payloads(&fork)?, all, "{name}");
        assert_eq!(payloads(&AofReader::open(&forked.path)?)?, all, "{name}");
        drop(fork);
        let again = Aof::open(config(&forked.path))?;
        assert_eq!(payloads(&again)?, all, "{name} opened again");
        assert!(verify(&forked.path)?.is_healthy(), "{name}");
    }
    fill(&events, "events", 300..400)?;
    assert_eq!(payloads(&events)?, expected(&[("events", 0..400)]));
    Ok(())
}

#[test]
fn inherited_records_keep_offsets_ids_and_timestamps() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..200)?;
    let forked = root.fork("events", "trial", &ForkAt::Offset(120))?;
    fill(&events, "events", 200..300)?;
    let trial = Aof::open(config(&forked.path))?;
    fill(&trial, "trial", 120..140)?;
    for n in [0, 1, 62, 63, 64, 118, 119] {
        let theirs = events.read_offset(n)?;
        for ours in [trial.read_offset(n)?, trial.read(theirs.id)?] {
            let told = |r: &aof2_core::Record| (r.id, r.offset, r.timestamp_ms, r.payload.to_vec());
            assert_eq!(told(&ours), told(&theirs));
        }
        assert_eq!(trial.offset_at(theirs.timestamp_ms, Visibility::Durable)?, n);
    }
    for n in [120, 121, 150, 199, 250] {
        // The parent's records behind the fork have ids that mean nothing here, or others.
        let theirs = events.read_offset(n)?;
        match trial.read(theirs.id) {
            Ok(found) => assert_ne!(found.payload.to_vec(), theirs.payload.to_vec()),
            Err(error) => assert!(matches!(error, AofError::NoSuchRecord(_)), "{error}"),
        }
    }
    assert_eq!(trial.read_offset(120)?.payload.to_vec(), payload("trial", 120));
    assert_eq!(trial.earliest_offset(), 0);
    assert_eq!(trial.offset_at(u64::from(u32::MAX), Visibility::Durable)?, 140);
    let middle = ScanOptions { start: Start::Timestamp(118_500), ..Default::default() };
    assert_eq!(trial.scan(middle)?.count(), 140 - 118);
    let segments: u64 = trial.segments().iter().map(|s| s.record_count).sum();
    assert_eq!(segments, 140);
    Ok(())
}

#[test]
fn forks_of_forks_read_every_ancestor() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let mut parts: Vec<(String, std::ops::Range<u64>)> = Vec::new();
    let mut from = String::from("g0");
    fill(&Aof::open(config(&dir.path().join(&from)))?, &from, 0..100)?;
    let mut next = 0;
    for depth in 1..=20_u64 {
        let at = next + 37;
        let to = format!("g{depth}");
        root.fork(&from, &to, &ForkAt::Offset(at))?;
        parts.push((from, next..at));
        fill(&Aof::open(config(&dir.path().join(&to)))?, &to, at..at + 100)?;
        (from, next) = (to, at);
    }
    parts.push((from.clone(), next..next + 100));
    let parts: Vec<_> = parts.iter().map(|(name, range)| (name.as_str(), range.clone())).collect();
    let last = AofReader::open(dir.path().join(&from))?;
    assert_eq!(payloads(&last)?, expected(&parts));
    let tree = root.tree()?;
    assert_eq!(tree.logs.len(), 21);
    assert_eq!(tree.logs.last().map(|node| node.depth), Some(20));
    // A place in what a grandparent wrote.
    root.fork(&from, "old", &ForkAt::Offset(50))?;
    let old = AofReader::open(dir.path().join("old"))?;
    assert_eq!(payloads(&old)?, expected(&[("g0", 0..37), ("g1", 37..50)]));
    Ok(())
}

#[test]
fn what_a_fork_reads_is_not_removed() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..400)?;
    root.fork("events", "trial", &ForkAt::Offset(200))?;
    let policy = RetentionPolicy { before_offset: Some(390), ..Default::default() };
    let report = events.apply_retention(&policy)?;
    assert!(report.segments.is_empty());
    assert_eq!(report.kept.map(|kept| kept.reason), Some(KeptReason::Shared));
    assert_eq!(
        payloads(&AofReader::open(dir.path().join("trial"))?)?,
        expected(&[("events", 0..200)])
    );
    root.drop_log("trial")?;
    assert!(!events.apply_retention(&policy)?.segments.is_empty());
    Ok(())
}

#[test]
fn a_dropped_log_is_there_for_its_forks_until_they_go() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..300)?;
    root.fork("events", "child", &ForkAt::Offset(200))?;
    let child = Aof::open(config(&dir.path().join("child")))?;
    fill(&child, "child", 200..260)?;
    root.fork("child", "grandchild", &ForkAt::Offset(230))?;
    assert!(matches!(root.drop_log("events"), Err(AofError::Locked { .. })));
    events.close()?;
    let held = root.purge("events").unwrap_err();
    assert!(held.to_string().contains("child"), "{held}");
    assert_eq!(root.drop_log("events")?.len(), 2);
    assert!(!dir.path().join("events").exists());
    // An open handle goes on, and so does one that is opened now.
    let all = expected(&[("events", 0..200), ("child", 200..260)]);
    assert_eq!(payloads(&child)?, all);
    assert_eq!(payloads(&AofReader::open(dir.path().join("child"))?)?, all);
    // The name is free.
    fill(&Aof::open(config(&dir.path().join("events")))?, "new", 0..10)?;
    child.close()?;
    root.drop_log("child")?;
    let grandchild = AofReader::open(dir.path().join("grandchild"))?;
    assert_eq!(payloads(&grandchild)?, expected(&[("events", 0..200), ("child", 200..230)]));
    assert_eq!(std::fs::read_dir(dir.path().join(".origins"))?.count(), 2);
    root.drop_log("grandchild")?;
    assert_eq!(std::fs::read_dir(dir.path().join(".origins"))?.count(), 0);
    assert_eq!(root.sweep()?, Default::default());
    Ok(())
}

#[test]
fn a_detached_fork_needs_nobody() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..300)?;
    root.fork("events", "trial", &ForkAt::Offset(200))?;
    let trial = Aof::open(config(&dir.path().join("trial")))?;
    fill(&trial, "trial", 200..300)?;
    let ids: Vec<_> = trial.scan(ScanOptions::default())?.map(|r| r.unwrap().id).collect();
    assert!(matches!(root.detach("trial"), Err(AofError::Locked { .. })));
    trial.close()?;
    let reader = AofReader::open(dir.path().join("trial"))?;
    assert_eq!(root.detach("trial")?, 200);
    events.close()?;
    root.purge("events")?;
    let all = expected(&[("events", 0..200), ("trial", 200..300)]);
    assert_eq!(payloads(&reader)?, all, "a reader that was open before");
    let trial = Aof::open(config(&dir.path().join("trial")))?;
    assert_eq!(payloads(&trial)?, all);
    let now: Vec<_> = trial.scan(ScanOptions::default())?.map(|r| r.unwrap().id).collect();
    assert_eq!(now, ids);
    assert!(verify(dir.path().join("trial"))?.is_healthy());
    assert!(matches!(root.detach("trial"), Err(AofError::Locked { .. })));
    Ok(())
}

#[test]
fn snapshots_hold_their_place_and_forks_are_made_from_them() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..200)?;
    let taken = root.snapshot("events", "before the migration", &ForkAt::Offset(150), None)?;
    assert_eq!(taken.offset, 150);
    let again = root.snapshot("events", "before the migration", &ForkAt::End, None);
    assert!(matches!(again, Err(AofError::NameTaken { .. })));
    fill(&events, "events", 200..400)?;
    let policy = RetentionPolicy { before_offset: Some(390), ..Default::default() };
    assert!(events.apply_retention(&policy)?.segments.is_empty());
    let at = ForkAt::Snapshot("before the migration".into());
    assert_eq!(root.fork("events", "trial", &at)?.offset, 150);
    root.drop_snapshot("events", "before the migration")?;
    let missing = root.drop_snapshot("events", "before the migration");
    assert!(matches!(missing, Err(AofError::NoSuchSnapshot { .. })));
    assert_eq!(root.snapshots("events")?, []);
    root.drop_log("trial")?;
    assert!(!events.apply_retention(&policy)?.segments.is_empty());
    Ok(())
}

#[test]
fn a_fork_reads_its_parent_in_every_tier() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let tiers = TierConfig { ..Default::default() };
    let manager = AofManager::new(ManagerConfig { tiers: Some(tiers), ..Default::default() })?;
    let events = manager.open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..300)?;
    // In the middle of a segment that is still written.
    root.fork("events", "trial", &ForkAt::Offset(290))?;
    let trial = manager.open(config(&dir.path().join("trial")))?;
    fill(&trial, "trial", 290..330)?;
    let all = expected(&[("events", 0..290), ("trial", 290..330)]);
    assert_eq!(payloads(&trial)?, all);
    fill(&events, "events", 300..400)?;
    let reader = AofReader::open(dir.path().join("trial"))?;
    assert_eq!(payloads(&reader)?, all);
    events.seal()?;
    for segment in events.segments() {
        if segment.is_sealed {
            events.evict(segment.segment_id)?;
        }
    }
    assert_eq!(payloads(&trial)?, all, "after the parent's segments were compressed");
    assert_eq!(payloads(&reader)?, all);
    let again = AofReader::open(dir.path().join("trial"))?;
    assert_eq!(payloads(&again)?, all);
    for n in [0, 100, 289] {
        assert_eq!(again.read_offset(n)?.payload.to_vec(), payload("events", n));
        assert_eq!(again.offset_at(1_000 * (n + 1), Visibility::Durable)?, n);
    }
    assert_eq!(again.offset_at(290_500, Visibility::Durable)?, 290);
    let shared = trial.evict(0).unwrap_err();
    assert!(shared.to_string().contains("events"), "{shared}");
    Ok(())
}

#[test]
fn bad_places_and_names_are_refused() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..10)?;
    let past = root.fork("events", "x", &ForkAt::Offset(11));
    assert!(matches!(past, Err(AofError::PastEnd { .. })), "{past:?}");
    events.append(b"not durable")?;
    let soon = root.fork("events", "x", &ForkAt::Offset(11));
    assert!(matches!(soon, Err(AofError::PastEnd { is_appended: true, .. })), "{soon:?}");
    let taken = root.fork("events", "events", &ForkAt::End);
    assert!(matches!(taken, Err(AofError::NameTaken { .. })), "{taken:?}");
    for name in ["../x", ".x", "a/../..", "", "/tmp/x"] {
        let refused = root.fork("events", name, &ForkAt::End);
        assert!(matches!(refused, Err(AofError::InvalidConfig { .. })), "{name}: {refused:?}");
    }
    let missing = root.fork("nothing", "x", &ForkAt::End);
    assert!(matches!(missing, Err(AofError::NotALog { .. })), "{missing:?}");
    let snapshot = root.fork("events", "x", &ForkAt::Snapshot("none".into()));
    assert!(matches!(snapshot, Err(AofError::NoSuchSnapshot { .. })), "{snapshot:?}");
    // Nothing is left of any of these.
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 1);
    assert!(root.tree()?.logs[0].holders.is_empty());
    Ok(())
}

#[test]
fn a_fork_without_its_parent_says_so_and_the_rest_is_read() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..100)?;
    root.fork("events", "trial", &ForkAt::Offset(50))?;
    let trial = Aof::open(config(&dir.path().join("trial")))?;
    fill(&trial, "trial", 50..60)?;
    events.close()?;
    trial.close()?;
    let elsewhere = tempfile::tempdir()?;
    std::fs::rename(dir.path().join("events"), elsewhere.path().join("events"))?;
    let trial = AofReader::open(dir.path().join("trial"))?;
    let error = payloads(&trial).unwrap_err();
    assert!(error.to_string().contains("\"events\""), "{error}");
    assert_eq!(trial.read_offset(55)?.payload.to_vec(), payload("trial", 55));
    // Under another name it is found again.
    std::fs::rename(elsewhere.path().join("events"), dir.path().join("renamed"))?;
    let trial = AofReader::open(dir.path().join("trial"))?;
    assert_eq!(payloads(&trial)?, expected(&[("events", 0..50), ("trial", 50..60)]));
    Ok(())
}

#[test]
fn verifying_a_fork_reads_its_ancestors_and_repairing_it_leaves_them_alone() -> TestResult {
    let dir = tempfile::tempdir()?;
    let root = LogRoot::open(dir.path())?;
    let events = Aof::open(config(&dir.path().join("events")))?;
    fill(&events, "events", 0..200)?;
    let forked = root.fork("events", "trial", &ForkAt::Offset(150))?;
    let trial = Aof::open(config(&forked.path))?;
    fill(&trial, "trial", 150..160)?;
    trial.close()?;
    events.close()?;
    let healthy = verify(&forked.path)?;
    assert!(healthy.is_healthy());
    assert_eq!((healthy.record_count, healthy.first_offset, healthy.next_offset), (160, 0, 160));
    // A bit of the parent's second record flips.
    let file = verify(dir.path().join("events"))?.segments[0].path.clone();
    let mut bytes = std::fs::read(&file)?;
    bytes[64 + 1032 + 100] ^= 1;
    std::fs::write(&file, &bytes)?;
    let damaged = verify(&forked.path)?;
    assert_eq!(damaged.problems.len(), 1, "{:?}", damaged.problems);
    assert_eq!(damaged.problems[0].kind, aof2_core::ProblemKind::Inherited);
    assert_eq!(damaged.problems[0].records, 1..2);
    aof2_core::repair(&forked.path)?;
    assert_eq!(std::fs::read(&file)?, bytes, "the parent is not touched");
    aof2_core::repair(dir.path().join("events"))?;
    let repaired = verify(&forked.path)?;
    assert!(repaired.is_healthy(), "{:?}", repaired.problems);
    Ok(())
}
