//! Appends: each round into a new log.

use std::time::Instant;

use super::Job;
use crate::engine::{Kind, Log, Result};
use crate::measure::{Histogram, Latency, Sample, Subject};
use crate::scratch;

/// Appends to the page cache.
pub struct AppendWork {
    pub job: Job,
}

impl Subject for AppendWork {
    fn round(&mut self) -> Result<Sample> {
        let Job { plan, payloads, .. } = &self.job;
        let elapsed = in_new_log(&self.job, |log| {
            let start = Instant::now();
            log.append(payloads, plan.record_count, None)?;
            Ok(start.elapsed())
        })?;
        let latency = match self.job.with_latency && plan.kind == Kind::Sustained {
            true => Some(self.latency()?),
            false => None,
        };
        Ok(Sample {
            elapsed,
            record_count: plan.record_count,
            payload_bytes: plan.payload_bytes(),
            latency,
        })
    }
}

impl AppendWork {
    /// Reading the clock around each append costs a part of a short append, so
    /// it happens in a pass of its own.
    fn latency(&self) -> Result<Latency> {
        let Job { plan, payloads, .. } = &self.job;
        let mut histogram = Histogram::default();
        in_new_log(&self.job, |log| log.append(payloads, plan.record_count, Some(&mut histogram)))?;
        Ok(histogram.latency())
    }
}

/// Appends to the disk, from one or many threads.
pub struct DurableWork {
    pub job: Job,
}

impl Subject for DurableWork {
    fn round(&mut self) -> Result<Sample> {
        let Job { plan, payloads, .. } = &self.job;
        let count_each = plan.record_count / plan.caller_count as u64;
        let elapsed = in_new_log(&self.job, |log| {
            log.append_durable(payloads, plan.caller_count, count_each)
        })?;
        Ok(Sample {
            elapsed,
            record_count: plan.record_count,
            payload_bytes: plan.payload_bytes(),
            latency: None,
        })
    }
}

fn in_new_log<T>(job: &Job, work: impl FnOnce(&mut dyn Log) -> Result<T>) -> Result<T> {
    // Before the log is created: writing back the pages that an engine faulted in
    // ahead would undo its preparation.
    job.scratch.quiesce()?;
    let dir = job.scratch.fresh_dir(&job.label())?;
    let mut log = job.engine.create(&dir, &job.plan)?;
    let outcome = work(log.as_mut())?;
    log.close()?;
    match job.plan.kind {
        Kind::Durable => job.scratch.retire(dir),
        _ => scratch::remove(&dir)?,
    }
    Ok(outcome)
}
