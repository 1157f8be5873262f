//! A scan as a stream of Arrow batches.
//!
//! The consumer pulls batches one by one, without the GIL. Payloads are copied from the
//! mapped segments into one contiguous buffer per batch, right after they were
//! verified, while they are in the processor's cache; only the columns that were asked
//! for are built. Where only offsets are wanted, footers tell them and no record is read.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aof2_core::io::ForkStamp;
use aof2_core::{
    Aof, AofError, AofReader, Batch, OffsetRun, OnCorruption, Scan, ScanOptions, TIMESTAMP_MS_MAX,
};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, RecordBatchReader,
    StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::error::to_py;
use crate::pool::Shelf;
use crate::skips::Skips;

/// A batch is put together from parts of at most this many bytes and records: few
/// enough that a part is still cached when it is copied.
const PART_BYTES: usize = 128 << 10;
const PART_RECORDS: usize = 4 << 10;
/// What the offsets of a batch can express.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// The log to scan.
#[derive(Clone, Debug)]
pub enum ArrowSource {
    /// A log that this process writes.
    Writer(Aof),
    /// A log opened for reading.
    Reader(AofReader),
}

impl ArrowSource {
    fn scan(&self, options: ScanOptions) -> Result<Scan, AofError> {
        match self {
            Self::Writer(log) => log.scan(options),
            Self::Reader(log) => log.scan(options),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Writer(log) => log.name(),
            Self::Reader(log) => log.name(),
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Writer(log) => log.is_closed(),
            Self::Reader(_) => false,
        }
    }
}

/// A column of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Stream,
    SegmentId,
    Offset,
    RecordId,
    Timestamp,
    Flags,
    Payload,
}

impl Column {
    const ALL: [Self; 7] = [
        Self::Stream,
        Self::SegmentId,
        Self::Offset,
        Self::RecordId,
        Self::Timestamp,
        Self::Flags,
        Self::Payload,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::SegmentId => "segment_id",
            Self::Offset => "offset",
            Self::RecordId => "record_id",
            Self::Timestamp => "timestamp",
            Self::Flags => "flags",
            Self::Payload => "payload",
        }
    }

    fn field(self) -> Field {
        let data_type = match self {
            Self::Stream => DataType::Utf8,
            Self::SegmentId | Self::Offset | Self::RecordId => DataType::Int64,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Flags => DataType::Int32,
            Self::Payload => DataType::Binary,
        };
        Field::new(self.name(), data_type, false)
    }

    /// Whether it is known from a run of offsets, without the records.
    fn is_of_runs(self) -> bool {
        matches!(self, Self::Stream | Self::SegmentId | Self::Offset)
    }

    /// The columns of these names; all but the stream's name by default.
    fn named(names: Option<Vec<String>>) -> PyResult<Vec<Self>> {
        let Some(names) = names else {
            return Ok(Self::ALL.into_iter().filter(|column| *column != Self::Stream).collect());
        };
        let mut columns = Vec::with_capacity(names.len());
        for name in &names {
            let found = Self::ALL.into_iter().find(|column| column.name() == name);
            let refusal = match found {
                None => "there is no column",
                Some(column) if columns.contains(&column) => "more than once: column",
                Some(column) => {
                    columns.push(column);
                    continue;
                }
            };
            return Err(refuse_columns(&format!("{refusal} {name:?}")));
        }
        match columns.is_empty() {
            true => Err(refuse_columns("name at least one")),
            false => Ok(columns),
        }
    }
}

fn refuse_columns(reason: &str) -> PyErr {
    let names = Column::ALL.map(Column::name).join(", ");
    PyValueError::new_err(format!("columns: {reason}; there are {names}"))
}

/// A scan that any library that speaks Arrow can read, once.
///
/// >>> import pyarrow
/// >>> ids = log.append_many([b"a", b"b"])
/// >>> log.flush()
/// >>> scan = log.scan_arrow(columns=["offset", "payload"])
/// >>> pyarrow.table(scan).num_rows, scan.next_offset
/// (2, 2)
#[pyclass(frozen, module = "aof2._aof2")]
#[derive(Debug)]
pub struct ArrowScan {
    schema: SchemaRef,
    progress: Arc<Progress>,
    /// Taken by the first reader.
    batches: Mutex<Option<Batches>>,
}

impl ArrowScan {
    /// Opens the scan; nothing is read yet.
    pub fn new(
        source: ArrowSource,
        options: ScanOptions,
        columns: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let columns = Column::named(columns)?;
        let batches = Batches::new(source, options, columns).map_err(to_py)?;
        Ok(Self {
            schema: Arc::clone(&batches.schema),
            progress: Arc::clone(&batches.progress),
            batches: Mutex::new(Some(batches)),
        })
    }
}

