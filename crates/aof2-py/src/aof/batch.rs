//! `append_many`: payloads from any iterable, in batches with one reservation each.

use std::time::{Duration, Instant};

use aof2_core::{Aof, AofError, AppendOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyIterator, PyString};

use crate::args::wrong_type;
use crate::error::to_py;
use crate::record::{Payload, Record, RecordIds};
use crate::sizes::{APPEND_MANY_BYTES, BatchRoom};
use crate::wait;

/// Takes payloads from an iterable and makes batches of them.
struct Batches<'py> {
    payloads: Bound<'py, PyIterator>,
    room: BatchRoom,
    payload_len_max: usize,
    /// Payloads taken so far.
    taken: usize,
    /// One that did not fit into the batch before.
    held: Option<Payload>,
}

impl<'py> Batches<'py> {
    fn new(log: &Aof, payloads: &Bound<'py, PyAny>) -> PyResult<Self> {
        // These are iterable, but of numbers or characters.
        let is_one = payloads.is_instance_of::<PyBytes>()
            || payloads.is_instance_of::<PyByteArray>()
            || payloads.is_instance_of::<PyString>()
            || payloads.is_instance_of::<Record>();
        let expected = "an iterable of bytes-like objects";
        if is_one {
            return Err(wrong_type("payloads", expected, payloads));
        }
        let iterator = payloads.try_iter().map_err(|error| {
            match error.is_instance_of::<PyTypeError>(payloads.py()) {
                true => wrong_type("payloads", expected, payloads),
                false => error,
            }
        })?;
        Ok(Self {
            payloads: iterator,
            room: BatchRoom::new(log, APPEND_MANY_BYTES),
            payload_len_max: log.payload_len_max(),
            taken: 0,
            held: None,
        })
    }

    /// The next payload, which this log can take.
    fn next_payload(&mut self) -> PyResult<Option<Payload>> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        let Some(given) = self.payloads.next().transpose()? else { return Ok(None) };
        let index = self.taken;
        let payload = Payload::of(format_args!("payloads[{index}]"), &given)?;
        self.taken += 1;
        match payload.as_ref().len() {
            0 => Err(invalid(format!("payloads[{index}] is empty"))),
            len if len > self.payload_len_max => Err(invalid(format!(
                "payloads[{index}] has {len} bytes, this log takes at most {}",
                self.payload_len_max
            ))),
            _ => Ok(Some(payload)),
        }
    }

    /// Fills `batch` with payloads that go together; it stays empty at the end.
    fn fill(&mut self, batch: &mut Vec<Payload>) -> PyResult<()> {
        batch.clear();
        self.room.clear();
        while let Some(payload) = self.next_payload()? {
            if !self.room.take(payload.as_ref().len()) {
                self.held = Some(payload);
                break;
            }
            batch.push(payload);
        }
        Ok(())
    }
}

fn invalid(reason: String) -> PyErr {
    to_py(AofError::InvalidRecord { reason })
}

/// Appends what the iterable gives. An error says in `appended` which records were.
pub fn append_many(
    log: &Aof,
    payloads: &Bound<'_, PyAny>,
    timeout: Option<Duration>,
) -> PyResult<RecordIds> {
    let py = payloads.py();
    let mut ids = RecordIds::new(log.watermarks().appended);
    match append_batches(log, payloads, timeout, &mut ids) {
        Ok(()) => Ok(ids),
        Err(error) => Err(with_appended(py, error, ids)),
    }
}

fn append_batches(
    log: &Aof,
    payloads: &Bound<'_, PyAny>,
    timeout: Option<Duration>,
    ids: &mut RecordIds,
) -> PyResult<()> {
    let py = payloads.py();
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut batches = Batches::new(log, payloads)?;
    let mut batch = Vec::new();
    let options = AppendOptions::default();
    loop {
        batches.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(());
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let appended = wait::until_or_timeout(py, left, "space to append", |slice| {
            log.append_batch_with_timeout(&batch, &options, Some(slice))
        })?;
        ids.add(&appended);
    }
}

/// Tells with the error what was appended before it.
fn with_appended(py: Python<'_>, error: PyErr, ids: RecordIds) -> PyErr {
    let told = Py::new(py, ids).and_then(|ids| error.value(py).setattr("appended", ids));
    // Some exceptions take no attributes; the error matters more.
    drop(told);
    error
}

/// Takes everything out of the iterable, for a task that must not call Python.
pub fn collect(log: &Aof, payloads: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<Payload>>> {
    let mut batches = Batches::new(log, payloads)?;
    let mut all = Vec::new();
    loop {
        let mut batch = Vec::new();
        batches.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.push(batch);
    }
}

/// Appends batches without blocking a thread.
pub async fn append_collected(log: Aof, batches: Vec<Vec<Payload>>) -> PyResult<RecordIds> {
    let mut ids = RecordIds::new(log.watermarks().appended);
    for batch in &batches {
        match log.append_batch_async(batch, &AppendOptions::default()).await {
            Ok(appended) => ids.add(&appended),
            Err(error) => {
                return Err(Python::attach(|py| with_appended(py, to_py(error), ids)));
            }
        }
    }
    Ok(ids)
}
