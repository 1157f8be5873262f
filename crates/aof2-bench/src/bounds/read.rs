//! Scan, random read and recovery: checksums over bytes that are in memory.

use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use memmap2::Mmap;

use super::prepared_file::PreparedFile;
use super::record::{checksum, record_len, verify_record, write_records};
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::payload::{Payloads, random_ordinals};
use crate::scratch::Scratch;

const STEP_BYTES: usize = 1 << 20;

/// The records of a plan in one file, written when first asked for.
struct RecordFile {
    plan: Plan,
    scratch: Rc<Scratch>,
    payloads: Payloads,
    file: Option<(PathBuf, PreparedFile)>,
}

impl RecordFile {
    fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        RecordFile { plan, scratch, payloads, file: None }
    }

    fn get(&mut self) -> Result<&(PathBuf, PreparedFile)> {
        if self.file.is_none() {
            let path = self.scratch.fresh_path("read-bound");
            let len = self.plan.record_count * record_len(self.plan.payload_len) as u64;
            let mut file = PreparedFile::create(&path, len)?;
            write_records(file.bytes_mut(), &self.payloads, 0, self.plan.record_count);
            self.scratch.quiesce()?;
            self.file = Some((path, file));
        }
        self.file.as_ref().ok_or_else(|| "the file was just written".into())
    }
}

fn checksum_in_steps(bytes: &[u8]) -> u32 {
    bytes.chunks(STEP_BYTES).fold(0, |sum, step| sum ^ checksum(step))
}

fn sample(plan: &Plan, start: Instant) -> Sample {
    Sample {
        elapsed: start.elapsed(),
        record_count: plan.record_count,
        payload_bytes: plan.payload_bytes(),
        latency: None,
    }
}

/// One pass over pages that are already mapped.
pub struct ScanBound(RecordFile);

impl ScanBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        ScanBound(RecordFile::new(plan, scratch, payloads))
    }
}

impl Subject for ScanBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.0.plan;
        let (_, file) = self.0.get()?;
        let start = Instant::now();
        black_box(checksum_in_steps(file.bytes()));
        Ok(sample(&plan, start))
    }
}

/// Records at random offsets of pages that are already mapped.
pub struct RandomReadBound {
    records: RecordFile,
    offsets: Vec<u32>,
}

impl RandomReadBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        let step = record_len(plan.payload_len) as u32;
        let offsets = random_ordinals(plan.record_count, plan.record_count as usize)
            .into_iter()
            .map(|ordinal| ordinal * step)
            .collect();
        RandomReadBound { records: RecordFile::new(plan, scratch, payloads), offsets }
    }
}

impl Subject for RandomReadBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.records.plan;
        let bytes = self.records.get()?.1.bytes();
        let start = Instant::now();
        for &offset in &self.offsets {
            if verify_record(bytes, offset as usize) != Some(plan.payload_len) {
                return Err("the bound read a damaged record".into());
            }
        }
        Ok(sample(&plan, start))
    }
}

/// One pass over a file that this process has not mapped yet.
pub struct RecoveryBound(RecordFile);

impl RecoveryBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        RecoveryBound(RecordFile::new(plan, scratch, payloads))
    }
}

impl Subject for RecoveryBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.0.plan;
        let (path, _) = self.0.get()?;
        let start = Instant::now();
        let file = File::open(path)?;
        // SAFETY: nobody writes to or truncates the scratch file any more.
        let map = unsafe { Mmap::map(&file)? };
        black_box(checksum_in_steps(&map));
        Ok(sample(&plan, start))
    }
}
