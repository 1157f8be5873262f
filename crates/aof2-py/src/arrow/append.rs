//! Appending what other libraries hold as Arrow data.
//!
//! The payloads are borrowed from the Arrow buffers and copied once, into the log. A
//! chunk (one array of the data) is looked at as a whole before any of it is written.

use std::time::{Duration, Instant};

use aof2_core::{Aof, AofError, AppendOptions, AppendedBatch, Result};
use arrow_data::ffi::FFI_ArrowArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::chunks::{Chunks, checked};
use super::plan::{ColumnNames, Plan, Refusal};
use super::rows::{RecordLimits, Rows};
use crate::error::to_py;
use crate::sizes::{APPEND_ARROW_BYTES, BatchRoom};
use crate::wait;

/// What `append_arrow` returns.
///
/// >>> import pyarrow
/// >>> log.append_arrow(pyarrow.array([b"a", b"b"]))
/// AppendedArrow(count=2, first_offset=0, next_offset=2)
#[pyclass(frozen, get_all, eq, module = "aof2._aof2")]
#[derive(Debug, PartialEq, Eq)]
pub struct AppendedArrow {
    /// Records appended.
    count: u64,
    /// Logical offset of the first; the next one to come if there was none.
    first_offset: u64,
    /// Logical offset behind the last. Others may have appended in between.
    next_offset: u64,
}

#[pymethods]
impl AppendedArrow {
    fn __repr__(&self) -> String {
        format!(
            "AppendedArrow(count={}, first_offset={}, next_offset={})",
            self.count, self.first_offset, self.next_offset
        )
    }
}

/// Appends every row of anything that speaks the Arrow PyCapsule interface. `timeout`
/// limits the waiting for room, all in all.
pub fn append_arrow(
    log: &Aof,
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    columns: &ColumnNames,
    timeout: Option<Duration>,
) -> PyResult<AppendedArrow> {
    let mut appender = Appender::new(log, timeout).map_err(to_py)?;
    let appended = Chunks::of(data).and_then(|mut chunks| {
        let plan = Plan::new(chunks.data_type(), columns).map_err(refused)?;
        while let Some(chunk) = chunks.next(py)? {
            appender.append_chunk(py, &chunk, &plan)?;
        }
        Ok(())
    });
    match appended {
        Ok(()) => Ok(appender.appended),
        Err(error) => {
            error.value(py).setattr("appended", appender.appended.count)?;
            Err(error)
        }
    }
}

fn refused(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Data(reason) => PyValueError::new_err(reason),
        Refusal::Row(reason) => to_py(AofError::InvalidRecord { reason }),
    }
}

/// Appends chunks and counts what was appended.
struct Appender<'a> {
    log: &'a Aof,
    waited: Duration,
    timeout: Option<Duration>,
    room: BatchRoom,
    appended: AppendedArrow,
}

/// Rows that are appended together: they share timestamp and flags.
#[derive(Default)]
struct Group<'a> {
    payloads: Vec<&'a [u8]>,
    options: AppendOptions,
}

impl<'a> Appender<'a> {
    fn new(log: &'a Aof, timeout: Option<Duration>) -> Result<Self> {
        if log.is_closed() {
            return Err(AofError::Closed);
        }
        let nothing: &[&[u8]] = &[];
        let next_offset = log.append_batch(nothing, &AppendOptions::default())?.first_offset;
        Ok(Self {
            log,
            waited: Duration::ZERO,
            timeout,
            room: BatchRoom::new(log, APPEND_ARROW_BYTES),
            appended: AppendedArrow { count: 0, first_offset: next_offset, next_offset },
        })
    }

    fn append_chunk(
        &mut self,
        py: Python<'_>,
        chunk: &FFI_ArrowArray,
        plan: &Plan,
    ) -> PyResult<()> {
        let first_row = self.appended.count;
        let limits =
            RecordLimits { payload_len_max: self.log.payload_len_max(), format: self.log.format() };
        let rows = py.detach(|| checked(|| Ok(Rows::new(chunk, plan, first_row, limits))));
        let rows = rows?.map_err(refused)?;
        let mut row = 0;
        wait::until(py, None, |slice| {
            let appended = self.append_rows(&rows, &mut row, slice);
            appended.map_err(|error| in_row(error, first_row + row as u64))
        })?;
        // A producer of many small chunks must not keep a signal waiting.
        py.check_signals()
    }

    /// Appends rows for a slice of time. `None` if there are more.
    fn append_rows(
        &mut self,
        rows: &Rows<'_>,
        row: &mut usize,
        slice: Duration,
    ) -> Result<Option<()>> {
        let deadline = Instant::now() + slice;
        let mut group = Group::default();
        while *row < rows.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.gather(rows, *row, &mut group);
            let appended = match self.log.append_batch(&group.payloads, &group.options) {
                Err(AofError::WouldBlock(_)) => self.append_waiting(&group, left)?,
                done => Some(done?),
            };
            match appended {
                Some(batch) => *row += self.note(&batch),
                None => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    /// Appends a group when there is room. `None` if there is none within a slice of time.
    fn append_waiting(
        &mut self,
        group: &Group<'_>,
        slice: Duration,
    ) -> Result<Option<AppendedBatch>> {
        let left = self.timeout.map(|timeout| timeout.saturating_sub(self.waited));
        let wait = left.map_or(slice, |left| left.min(slice));
        let started = Instant::now();
        let appended =
            self.log.append_batch_with_timeout(&group.payloads, &group.options, Some(wait));
        self.waited += started.elapsed();
        match appended {
            Err(AofError::Timeout { .. }) if left.is_some_and(|left| left <= slice) => {
                Err(AofError::Timeout { what: "space to append" })
            }
            Err(AofError::Timeout { .. }) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Takes the rows from `row` on that share timestamp and flags, as many as there is
    /// room for in a batch, but at least one.
    fn gather<'r>(&mut self, rows: &Rows<'r>, row: usize, group: &mut Group<'r>) {
        group.options = rows.options(row);
        group.payloads.clear();
        self.room.clear();
        for candidate in row..rows.len() {
            let payload = rows.payload(candidate);
            if !self.room.take(payload.len()) || !rows.share_options(row, candidate) {
                break;
            }
            group.payloads.push(payload);
        }
    }

    fn note(&mut self, batch: &AppendedBatch) -> usize {
        if self.appended.count == 0 {
            self.appended.first_offset = batch.first_offset;
        }
        self.appended.count += batch.ids.len() as u64;
        self.appended.next_offset = batch.first_offset + batch.ids.len() as u64;
        batch.ids.len()
    }
}

/// Says which row the core refused.
fn in_row(error: AofError, row: u64) -> AofError {
    match error {
        AofError::InvalidRecord { reason } => {
            AofError::InvalidRecord { reason: format!("row {row}: {reason}") }
        }
        other => other,
    }
}
