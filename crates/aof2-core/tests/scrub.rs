//! Scrubbing on real files and a model of a bucket: whatever is damaged, in whichever
//! copies, afterwards every record is readable and every copy verifies, or the report
//! says exactly what is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aof2_core::format::manifest::ManifestEvent;
use aof2_core::io::OsStorage;
use aof2_core::object::ObjectErrorKind;
use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::*;
use fastrand::Rng;
use support::bucket::*;
use support::{PATIENCE, eventually};

const TIERS: [Residency; 3] = [Residency::Hot, Residency::Warm, Residency::Cold];

fn without_bucket() -> TierConfig {
    TierConfig { cold: None, ..tiers() }
}

fn scrub(log: &Aof, options: &ScrubOptions) -> ScrubReport {
    log.scrub(options, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Offsets that a scan gives; what it gives is right.
fn readable(log: &Aof) -> BTreeSet<u64> {
    let options = ScanOptions { on_corruption: OnCorruption::Skip, ..ScanOptions::default() };
    let mut offsets = BTreeSet::new();
    for record in log.scan(options).unwrap() {
        let record = match record {
            // Where the newest segment's only file is gone, the scan says so and ends.
            Err(error) if is_missing_file(&error) => break,
            record => record.unwrap(),
        };
        assert_eq!(&*record.payload, &payload(record.offset)[..]);
        offsets.insert(record.offset);
    }
    offsets
}

fn is_missing_file(error: &AofError) -> bool {
    matches!(error, AofError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// A log of a few segments whose copies can be damaged one by one.
struct Subject {
    _dir: tempfile::TempDir,
    root: PathBuf,
    bucket: SimBucket,
    manager: AofManager,
    log: Aof,
    records: u64,
}

impl Subject {
    fn with(tiers: TierConfig, records: u64) -> Self {
        Self::of_format(SegmentFormat::Full, tiers, records)
    }

    fn of_format(format: SegmentFormat, tiers: TierConfig, records: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("events");
        let bucket = SimBucket::new();
        let has_cold = tiers.cold.is_some();
        let manager = manager(&bucket, tiers);
        let ext_id = if format == SegmentFormat::Full { 7 } else { 0 };
        let log =
            manager.open(AofConfig { format, ext_id, recover: has_cold, ..config(&root) }).unwrap();
        append(&log, 0..records);
        match has_cold {
            true => archive(&log),
            false => log.seal().unwrap(),
        }
        Self { _dir: dir, root, bucket, manager, log, records }
    }

    /// One with exactly these copies of its segments.
    fn with_copies(copies: &[Residency], records: u64) -> Self {
        let has = |tier| copies.contains(&tier);
        let mut limits = without_bucket();
        if has(Residency::Cold) {
            limits.cold = Some(cold());
            limits.warm_bytes = (!has(Residency::Warm)).then_some(1);
        }
        let subject = Self::with(limits, records);
        for id in subject.ids() {
            if !has(Residency::Cold) && has(Residency::Warm) {
                subject.log.evict(id).unwrap();
                if has(Residency::Hot) {
                    subject.log.hydrate(id, Some(PATIENCE)).unwrap();
                }
            }
            if has(Residency::Cold) && !has(Residency::Hot) {
                subject.log.evict(id).unwrap();
            }
        }
        eventually("the copies", || {
            subject
                .ids()
                .iter()
                .all(|id| subject.copies(*id) == BTreeSet::from_iter(copies.to_vec()))
        });
        subject
    }

    fn ids(&self) -> Vec<u64> {
        self.log.segments().iter().filter(|s| s.is_sealed).map(|s| s.segment_id).collect()
    }

    fn info(&self, id: u64) -> SegmentInfo {
        self.log.segments().into_iter().find(|s| s.segment_id == id).unwrap()
    }

    fn copies(&self, id: u64) -> BTreeSet<Residency> {
        let info = self.info(id);
        let mut copies = BTreeSet::new();
        copies.extend((info.residency == Residency::Hot).then_some(Residency::Hot));
        copies.extend(info.warm_bytes.map(|_| Residency::Warm));
        copies.extend(info.cold_bytes.map(|_| Residency::Cold));
        copies
    }

    fn file_in(&self, dir: &str, id: u64) -> PathBuf {
        segment_file(&self.root, dir, id)
    }

    /// Changes some bytes of a copy, or loses the copy.
    fn damage(&self, id: u64, tier: Residency, rng: &mut Rng) {
        // Of a compressed copy several: a single bit of it may mean nothing.
        const RUN: u64 = 8;
        let is_lost = rng.u64(..5) == 0;
        let mask = 1 << rng.u64(..8);
        if tier == Residency::Cold {
            let key = segment_key(&self.bucket, id);
            let len = self.bucket.objects()[&key].bytes.len() as u64;
            let at = rng.u64(..len - RUN);
            match is_lost {
                true => assert!(self.bucket.remove(&key)),
                false => (at..at + RUN).for_each(|at| {
                    assert!(self.bucket.damage(&key, at, 0xff));
                }),
            }
            return;
        }
        let (path, len) = match tier {
            Residency::Hot => (self.file_in("segments", id), self.info(id).used_bytes),
            _ => {
                let path = self.file_in("warm", id);
                let len = std::fs::metadata(&path).unwrap().len();
                (path, len)
            }
        };
        let at = rng.u64(..len - RUN);
        match (is_lost, tier) {
            (true, _) => std::fs::remove_file(path).unwrap(),
            (false, Residency::Hot) => flip(&path, at, mask),
            (false, _) => (at..at + RUN).for_each(|at| flip(&path, at, 0xff)),
        }
    }

    fn all(&self) -> BTreeSet<u64> {
        (0..self.records).collect()
    }

    fn quarantined(&self) -> usize {
        std::fs::read_dir(self.root.join("quarantine")).map_or(0, Iterator::count)
    }

    /// What the manifest got, as text.
    fn events(&self) -> Vec<String> {
        self.log.commit_manifest().unwrap();
        let stream = self.log.stream_id();
        let reader = manifest::ManifestReader::new(Arc::new(OsStorage), &self.root, stream);
        let mut events = Vec::new();
        let mut cursor = reader.cursor().unwrap();
        while let Some(placed) = cursor.next_record().unwrap() {
            if let ManifestEvent::CustomEvent { schema_id, blob } = placed.record.event {
                assert_eq!(schema_id, SCRUB_SCHEMA_ID);
                events.push(String::from_utf8(blob.to_vec()).unwrap());
            }
        }
        events
    }
}

fn flip(path: &Path, at: u64, mask: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ mask], at).unwrap();
}

fn subsets() -> Vec<Vec<Residency>> {
    let pick = |bits: u32| (0..3).filter(|i| bits >> i & 1 == 1).map(|i| TIERS[i]).collect();
    (1..8).map(pick).collect()
}

#[test]
fn any_damage_beside_a_good_copy_is_healed_and_any_other_is_told() {
    let mut rng = Rng::with_seed(11);
    for copies in subsets() {
        for damaged in subsets().into_iter().filter(|d| d.iter().all(|t| copies.contains(t))) {
            let subject = Subject::with_copies(&copies, 150);
            let before = subject.ids();
            for id in &before {
                damaged.iter().for_each(|tier| subject.damage(*id, *tier, &mut rng));
            }
            let report = scrub(&subject.log, &ScrubOptions::default());
            let what = format!("{copies:?} of which {damaged:?}: {report:#?}");
            assert!(report.is_complete, "{what}");
            let found: Vec<(u64, Residency)> =
                report.findings.iter().map(|f| (f.segment_id, f.tier)).collect();
            let expected: Vec<(u64, Residency)> =
                before.iter().flat_map(|id| damaged.iter().map(|t| (*id, *t))).collect();
            assert_eq!(found, expected, "{what}");
            if damaged.len() < copies.len() {
                assert!(report.is_clean(), "{what}");
                assert_eq!(readable(&subject.log), subject.all(), "{what}");
                let again = scrub(&subject.log, &ScrubOptions::default());
                assert!(again.findings.is_empty() && again.is_clean(), "{what}\n{again:#?}");
                for id in before {
                    let now = subject.copies(id);
                    assert!(
                        copies.iter().all(|tier| now.contains(tier)
                            || (*tier == Residency::Warm && copies.contains(&Residency::Cold))),
                        "{what} {now:?}"
                    );
                }
                assert!(subject.log.compare_manifest().unwrap().is_empty(), "{what}");
            } else {
                assert_eq!(report.healed(), 0, "{what}");
                let lost: BTreeSet<u64> = report.unreadable().into_iter().flatten().collect();
                let there = readable(&subject.log);
                let missing: BTreeSet<u64> = subject.all().difference(&there).copied().collect();
                assert_eq!(lost, missing, "{what}");
                assert_eq!(subject.quarantined(), 0, "{what}");
                let status = subject.log.tiers().unwrap();
                assert_eq!(status.needs_repair_segments, before.len() as u64, "{what}");
            }
        }
    }
}

#[test]
fn random_damage_in_a_log_of_all_residencies_leaves_good_copies_or_a_true_report() {
    for seed in 0..25 {
        let mut rng = Rng::with_seed(seed);
        let format = [SegmentFormat::Full, SegmentFormat::Compact][seed as usize % 2];
        let subject = Subject::of_format(format, tiers(), 700);
        let ids = subject.ids();
        for id in &ids {
            if rng.bool() {
                subject.log.evict(*id).unwrap();
            }
        }
        let mut doomed = 0;
        for id in &ids {
            let copies = subject.copies(*id);
            let mut damaged = 0;
            for tier in &copies {
                if rng.u64(..3) == 0 {
                    subject.damage(*id, *tier, &mut rng);
                    damaged += 1;
                }
            }
            doomed += u64::from(damaged == copies.len());
        }
        let report = scrub(&subject.log, &ScrubOptions::default());
        let again = scrub(&subject.log, &ScrubOptions::default());
        let lost: BTreeSet<u64> = report.unreadable().into_iter().flatten().collect();
        let missing: BTreeSet<u64> =
            subject.all().difference(&readable(&subject.log)).copied().collect();
        assert_eq!(lost, missing, "seed {seed}: {report:#?}");
        // What is left is what nothing could be made from.
        let left: BTreeSet<u64> = again.findings.iter().map(|f| f.segment_id).collect();
        assert_eq!(left.len() as u64, doomed, "seed {seed}: {again:#?}");
        assert_eq!(subject.log.tiers().unwrap().needs_repair_segments, doomed);
        assert!(again.findings.iter().all(|f| f.outcome.as_str() == "needs_repair"));
    }
}

#[test]
fn looking_changes_nothing_and_a_finding_is_written_down() {
    let subject = Subject::with_copies(&[Residency::Hot, Residency::Warm], 150);
    flip(&subject.file_in("warm", 1), 100, 4);
    let look = ScrubOptions { heal: false, ..ScrubOptions::default() };
    let report = scrub(&subject.log, &look);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].outcome, ScrubOutcome::Damaged);
    assert_eq!(subject.quarantined(), 0);
    // Another tier was not asked for, and is a source all the same.
    let only_warm = ScrubOptions { hot: false, cold: false, segments: 1..2, ..look };
    let heal = ScrubOptions { heal: true, ..only_warm };
    let report = scrub(&subject.log, &heal);
    let healed = ScrubOutcome::Healed { from: Residency::Hot };
    assert_eq!((report.segments, &report.findings[0].outcome), (1, &healed));
    let kept = report.findings[0].quarantined.clone().unwrap();
    assert!(kept.exists() && kept.starts_with(subject.root.join("quarantine")));
    let events = subject.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("tier=warm\nplace=") && events[0].contains("\noutcome=damaged"));
    assert!(events[1].contains("\noutcome=healed\nfrom=hot\nquarantined="), "{}", events[1]);
    let status = subject.log.tiers().unwrap();
    assert_eq!((status.metrics.damage_found, status.metrics.healed), (2, 1));
    assert_eq!(status.needs_repair_segments, 0);
    assert!(scrub(&subject.log, &ScrubOptions::default()).is_clean());
    let status = subject.log.tiers().unwrap();
    assert!(status.last_scrub_ms.is_some());
    let text = status.to_prometheus("events");
    for name in [
        "scrubbed_bytes_total",
        "scrubbed_segments_total",
        "damage_found_total",
        "healed_total",
        "needs_repair_segments",
        "last_scrub_timestamp_seconds",
    ] {
        assert!(text.contains(&format!("\naof2_tier_{name}{{stream=\"events\"}} ")), "{name}");
    }
}

