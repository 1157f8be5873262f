//! What the manifest costs, each figure beside a bound that no implementation of the
//! same promise could beat, measured in the same run.
//!
//! `cargo run --release -p aof2-core --example manifest_bench [--quick] [DIRECTORY]`
//!
//! Every row is the median of rounds that alternate between ours and the bound. Run it
//! on a real disk: on a file system in memory a sync costs nothing.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aof2_core::format::manifest::{CHUNK_HEADER_LEN, ManifestEvent, ManifestRecord};
use aof2_core::format::{Crc64, crc64};
use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::manifest::{Manifest, ManifestConfig, ManifestReader, replay};
use aof2_core::{SegmentId, StreamId};

type Outcome<T> = Result<T, Box<dyn Error>>;

const STREAM: StreamId = StreamId::from_u64(1);

struct Sizes {
    rounds: usize,
    records: u64,
    commits: u64,
    history: u64,
}

fn main() -> Outcome<()> {
    let mut sizes = Sizes { rounds: 7, records: 200_000, commits: 100, history: 100_000 };
    let mut parent = std::env::temp_dir();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => {
                sizes = Sizes { rounds: 3, records: 20_000, commits: 20, history: 10_000 };
            }
            path if !path.starts_with('-') => parent = PathBuf::from(path),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    println!("{:<34} {:>16} {:>16} {:>8}", "row", "ours", "bound", "ratio");
    record_row(&parent, &sizes)?;
    commit_row(&parent, &sizes, 1)?;
    commit_row(&parent, &sizes, 256)?;
    replay_row(&parent, &sizes)?;
    snapshot_row(&parent, &sizes)
}

/// One line: our time, the bound's, and how many times the bound we take.
fn row(name: &str, per: u64, unit: &str, mut times: Vec<(Duration, Duration)>) {
    times.sort_unstable_by_key(|(ours, _)| *ours);
    let ours = times[times.len() / 2].0;
    times.sort_unstable_by_key(|(_, bound)| *bound);
    let bound = times[times.len() / 2].1;
    let show = |time: Duration| {
        let ns = time.as_nanos() as f64 / per as f64;
        if ns < 1e4 { format!("{ns:.1} ns/{unit}") } else { format!("{:.1} us/{unit}", ns / 1e3) }
    };
    let ratio = ours.as_secs_f64() / bound.as_secs_f64();
    println!("{name:<34} {:>16} {:>16} {ratio:>8.2}", show(ours), show(bound));
}

fn open(root: &Path, config: ManifestConfig) -> Outcome<Manifest> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    Ok(Manifest::open(storage, Arc::new(SystemClock), root, STREAM, config)?)
}

/// Segments are opened, sealed and evicted in turn, a thousand of them.
fn event(i: u64) -> (SegmentId, ManifestEvent<'static>) {
    let segment = SegmentId::from_u64(i / 3 % 1_000);
    let event = match i % 3 {
        0 => ManifestEvent::SegmentOpened { base_offset: i, epoch: 0 },
        1 => ManifestEvent::SealSegment {
            durable_bytes: i,
            segment_crc64: i,
            ext_id: 0,
            coordinator_watermark: i,
            flush_failure: false,
        },
        _ => ManifestEvent::CompressionDone { compressed_bytes: i, dictionary_id: 0 },
    };
    (segment, event)
}

fn encoded(i: u64) -> Vec<u8> {
    let (segment_id, event) = event(i);
    let record = ManifestRecord { flags: 0, segment_id, logical_offset: i, timestamp_ms: i, event };
    let mut bytes = Vec::new();
    // These events always encode.
    let _ = record.encode(&mut bytes);
    bytes
}

fn fill(manifest: &Manifest, count: u64) -> Outcome<()> {
    for i in 0..count {
        let (segment, event) = event(i);
        manifest.record(segment, i, event)?;
    }
    Ok(())
}

/// Recording: encode, stage, fold. Bound: copying the same bytes and checksumming them.
fn record_row(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let batch = 4_096;
    let mut times = Vec::new();
    for _ in 0..sizes.rounds {
        let dir = tempfile::tempdir_in(parent)?;
        let manifest = open(dir.path(), ManifestConfig::local())?;
        let (mut ours, mut done) = (Duration::ZERO, 0);
        while done < sizes.records {
            let started = Instant::now();
            fill(&manifest, batch)?;
            ours += started.elapsed();
            manifest.commit()?;
            done += batch;
        }
        let records: Vec<Vec<u8>> = (0..batch).map(encoded).collect();
        let mut copied = Vec::with_capacity(1 << 20);
        let mut crc = Crc64::new();
        let started = Instant::now();
        for _ in 0..done / batch {
            copied.clear();
            for record in &records {
                copied.extend_from_slice(record);
                crc.update(record);
            }
        }
        let bound = started.elapsed();
        std::hint::black_box((&copied, crc.finish()));
        times.push((ours * 1_000 / done as u32, bound * 1_000 / done as u32));
    }
    row("record (bound: copy, checksum)", 1_000, "rec", times);
    Ok(())
}

