//! raft-engine: TiKV's log of many Raft groups. One group stands for one log.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine as RawEngine, LogBatch, MessageExt, ReadableSize};

use aof2_bench::Histogram;
use aof2_bench::Payloads;
use aof2_bench::{Engine, Kind, Log, Plan, Result, Support, Tally, drive, drive_callers};

const GROUP: u64 = 1;
const FILLER_GROUP: u64 = 2;
const SYNC_GROUP: u64 = 3;
const FIRST_CALLER_GROUP: u64 = 4;
const INDEX_LEN: usize = 8;
const SCAN_CHUNK: u64 = 1024;
const PREFILL_PAYLOAD_LEN_MIN: usize = 4 << 10;
/// A log that is going to be scanned is written in batches, which raft-engine
/// reads back with one read and one checksum each.
const SCAN_BATCH: u64 = 64;

pub struct RaftEngine;

impl Engine for RaftEngine {
    fn name(&self) -> &'static str {
        "raft-engine"
    }

    fn about(&self) -> &'static str {
        "one LogBatch of one entry per append, no compression, no purge, log files \
         prefilled with zeros for durable and for 16 KiB appends (smaller appends are faster without); CRC-32 of each \
         batch; a durable write is pwrite + fdatasync, shared by the callers that wait \
         together"
    }

    fn support(&self, kind: Kind) -> Support {
        match kind {
            Kind::Scan => Support::Noted(
                "raft-engine: scanned in chunks of 1,024 entries by index, written in batches \
                 of 64 entries",
            ),
            Kind::Open => Support::Noted(
                "raft-engine: opening reads every log file to rebuild its index in memory",
            ),
            Kind::Recovery => Support::Weaker(
                "raft-engine: recovery verifies the index at the end of each batch, not the \
                 payloads; those are verified when read",
            ),
            _ => Support::Full,
        }
    }

    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        let mut log = RaftLog::open(dir, plan)?;
        if is_prefilled(plan) {
            log.leave_first_file()?;
        }
        Ok(Box::new(log))
    }

    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        Ok(Box::new(RaftLog::open(dir, plan)?))
    }
}

/// Prefilled files spare a durable write the journal, and a large append the
/// allocation of pages. Small appends are faster without: prefilling is done
/// with large writes, which leave large folios in the page cache, and each
/// small write to one of those visits all its blocks.
fn is_prefilled(plan: &Plan) -> bool {
    match plan.kind {
        Kind::Durable => true,
        Kind::Append => plan.payload_len >= PREFILL_PAYLOAD_LEN_MIN,
        _ => false,
    }
}

fn config(dir: &Path, plan: &Plan) -> Config {
    let mut config = Config {
        dir: dir.display().to_string(),
        batch_compression_threshold: ReadableSize(0),
        purge_threshold: ReadableSize::gb(1024),
        enable_log_recycle: true,
        ..Config::default()
    };
    match plan.kind {
        Kind::Append | Kind::Durable => {
            config.target_file_size = ReadableSize(plan.file_bytes_max());
        }
        Kind::Open | Kind::Sustained => {
            config.target_file_size = ReadableSize(plan.segment_bytes);
        }
        Kind::Scan | Kind::RandomRead | Kind::Recovery => {}
    }
    if is_prefilled(plan) {
        config.prefill_for_recycle = true;
        config.prefill_limit = Some(config.target_file_size);
    }
    config
}

/// An entry is its index followed by the payload: what Raft's own entries are,
/// without the fields that a log has no use for.
struct Indexed;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let (index, _) = entry.value.split_first_chunk::<INDEX_LEN>().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*index)
    }
}

/// One caller's reusable batch.
struct Writer {
    batch: LogBatch,
    entry: BytesValue,
}

impl Writer {
    fn new() -> Self {
        Writer { batch: LogBatch::with_capacity(1), entry: BytesValue::new() }
    }

