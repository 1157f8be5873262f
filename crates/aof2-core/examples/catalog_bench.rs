//! What forks, snapshots and the catalog cost, each figure as a ratio to something that is
//! measured in the same run, with the goal of the design beside it.
//!
//! `cargo run --release -p aof2-core --example catalog_bench [--quick] [DIRECTORY]`
//!
//! Times are medians of rounds that alternate between both sides. Run it on a real disk: on
//! a file system in memory a sync costs nothing.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aof2_core::catalog::DbKind;
use aof2_core::{
    Aof, AofConfig, AofReader, AppendOptions, Catalog, CatalogConfig, FlushConfig, ForkAt, LogRoot,
    ReadableLog, ScanOptions,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Sizes {
    rounds: usize,
    segments_many: u64,
    scan_records: u64,
    appends: u64,
    commits_each: u64,
}

const FULL: Sizes = Sizes {
    rounds: 9,
    segments_many: 10_000,
    scan_records: 400_000,
    appends: 200_000,
    commits_each: 200,
};
const QUICK: Sizes = Sizes {
    rounds: 5,
    segments_many: 1_000,
    scan_records: 60_000,
    appends: 40_000,
    commits_each: 40,
};
const CALLERS: u64 = 32;
const DEPTH: usize = 16;

fn main() -> Outcome<()> {
    let mut sizes = FULL;
    let mut parent = std::env::temp_dir();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => sizes = QUICK,
            path if !path.starts_with('-') => parent = PathBuf::from(path),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    println!("{:<44} {:>12} {:>12} {:>7}  goal", "row", "this", "beside", "ratio");
    fork_rows(&parent, &sizes)?;
    read_rows(&parent, &sizes)?;
    append_row(&parent, &sizes)?;
    commit_rows(&parent, &sizes)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One line. `at_most` says on which side of the goal the ratio must be.
fn row(name: &str, unit: &str, this: f64, beside: f64, goal: f64, at_most: bool) {
    let ratio = this / beside;
    let is_met = if at_most { ratio <= goal } else { ratio >= goal };
    let (sign, verdict) = (if at_most { "<=" } else { ">=" }, if is_met { "yes" } else { "NO" });
    let show = |value: f64| format!("{value:.3} {unit}");
    println!(
        "{name:<44} {:>12} {:>12} {ratio:>7.2}  {sign} {goal} {verdict}",
        show(this),
        show(beside)
    );
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn config(path: &Path) -> AofConfig {
    let mut config = AofConfig::new(path).segment_bytes(64 << 10);
    config.flush =
        FlushConfig { flush_interval_ms: 0, flush_bytes: 1 << 40, max_unflushed_bytes: 1 << 40 };
    config
}

/// A log of so many segments, closed.
fn make_log(path: &Path, segments: u64) -> Outcome<()> {
    let log = Aof::open(config(path))?;
    let payload = [7; 1024];
    while (log.segments().len() as u64) < segments {
        for _ in 0..64 {
            let wait = Duration::from_secs(60);
            log.append_record_with_timeout(&payload, &AppendOptions::default(), wait)?;
        }
    }
    log.flush()?;
    Ok(log.close()?)
}

/// Forking and opening a fork cost the same however many segments there are.
fn fork_rows(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let dir = tempfile::tempdir_in(parent)?;
    let root = LogRoot::open(dir.path())?;
    make_log(&dir.path().join("few"), 10)?;
    make_log(&dir.path().join("many"), sizes.segments_many)?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    let (mut open_few, mut open_many, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..sizes.rounds {
        let mut sides = [("few", &mut few, &mut open_few), ("many", &mut many, &mut open_many)];
        // What the one before left to be written must not always be paid by the same.
        if round % 2 == 1 {
            sides.reverse();
        }
        let name = |from: &str| format!("{from}-{round}");
        for (from, forks, _) in &mut sides {
            // As a process does that has the log open.
            let reader = AofReader::open(dir.path().join(*from))?;
            let started = Instant::now();
            root.fork_from(&reader, &dir.path().join(*from), &name(from), &ForkAt::End)?;
            forks.push(ms(started.elapsed()));
        }
        for (from, _, opens) in &mut sides {
            let started = Instant::now();
            let log = Aof::open(config(&dir.path().join(name(from))))?;
            opens.push(ms(started.elapsed()));
            log.close()?;
        }
        let reader = AofReader::open(dir.path().join("few"))?;
        let started = Instant::now();
        let name = format!("s{round}");
        root.snapshot_from(&reader, &dir.path().join("few"), &name, &ForkAt::End, None)?;
        snapshots.push(ms(started.elapsed()));
    }
    let append = median(durable_appends(dir.path(), sizes.rounds * 20)?);
    let many_name = format!("fork of {} segments / of 10", sizes.segments_many);
    row(&many_name, "ms", median(many), median(few.clone()), 1.2, true);
    row("fork / durable append", "ms", median(few), append, 20.0, true);
    row("snapshot / durable append", "ms", median(snapshots), append, 5.0, true);
    let open_name = format!("open a fork of {} segments / of 10", sizes.segments_many);
    row(&open_name, "ms", median(open_many), median(open_few), 1.5, true);
    Ok(())
}

fn durable_appends(dir: &Path, count: usize) -> Outcome<Vec<f64>> {
    let log = Aof::open(config(&dir.join("durable")))?;
    log.warm_up()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        log.append(&[1; 256])?;
        log.flush()?;
        times.push(ms(started.elapsed()));
    }
    Ok(times)
}

/// Reading through forks, beside reading the parent.
fn read_rows(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let dir = tempfile::tempdir_in(parent)?;
    let root = LogRoot::open(dir.path())?;
    let path = dir.path().join("log");
    let mut large = config(&path).segment_bytes(16 << 20);
    large.preallocate_segments = 1;
    let log = Aof::open(large)?;
    for _ in 0..sizes.scan_records {
        let wait = Duration::from_secs(60);
        log.append_record_with_timeout(&[5; 1000], &AppendOptions::default(), wait)?;
    }
    log.flush()?;
    log.close()?;
    root.fork("log", "fork-1", &ForkAt::End)?;
    // Each takes a sixteenth away, so that every ancestor is read.
    for depth in 2..=DEPTH {
        let from = format!("fork-{}", depth - 1);
        let fork = Aof::open(config(&dir.path().join(&from)))?;
        fork.append(b"one of its own")?;
        fork.flush()?;
        fork.close()?;
        root.fork(&from, &format!("fork-{depth}"), &ForkAt::End)?;
    }
    let logs: Outcome<Vec<AofReader>> = ["log".into(), "fork-1".into(), format!("fork-{DEPTH}")]
        .iter()
        .map(|name: &String| Ok(AofReader::open(dir.path().join(name))?))
        .collect();
    let logs = logs?;
    let (mut scans, mut reads) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    for round in 0..sizes.rounds + 1 {
        for (at, log) in logs.iter().enumerate() {
            let (scan, read) = (scan_rate(log)?, read_rate(log, sizes.scan_records)?);
            // The first round maps and faults in.
            if round > 0 {
                scans[at].push(scan);
                reads[at].push(read);
            }
        }
    }
    let [scans, reads] = [scans, reads].map(|of| of.into_iter().map(median).collect::<Vec<_>>());
    row("scan through a fork / the parent", "M/s", scans[1], scans[0], 0.95, false);
    row("scan at depth 16 / the parent", "M/s", scans[2], scans[0], 0.9, false);
    row("random read through a fork / the parent", "M/s", reads[1], reads[0], 0.95, false);
    row("random read at depth 16 / the parent", "M/s", reads[2], reads[0], 0.9, false);
    Ok(())
}

fn scan_rate(log: &AofReader) -> Outcome<f64> {
    let started = Instant::now();
    let mut count = 0_u64;
    let mut scan = ReadableLog::scan(log, ScanOptions::default())?;
    while let Some(batch) = scan.next_batch()? {
        count += batch.iter().count() as u64;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64() / 1e6)
}

fn read_rate(log: &AofReader, records: u64) -> Outcome<f64> {
    let mut at = 1_u64;
    let count = 20_000;
    let started = Instant::now();
    for _ in 0..count {
        // A fixed walk over all of them.
        at = (at * 6_364_136_223_846_793_005 % 1_000_003) % records;
        std::hint::black_box(log.read_offset(at)?);
        at += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64() / 1e6)
}

/// Appends to a log while it is forked a thousand times.
fn append_row(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let dir = tempfile::tempdir_in(parent)?;
    let path = dir.path().join("log");
    let mut large = config(&path).segment_bytes(16 << 20);
    large.preallocate_segments = 2;
    let log = Aof::open(large)?;
    log.append(b"first")?;
    log.flush()?;
    let idle = p99(&log, sizes.appends)?;
    let root = LogRoot::open(dir.path())?;
    let busy = std::thread::scope(|scope| -> Outcome<f64> {
        let forks = if sizes.rounds > 5 { 1_000 } else { 100 };
        let forking = scope.spawn(move || {
            for n in 0..forks {
                root.fork("log", &format!("fork-{n}"), &ForkAt::End).map_err(|e| e.to_string())?;
            }
            Ok::<(), String>(())
        });
        let mut worst = Vec::new();
        while !forking.is_finished() {
            worst.push(p99(&log, sizes.appends / 10)?);
        }
        forking.join().map_err(|_| "the forking thread panicked")??;
        Ok(median(worst))
    })?;
    row("p99 append during forks / idle", "us", busy, idle, 1.2, true);
    Ok(())
}

fn p99(log: &Aof, count: u64) -> Outcome<f64> {
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let started = Instant::now();
        let wait = Duration::from_secs(60);
        log.append_record_with_timeout(&[3; 1000], &AppendOptions::default(), wait)?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() * 99 / 100])
}

/// Commits of the catalog with many callers, beside durable appends and redb alone.
fn commit_rows(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let (mut ours, mut appends, mut redbs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds.min(5) {
        let dir = tempfile::tempdir_in(parent)?;
        let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
        let db = catalog.register_db("app", DbKind::Pages, 0)?.wait()?.value;
        ours.push(callers(sizes, |n| {
            Ok(catalog.record_metric(db, n as u32 % 100, n)?.wait().map(drop)?)
        })?);
        drop(catalog);
        let log = Aof::open(config(&dir.path().join("log")))?;
        log.warm_up()?;
        appends.push(callers(sizes, |_| {
            let id = log.append(&[1; 150])?;
            Ok(log.flush_until(id, None)?)
        })?);
        let redb = redb::Database::create(dir.path().join("alone.redb"))?;
        let table = redb::TableDefinition::<u64, &[u8]>::new("metrics");
        redbs.push(callers(sizes, |n| {
            let write = redb.begin_write()?;
            write.open_table(table)?.insert(n % 100, &[1; 100][..])?;
            Ok(write.commit()?)
        })?);
    }
    let [ours, appends, redbs] = [ours, appends, redbs].map(median);
    row("catalog commits / durable appends, 32 callers", "k/s", ours, appends, 0.8, false);
    row("catalog commits / redb alone, 32 callers", "k/s", ours, redbs, 1.5, false);
    Ok(())
}

/// Calls a second, in thousands, of so many threads.
fn callers(sizes: &Sizes, call: impl Fn(u64) -> Outcome<()> + Sync) -> Outcome<f64> {
    let started = Instant::now();
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let call = &call;
                scope.spawn(move || {
                    (0..sizes.commits_each)
                        .try_for_each(|n| call(caller * sizes.commits_each + n))
                        .map_err(|e| e.to_string())
                })
            })
            .collect();
        let ends = threads.into_iter().map(|t| t.join().unwrap_or(Err("a panic".into())));
        ends.filter_map(Result::err).next()
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok((CALLERS * sizes.commits_each) as f64 / started.elapsed().as_secs_f64() / 1e3),
    }
}
