//! Appending what other libraries hold as Arrow data.
//!
//! The payloads are borrowed from the Arrow buffers and copied once, into the log. A
//! chunk (one array of the data) is looked at as a whole before any of it is written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use aof2_core::{Aof, AofError, AppendOptions, AppendedBatch};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

use crate::arrow_rows::{Plan, RecordLimits, Refusal, Rows};
use crate::error::to_py;
use crate::wait;

/// Bytes that one reservation asks for at most. Enough to make what happens once per
/// reservation disappear; a segment whose rest is smaller than that is left early, so
/// not more.
const RESERVATION_BYTES: usize = 64 << 10;
/// Of a small segment a reservation takes at most this part.
const SEGMENT_PART: usize = 8;
/// The longest record header and the longest padding.
const RECORD_OVERHEAD: usize = 40;
/// How long a signal may go unnoticed while there is something to append.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

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
    column: Option<&str>,
    timestamp_column: Option<&str>,
    flags_column: Option<&str>,
    timeout: Option<Duration>,
) -> PyResult<AppendedArrow> {
    let mut appender = Appender::new(log, timeout).map_err(to_py)?;
    let appended = Chunks::of(data).and_then(|mut chunks| {
        let plan = Plan::new(chunks.data_type(), column, timestamp_column, flags_column);
        let plan = plan.map_err(refused)?;
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

/// The arrow crates assert where a structure contradicts the interface. That is an
/// error of the data, not of this process.
fn checked<T>(read: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(PyValueError::new_err("the data is malformed: it breaks the Arrow C data interface"))
    })
}

/// The data, chunk by chunk.
enum Chunks {
    One { data_type: DataType, array: Option<FFI_ArrowArray> },
    Stream { data_type: DataType, stream: FFI_ArrowArrayStream },
}

impl Chunks {
    fn of(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if data.hasattr("__arrow_c_array__")? {
            return Self::from_array(&data.call_method0("__arrow_c_array__")?);
        }
        if data.hasattr("__arrow_c_stream__")? {
            return Self::from_stream(&data.call_method0("__arrow_c_stream__")?);
        }
        Err(PyTypeError::new_err(format!(
            "{} is no Arrow data: it has neither __arrow_c_array__ nor __arrow_c_stream__",
            data.get_type().name()?
        )))
    }

    fn from_array(capsules: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (schema, array) = capsules.cast::<PyTuple>()?.extract()?;
        let schema: Bound<'_, PyCapsule> = schema;
        let array: Bound<'_, PyCapsule> = array;
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
        // SAFETY: capsules of these names hold these structures. They are moved out, as
        // the interface has it, so that the capsules release them no more.
        let (schema, array) = unsafe {
            (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr()))
        };
        if array.is_released() {
            return Err(consumed());
        }
        Ok(Self::One { data_type: data_type(&schema)?, array: Some(array) })
    }

    fn from_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = capsule.cast::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds this structure; moved out like above.
        let mut stream = unsafe {
            FFI_ArrowArrayStream::from_raw(stream.cast::<FFI_ArrowArrayStream>().as_ptr())
        };
        if stream.release().is_none() {
            return Err(consumed());
        }
        let mut schema = FFI_ArrowSchema::empty();
        let get_schema = stream.get_schema().ok_or_else(consumed)?;
        // SAFETY: the stream is not released, and the callback is its own.
        let code = capsule.py().detach(|| unsafe { get_schema(&mut stream, &mut schema) });
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        Ok(Self::Stream { data_type: data_type(&schema)?, stream })
    }

    fn data_type(&self) -> &DataType {
        match self {
            Self::One { data_type, .. } | Self::Stream { data_type, .. } => data_type,
        }
    }

    /// The next chunk. The producer takes the GIL if it needs it.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<FFI_ArrowArray>> {
        let stream = match self {
            Self::One { array, .. } => return Ok(array.take()),
            Self::Stream { stream, .. } => stream,
        };
        let mut array = FFI_ArrowArray::empty();
        let get_next = stream.get_next().ok_or_else(consumed)?;
        // SAFETY: the stream is not released, and the callback is its own.
        let code = py.detach(|| unsafe { get_next(stream, &mut array) });
        py.check_signals()?;
        match code {
            0 if array.is_released() => Ok(None),
            0 => Ok(Some(array)),
            code => Err(failed(stream, code)),
        }
    }
}