    fn add(&mut self, group: u64, index: u64, payload: &[u8]) -> Result<()> {
        let value = self.entry.mut_value();
        value.clear();
        value.extend_from_slice(&index.to_le_bytes());
        value.extend_from_slice(payload);
        self.batch.add_entries::<Indexed>(group, std::slice::from_ref(&self.entry))?;
        Ok(())
    }
}

struct RaftLog {
    engine: RawEngine,
    plan: Plan,
    writer: Writer,
    first_index: u64,
    next_index: u64,
}

impl RaftLog {
    fn open(dir: &Path, plan: &Plan) -> Result<Self> {
        let engine = RawEngine::open(config(dir, plan))?;
        let first_index = engine.first_index(GROUP).unwrap_or(1);
        let next_index = engine.last_index(GROUP).map_or(1, |last| last + 1);
        Ok(RaftLog { engine, plan: *plan, writer: Writer::new(), first_index, next_index })
    }

    /// Only files after the first come from the prefilled ones: fill the first.
    fn leave_first_file(&mut self) -> Result<()> {
        let filler = vec![0; 1 << 20];
        let file_bytes = self.plan.file_bytes_max();
        for index in 1..=file_bytes / filler.len() as u64 + 2 {
            self.writer.add(FILLER_GROUP, index, &filler)?;
            self.engine.write(&mut self.writer.batch, false)?;
        }
        Ok(())
    }
}

impl Log for RaftLog {
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        latency: Option<&mut Histogram>,
    ) -> Result<()> {
        let batch_entries = if self.plan.kind == Kind::Scan { SCAN_BATCH } else { 1 };
        drive(payloads, count, latency, |payload| {
            self.writer.add(GROUP, self.next_index, payload)?;
            self.next_index += 1;
            if self.next_index.is_multiple_of(batch_entries) {
                self.engine.write(&mut self.writer.batch, false)?;
            }
            Ok(())
        })?;
        self.engine.write(&mut self.writer.batch, false)?;
        Ok(())
    }

    /// Indexes of one group must be written in order, which callers that race
    /// cannot promise: each has a group of its own in the same log file.
    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration> {
        let next_group = AtomicU64::new(FIRST_CALLER_GROUP);
        drive_callers(payloads, caller_count, count_each, || {
            let group = next_group.fetch_add(1, Ordering::Relaxed);
            let mut writer = Writer::new();
            let mut index = 0;
            move |payload: &[u8]| {
                index += 1;
                writer.add(group, index, payload)?;
                self.engine.write(&mut writer.batch, true)?;
                Ok(())
            }
        })
    }

    fn fill_segments(&mut self, payloads: &Payloads, segment_count: u64) -> Result<()> {
        let per_segment = self.plan.segment_bytes / self.plan.payload_len as u64;
        self.append(payloads, per_segment * segment_count, None)
    }

    fn scan(&mut self) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut entries = Vec::with_capacity(SCAN_CHUNK as usize);
        let mut begin = self.first_index;
        while begin < self.next_index {
            let end = self.next_index.min(begin + SCAN_CHUNK);
            entries.clear();
            self.engine.fetch_entries_to::<Indexed>(GROUP, begin, end, None, &mut entries)?;
            for entry in &entries {
                tally.add(entry.value.len() - INDEX_LEN);
            }
            begin = end;
        }
        Ok(tally)
    }

    fn random_read(&self, ordinals: &[u32]) -> Result<Tally> {
        let mut tally = Tally::default();
        for &ordinal in ordinals {
            let index = self.first_index + u64::from(ordinal);
            let entry = self.engine.get_entry::<Indexed>(GROUP, index)?.ok_or("no such entry")?;
            tally.add(entry.value.len() - INDEX_LEN);
        }
        Ok(tally)
    }

    fn sync(&mut self) -> Result<()> {
        // Engine::sync writes an empty batch, which returns before it syncs.
        self.writer.add(SYNC_GROUP, 1, &[0])?;
        self.engine.write(&mut self.writer.batch, true)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}
