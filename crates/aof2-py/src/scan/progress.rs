//! How far a scan has got, for those who ask while somebody else reads.

use std::sync::atomic::{AtomicU64, Ordering};

use aof2_core::{SkipReason, SkippedRange};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::report::{Built, Fields, list};

/// Where a scan is and what it passed over.
#[derive(Debug, Default)]
pub struct ScanProgress {
    next_offset: AtomicU64,
    skipped: AtomicU64,
    lost: AtomicU64,
    ranges: Mutex<Vec<SkippedRange>>,
}

impl ScanProgress {
    pub fn at(next_offset: u64) -> Self {
        Self { next_offset: next_offset.into(), ..Self::default() }
    }

    pub fn set_next(&self, next_offset: u64) {
        self.next_offset.store(next_offset, Ordering::Release);
    }

    pub fn set_skipped(&self, skipped: u64, lost: u64, ranges: &[SkippedRange]) {
        if self.skipped.load(Ordering::Relaxed) == skipped {
            return;
        }
        ranges.clone_into(&mut self.ranges.lock());
        self.lost.store(lost, Ordering::Release);
        self.skipped.store(skipped, Ordering::Release);
    }

    pub fn next_offset(&self) -> u64 {
        self.next_offset.load(Ordering::Acquire)
    }

    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Acquire)
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }

    pub fn skipped_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
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