#[test]
fn a_copy_that_was_not_asked_for_is_no_source_before_it_was_read() {
    let all = [Residency::Hot, Residency::Warm, Residency::Cold];
    let subject = Subject::with_copies(&all, 100);
    flip(&subject.file_in("segments", 0), 100, 4);
    flip(&subject.file_in("warm", 0), 100, 4);
    let only_hot = ScrubOptions { warm: false, cold: false, ..ScrubOptions::default() };
    let report = scrub(&subject.log, &only_hot);
    assert!(report.is_clean() && report.healed() == 2, "{report:#?}");
    assert_eq!(readable(&subject.log), subject.all());
    assert!(scrub(&subject.log, &ScrubOptions::default()).findings.is_empty());
}

#[test]
fn a_file_that_opening_could_not_use_is_set_aside_and_made_again() {
    let subject = Subject::with_copies(&[Residency::Hot, Residency::Warm, Residency::Cold], 200);
    let (hot, warm) = (subject.file_in("segments", 0), subject.file_in("warm", 1));
    subject.log.close().unwrap();
    // A footer and an index: without them neither file tells what it is.
    flip(&hot, SEGMENT - 20, 1);
    flip(&warm, std::fs::metadata(&warm).unwrap().len() - 3, 1);
    let log = subject.manager.open(config(&subject.root)).unwrap();
    assert_eq!(readable(&log), subject.all());
    let report = scrub(&log, &ScrubOptions::default());
    let found: Vec<_> = report.findings.iter().map(|f| (f.segment_id, f.tier)).collect();
    assert_eq!(found, [(0, Residency::Hot), (1, Residency::Warm)], "{report:#?}");
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!(subject.quarantined(), 2);
    eventually("the segment file", || log.segments()[0].residency == Residency::Hot);
    assert!(log.segments()[1].warm_bytes.is_some());
    assert!(scrub(&log, &ScrubOptions::default()).findings.is_empty());
    assert_eq!(readable(&log), subject.all());
}

