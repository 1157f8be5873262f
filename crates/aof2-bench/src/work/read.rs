//! Reads: one log, written before the first round and hot in the page cache.

use std::time::Instant;

use super::{Job, check};
use crate::engine::{Log, Result, Tally};
use crate::measure::{Sample, Subject};
use crate::payload::random_ordinals;

/// A log that holds the records of the plan.
struct FilledLog {
    job: Job,
    log: Option<Box<dyn Log>>,
}

impl FilledLog {
    fn new(job: Job) -> Self {
        FilledLog { job, log: None }
    }

    fn get(&mut self) -> Result<&mut dyn Log> {
        let job = &self.job;
        let log = match self.log.take() {
            Some(log) => log,
            None => {
                let dir = job.scratch.fresh_dir(&job.label())?;
                let mut log = job.engine.create(&dir, &job.plan)?;
                log.append(&job.payloads, job.plan.record_count, None)?;
                log.sync()?;
                job.scratch.quiesce()?;
                log
            }
        };
        Ok(self.log.insert(log).as_mut())
    }

    fn sample(&self, start: Instant, found: Tally) -> Result<Sample> {
        let elapsed = start.elapsed();
        check(found, &self.job.plan)?;
        Ok(Sample {
            elapsed,
            record_count: found.record_count,
            payload_bytes: found.payload_bytes,
            latency: None,
        })
    }
}

pub struct ScanWork(FilledLog);

impl ScanWork {
    pub fn new(job: Job) -> Self {
        ScanWork(FilledLog::new(job))
    }
}

impl Subject for ScanWork {
    fn round(&mut self) -> Result<Sample> {
        let log = self.0.get()?;
        log.rewind()?;
        let start = Instant::now();
        let found = log.scan()?;
        self.0.sample(start, found)
    }
}

pub struct RandomReadWork {
    filled: FilledLog,
    ordinals: Vec<u32>,
}

impl RandomReadWork {
    pub fn new(job: Job) -> Self {
        let count = job.plan.record_count;
        let ordinals = random_ordinals(count, count as usize);
        RandomReadWork { filled: FilledLog::new(job), ordinals }
    }
}

impl Subject for RandomReadWork {
    fn round(&mut self) -> Result<Sample> {
        let log = self.filled.get()?;
        let start = Instant::now();
        let found = log.random_read(&self.ordinals)?;
        self.filled.sample(start, found)
    }
}