#[pymethods]
impl ArrowScan {
    /// The stream of batches, for one reader. It may ask for another schema; it gets
    /// this one and has to convert.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.lock().take();
        let batches = batches.ok_or_else(|| {
            PyRuntimeError::new_err("this scan was consumed already; call scan_arrow() again")
        })?;
        batches.check().map_err(to_py)?;
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The schema of the batches.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Logical offset of the record that comes first in the next batch.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.progress.next_offset.load(Ordering::Acquire)
    }

    /// Records passed over: those that a repair left a gap for and, with
    /// on_corruption="skip", damaged ones.
    #[getter]
    fn skipped(&self) -> u64 {
        self.progress.skips.count()
    }

    /// Of the records passed over, those that a repair left a gap for.
    #[getter]
    fn lost(&self) -> u64 {
        self.progress.skips.lost()
    }

    /// Which records were passed over, in order, and why. Of more than a thousand ranges,
    /// the first ones and the last.
    #[getter]
    fn skipped_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.progress.skips.ranges(py)
    }

    /// What ended the stream, if it failed. Readers of Arrow streams get its text only.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.progress.error.lock().clone()?;
        Some(to_py(error).into_value(py).into_any())
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        format!("ArrowScan(columns={names:?}, next_offset={})", self.next_offset())
    }
}

/// How far the reader of the stream has got.
#[derive(Debug)]
struct Progress {
    next_offset: AtomicU64,
    skips: Skips,
    error: Mutex<Option<AofError>>,
}

/// Reads parts, builds batches.
#[derive(Debug)]
struct Batches {
    source: ArrowSource,
    stamp: ForkStamp,
    scan: Scan,
    batch_bytes: usize,
    batch_records: usize,
    part_records: usize,
    /// A part that did not fit into the last batch.
    held: Option<Batch>,
    /// Whether runs of offsets tell all that is wanted; then there are no parts.
    by_runs: bool,
    /// What did not fit into the last batch of a run.
    run: Option<OffsetRun>,
    /// What comes behind the records of the last batch.
    failed: Option<AofError>,
    columns: Vec<Column>,
    schema: SchemaRef,
    stream_names: StreamNames,
    shelves: Shelves,
    progress: Arc<Progress>,
}

impl Batches {
    fn new(
        source: ArrowSource,
        options: ScanOptions,
        columns: Vec<Column>,
    ) -> Result<Self, AofError> {
        let part_records = options.batch_records.clamp(1, PART_RECORDS);
        // Records have to be looked at to be verified, and to know which are damaged.
        let by_runs = !options.verify_checksums
            && options.on_corruption == OnCorruption::Fail
            && columns.iter().all(|column| column.is_of_runs());
        // Without payloads a batch is small whatever the records are.
        let batch_bytes = match columns.contains(&Column::Payload) {
            true => options.batch_bytes.clamp(1, BATCH_BYTES_MAX),
            false => usize::MAX,
        };
        let part_bytes =
            if batch_bytes == usize::MAX { usize::MAX } else { batch_bytes.min(PART_BYTES) };
        let parts = ScanOptions { batch_bytes: part_bytes, batch_records: part_records, ..options };
        let scan = source.scan(parts)?;
        let progress = Progress {
            next_offset: AtomicU64::new(scan.next_offset()),
            skips: Skips::default(),
            error: Mutex::default(),
        };
        let fields: Vec<Field> = columns.iter().map(|column| column.field()).collect();
        Ok(Self {
            stream_names: StreamNames { name: source.name().to_owned(), made: None },
            source,
            stamp: ForkStamp::now(),
            scan,
            batch_bytes,
            batch_records: options.batch_records.max(1),
            part_records,
            held: None,
            by_runs,
            run: None,
            failed: None,
            columns,
            schema: Arc::new(Schema::new(fields)),
            shelves: Shelves::new(),
            progress: Arc::new(progress),
        })
    }

    fn check(&self) -> Result<(), AofError> {
        if self.stamp.is_forked() {
            return Err(AofError::Forked);
        }
        if self.source.is_closed() {
            return Err(AofError::Closed);
        }
        Ok(())
    }