/// A commit of `batch` records. Bound: the same bytes written and synced, then a header
/// written and synced, into an allocated file.
fn commit_row(parent: &Path, sizes: &Sizes, batch: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(parent)?;
    let config = ManifestConfig { chunk_bytes: 1 << 20, ..ManifestConfig::local() };
    let manifest = open(dir.path(), config)?;
    fill(&manifest, 1)?;
    manifest.commit()?;
    let mut bare = Bare::create(&dir.path().join("bare"))?;
    let bytes: Vec<u8> = (0..batch).flat_map(encoded).collect();
    let mut times = Vec::new();
    for _ in 0..sizes.rounds {
        let started = Instant::now();
        for _ in 0..sizes.commits {
            fill(&manifest, batch)?;
            manifest.commit()?;
        }
        let ours = started.elapsed();
        let started = Instant::now();
        for _ in 0..sizes.commits {
            bare.commit(&bytes)?;
        }
        times.push((ours, started.elapsed()));
    }
    let name = format!("commit of {batch} (bound: 2 syncs)");
    row(&name, sizes.commits, "commit", times);
    Ok(())
}

struct Bare {
    file: File,
    offset: u64,
}

impl Bare {
    const LEN: u64 = 1 << 20;

    fn create(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all_at(&vec![0; Self::LEN as usize], 0)?;
        file.sync_all()?;
        Ok(Self { file, offset: CHUNK_HEADER_LEN as u64 })
    }

    fn commit(&mut self, bytes: &[u8]) -> Outcome<()> {
        if self.offset + bytes.len() as u64 > Self::LEN {
            self.offset = CHUNK_HEADER_LEN as u64;
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.file.sync_data()?;
        self.offset += bytes.len() as u64;
        self.file.write_all_at(&self.offset.to_le_bytes(), 40)?;
        self.file.sync_data()?;
        Ok(())
    }
}

/// Replay of the whole history. Bound: reading every chunk and checksumming it, once as
/// a whole and once for each payload.
fn replay_row(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let dir = tempfile::tempdir_in(parent)?;
    let config = ManifestConfig { snapshot_every_chunks: 0, ..ManifestConfig::local() };
    let manifest = open(dir.path(), config)?;
    fill(&manifest, sizes.history)?;
    manifest.close()?;
    let reader = ManifestReader::new(Arc::new(OsStorage), dir.path(), STREAM);
    let paths: Vec<PathBuf> =
        reader.list()?.chunks.iter().map(|&index| reader.layout().chunk_path(index)).collect();
    let mut times = Vec::new();
    for _ in 0..sizes.rounds {
        let started = Instant::now();
        let (index, report) = replay(&reader, &SystemClock)?;
        let ours = started.elapsed();
        assert_eq!((index.next_record(), report.records), (sizes.history, sizes.history));
        let started = Instant::now();
        let walked = checksum_walk(&paths)?;
        times.push((ours, started.elapsed()));
        assert_eq!(walked, sizes.history);
    }
    row("replay (bound: checksum walk)", sizes.history, "rec", times);
    Ok(())
}

fn checksum_walk(paths: &[PathBuf]) -> Outcome<u64> {
    let mut count = 0;
    let mut bytes = Vec::new();
    let number = |bytes: &[u8], at: usize| -> Outcome<u64> {
        Ok(u64::from_le_bytes(bytes.get(at..at + 8).ok_or("short")?.try_into()?))
    };
    for path in paths {
        bytes.clear();
        File::open(path)?.read_to_end(&mut bytes)?;
        let end = number(&bytes, 40)? as usize;
        if crc64(&bytes[CHUNK_HEADER_LEN..end]) != number(&bytes, 48)? {
            return Err("checksum of a chunk".into());
        }
        let mut at = CHUNK_HEADER_LEN;
        while at < end {
            let len = (number(&bytes, at)? >> 32) as usize;
            if crc64(&bytes[at + 40..at + 40 + len]) != number(&bytes, at + 32)? {
                return Err("checksum of a payload".into());
            }
            at = (at + 40 + len).next_multiple_of(8);
            count += 1;
        }
    }
    Ok(count)
}

/// Opening with a snapshot: ten times the history (ours) against one time (bound) must
/// take the same.
fn snapshot_row(parent: &Path, sizes: &Sizes) -> Outcome<()> {
    let prepare = |count: u64| -> Outcome<tempfile::TempDir> {
        let dir = tempfile::tempdir_in(parent)?;
        let manifest = open(dir.path(), ManifestConfig::local())?;
        fill(&manifest, count)?;
        manifest.snapshot()?;
        manifest.maintain()?;
        fill(&manifest, 3_000)?;
        manifest.close()?;
        Ok(dir)
    };
    let (long, short) = (prepare(sizes.history * 10)?, prepare(sizes.history)?);
    let time = |dir: &tempfile::TempDir| -> Outcome<Duration> {
        let reader = ManifestReader::new(Arc::new(OsStorage), dir.path(), STREAM);
        let started = Instant::now();
        let (_, report) = replay(&reader, &SystemClock)?;
        assert!(report.snapshot.is_some());
        Ok(started.elapsed())
    };
    let mut times = Vec::new();
    for _ in 0..sizes.rounds {
        times.push((time(&long)?, time(&short)?));
    }
    row("replay, 10x history (bound: 1x)", 1, "open", times);
    Ok(())
}
