//! What compressing a segment and reading it back costs, each figure beside what libzstd
//! alone does with the same bytes, measured in the same run.
//!
//! `cargo run --release -p aof2-core --example artifact_bench [--quick] [DIRECTORY]`
//!
//! Every row is the median of rounds that alternate between ours and the bound. The
//! ratio is our speed as a part of the bound's.

use std::error::Error;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aof2_core::format::{RecordFlags, RecordMeta, SEGMENT_FOOTER_LEN};
use aof2_core::io::{OpenMode, OsStorage, Storage};
use aof2_core::segment::{
    Artifact, ArtifactOptions, FileSource, SealRequest, Segment, SegmentMeta, Spare, SpareSync,
    hydrate, write_artifact,
};
use aof2_core::{SegmentFormat, SegmentId, StreamId};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Sizes {
    rounds: usize,
    segment_bytes: u32,
    reads: usize,
}

fn main() -> Outcome<()> {
    let mut sizes = Sizes { rounds: 9, segment_bytes: 64 << 20, reads: 200 };
    let mut parent = std::env::temp_dir();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => sizes = Sizes { rounds: 3, segment_bytes: 8 << 20, reads: 30 },
            path if !path.starts_with('-') => parent = PathBuf::from(path),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let dir = tempfile::tempdir_in(&parent)?;
    let bench = Bench::prepare(dir.path(), sizes)?;
    println!("{:<44} {:>14} {:>14} {:>7}", "row", "ours", "bound", "ratio");
    for level in [1, 3, 9] {
        bench.compress_row(level)?;
    }
    bench.record_row()?;
    bench.verify_row()?;
    bench.hydrate_row()
}

struct Bench {
    dir: PathBuf,
    sizes: Sizes,
    segment: Segment,
    footer: [u8; SEGMENT_FOOTER_LEN],
    positions: Vec<u32>,
    artifact: Artifact,
    artifact_path: PathBuf,
}

