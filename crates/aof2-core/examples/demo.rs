//! The main job end to end: a writer process appends events and is killed in the
//! middle; its successor recovers what was durable, goes on, and everything is
//! verified and scanned.
//!
//! `cargo run --release -p aof2-core --example demo [DIRECTORY]`

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use aof2_core::{Aof, AofConfig, AofReader, ScanOptions, Start};

type Outcome<T> = Result<T, Box<dyn Error>>;

const EVENTS: u64 = 300_000;
/// Set for the child process that plays the victim.
const WRITER: &str = "AOF2_DEMO_WRITER";

fn main() -> Outcome<()> {
    if let Some(path) = std::env::var_os(WRITER) {
        return write_until_killed(Path::new(&path));
    }
    let scratch;
    let root: PathBuf = match std::env::args_os().nth(1) {
        Some(path) => path.into(),
        None => {
            scratch = tempfile::tempdir()?;
            scratch.path().join("events")
        }
    };
    println!("aof2 demo, log in {}\n", root.display());
    let acknowledged = run_and_kill_writer(&root)?;
    recover_and_finish(&root, acknowledged)?;
    verify(&root)?;
    scan(&root)
}

fn event(i: u64) -> Vec<u8> {
    format!(r#"{{"event":{i},"user":{},"action":"click","page":"/item/{}"}}"#, i % 977, i % 4211)
        .into_bytes()
}

/// The victim: appends, and tells after every flush what is durable.
fn write_until_killed(root: &Path) -> Outcome<()> {
    let log = Aof::open(AofConfig::new(root))?;
    for i in 0..EVENTS {
        log.append(&event(i))?;
        if i % 1000 == 999 {
            log.flush()?;
            println!("{}", log.watermarks().durable);
        }
    }
    Ok(log.close()?)
}

fn run_and_kill_writer(root: &Path) -> Outcome<u64> {
    println!("1. A writer process appends events and flushes every 1,000.");
    let mut child =
        Command::new(std::env::current_exe()?).env(WRITER, root).stdout(Stdio::piped()).spawn()?;
    let mut durable = 0;
    for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
        durable = line?.trim().parse()?;
        if durable >= EVENTS * 2 / 5 {
            break;
        }
    }
    child.kill()?;
    child.wait()?;
    println!("   It said that {} events are durable; then it was killed.\n", group(durable));
    Ok(durable)
}

fn recover_and_finish(root: &Path, acknowledged: u64) -> Outcome<()> {
    println!("2. A new writer opens the log.");
    let start = Instant::now();
    let log = Aof::open(AofConfig::new(root))?;
    let opening = start.elapsed();
    let found = log.watermarks().durable;
    if found < acknowledged {
        return Err(format!("{acknowledged} were acknowledged, {found} are left").into());
    }
    println!("   Recovered {} events in {:.1} ms.", group(found), opening.as_secs_f64() * 1e3);
    let start = Instant::now();
    for i in found..EVENTS {
        log.append(&event(i))?;
    }
    let each = start.elapsed().as_nanos() as f64 / (EVENTS - found).max(1) as f64;
    println!("   Appended the other {}, {each:.0} ns each.", group(EVENTS - found));
    let show = |when: &str| {
        let now = log.watermarks();
        println!("   {when} appended {}, durable {}", group(now.appended), group(now.durable));
    };
    show("Before the flush:");
    log.flush()?;
    show("After the flush: ");
    println!();
    Ok(log.close()?)
}

fn verify(root: &Path) -> Outcome<()> {
    println!("3. Every checksum, counter and name is verified.");
    let report = aof2_core::verify(root)?;
    let health = if report.is_healthy() { "healthy" } else { "DAMAGED" };
    let (segments, mb) = (report.segments.len(), report.bytes as f64 / 1e6);
    println!(
        "   {segments} segments, {} records, {mb:.1} MB: {health}.\n",
        group(report.record_count)
    );
    if !report.is_healthy() {
        return Err("the log is damaged".into());
    }
    Ok(())
}

fn scan(root: &Path) -> Outcome<()> {
    println!("4. A reader scans the log and compares every event with what was written.");
    let reader = AofReader::open(root)?;
    let start = Instant::now();
    let mut scan = reader.scan(ScanOptions::default())?;
    let mut count = 0;
    while let Some(batch) = scan.next_batch()? {
        for record in batch.iter() {
            if record.offset != count || record.payload != event(count) {
                return Err(format!("event {count} is not what was written").into());
            }
            count += 1;
        }
    }
    println!("   {} events in {:.1} ms.", group(count), start.elapsed().as_secs_f64() * 1e3);
    let last = ScanOptions { start: Start::Offset(EVENTS - 1), ..Default::default() };
    for record in reader.scan(last)? {
        let record = record?;
        println!("   The last one, {}: {}", record.id, String::from_utf8_lossy(&record.payload));
    }
    if count != EVENTS {
        return Err(format!("{EVENTS} were written, {count} came back").into());
    }
    println!("\nAll {} events are there, exactly once and in order.", group(EVENTS));
    Ok(())
}

fn group(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
