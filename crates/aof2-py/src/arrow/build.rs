//! Making the arrays of a batch.

use std::ops::Range;
use std::sync::Arc;

use aof2_core::{Batch, TIMESTAMP_MS_MAX};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::columns::Column;
use super::shelf::Shelf;

/// Where the buffers of released batches are kept.
#[derive(Debug)]
pub struct Shelves {
    bytes: Arc<Shelf<u8>>,
    narrow: Arc<Shelf<i32>>,
    wide: Arc<Shelf<i64>>,
}

impl Shelves {
    pub fn new() -> Self {
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
pub struct GrowingBatch {
    pub len: usize,
    pub payload_bytes: usize,
    columns: Vec<(Column, Growing)>,
}

impl GrowingBatch {
    pub fn new(columns: &[Column], shelves: &Shelves) -> Self {
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
    pub fn add(&mut self, part: &Batch) {
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
    pub fn add_run(&mut self, segment_id: u64, offsets: Range<u64>) {
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

    pub fn finish(
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
pub struct StreamNames {
    name: String,
    made: Option<StringArray>,
}

impl StreamNames {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), made: None }
    }

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