/// A line of a web server's log, more or less.
fn payload(i: u64) -> String {
    let mix = |salt: u64| (i ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    format!(
        "{{\"ts\":{},\"user\":\"u{:06}\",\"path\":\"/items/{}/view\",\"status\":{},\"bytes\":{},\"agent\":\"Mozilla/5.0 (X11; Linux x86_64)\",\"trace\":\"{:016x}{:016x}\"}}",
        1_700_000_000_000 + i * 7,
        mix(1) % 50_000,
        mix(2) % 9_000,
        [200, 200, 200, 304, 404, 500][(mix(3) % 6) as usize],
        mix(4) % 60_000,
        mix(5) * 0x1_0001,
        mix(6) * 0x1_0003,
    )
}

impl Bench {
    fn prepare(dir: &Path, sizes: Sizes) -> Outcome<Self> {
        let meta = SegmentMeta {
            stream_id: StreamId::legacy_of_name("bench"),
            segment_id: SegmentId::from_u64(1),
            format: SegmentFormat::Full,
            base_offset: 0,
            first_offset: 0,
            created_at_ns: 1,
            segment_bytes: sizes.segment_bytes,
        };
        let (path, positions, end) = fill(dir, meta)?;
        let file = OsStorage.open(&path, OpenMode::Read)?;
        let mut footer = [0; SEGMENT_FOOTER_LEN];
        file.read_exact_at(&mut footer, u64::from(meta.space_end()))?;
        let segment = Segment::open_sealed(&OsStorage, &path, meta, end)?;
        let artifact_path = dir.join("artifact.zst");
        let out = OsStorage.create_new(&artifact_path)?;
        let options = ArtifactOptions::default();
        let written = write_artifact(&segment, &footer, 1, &options, &*out)?;
        out.sync()?;
        println!(
            "{} records, {:.1} MB, {:.1} MB compressed, {} frames",
            positions.len(),
            f64::from(end) / 1e6,
            written.len as f64 / 1e6,
            written.index.frames.len()
        );
        let artifact = Artifact::open(Arc::new(FileSource::open(&OsStorage, &artifact_path)?))?;
        let dir = dir.to_owned();
        Ok(Self { dir, sizes, segment, footer, positions, artifact, artifact_path })
    }

    fn bytes(&self) -> Outcome<&[u8]> {
        let end = self.artifact.index().summary.durable_bytes;
        Ok(self.segment.bytes(0, end).ok_or("segment not mapped")?)
    }

    /// Bound: libzstd compresses the same frames from memory into one buffer, without
    /// checksums, index, or a file.
    fn compress_row(&self, level: i32) -> Outcome<()> {
        let bytes = self.bytes()?;
        let mut times = Vec::new();
        for round in 0..self.sizes.rounds {
            let path = self.dir.join(format!("compress_{level}_{round}"));
            let out = OsStorage.create_new(&path)?;
            let options = ArtifactOptions { level, ..ArtifactOptions::default() };
            let started = Instant::now();
            write_artifact(&self.segment, &self.footer, 1, &options, &*out)?;
            let ours = started.elapsed();
            OsStorage.remove(&path)?;
            let mut compressor = zstd::bulk::Compressor::new(level)?;
            let mut buffer = Vec::with_capacity(1 << 20);
            let started = Instant::now();
            for frame in &self.artifact.index().frames {
                buffer.clear();
                let start = frame.position as usize;
                let content = &bytes[start..start + frame.len as usize];
                compressor.compress_to_buffer(content, &mut buffer)?;
            }
            times.push((ours, started.elapsed()));
        }
        row(&format!("compress, level {level} (bound: libzstd)"), bytes.len() as u64, times);
        Ok(())
    }

    /// A record by its position: read the frame from the file, decompress it, find and
    /// check the record. Bound: libzstd decompresses a frame that is in memory.
    fn record_row(&self) -> Outcome<()> {
        let index = self.artifact.index();
        let compressed = std::fs::read(&self.artifact_path)?;
        let mut decompressor = zstd::bulk::Decompressor::new()?;
        let mut buffer = Vec::with_capacity(1 << 20);
        let mut times = Vec::new();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..self.sizes.rounds {
            let (mut ours, mut bound) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..self.sizes.reads {
                let position = self.positions[rng.usize(..self.positions.len())];
                let started = Instant::now();
                let i = index.frame_at(position).ok_or("no frame")?;
                let windows = self.artifact.windows(i..i + 1)?;
                let window = windows.first().ok_or("no window")?;
                let end = window.window_range().end;
                let record = window.record_at(position, end, true)?.ok_or("no record")?;
                std::hint::black_box(record.payload);
                drop(windows);
                ours += started.elapsed();
                let frame = &index.frames[i];
                let range = frame.compressed_offset as usize..frame.compressed_end() as usize;
                let started = Instant::now();
                buffer.clear();
                decompressor.decompress_to_buffer(&compressed[range], &mut buffer)?;
                bound += started.elapsed();
                std::hint::black_box(&buffer);
            }
            times.push((ours, bound));
        }
        let per_record = |time: Duration| time / self.sizes.reads as u32;
        let (ours, bound) = medians(&mut times);
        print_row(
            "one record (bound: one frame by libzstd)",
            &format!("{:.1} us", per_record(ours).as_secs_f64() * 1e6),
            &format!("{:.1} us", per_record(bound).as_secs_f64() * 1e6),
            (ours, bound),
        );
        Ok(())
    }

    /// Bound: libzstd decompresses every frame into one buffer.
    fn verify_row(&self) -> Outcome<()> {
        let mut times = Vec::new();
        for _ in 0..self.sizes.rounds {
            let started = Instant::now();
            self.artifact.verify(&mut |_| {})?;
            let ours = started.elapsed();
            let compressed = std::fs::read(&self.artifact_path)?;
            let started = Instant::now();
            self.decompress_all(&compressed, |_, _| Ok(()))?;
            times.push((ours, started.elapsed()));
        }
        row("verify (bound: libzstd)", self.bytes()?.len() as u64, times);
        Ok(())
    }

    /// Bound: libzstd decompresses every frame, each is written to a file, the file is
    /// synced.
    fn hydrate_row(&self) -> Outcome<()> {
        let compressed = std::fs::read(&self.artifact_path)?;
        let target = self.dir.join("hydrated");
        OsStorage.create_dir_all(&target)?;
        let mut times = Vec::new();
        for _ in 0..self.sizes.rounds {
            let started = Instant::now();
            let path = hydrate(&OsStorage, &self.artifact, &target)?;
            let ours = started.elapsed();
            OsStorage.remove(&path)?;
            let path = target.join("bound");
            let started = Instant::now();
            let file = std::fs::File::create_new(&path)?;
            self.decompress_all(&compressed, |position, bytes| {
                Ok(file.write_all_at(bytes, u64::from(position))?)
            })?;
            file.sync_data()?;
            times.push((ours, started.elapsed()));
            std::fs::remove_file(&path)?;
        }
        row("hydrate (bound: libzstd, write, sync)", self.bytes()?.len() as u64, times);
        Ok(())
    }

    fn decompress_all(
        &self,
        compressed: &[u8],
        mut sink: impl FnMut(u32, &[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut decompressor = zstd::bulk::Decompressor::new()?;
        let mut buffer = Vec::with_capacity(1 << 20);
        for frame in &self.artifact.index().frames {
            buffer.clear();
            let range = frame.compressed_offset as usize..frame.compressed_end() as usize;
            decompressor.decompress_to_buffer(&compressed[range], &mut buffer)?;
            sink(frame.position, &buffer)?;
        }
        Ok(())
    }
}

/// Fills and seals a segment; gives its path, its records' positions and its end.
fn fill(dir: &Path, meta: SegmentMeta) -> Outcome<(PathBuf, Vec<u32>, u32)> {
    let spare = Spare::prepare(&OsStorage, dir, 0, meta.segment_bytes, SpareSync::Nothing)?;
    let (flush, mut appender) = Segment::create_active(spare, meta, dir, u32::MAX);
    let mut positions = Vec::new();
    loop {
        let i = positions.len() as u64;
        let record = RecordMeta {
            logical_offset: i,
            timestamp_ms: 1_700_000_000_000 + i,
            flags: RecordFlags::NONE,
            durable_lag: 0,
        };
        let Ok(appended) = appender.append_record(&record, payload(i).as_bytes()) else { break };
        positions.push(appended.id.segment_offset());
    }
    appender.publish();
    let end = appender.position();
    flush.sync_to(&OsStorage, end)?;
    let request = SealRequest {
        record_count: positions.len() as u64,
        last_timestamp_ms: 1_700_000_000_000 + positions.len() as u64,
        ext_id: 0,
        flags: 0,
        sealed_at_ns: 1,
        build_index: false,
    };
    flush.seal(&*flush.open_file(&OsStorage)?, end, &request)?;
    Ok((flush.segment().path().to_owned(), positions, end))
}

fn medians(times: &mut [(Duration, Duration)]) -> (Duration, Duration) {
    times.sort_unstable_by_key(|(ours, _)| *ours);
    let ours = times[times.len() / 2].0;
    times.sort_unstable_by_key(|(_, bound)| *bound);
    (ours, times[times.len() / 2].1)
}

/// One line: our speed, the bound's, and which part of it we reach.
fn row(name: &str, bytes: u64, mut times: Vec<(Duration, Duration)>) {
    let speed = |time: Duration| format!("{:.0} MB/s", bytes as f64 / 1e6 / time.as_secs_f64());
    let (ours, bound) = medians(&mut times);
    print_row(name, &speed(ours), &speed(bound), (ours, bound));
}

fn print_row(name: &str, ours: &str, bound: &str, times: (Duration, Duration)) {
    let ratio = times.1.as_secs_f64() / times.0.as_secs_f64();
    println!("{name:<44} {ours:>14} {bound:>14} {ratio:>7.2}");
}
