//! A writing process is killed with SIGKILL again and again. What it had reported
//! as durable or as appended is there afterwards: in order, once, with the right
//! contents, without holes.
//!
//! `AOF2_KILL_ROUNDS` sets the number of kills, `AOF2_KILL_SEED` repeats a choice
//! of moments (as far as the scheduler lets it).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use aof2_core::*;
use fastrand::Rng;
use support::{Helper, tell};

/// Who appended a record: round, thread, and which of the thread's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Author {
    round: u32,
    thread: u32,
    sequence: u64,
}

const HEADER_LEN: usize = 16;
const CHECKSUM_LEN: usize = 8;
const THREADS: u32 = 4;
const RECORDS_PER_THREAD_MAX: u64 = 20_000;

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3))
}

impl Author {
    /// The payload, all of it determined by who wrote it.
    fn payload(self) -> Vec<u8> {
        let mut rng = Rng::with_seed(
            u64::from(self.round) << 40 ^ u64::from(self.thread) << 32 ^ self.sequence,
        );
        let fill = match rng.u64(..100) {
            0..80 => rng.u64(..300),
            80..98 => rng.u64(..5_000),
            _ => rng.u64(..40_000),
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN + fill as usize + CHECKSUM_LEN);
        bytes.extend_from_slice(&self.round.to_le_bytes());
        bytes.extend_from_slice(&self.thread.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend(
            (0..fill).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.sequence as u8)),
        );
        let checksum = fnv(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn of(payload: &[u8]) -> Self {
        let author = Self {
            round: u32::from_le_bytes(payload[..4].try_into().unwrap()),
            thread: u32::from_le_bytes(payload[4..8].try_into().unwrap()),
            sequence: u64::from_le_bytes(payload[8..16].try_into().unwrap()),
        };
        let (body, checksum) = payload.split_at(payload.len() - CHECKSUM_LEN);
        assert_eq!(fnv(body).to_le_bytes(), checksum, "checksum of {author:?}");
        assert_eq!(payload, author.payload(), "payload of {author:?}");
        author
    }
}

/// What kind of log is tortured.
#[derive(Clone, Copy, Debug)]
struct Torture {
    format: SegmentFormat,
    /// Old segments go while the writer runs.
    trims: bool,
    /// Segments are compressed, and their files go, while the writer runs.
    tiers: bool,
}

impl Torture {
    fn config(self, root: &Path) -> AofConfig {
        let mut config = AofConfig::new(root).segment_bytes(64 << 10).format(self.format);
        if self.trims {
            config.retention.max_bytes = Some(1 << 20);
        }
        config
    }

    fn open(self, root: &Path) -> Result<Aof> {
        let tiers = TierConfig { hot_bytes: 256 << 10, compression_level: 1, ..Default::default() };
        let manager =
            ManagerConfig { tiers: self.tiers.then_some(tiers), ..ManagerConfig::for_one_stream() };
        AofManager::new(manager)?.open(self.config(root))
    }

