//! Append: checksum and copy, nothing else.

use std::rc::Rc;
use std::time::Instant;

use super::prepared_file::PreparedFile;
use super::record::{record_len, write_records};
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::payload::Payloads;
use crate::scratch::Scratch;

pub struct AppendBound {
    plan: Plan,
    scratch: Rc<Scratch>,
    payloads: Payloads,
    file: Option<PreparedFile>,
}

impl AppendBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        AppendBound { plan, scratch, payloads, file: None }
    }
}

impl Subject for AppendBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.plan;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let len = plan.record_count * record_len(plan.payload_len) as u64;
                PreparedFile::create(&self.scratch.fresh_path("append-bound"), len)?
            }
        };
        self.scratch.quiesce()?;
        file.fault_in()?;

        let start = Instant::now();
        write_records(file.bytes_mut(), &self.payloads, 0, plan.record_count);
        let elapsed = start.elapsed();

        self.file = Some(file);
        Ok(Sample {
            elapsed,
            record_count: plan.record_count,
            payload_bytes: plan.payload_bytes(),
            latency: None,
        })
    }
}
