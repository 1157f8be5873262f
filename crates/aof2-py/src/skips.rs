//! What a scan passed over, for those who ask while somebody else reads.

use std::sync::atomic::{AtomicU64, Ordering};

use aof2_core::{SkipReason, SkippedRange};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::report::{Built, Fields, list};

#[derive(Debug, Default)]
pub struct Skips {
    count: AtomicU64,
    lost: AtomicU64,
    ranges: Mutex<Vec<SkippedRange>>,
}

impl Skips {
    pub fn set(&self, count: u64, lost: u64, ranges: &[SkippedRange]) {
        if self.count.load(Ordering::Relaxed) == count {
            return;
        }
        ranges.clone_into(&mut self.ranges.lock());
        self.lost.store(lost, Ordering::Release);
        self.count.store(count, Ordering::Release);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }

    pub fn ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ranges = self.ranges.lock().clone();
        list(py, &ranges, range)
    }
}

fn range<'py>(py: Python<'py>, range: &SkippedRange) -> Built<'py> {
    let reason = match range.reason {
        SkipReason::Damaged => "damaged",
        SkipReason::Lost => "lost",
        _ => "other",
    };
    Fields::new(py)
        .set("records", (range.offsets.start, range.offsets.end))?
        .set("reason", reason)?
        .build("SkippedRange")
}
