//! What the Python benches are compared with: the same work in Rust, timed here.
//!
//! `python_bound WORK DIRECTORY RECORD_COUNT PAYLOAD_LEN`, where WORK is `append`,
//! `append_batch`, `append_durable` (each into a new log) or `scan` (of the log that is
//! there). Prints the seconds of the timed part. `make bench-python` runs it in turn
//! with the Python side.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use aof2_core::{Aof, AofConfig, AofReader, AppendOptions, FlushConfig, RecordId, ScanOptions};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Records per batch, as `append_many` takes them.
const BATCH_RECORDS: usize = 1024;
/// Bytes of a record besides its payload, with padding.
const RECORD_OVERHEAD: u64 = 40;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().ok_or(format!("{what} is missing"));
    let (work, root) = (next("WORK")?, next("DIRECTORY")?);
    let count: u64 = next("RECORD_COUNT")?.parse()?;
    let payload_len: usize = next("PAYLOAD_LEN")?.parse()?;
    let seconds = match work.as_str() {
        "append" => append(&new_log(&root, count, payload_len)?, count, payload_len)?,
        "append_batch" => append_batch(&new_log(&root, count, payload_len)?, count, payload_len)?,
        "append_durable" => {
            append_durable(&new_log(&root, count, payload_len)?, count, payload_len)?
        }
        "scan" => scan(Path::new(&root), count)?,
        other => return Err(format!("unknown work {other}").into()),
    };
    println!("{seconds:.9}");
    Ok(())
}

/// A log whose first segment holds everything and is prepared before the clock starts.
/// The Python side opens its log with the same values.
fn new_log(root: &str, count: u64, payload_len: usize) -> Outcome<Aof> {
    let used_bytes = count * (payload_len as u64 + RECORD_OVERHEAD);
    let segment_bytes = (used_bytes + 4096).next_power_of_two().max(64 << 10);
    let mut config = AofConfig::new(root).segment_bytes(segment_bytes);
    config.preallocate_segments = 0;
    config.flush =
        FlushConfig { flush_interval_ms: 0, flush_bytes: 1 << 40, max_unflushed_bytes: 1 << 40 };
    let log = Aof::open(config)?;
    log.warm_up()?;
    Ok(log)
}

fn append(log: &Aof, count: u64, payload_len: usize) -> Outcome<f64> {
    let payload = vec![b'x'; payload_len];
    let start = Instant::now();
    for _ in 0..count {
        log.append(&payload)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn append_batch(log: &Aof, count: u64, payload_len: usize) -> Outcome<f64> {
    let payload = vec![b'x'; payload_len];
    let batch = vec![payload.as_slice(); BATCH_RECORDS];
    let start = Instant::now();
    let mut left = count as usize;
    while left > 0 {
        let records = left.min(BATCH_RECORDS);
        log.append_batch(&batch[..records], &AppendOptions::default())?;
        left -= records;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn append_durable(log: &Aof, count: u64, payload_len: usize) -> Outcome<f64> {
    let payload = vec![b'x'; payload_len];
    let start = Instant::now();
    for _ in 0..count {
        let id: RecordId = log.append(&payload)?;
        log.flush_until(id, None)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn scan(root: &Path, expected: u64) -> Outcome<f64> {
    let reader = AofReader::open(root)?;
    let start = Instant::now();
    let mut scan = reader.scan(ScanOptions::default())?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(batch) = scan.next_batch()? {
        for record in batch.iter() {
            bytes += record.payload.len();
            count += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if count != expected || bytes == 0 {
        return Err(format!("{expected} records were written, {count} came back").into());
    }
    Ok(seconds)
}