#[test]
fn a_damaged_index_of_a_cold_segment_is_fetched_again() {
    let subject = Subject::with_copies(&[Residency::Cold], 200);
    let tail = subject.file_in("cold", 0);
    subject.log.close().unwrap();
    flip(&tail, 30, 0x10);
    let log = subject.manager.open(config(&subject.root)).unwrap();
    assert!(log.segments()[0].damage.is_none(), "{:?}", log.segments()[0]);
    assert_eq!(readable(&log), subject.all());
    let report = scrub(&log, &ScrubOptions::default());
    assert!(report.findings.len() == 1 && report.is_clean(), "{report:#?}");
    assert_eq!(report.findings[0].place, tail.display().to_string());
    log.close().unwrap();
    // Nothing has to be asked any more.
    subject.bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let log = subject.manager.open(config(&subject.root)).unwrap();
    assert!(log.segments()[0].damage.is_none());
}

#[test]
fn a_bucket_that_is_down_is_not_taken_for_damage() {
    let subject = Subject::with_copies(&[Residency::Hot, Residency::Warm, Residency::Cold], 100);
    subject.bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let report = scrub(&subject.log, &ScrubOptions::default());
    assert!(report.findings.is_empty(), "{report:#?}");
    assert_eq!(report.unreached.len(), subject.ids().len());
    assert!(report.is_complete && !report.is_clean());
    subject.bucket.clear_faults();
    eventually("the bucket", || scrub(&subject.log, &ScrubOptions::default()).is_clean());
    // A byte that changes on its way is none, either.
    for later in 0..6 {
        subject.bucket.fail_at(subject.bucket.calls() + later, BucketFault::Flip);
        let report = scrub(&subject.log, &ScrubOptions::default());
        assert!(report.findings.is_empty(), "{report:#?}");
    }
}