    /// The next part; one that was held back comes first.
    fn next_part(&mut self) -> Result<Option<Batch>, AofError> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.scan.next_batch(),
        }
    }

    /// The next run; the rest of the last one comes first.
    fn next_run(&mut self) -> Result<Option<OffsetRun>, AofError> {
        if let Some(rest) = self.run.take() {
            return Ok(Some(rest));
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.scan.next_run(),
        }
    }

    fn next_rows(&mut self) -> Result<Option<Rows>, AofError> {
        self.check()?;
        let mut rows = Rows::new(&self.columns, &self.shelves);
        let next_offset = match self.by_runs {
            true => self.fill_from_runs(&mut rows)?,
            false => self.fill_from_parts(&mut rows)?,
        };
        self.progress.next_offset.store(next_offset, Ordering::Release);
        let scan = &self.scan;
        self.progress.skips.set(scan.skipped(), scan.lost(), scan.skipped_ranges());
        Ok((rows.len > 0).then_some(rows))
    }

    /// Fills a batch, however the runs are cut, and returns the offset behind it.
    fn fill_from_runs(&mut self, rows: &mut Rows) -> Result<u64, AofError> {
        while rows.len < self.batch_records {
            match self.next_run() {
                Ok(Some(mut run)) => {
                    let room = (self.batch_records - rows.len) as u64;
                    let end = run.offsets.end.min(run.offsets.start.saturating_add(room));
                    rows.add_run(run.segment_id.as_u64(), run.offsets.start..end);
                    run.offsets.start = end;
                    self.run = (!run.offsets.is_empty()).then_some(run);
                }
                Ok(None) => break,
                // What was found before the error comes first.
                Err(error) if rows.len > 0 => {
                    self.failed = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.run.as_ref().map_or_else(|| self.scan.next_offset(), |rest| rest.offsets.start))
    }

    /// Puts parts together to a batch and returns the offset behind it.
    fn fill_from_parts(&mut self, rows: &mut Rows) -> Result<u64, AofError> {
        // A part may be full, and a batch has no more than `batch_records`.
        while rows.len == 0
            || (rows.len + self.part_records <= self.batch_records
                && rows.payload_bytes < self.batch_bytes)
        {
            match self.next_part() {
                Ok(Some(part))
                    if rows.len > 0
                        && rows.payload_bytes + part.payload_bytes() > BATCH_BYTES_MAX
                        && self.columns.contains(&Column::Payload) =>
                {
                    self.held = Some(part);
                    break;
                }
                Ok(Some(part)) => rows.add(&part),
                Ok(None) => break,
                // What was read before the error comes first.
                Err(error) if rows.len > 0 => {
                    self.failed = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let held = self.held.as_ref().and_then(|part| part.iter().next());
        Ok(held.map_or_else(|| self.scan.next_offset(), |record| record.offset))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        // Failed once, failed for good: the end would look like a complete scan.
        let earlier = self.progress.error.lock().clone();
        let rows = match earlier {
            Some(error) => Err(error),
            None => self.next_rows(),
        };
        match rows {
            Ok(None) => Ok(None),
            Ok(Some(rows)) => {
                let columns = rows.finish(&self.columns, &self.shelves, &mut self.stream_names)?;
                RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some)
            }
            Err(error) => {
                *self.progress.error.lock() = Some(error.clone());
                Err(to_arrow(&error))
            }
        }
    }
}

/// The consumer learns the text, and whether the system or the call was at fault.
fn to_arrow(error: &AofError) -> ArrowError {
    let text = error.to_string().replace('\0', " ");
    match error {
        AofError::Corrupt(_) | AofError::Io { .. } => {
            ArrowError::IoError(text, std::io::ErrorKind::InvalidData.into())
        }
        _ => ArrowError::ExternalError(text.into()),
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic that reached the consumer's C code would end the process.
        let next = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        let next = next.unwrap_or_else(|_| {
            Err(ArrowError::ExternalError("the scan failed on a bug; please report this".into()))
        });
        next.transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Where the buffers of released batches are kept.
#[derive(Debug)]
struct Shelves {
    bytes: Arc<Shelf<u8>>,
    narrow: Arc<Shelf<i32>>,
    wide: Arc<Shelf<i64>>,
}

impl Shelves {
    fn new() -> Self {
        Self { bytes: Shelf::new(), narrow: Shelf::new(), wide: Shelf::new() }
    }
}

/// A column that grows.
#[derive(Debug)]
enum Growing {
    Names,
    Wide(Vec<i64>),
    Narrow(Vec<i32>),
    Payloads { offsets: Vec<i32>, values: Vec<u8> },
}

/// A batch that grows.
#[derive(Debug)]
struct Rows {
    len: usize,
    payload_bytes: usize,
    columns: Vec<(Column, Growing)>,
}

impl Rows {
    fn new(columns: &[Column], shelves: &Shelves) -> Self {
        let growing = |column: &Column| {
            let empty = match column {
                Column::Stream => Growing::Names,
                Column::Flags => Growing::Narrow(shelves.narrow.take()),
                Column::Payload => {
                    let mut offsets = shelves.narrow.take();
                    offsets.push(0);
                    Growing::Payloads { offsets, values: shelves.bytes.take() }
                }
                _ => Growing::Wide(shelves.wide.take()),
            };
            (*column, empty)
        };
        Self { len: 0, payload_bytes: 0, columns: columns.iter().map(growing).collect() }
    }

    /// One loop per column, so that each does only its own work.
    fn add(&mut self, part: &Batch) {
        for (column, growing) in &mut self.columns {
            match growing {
                Growing::Names => {}
                Growing::Wide(items) => match column {
                    Column::SegmentId => {
                        items.extend(part.iter().map(|r| i64::from(r.id.segment_index())));
                    }
                    Column::RecordId => {
                        items.extend(part.iter().map(|r| r.id.as_u64().cast_signed()));
                    }
                    Column::Timestamp => {
                        items.extend(part.iter().map(|r| microseconds(r.timestamp_ms)));
                    }
                    _ => items.extend(part.iter().map(|r| r.offset.cast_signed())),
                },
                Growing::Narrow(items) => {
                    items.extend(part.iter().map(|r| r.flags.bits().cast_signed()));
                }
                Growing::Payloads { offsets, values } => {
                    values.reserve(part.payload_bytes());
                    offsets.reserve(part.len());
                    for record in part.iter() {
                        values.extend_from_slice(record.payload);
                        // Fits: a batch has at most `BATCH_BYTES_MAX`.
                        offsets.push(values.len() as i32);
                    }
                }
            }
        }
        self.len += part.len();
        self.payload_bytes += part.payload_bytes();
    }

    /// Rows of nothing but offsets, all in one segment.
    fn add_run(&mut self, segment_id: u64, offsets: Range<u64>) {
        let count = (offsets.end - offsets.start) as usize;
        for (column, growing) in &mut self.columns {
            debug_assert!(column.is_of_runs());
            match (column, growing) {
                (Column::SegmentId, Growing::Wide(items)) => {
                    items.extend(std::iter::repeat_n(segment_id.cast_signed(), count));
                }
                (_, Growing::Wide(items)) => items.extend(offsets.clone().map(u64::cast_signed)),
                _ => {}
            }
        }
        self.len += count;
    }

    fn finish(
        self,
        columns: &[Column],
        shelves: &Shelves,
        names: &mut StreamNames,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        debug_assert_eq!(columns.len(), self.columns.len());
        let len = self.len;
        self.columns
            .into_iter()
            .map(|(column, growing)| {
                Ok(match growing {
                    Growing::Names => names.repeated(len)?,
                    Growing::Narrow(items) => {
                        Arc::new(Int32Array::new(shelves.narrow.lend(items), None)) as ArrayRef
                    }
                    Growing::Wide(items) if column == Column::Timestamp => {
                        let array = TimestampMicrosecondArray::new(shelves.wide.lend(items), None);
                        Arc::new(array.with_timezone("UTC"))
                    }
                    Growing::Wide(items) => {
                        Arc::new(Int64Array::new(shelves.wide.lend(items), None))
                    }
                    Growing::Payloads { offsets, values } => {
                        let offsets = OffsetBuffer::new(shelves.narrow.lend(offsets));
                        let values = shelves.bytes.lend(values).into_inner();
                        Arc::new(BinaryArray::try_new(offsets, values, None)?)
                    }
                })
            })
            .collect()
    }
}

/// The last moment that a record can be given stands for all later ones, as it does for
/// `Record.timestamp`.
#[inline]
fn microseconds(ms: u64) -> i64 {
    (ms.min(TIMESTAMP_MS_MAX) * 1_000).cast_signed()
}

/// The stream's name, once per row: made for the longest batch and sliced for others.
#[derive(Debug)]
struct StreamNames {
    name: String,
    made: Option<StringArray>,
}

impl StreamNames {
    fn repeated(&mut self, len: usize) -> Result<ArrayRef, ArrowError> {
        let made = match self.made.take().filter(|made| made.len() >= len) {
            Some(made) => made,
            None => {
                let lengths = std::iter::repeat_n(self.name.len(), len);
                let offsets = OffsetBuffer::from_lengths(lengths);
                let values = ScalarBuffer::from(self.name.repeat(len).into_bytes());
                StringArray::try_new(offsets, values.into_inner(), None)?
            }
        };
        let names = made.slice(0, len);
        self.made = Some(made);
        Ok(Arc::new(names))
    }
}
