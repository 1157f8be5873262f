//! Opening what is already there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Job, check};
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::scratch;

/// Opens a log of sealed segments that was closed cleanly.
pub struct OpenWork {
    job: Job,
    dir: Option<PathBuf>,
}

impl OpenWork {
    pub fn new(job: Job) -> Self {
        OpenWork { job, dir: None }
    }

    fn fill(&self) -> Result<PathBuf> {
        let Job { engine, plan, scratch, payloads, .. } = &self.job;
        let dir = scratch.fresh_dir(&self.job.label())?;
        let mut log = engine.create(&dir, plan)?;
        log.fill_segments(payloads, plan.segment_count)?;
        log.close()?;
        scratch.quiesce()?;
        Ok(dir)
    }
}

impl Subject for OpenWork {
    fn round(&mut self) -> Result<Sample> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => self.fill()?,
        };
        let start = Instant::now();
        let log = self.job.engine.open(&dir, &self.job.plan)?;
        let elapsed = start.elapsed();
        log.close()?;
        self.dir = Some(dir);
        Ok(sample(&self.job.plan, elapsed))
    }
}

/// Opens what a writer that died left behind: each round a fresh copy of the
/// directory, taken while the writer was alive.
pub struct RecoveryWork {
    job: Job,
    image: Option<PathBuf>,
    is_checked: bool,
}

impl RecoveryWork {
    pub fn new(job: Job) -> Self {
        RecoveryWork { job, image: None, is_checked: false }
    }

    fn take_image(&self) -> Result<PathBuf> {
        let Job { engine, plan, scratch, payloads, .. } = &self.job;
        let dir = scratch.fresh_dir(&self.job.label())?;
        let image = scratch.fresh_dir(&self.job.label())?;
        let mut log = engine.create(&dir, plan)?;
        log.append(payloads, plan.record_count, None)?;
        log.sync()?;
        scratch::copy_image(&dir, &image)?;
        log.close()?;
        scratch::remove(&dir)?;
        Ok(image)
    }
}

impl Subject for RecoveryWork {
    fn round(&mut self) -> Result<Sample> {
        let image = match self.image.take() {
            Some(image) => image,
            None => self.take_image()?,
        };
        let dir = self.job.scratch.fresh_dir(&self.job.label())?;
        scratch::copy_image(&image, &dir)?;
        self.job.scratch.quiesce()?;

        let start = Instant::now();
        let mut log = self.job.engine.open(&dir, &self.job.plan)?;
        let elapsed = start.elapsed();

        if !self.is_checked {
            check(log.scan()?, &self.job.plan)?;
            self.is_checked = true;
        }
        log.close()?;
        scratch::remove(&dir)?;
        self.image = Some(image);
        Ok(sample(&self.job.plan, elapsed))
    }
}

fn sample(plan: &Plan, elapsed: Duration) -> Sample {
    Sample {
        elapsed,
        record_count: plan.record_count,
        payload_bytes: plan.payload_bytes(),
        latency: None,
    }
}