#[test]
fn the_background_scrubs_at_its_interval_and_heals() {
    let subject = Subject::with(TierConfig { scrub_interval_ms: 1, ..tiers() }, 300);
    let metrics = || subject.log.tiers().unwrap().metrics;
    eventually("a first scrub", || subject.log.tiers().unwrap().last_scrub_ms.is_some());
    let mut rng = Rng::with_seed(5);
    for (n, tier) in TIERS.into_iter().enumerate() {
        subject.damage(1, tier, &mut rng);
        eventually("healing", || metrics().healed == n as u64 + 1);
        eventually("all copies", || subject.copies(1).len() == 3);
    }
    // Appends go on, and new segments are part of it.
    append(&subject.log, 300..500);
    archive(&subject.log);
    let before = metrics().scrubbed_segments;
    eventually("another one", || {
        metrics().scrubbed_segments > before + 2 * subject.ids().len() as u64
    });
    assert_eq!(readable(&subject.log), (0..500).collect());
    assert_eq!(metrics().damage_found, 3);
}

#[test]
fn a_scrub_ends_when_it_is_told_to_and_when_the_log_is_closed() {
    let subject = Subject::with_copies(&[Residency::Hot, Residency::Warm], 200);
    let mut told = 0;
    let report = subject.log.scrub(&ScrubOptions::default(), &mut |progress| {
        told = progress.segments_total;
        if progress.segments == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let report = report.unwrap();
    assert_eq!((report.segments, report.is_complete, told), (1, false, subject.ids().len() as u64));
    // A byte in a second: it would take a day.
    let slow = ScrubOptions { bytes_per_second: Some(1), ..ScrubOptions::default() };
    let (begun, has_begun) = std::sync::mpsc::channel();
    let log = subject.log.clone();
    let scrub = std::thread::spawn(move || {
        log.scrub(&slow, &mut |_| {
            let _ = begun.send(());
            ControlFlow::Continue(())
        })
    });
    has_begun.recv_timeout(PATIENCE).unwrap();
    subject.log.close().unwrap();
    let ended = scrub.join().unwrap();
    assert!(matches!(ended, Err(AofError::Closed)), "{ended:?}");
}

#[test]
fn a_scrub_goes_on_where_the_process_before_left_it() {
    let subject = Subject::with_copies(&[Residency::Hot, Residency::Warm], 500);
    let ids = subject.ids();
    assert!(ids.len() > 4);
    subject.log.close().unwrap();
    let state = subject.root.join("scrub");
    std::fs::write(&state, format!("aof2 scrub 1\nsince_ms 1\nreached {}\n", ids[2])).unwrap();
    let hour = TierConfig { scrub_interval_ms: 3_600_000, ..without_bucket() };
    let busy = manager(&subject.bucket, hour);
    let log = busy.open(local_config(&subject.root)).unwrap();
    eventually("the rest", || log.tiers().unwrap().last_scrub_ms.is_some());
    assert_eq!(log.tiers().unwrap().metrics.scrubbed_segments, ids.len() as u64 - 3);
    let completed = log.tiers().unwrap().last_scrub_ms;
    log.close().unwrap();
    // It is not due for an hour, and verifying the log finds nothing strange.
    let log = busy.open(local_config(&subject.root)).unwrap();
    assert_eq!(log.tiers().unwrap().last_scrub_ms, completed);
    assert_eq!(log.tiers().unwrap().metrics.scrubbed_segments, 0);
    log.close().unwrap();
    assert!(verify(&subject.root).unwrap().problems.is_empty());
}