    fn settings(self, round: u32) -> [(&'static str, u64); 4] {
        let compact = u64::from(self.format == SegmentFormat::Compact);
        [
            ("COMPACT", compact),
            ("TRIMS", u64::from(self.trims)),
            ("TIERS", u64::from(self.tiers)),
            ("ROUND", u64::from(round)),
        ]
    }

    fn from_settings() -> Self {
        let format = match support::setting("COMPACT", 0) {
            0 => SegmentFormat::Full,
            _ => SegmentFormat::Compact,
        };
        Self {
            format,
            trims: support::setting("TRIMS", 0) == 1,
            tiers: support::setting("TIERS", 0) == 1,
        }
    }
}

// ---- the victim ----

#[test]
fn helper_process() {
    if support::role().is_none() {
        return;
    }
    let torture = Torture::from_settings();
    let log = torture.open(&support::root()).expect("the victim opens the log");
    let round = support::setting("ROUND", 0) as u32;
    tell(format_args!("open {}.", log.watermarks().durable));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let log = log.clone();
            std::thread::spawn(move || write_until_killed(&log, round, thread))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a writer thread failed");
    }
    // Nobody killed it yet.
    while support::command().is_some() {}
}

/// Reports `A thread sequence offset count` for what is appended and `D count`
/// for what is durable.
fn write_until_killed(log: &Aof, round: u32, thread: u32) {
    let options = AppendOptions::default();
    let patience = support::PATIENCE;
    let mut sequence = 0;
    while sequence < RECORDS_PER_THREAD_MAX {
        let author = |n: u64| Author { round, thread, sequence: sequence + n };
        if thread == 3 {
            let batch: Vec<_> = (0..1 + sequence % 5).map(|n| author(n).payload()).collect();
            // The largest fillings do not fit together: then one by one.
            let fits = batch.iter().map(|p| p.len() + 40).sum::<usize>() < 60_000;
            let batch = if fits { &batch[..] } else { &batch[..1] };
            let appended = log.append_batch_with_timeout(batch, &options, Some(patience)).unwrap();
            let count = batch.len() as u64;
            tell(format_args!("A {thread} {sequence} {} {count}.", appended.first_offset));
            sequence += count;
            continue;
        }
        let payload = author(0).payload();
        let appended = log.append_record_with_timeout(&payload, &options, patience).unwrap();
        tell(format_args!("A {thread} {sequence} {} 1.", appended.offset));
        sequence += 1;
        if thread == 1 {
            log.flush_until(appended.id, Some(patience)).unwrap();
            tell(format_args!("D {}.", appended.offset + 1));
        }
        if thread == 2 && sequence % 50 == 0 {
            log.flush().unwrap();
            tell(format_args!("D {}.", log.watermarks().durable));
        }
        if thread == 2 && sequence % 301 == 0 {
            log.seal().unwrap();
        }
    }
}

// ---- what it reported ----

#[derive(Default)]
struct Reports {
    appended: Vec<(u64, Author)>,
    durable: u64,
}

impl Reports {
    fn parse(lines: &[String], round: u32) -> Self {
        let mut reports = Self::default();
        for line in lines {
            // A line that the kill cut in two was not reported.
            let Some(line) = line.strip_suffix('.') else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().expect("a number");
            match words[0] {
                "A" => reports.appended.extend((0..number(4)).map(|n| {
                    let author =
                        Author { round, thread: number(1) as u32, sequence: number(2) + n };
                    (number(3) + n, author)
                })),
                "D" | "open" => reports.durable = reports.durable.max(number(1)),
                other => panic!("the victim said {other:?}"),
            }
        }
        reports
    }

    fn appended_end(&self) -> u64 {
        self.appended.iter().map(|(offset, _)| offset + 1).max().unwrap_or(0)
    }
}

// ---- what must be there ----

/// Everything seen in the log so far, by logical offset.
#[derive(Default)]
struct Model {
    authors: Vec<Option<Author>>,
}

impl Model {
    fn end(&self) -> u64 {
        self.authors.len() as u64
    }

    /// Checks a scan record by record and learns what is new. Returns its end.
    fn check(&mut self, scan: Scan, from: u64) -> u64 {
        let mut expected = from;
        for record in scan {
            let record = record.expect("the log is readable");
            assert_eq!(record.offset, expected, "a hole or a duplicate");
            let author = Author::of(&record.payload);
            let at = expected as usize;
            if at >= self.authors.len() {
                self.authors.resize(at + 1, None);
            }
            let known = self.authors[at].get_or_insert(author);
            assert_eq!(*known, author, "record {expected} has changed");
            expected += 1;
        }
        expected
    }

    /// Every thread's records are there in its order, each once, none left out.
    fn check_sequences(&self) {
        let mut next: HashMap<(u32, u32), u64> = HashMap::new();
        let mut after_gap = false;
        for (offset, author) in self.authors.iter().enumerate() {
            // Trimmed before anybody looked: sequences may start in the middle.
            let Some(author) = author else {
                next.clear();
                after_gap = true;
                continue;
            };
            let key = (author.round, author.thread);
            match next.get(&key) {
                Some(&expected) => assert_eq!(author.sequence, expected, "at offset {offset}"),
                None => assert!(after_gap || author.sequence == 0, "{author:?} at {offset}"),
            }
            next.insert(key, author.sequence + 1);
        }
    }

