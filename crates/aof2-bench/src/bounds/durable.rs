//! Durable append: one write and one fdatasync for all callers' records.
//!
//! The file is allocated, faulted in and synced beforehand, as a prepared
//! segment is. That matters: the first write to a block that was allocated but
//! never written makes fdatasync commit the filesystem's journal too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

use super::prepared_file::PreparedFile;
use super::record::{record_len, write_records};
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::payload::Payloads;
use crate::scratch::Scratch;

pub struct DurableBound {
    plan: Plan,
    scratch: Rc<Scratch>,
    payloads: Payloads,
}

impl DurableBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        DurableBound { plan, scratch, payloads }
    }
}

impl Subject for DurableBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.plan;
        let batch_records = plan.caller_count as u64;
        let batch_len = plan.caller_count * record_len(plan.payload_len);
        let batch_count = plan.record_count / batch_records;
        let path = self.scratch.fresh_path("durable-bound");
        let prepared = PreparedFile::create(&path, batch_count * batch_len as u64)?;
        let file = File::options().write(true).open(&path)?;
        file.sync_all()?;
        let mut batch = vec![0; batch_len];
        self.scratch.quiesce()?;

        let start = Instant::now();
        for number in 0..batch_count {
            write_records(&mut batch, &self.payloads, number * batch_records, batch_records);
            file.write_all_at(&batch, number * batch_len as u64)?;
            file.sync_data()?;
        }
        let elapsed = start.elapsed();

        drop(prepared);
        self.scratch.retire(path);
        Ok(Sample {
            elapsed,
            record_count: batch_count * batch_records,
            payload_bytes: plan.payload_bytes(),
            latency: None,
        })
    }
}
