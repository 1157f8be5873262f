//! walrus-rust: topics in a shared directory. One topic stands for one log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

use aof2_bench::Histogram;
use aof2_bench::Payloads;
use aof2_bench::Scratch;
use aof2_bench::{Engine, Kind, Log, Plan, Result, Support, Tally, drive, drive_callers};

const TOPIC: &str = "t";
const READ_BYTES: usize = 1 << 20;

pub struct WalrusRust;

impl WalrusRust {
    /// The library takes its root directory from the environment, and the first
    /// log opened in a process decides for all whether files are opened with
    /// O_SYNC. So a throw-away log without syncs comes first.
    pub fn new(scratch: &Scratch) -> Result<Self> {
        // SAFETY: called before the process starts any other thread.
        unsafe {
            std::env::set_var("WALRUS_DATA_DIR", scratch.root());
            std::env::set_var("WALRUS_QUIET", "1");
        }
        // Twice as fast for single appends as the default pwrite backend; only
        // batches, which no row asks for, would profit from the default.
        walrus_rust::disable_fd_backend();
        let dir = scratch.fresh_dir("walrus-first")?;
        drop(open(&dir, FsyncSchedule::NoFsync)?);
        aof2_bench::remove(&dir)?;
        Ok(WalrusRust)
    }
}

impl Engine for WalrusRust {
    fn name(&self) -> &'static str {
        "walrus-rust"
    }

    fn about(&self) -> &'static str {
        "append_for_topic on one topic, FsyncSchedule::NoFsync or SyncEach, the mmap backend \
         (faster here than the default one); files are sparse, so a full disk is a SIGBUS; \
         FNV-1a of each payload; whatever the schedule, the file is synced whenever one of its \
         10 MB blocks is full; a durable append is a copy + msync under the topic's lock"
    }

    fn support(&self, kind: Kind) -> Support {
        match kind {
            Kind::Durable => Support::Noted(
                "walrus-rust: no group commit, callers do not share a sync; its files are sparse, so \
                 each sync also commits the allocation of blocks",
            ),
            Kind::Scan => Support::Noted("walrus-rust: batch_read_for_topic of 1 MiB at a time"),
            Kind::RandomRead => Support::No("walrus-rust: reads only forwards from a cursor"),
            Kind::Open => Support::Noted(
                "walrus-rust: file size is fixed at 1 GB; the same bytes in its own blocks; \
                 opening reads and verifies all of them",
            ),
            _ => Support::Full,
        }
    }

    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        let schedule = match plan.kind {
            Kind::Durable => FsyncSchedule::SyncEach,
            _ => FsyncSchedule::NoFsync,
        };
        let log = WalrusLog { walrus: Some(open(dir, schedule)?), dir: dir.into(), plan: *plan };
        Ok(Box::new(log))
    }

    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        self.create(dir, plan)
    }
}

/// `dir` must be a direct child of the root that [`WalrusRust::new`] set: the
/// library makes a single path component of the key.
fn open(dir: &Path, schedule: FsyncSchedule) -> Result<Walrus> {
    let key = dir.file_name().and_then(|name| name.to_str()).ok_or("not a plain directory")?;
    let consistency = ReadConsistency::AtLeastOnce { persist_every: u32::MAX };
    Ok(Walrus::with_consistency_and_schedule_for_key(key, consistency, schedule)?)
}

struct WalrusLog {
    walrus: Option<Walrus>,
    dir: PathBuf,
    plan: Plan,
}

impl WalrusLog {
    fn walrus(&self) -> Result<&Walrus> {
        self.walrus.as_ref().ok_or_else(|| "closed".into())
    }
}

impl Log for WalrusLog {
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        latency: Option<&mut Histogram>,
    ) -> Result<()> {
        let walrus = self.walrus()?;
        drive(payloads, count, latency, |payload| Ok(walrus.append_for_topic(TOPIC, payload)?))
    }

    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration> {
        let walrus = self.walrus()?;
        drive_callers(payloads, caller_count, count_each, || {
            |payload: &[u8]| Ok(walrus.append_for_topic(TOPIC, payload)?)
        })
    }

    fn fill_segments(&mut self, payloads: &Payloads, segment_count: u64) -> Result<()> {
        let per_segment = self.plan.segment_bytes / self.plan.payload_len as u64;
        self.append(payloads, per_segment * segment_count, None)
    }

    /// A cursor only moves forwards; a log opened anew starts at the beginning
    /// because no read position was ever persisted.
    fn rewind(&mut self) -> Result<()> {
        self.walrus = None;
        self.walrus = Some(open(&self.dir, FsyncSchedule::NoFsync)?);
        Ok(())
    }

    fn scan(&mut self) -> Result<Tally> {
        let walrus = self.walrus()?;
        let mut tally = Tally::default();
        loop {
            let entries = walrus.batch_read_for_topic(TOPIC, READ_BYTES, true)?;
            if entries.is_empty() {
                return Ok(tally);
            }
            for entry in &entries {
                tally.add(entry.data.len());
            }
        }
    }

    fn random_read(&self, _ordinals: &[u32]) -> Result<Tally> {
        Err("reads only forwards from a cursor".into())
    }

    /// The library has no call for it; the runner settles the filesystem.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}
