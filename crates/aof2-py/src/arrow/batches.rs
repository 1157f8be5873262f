//! Reading a log in Arrow batches.
//!
//! The consumer pulls batches one by one, without the GIL. Payloads are copied from the
//! mapped segments into one contiguous buffer per batch, right after they were
//! verified, while they are in the processor's cache; only the columns that were asked
//! for are built. Where only offsets are wanted, footers tell them and no record is read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aof2_core::io::ForkStamp;
use aof2_core::{AofError, Batch, OffsetRun, OnCorruption, Result, Scan, ScanOptions};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use parking_lot::Mutex;

use super::build::{GrowingBatch, Shelves, StreamNames};
use super::columns::Column;
use crate::log::{Source, check_not_forked};
use crate::scan::ScanProgress;
use crate::sizes::{ARROW_PART_BYTES, ARROW_PART_RECORDS};

/// What the offsets of a batch can express.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// How far the reader of the stream has got.
#[derive(Debug)]
pub struct ArrowProgress {
    pub scan: ScanProgress,
    /// What ended it.
    pub error: Mutex<Option<AofError>>,
}

/// Reads parts, builds batches.
#[derive(Debug)]
pub struct Batches {
    source: Source,
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
    progress: Arc<ArrowProgress>,
}

impl Batches {
    pub fn new(source: Source, options: ScanOptions, columns: Vec<Column>) -> Result<Self> {
        let part_records = options.batch_records.clamp(1, ARROW_PART_RECORDS);
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
            if batch_bytes == usize::MAX { usize::MAX } else { batch_bytes.min(ARROW_PART_BYTES) };
        let parts = ScanOptions { batch_bytes: part_bytes, batch_records: part_records, ..options };
        let scan = source.scan(parts)?;
        let progress =
            ArrowProgress { scan: ScanProgress::at(scan.next_offset()), error: Mutex::default() };
        let fields: Vec<Field> = columns.iter().map(|column| column.field()).collect();
        Ok(Self {
            stream_names: StreamNames::new(source.name()),
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

    pub fn progress(&self) -> Arc<ArrowProgress> {
        Arc::clone(&self.progress)
    }

    /// Whether the log may still be read.
    pub fn check(&self) -> Result<()> {
        check_not_forked(self.stamp)?;
        if self.source.is_closed() {
            return Err(AofError::Closed);
        }
        Ok(())
    }

    /// The next part; one that was held back comes first.
    fn next_part(&mut self) -> Result<Option<Batch>> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.scan.next_batch(),
        }
    }

    /// The next run; the rest of the last one comes first.
    fn next_run(&mut self) -> Result<Option<OffsetRun>> {
        if let Some(rest) = self.run.take() {
            return Ok(Some(rest));
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.scan.next_run(),
        }
    }

    fn next_rows(&mut self) -> Result<Option<GrowingBatch>> {
        self.check()?;
        let mut rows = GrowingBatch::new(&self.columns, &self.shelves);
        let next_offset = match self.by_runs {
            true => self.fill_from_runs(&mut rows)?,
            false => self.fill_from_parts(&mut rows)?,
        };
        self.progress.scan.set_next(next_offset);
        let scan = &self.scan;
        self.progress.scan.set_skipped(scan.skipped(), scan.lost(), scan.skipped_ranges());
        Ok((rows.len > 0).then_some(rows))
    }

    /// Fills a batch, however the runs are cut, and returns the offset behind it.
    fn fill_from_runs(&mut self, rows: &mut GrowingBatch) -> Result<u64> {
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
    fn fill_from_parts(&mut self, rows: &mut GrowingBatch) -> Result<u64> {
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

    fn next_batch(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
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
    type Item = std::result::Result<RecordBatch, ArrowError>;

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