fn data_type(schema: &FFI_ArrowSchema) -> PyResult<DataType> {
    checked(|| DataType::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string())))
}

fn consumed() -> PyErr {
    PyValueError::new_err("the Arrow data was consumed already; make a new stream of it")
}

fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> PyErr {
    let text = stream.get_last_error().and_then(|get_last_error| {
        // SAFETY: the stream is not released, the callback is its own and the last one
        // failed. The text is null or ends with a zero byte, and is copied at once.
        unsafe {
            let text = get_last_error(stream);
            (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    let text = text.unwrap_or_else(|| std::io::Error::from_raw_os_error(code).to_string());
    PyValueError::new_err(format!("reading the Arrow data failed: {text}"))
}

/// Appends chunks and counts what was appended.
struct Appender<'a> {
    log: &'a Aof,
    waited: Duration,
    timeout: Option<Duration>,
    reservation_bytes: usize,
    appended: AppendedArrow,
}

/// Why appending paused.
enum Pause {
    End,
    /// It is time to look for signals.
    Signals,
    /// The log has no room right now.
    NoRoom,
}

/// The rows that one reservation takes.
struct Reservation<'a> {
    payloads: Vec<&'a [u8]>,
    options: AppendOptions,
}

impl<'a> Appender<'a> {
    fn new(log: &'a Aof, timeout: Option<Duration>) -> Result<Self, AofError> {
        if log.is_closed() {
            return Err(AofError::Closed);
        }
        let nothing: &[&[u8]] = &[];
        let next_offset = log.append_batch(nothing, &AppendOptions::default())?.first_offset;
        let segment_bytes = usize::try_from(log.config().segment_bytes_max).unwrap_or(usize::MAX);
        Ok(Self {
            log,
            waited: Duration::ZERO,
            timeout,
            reservation_bytes: RESERVATION_BYTES.min(segment_bytes / SEGMENT_PART),
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
        loop {
            let pause = py.detach(|| self.append_rows(&rows, &mut row));
            py.check_signals()?;
            match pause.map_err(|error| to_py(in_row(error, first_row + row as u64)))? {
                Pause::End => return Ok(()),
                Pause::Signals => {}
                Pause::NoRoom => row += self.append_waiting(py, &rows, row)?,
            }
        }
    }

    /// Appends until something has to be done first.
    fn append_rows(&mut self, rows: &Rows<'_>, row: &mut usize) -> Result<Pause, AofError> {
        let started = Instant::now();
        let mut next = Reservation { payloads: Vec::new(), options: AppendOptions::default() };
        while *row < rows.len() {
            if started.elapsed() >= SIGNAL_INTERVAL {
                return Ok(Pause::Signals);
            }
            self.gather(rows, *row, &mut next);
            match self.log.append_batch(&next.payloads, &next.options) {
                Ok(batch) => *row += self.note(&batch),
                Err(AofError::WouldBlock(_)) => return Ok(Pause::NoRoom),
                Err(error) => return Err(error),
            }
        }
        Ok(Pause::End)
    }

    /// Appends one reservation when there is room. Returns the number of its rows.
    fn append_waiting(&mut self, py: Python<'_>, rows: &Rows<'_>, row: usize) -> PyResult<usize> {
        let mut next = Reservation { payloads: Vec::new(), options: AppendOptions::default() };
        self.gather(rows, row, &mut next);
        let left = self.timeout.map(|timeout| timeout.saturating_sub(self.waited));
        let log = self.log;
        let started = Instant::now();
        let batch = wait::until_or_timeout(py, left, "room to append", |slice| {
            log.append_batch_with_timeout(&next.payloads, &next.options, Some(slice))
        })?;
        self.waited += started.elapsed();
        Ok(self.note(&batch))
    }

    /// Takes the rows from `row` on that share timestamp and flags, as many as a
    /// reservation may have, but at least one.
    fn gather<'r>(&self, rows: &Rows<'r>, row: usize, next: &mut Reservation<'r>) {
        next.options = rows.options(row);
        next.payloads.clear();
        let mut bytes = 0;
        for candidate in row..rows.len() {
            let payload = rows.payload(candidate);
            bytes += payload.len() + RECORD_OVERHEAD;
            let fits = bytes <= self.reservation_bytes && rows.share_options(row, candidate);
            if candidate > row && !fits {
                break;
            }
            next.payloads.push(payload);
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