    fn check_reported(&self, reports: &Reports, end: u64, earliest: u64) {
        assert!(end >= reports.durable, "{} were durable, {end} are left", reports.durable);
        assert!(
            end >= reports.appended_end(),
            "{} were appended, {end} are left",
            reports.appended_end()
        );
        for (offset, author) in reports.appended.iter().filter(|(o, _)| *o >= earliest) {
            assert_eq!(self.authors[*offset as usize], Some(*author), "record {offset}");
        }
    }
}

/// What a reader sees of the log as the kill left it: a prefix.
fn check_unrecovered(root: &Path, model: &mut Model, reports: &Reports) {
    let reader = match AofReader::open(root) {
        Ok(reader) => reader,
        Err(AofError::NotALog { .. }) if reports.appended.is_empty() && model.end() == 0 => return,
        Err(error) => panic!("a reader cannot open what a kill left: {error}"),
    };
    let earliest = reader.earliest_offset().unwrap();
    let mut ends = Vec::new();
    for visibility in [Visibility::Durable, Visibility::Appended] {
        // From where the last round ended, or a record or two before.
        let visible = reader.watermarks().unwrap();
        let end = match visibility {
            Visibility::Durable => visible.durable,
            Visibility::Appended => visible.appended,
        };
        let from = model.end().saturating_sub(2).min(end).max(earliest);
        let options = ScanOptions { start: Start::Offset(from), visibility, ..Default::default() };
        let seen = model.check(reader.scan(options).unwrap(), from);
        assert_eq!(seen, end, "a scan ends where the reader says that the log ends");
        ends.push(seen);
    }
    assert!(ends[0] <= ends[1], "durable {} is behind appended {}", ends[0], ends[1]);
}

fn check_recovered(log: &Aof, model: &mut Model, reports: &Reports, whole: bool) {
    let earliest = log.earliest_offset();
    let marks = log.watermarks();
    assert_eq!(marks.appended, marks.durable, "an opened log is durable");
    let from = if whole { earliest } else { model.end().max(earliest).min(marks.durable) };
    let from = from.min(reports.appended.iter().map(|r| r.0).min().unwrap_or(from)).max(earliest);
    let options = ScanOptions { start: Start::Offset(from), ..Default::default() };
    let end = model.check(log.scan(options).unwrap(), from);
    assert_eq!(end, marks.durable);
    assert_eq!(end, model.end(), "a reader saw more than is left");
    model.check_reported(reports, end, earliest);
}

fn spin_for(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Lets a victim write and kills it: while it opens the log, or after some number
/// of reports and a moment more.
fn one_victim(torture: Torture, root: &Path, round: u32, rng: &mut Rng) -> Reports {
    let mut victim = Helper::start("victim", root, &torture.settings(round));
    let mut lines = Vec::new();
    if rng.u64(..6) > 0 {
        let reports_before = 1 + rng.u64(..2_500);
        while (lines.len() as u64) < reports_before {
            lines.push(victim.next_line().expect("the victim failed by itself"));
        }
    }
    spin_for(Duration::from_micros(rng.u64(..3_000)));
    lines.extend(victim.kill());
    Reports::parse(&lines, round)
}

fn torture(torture: Torture, rounds: u64) {
    let seed = support::setting("AOF2_KILL_SEED", u64::from(std::process::id()));
    println!("{torture:?}: {rounds} rounds, AOF2_KILL_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let mut model = Model::default();
    let mut unsettled = Reports::default();
    for round in 0..rounds as u32 {
        let reports = one_victim(torture, &root, round, &mut rng);
        unsettled.appended.extend(reports.appended);
        unsettled.durable = unsettled.durable.max(reports.durable);
        check_unrecovered(&root, &mut model, &unsettled);
        // Sometimes the next victim finds what this one left, and is killed over it.
        if rng.u64(..3) > 0 {
            let log = torture.open(&root).expect("a killed log opens");
            check_recovered(&log, &mut model, &unsettled, round % 8 == 0);
            unsettled = Reports::default();
            if rng.bool() {
                log.close().unwrap();
            }
        }
    }
    let log = torture.open(&root).unwrap();
    check_recovered(&log, &mut model, &unsettled, true);
    model.check_sequences();
    println!("{} records survived in {} segments", model.end(), log.segments().len());
    assert!(model.end() > 0, "no victim lived long enough to write");
}

fn rounds(share: u64) -> u64 {
    (support::setting("AOF2_KILL_ROUNDS", 25) * share / 100).max(2)
}

#[test]
fn what_a_killed_writer_reported_is_there() {
    torture(Torture { format: SegmentFormat::Full, trims: false, tiers: false }, rounds(50));
}

#[test]
fn what_a_killed_writer_reported_is_there_in_the_compact_format() {
    torture(Torture { format: SegmentFormat::Compact, trims: false, tiers: false }, rounds(25));
}

#[test]
fn what_a_killed_writer_reported_is_there_while_old_segments_go() {
    torture(Torture { format: SegmentFormat::Full, trims: true, tiers: false }, rounds(25));
}

#[test]
fn what_a_killed_writer_reported_is_there_while_segments_move_between_tiers() {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        torture(Torture { format, trims: format == SegmentFormat::Full, tiers: true }, rounds(25));
    }
}
