//! aof2 itself.

use std::path::Path;
use std::time::Duration;

use aof2_core::{
    Aof, AofConfig, AofManager, AppendOptions, FlushConfig, ManagerConfig, RecordId, ScanOptions,
};

use crate::engine::{Engine, Kind, Log, Plan, Result, Support, Tally, drive, drive_callers};
use crate::measure::Histogram;
use crate::payload::Payloads;

pub struct Aof2;

impl Engine for Aof2 {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn about(&self) -> &'static str {
        "fixed segment size, two spares, background flush off in the page-cache rows as for every \
         peer; CRC-64/NVME of each record; durable is msync of the range (fdatasync on Linux), \
         shared by the callers that wait together; the durable rows warm the segment up first, \
         so that its blocks were written once, as the bound's were"
    }

    fn support(&self, _kind: Kind) -> Support {
        Support::Full
    }

    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        let log = open(dir, plan)?;
        if plan.kind == Kind::Durable {
            log.log.warm_up()?;
        }
        Ok(Box::new(log))
    }

    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>> {
        Ok(Box::new(open(dir, plan)?))
    }
}

fn open(dir: &Path, plan: &Plan) -> Result<Aof2Log> {
    let manager = AofManager::new(ManagerConfig::for_one_stream())?;
    let log = manager.open(config(dir, plan))?;
    Ok(Aof2Log { log, ids: Vec::new(), keeps_ids: plan.kind == Kind::RandomRead })
}

fn config(dir: &Path, plan: &Plan) -> AofConfig {
    let mut config = AofConfig::new(dir).segment_bytes(plan.segment_bytes);
    config.preallocate_segments = 2;
    // The page-cache rows measure appends, not the disk: no engine flushes there.
    // Durable rows flush by the callers themselves.
    config.flush =
        FlushConfig { flush_interval_ms: 0, flush_bytes: 1 << 40, max_unflushed_bytes: 1 << 40 };
    config
}

/// Holds the log, and for `Kind::RandomRead` the id of each record.
struct Aof2Log {
    log: Aof,
    ids: Vec<RecordId>,
    keeps_ids: bool,
}

impl Log for Aof2Log {
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        latency: Option<&mut Histogram>,
    ) -> Result<()> {
        let Self { log, ids, keeps_ids } = self;
        if *keeps_ids {
            return drive(payloads, count, latency, |payload| {
                ids.push(log.append(payload)?);
                Ok(())
            });
        }
        drive(payloads, count, latency, |payload| {
            log.append(payload)?;
            Ok(())
        })
    }

    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration> {
        drive_callers(payloads, caller_count, count_each, || {
            |payload: &[u8]| {
                let id = self.log.append(payload)?;
                Ok(self.log.flush_until(id, None)?)
            }
        })
    }

    fn fill_segments(&mut self, payloads: &Payloads, segment_count: u64) -> Result<()> {
        let mut ordinal = 0;
        while (self.log.segments().len() as u64) < segment_count {
            // Whole batches between looks at the segment list, which is not free.
            for _ in 0..16 {
                self.log.append_record_with_timeout(
                    payloads.get(ordinal),
                    &AppendOptions::default(),
                    Duration::from_secs(60),
                )?;
                ordinal += 1;
            }
        }
        Ok(self.log.seal()?)
    }

    fn scan(&mut self) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut scan = self.log.scan(ScanOptions::default())?;
        while let Some(batch) = scan.next_batch()? {
            for record in batch.iter() {
                tally.add(record.payload.len());
            }
        }
        Ok(tally)
    }

    fn random_read(&self, ordinals: &[u32]) -> Result<Tally> {
        let mut tally = Tally::default();
        for &ordinal in ordinals {
            let record = self.log.read(self.ids[ordinal as usize])?;
            tally.add(record.payload.len());
        }
        Ok(tally)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.log.flush()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.log.close()?)
    }
}
