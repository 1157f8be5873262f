//! Reading records one after the other: `Scan`, an iterator over a range of records, and
//! `Follow`, one that waits for more.

mod follow;
mod progress;
mod read_ahead;

use std::sync::Arc;

use aof2_core::io::ForkStamp;
use aof2_core::{Result, ScanOptions};
use pyo3::prelude::*;
use pyo3::types::PyList;

pub use self::follow::Follow;
pub use self::progress::ScanProgress;
use self::read_ahead::{ReadAhead, read_ahead_options};
use crate::error::to_py;
use crate::log::{Source, check_not_forked};
use crate::record::Record;
use crate::wait::{self, Shared};

struct State {
    scan: aof2_core::Scan,
    ahead: ReadAhead,
}

/// An iterator of records, from `scan`. Threads may share it; each record goes to one
/// of them.
///
/// >>> ids = log.append_many([b"a", b"b"])
/// >>> log.flush()
/// >>> scan = log.scan()
/// >>> bytes(next(scan)), scan.next_offset
/// (b'a', 1)
#[pyclass(module = "aof2", frozen)]
pub struct Scan {
    state: Arc<Shared<Box<State>>>,
    progress: ScanProgress,
    stamp: ForkStamp,
}

impl Scan {
    pub fn open(source: &Source, options: ScanOptions) -> Result<Self> {
        let scan = source.scan(read_ahead_options(options))?;
        let progress = ScanProgress::at(scan.next_offset());
        let state = Shared::new(Box::new(State { scan, ahead: ReadAhead::default() }));
        Ok(Self { state, progress, stamp: ForkStamp::now() })
    }

    fn pop(&self, state: &mut State) -> Option<aof2_core::Record> {
        let record = state.ahead.pop();
        let scan = &state.scan;
        self.progress.set_next(state.ahead.next_offset().unwrap_or(scan.next_offset()));
        self.progress.set_skipped(scan.skipped(), scan.lost(), scan.skipped_ranges());
        record
    }
}

#[pymethods]
impl Scan {
    /// Logical offset of the record that comes next.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.progress.next_offset()
    }

    /// Records passed over: those that a repair left a gap for and, with
    /// on_corruption="skip", damaged ones.
    #[getter]
    fn skipped(&self) -> u64 {
        self.progress.skipped()
    }

    /// Of the records passed over, those that a repair left a gap for.
    #[getter]
    fn lost(&self) -> u64 {
        self.progress.lost()
    }

    /// Which records were passed over, in order, and why. Of more than a thousand ranges,
    /// the first ones and the last.
    #[getter]
    fn skipped_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.progress.skipped_ranges(py)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        check_not_forked(self.stamp).map_err(to_py)?;
        if let Some(Some(record)) = self.state.here(|state| self.pop(state)) {
            return Ok(Some(record.into()));
        }
        let found = wait::until(py, None, |slice| {
            let Some(mut state) = self.state.take_within(slice) else { return Ok(None) };
            if let Some(record) = self.pop(&mut state) {
                return Ok(Some(Some(record)));
            }
            if let Some(batch) = state.scan.next_batch()? {
                state.ahead.refill(batch);
            }
            Ok(Some(self.pop(&mut state)))
        })?;
        Ok(found.flatten().map(Into::into))
    }

    fn __repr__(&self) -> String {
        format!("<aof2.Scan: next offset {}, {} skipped>", self.next_offset(), self.skipped())
    }
}
