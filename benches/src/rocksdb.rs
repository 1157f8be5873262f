//! RocksDB's write-ahead log, with as little of the database as it allows.
//!
//! The payload travels as log data, which goes to the write-ahead log and
//! nowhere else; an empty value under an eight-byte key gives it the sequence
//! number that `get_updates_since` needs. The memtable is a plain vector.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocksdb::{
    DB, DBCompactionStyle, DBCompressionType, FifoCompactOptions, FlushOptions, LogLevel,
    MemtableFactory, Options, WriteBatch, WriteOptions,
};

use aof2_bench::Histogram;
use aof2_bench::Payloads;
use aof2_bench::{Engine, Kind, Log, Plan, Result, Support, Tally, drive, drive_callers};

const MEMTABLE_BYTES: usize = 1 << 30;
const BATCH_OVERHEAD: usize = 64;

pub struct RocksDbWal;

impl Engine for RocksDbWal {
    fn name(&self) -> &'static str {
        "RocksDB WAL"
    }

    fn about(&self) -> &'static str {
        "WriteBatch::put_log_data plus an empty value under an 8-byte key in a vector \
         memtable, no compression, no compaction, so the database's own share is a vector \
         push; CRC-32C of each 32 KiB block fragment; a durable write is write + fdatasync, \
         shared by the callers that wait together; appends go to a recycled WAL file"
    }

    fn support(&self, kind: Kind) -> Support {
        match kind {
            Kind::Scan => Support::Noted("RocksDB WAL: get_updates_since(0)"),
            Kind::RandomRead => Support::Weaker(
                "RocksDB WAL: cannot be read by position; measured is get() from a skip-list \
                 memtable, which verifies no checksum",
            ),
            Kind::Open => Support::Noted(
                "RocksDB WAL: sealed segments are archived WAL files (WAL_ttl_seconds), which \
                 opening only lists",
            ),
            Kind::Recovery => Support::Noted(
                "RocksDB WAL: replay includes filling the memtable with empty values and \
                 flushing it",
            ),
            Kind::Sustained => {
                Support::Noted("RocksDB WAL: a new WAL file every 256 MiB, the old one archived")
            }
            _ => Support::Full,
        }
    }

    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        let mut log = RocksLog::open(dir, plan)?;
        if matches!(plan.kind, Kind::Append | Kind::Durable) {
            log.recycle_once()?;
        }
        Ok(Box::new(log))
    }

    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        Ok(Box::new(RocksLog::open(dir, plan)?))
    }
}

fn options(plan: &Plan) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_disable_auto_compactions(true);
    options.set_stats_dump_period_sec(0);
    options.set_log_level(LogLevel::Error);
    if plan.kind != Kind::RandomRead {
        options.set_memtable_factory(MemtableFactory::Vector);
        options.set_allow_concurrent_memtable_write(false);
    }
    match plan.kind {
        // A recycled file grows neither in length nor in blocks: its pages are
        // in memory and an fdatasync has no metadata to commit.
        Kind::Append | Kind::Durable => options.set_recycle_log_file_num(2),
        Kind::Sustained => {
            options.set_max_total_wal_size(plan.segment_bytes);
            options.set_wal_ttl_seconds(1 << 20);
        }
        // Recovery flushes the memtable and would drop the WAL it replayed.
        Kind::Recovery => options.set_wal_ttl_seconds(1 << 20),
        Kind::Open => {
            options.set_wal_ttl_seconds(1 << 20);
            options.set_disable_auto_compactions(false);
            options.set_compaction_style(DBCompactionStyle::Fifo);
            let mut fifo = FifoCompactOptions::default();
            fifo.set_max_table_files_size(1);
            options.set_fifo_compaction_options(&fifo);
        }
        _ => {}
    }
    options
}

fn write_options(sync: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(sync);
    options
}

struct RocksLog {
    db: DB,
    plan: Plan,
    next_key: AtomicU64,
}

impl RocksLog {
    fn open(dir: &Path, plan: &Plan) -> Result<Self> {
        let db = DB::open(&options(plan), dir)?;
        let next_key = AtomicU64::new(db.latest_sequence_number());
        Ok(RocksLog { db, plan: *plan, next_key })
    }

    /// Fills a WAL file and retires it, then retires the empty one after it,
    /// so that the one now active is the first, recycled.
    fn recycle_once(&mut self) -> Result<()> {
        // Large writes leave large folios in the page cache, which make large
        // writes to them faster and small ones slower.
        let filler_len = if self.plan.payload_len < 4 << 10 { 4 << 10 } else { 1 << 20 };
        let filler = vec![0; filler_len];
        let mut append = self.appender(false);
        for _ in 0..=self.plan.file_bytes_max() / filler.len() as u64 {
            append(&filler)?;
        }
        self.db.flush()?;
        append(&[0])?;
        self.db.flush()?;
        Ok(())
    }

    /// The append function of one caller.
    fn appender(&self, sync: bool) -> impl FnMut(&[u8]) -> Result<()> + '_ {
        let options = write_options(sync);
        let keeps_value = self.plan.kind == Kind::RandomRead;
        move |payload| {
            let key = self.next_key.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            // The binding takes a batch by value: at least it never grows.
            let mut batch = WriteBatch::with_capacity_bytes(payload.len() + BATCH_OVERHEAD);
            if keeps_value {
                batch.put(key, payload);
            } else {
                batch.put_log_data(payload);
                batch.put(key, b"");
            }
            self.db.write_opt(batch, &options)?;
            Ok(())
        }
    }
}

impl Log for RocksLog {
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        latency: Option<&mut Histogram>,
    ) -> Result<()> {
        drive(payloads, count, latency, self.appender(false))
    }

    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration> {
        drive_callers(payloads, caller_count, count_each, || self.appender(true))
    }

    fn fill_segments(&mut self, payloads: &Payloads, segment_count: u64) -> Result<()> {
        let per_segment = self.plan.segment_bytes / self.plan.payload_len as u64;
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        for _ in 0..segment_count {
            self.append(payloads, per_segment, None)?;
            self.db.flush_opt(&flush)?;
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<Tally> {
        let mut tally = Tally::default();
        for update in self.db.get_updates_since(0)? {
            let (_, batch) = update?;
            if batch.data().len() < self.plan.payload_len {
                return Err("a batch is shorter than its payload".into());
            }
            tally.add(self.plan.payload_len);
        }
        Ok(tally)
    }

    fn random_read(&self, ordinals: &[u32]) -> Result<Tally> {
        let mut tally = Tally::default();
        for &ordinal in ordinals {
            let key = u64::from(ordinal).to_be_bytes();
            let value = self.db.get_pinned(key)?.ok_or("no such key")?;
            tally.add(value.len());
        }
        Ok(tally)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
