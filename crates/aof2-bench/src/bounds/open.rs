//! Open: one page of each file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use super::prepared_file::allocate;
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::scratch::Scratch;

const PAGE_LEN: usize = 4096;

pub struct OpenBound {
    plan: Plan,
    scratch: Rc<Scratch>,
    paths: Vec<PathBuf>,
}

impl OpenBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>) -> Self {
        OpenBound { plan, scratch, paths: Vec::new() }
    }

    fn create_files(&mut self) -> Result<()> {
        let dir = self.scratch.fresh_dir("open-bound")?;
        for number in 0..self.plan.segment_count {
            let path = dir.join(format!("{number:020}"));
            let file = allocate(&path, self.plan.segment_bytes)?;
            file.write_all_at(&[1; PAGE_LEN], 0)?;
            self.paths.push(path);
        }
        self.scratch.quiesce()
    }
}

impl Subject for OpenBound {
    fn round(&mut self) -> Result<Sample> {
        if self.paths.is_empty() {
            self.create_files()?;
        }
        let mut page = [0; PAGE_LEN];
        let start = Instant::now();
        for path in &self.paths {
            File::open(path)?.read_exact_at(&mut page, 0)?;
        }
        Ok(Sample {
            elapsed: start.elapsed(),
            record_count: self.plan.record_count,
            payload_bytes: self.plan.payload_bytes(),
            latency: None,
        })
    }
}
