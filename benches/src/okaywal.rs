//! okaywal: a write-ahead log of entries made of chunks. A record is a chunk.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use okaywal::{
    Configuration, Entry, EntryId, LogManager, LogPosition, ReadChunkResult, SegmentReader,
    WriteAheadLog,
};

use aof2_bench::Histogram;
use aof2_bench::Payloads;
use aof2_bench::{Engine, Kind, Log, Plan, Result, Support, Tally, drive_callers};

/// Bytes of records in one entry, where the row does not ask for durability.
const ENTRY_BYTES: u64 = 16 << 20;
const BUFFER_BYTES: usize = 256 << 10;

pub struct OkayWal;

impl Engine for OkayWal {
    fn name(&self) -> &'static str {
        "okaywal"
    }

    fn about(&self) -> &'static str {
        "files preallocated by writing zeros; CRC-32C of each chunk; commit is write + \
         fdatasync, shared by the callers that wait together; a full file is recycled once \
         it is checkpointed, so it does not keep what it was given"
    }

    fn support(&self, kind: Kind) -> Support {
        match kind {
            Kind::Append => Support::Weaker(
                "okaywal: every commit is an fdatasync. Measured: chunks of 16 MiB entries, \
                 each commit included; a chunk is buffered in the process and lost with it \
                 until its entry commits",
            ),
            Kind::Sustained => Support::Weaker(
                "okaywal: as for append, and full files are recycled at once: it reuses 256 MiB \
                 files instead of keeping 8 GiB",
            ),
            Kind::Scan => Support::Noted("okaywal: a scan is a recovery, there is no other"),
            Kind::RandomRead => Support::Noted("okaywal: read_at opens the file for each record"),
            Kind::Open => Support::No(
                "okaywal: has no sealed segments; full files are checkpointed and recycled",
            ),
            Kind::Durable | Kind::Recovery => Support::Full,
        }
    }

    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        Ok(Box::new(OkayLog::open(dir, plan)?))
    }

    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        Ok(Box::new(OkayLog::open(dir, plan)?))
    }
}

fn configuration(dir: &Path, plan: &Plan) -> Result<Configuration> {
    let (file_bytes, checkpoint_bytes) = match plan.kind {
        Kind::Sustained => (plan.segment_bytes, plan.segment_bytes - ENTRY_BYTES),
        // A checkpoint would take the records away: leave them in one file.
        _ => (plan.file_bytes_max().next_multiple_of(1 << 20), u64::MAX),
    };
    Ok(Configuration::default_for(dir)
        .preallocate_bytes(u32::try_from(file_bytes)?)
        .checkpoint_after_bytes(checkpoint_bytes)
        .buffer_bytes(BUFFER_BYTES))
}

/// Reads and verifies every chunk that recovery hands over.
#[derive(Debug, Default)]
struct Counter {
    tally: Arc<Mutex<Tally>>,
    buffer: Vec<u8>,
}

impl LogManager for Counter {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        let mut found = Tally::default();
        while let ReadChunkResult::Chunk(mut chunk) = entry.read_chunk()? {
            self.buffer.clear();
            chunk.read_to_end(&mut self.buffer)?;
            if !chunk.check_crc()? {
                return Err(io::Error::other("a chunk is damaged"));
            }
            found.add(self.buffer.len());
        }
        if let Ok(mut tally) = self.tally.lock() {
            tally.record_count += found.record_count;
            tally.payload_bytes += found.payload_bytes;
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _last_checkpointed_id: EntryId,
        _checkpointed_entries: &mut SegmentReader,
        _wal: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

struct OkayLog {
    wal: Option<WriteAheadLog>,
    dir: PathBuf,
    plan: Plan,
    /// Where each record is, for [`Kind::RandomRead`] alone.
    positions: Vec<LogPosition>,
}

impl OkayLog {
    fn open(dir: &Path, plan: &Plan) -> Result<Self> {
        let wal = configuration(dir, plan)?.open(Counter::default())?;
        Ok(OkayLog { wal: Some(wal), dir: dir.into(), plan: *plan, positions: Vec::new() })
    }

    fn wal(&self) -> Result<&WriteAheadLog> {
        self.wal.as_ref().ok_or_else(|| "closed".into())
    }
}

impl Log for OkayLog {
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        _latency: Option<&mut Histogram>,
    ) -> Result<()> {
        let mut positions = std::mem::take(&mut self.positions);
        let wal = self.wal()?;
        let per_entry = (ENTRY_BYTES / self.plan.payload_len as u64).max(1);
        let mut ordinal = 0;
        while ordinal < count {
            let end = count.min(ordinal + per_entry);
            let mut entry = wal.begin_entry()?;
            for ordinal in ordinal..end {
                let chunk = entry.write_chunk(payloads.get(ordinal))?;
                if self.plan.kind == Kind::RandomRead {
                    positions.push(chunk.position);
                }
            }
            entry.commit()?;
            ordinal = end;
        }
        self.positions = positions;
        Ok(())
    }

    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration> {
        let wal = self.wal()?;
        drive_callers(payloads, caller_count, count_each, || {
            |payload: &[u8]| {
                let mut entry = wal.begin_entry()?;
                entry.write_chunk(payload)?;
                entry.commit()?;
                Ok(())
            }
        })
    }

    fn fill_segments(&mut self, _payloads: &Payloads, _segment_count: u64) -> Result<()> {
        Err("has no sealed segments".into())
    }

    fn rewind(&mut self) -> Result<()> {
        self.wal = None;
        Ok(())
    }

    fn scan(&mut self) -> Result<Tally> {
        let counter = Counter::default();
        let tally = counter.tally.clone();
        self.wal = None;
        self.wal = Some(configuration(&self.dir, &self.plan)?.open(counter)?);
        let found = *tally.lock().map_err(|_| "recovery panicked")?;
        Ok(found)
    }

    fn random_read(&self, ordinals: &[u32]) -> Result<Tally> {
        let wal = self.wal()?;
        let mut tally = Tally::default();
        let mut buffer = Vec::with_capacity(self.plan.payload_len);
        for &ordinal in ordinals {
            let mut chunk = wal.read_at(self.positions[ordinal as usize])?;
            buffer.clear();
            chunk.read_to_end(&mut buffer)?;
            if !chunk.crc_is_valid()? {
                return Err("a chunk is damaged".into());
            }
            tally.add(buffer.len());
        }
        Ok(tally)
    }

    /// Every commit already was.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}
