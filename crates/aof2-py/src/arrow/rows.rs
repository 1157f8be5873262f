//! Which bytes, timestamps and flags the rows of an Arrow batch stand for.

use aof2_core::{AppendOptions, RecordFlags, SegmentFormat, timestamp_refusal};
use arrow_data::ffi::FFI_ArrowArray;

use super::plan::{Column, NumberKind, Plan, Refusal, Result, ToMilliseconds, refuse};
use super::window::{Numbers, Payloads, Window};

/// What a log takes as a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimits {
    pub payload_len_max: usize,
    pub format: SegmentFormat,
}

/// The rows of one array, every one of them fit to be a record.
#[derive(Debug)]
pub struct Rows<'a> {
    len: usize,
    payloads: Payloads<'a>,
    timestamps: Option<(Numbers<'a>, ToMilliseconds)>,
    flags: Option<Numbers<'a>>,
}

impl<'a> Rows<'a> {
    /// Looks at every row. `first_row` is the row's number in the whole data, for
    /// messages.
    pub fn new(
        array: &'a FFI_ArrowArray,
        plan: &Plan,
        first_row: u64,
        limits: RecordLimits,
    ) -> Result<Self> {
        let whole = Window::of(array)?;
        if plan.payload.index.is_some()
            && let Some(row) = whole.first_null()?
        {
            return Err(Refusal::Row(format!("row {} is null", first_row + row as u64)));
        }
        let payloads = plan.payload.window(&whole, first_row)?.payloads(plan.payload.kind)?;
        let timestamps = match &plan.timestamp {
            Some(column) => {
                let window = column.window(&whole, first_row)?;
                Some((window.numbers(NumberKind { width: 8, signed: true })?, column.kind))
            }
            None => None,
        };
        let flags = match &plan.flags {
            Some(column) => Some(column.window(&whole, first_row)?.numbers(column.kind)?),
            None => None,
        };
        let rows = Self { len: whole.len(), payloads, timestamps, flags };
        for row in 0..rows.len {
            rows.check(row, plan, limits).map_err(|refusal| match refusal {
                Refusal::Row(reason) => {
                    Refusal::Row(format!("row {}: {reason}", first_row + row as u64))
                }
                data => data,
            })?;
        }
        Ok(rows)
    }

    fn check(&self, row: usize, plan: &Plan, limits: RecordLimits) -> Result<()> {
        let RecordLimits { payload_len_max, format } = limits;
        let len = match self.payloads.get(row) {
            Some(payload) => payload.len(),
            None => {
                return refuse(format!(
                    "column {:?} is malformed: row {row} points outside its buffers",
                    plan.payload.name
                ));
            }
        };
        if len == 0 || len > payload_len_max {
            return Err(Refusal::Row(payload_refusal(&plan.payload.name, len, payload_len_max)));
        }
        if let (Some(column), Some((numbers, to_ms))) = (&plan.timestamp, &self.timestamps) {
            let name = &column.name;
            let refusal = match to_ms.apply(numbers.get(row)) {
                None if numbers.get(row) < 0 => {
                    Some(format!("the timestamp in column {name:?} is before 1970"))
                }
                ms => timestamp_refusal(format, ms.unwrap_or(u64::MAX))
                    .map(|reason| format!("column {name:?}: {reason}")),
            };
            if let Some(reason) = refusal {
                return Err(Refusal::Row(reason));
            }
        }
        if let (Some(column), Some(numbers)) = (&plan.flags, &self.flags)
            && u32::try_from(numbers.get(row)).is_err()
        {
            let value = numbers.get(row);
            let reason = format!("{value} in column {:?} is no set of 32 flags", column.name);
            return Err(Refusal::Row(reason));
        }
        Ok(())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The payload of a row.
    #[inline]
    pub fn payload(&self, row: usize) -> &'a [u8] {
        self.payloads.get(row).unwrap_or_default()
    }

    /// The timestamp and flags of a row.
    #[inline]
    pub fn options(&self, row: usize) -> AppendOptions {
        let timestamp_ms =
            self.timestamps.as_ref().and_then(|(numbers, to_ms)| to_ms.apply(numbers.get(row)));
        let bits = self.flags.as_ref().and_then(|numbers| u32::try_from(numbers.get(row)).ok());
        AppendOptions { timestamp_ms, flags: RecordFlags::from_bits(bits.unwrap_or(0)) }
    }

    /// Whether two rows have the same timestamp and flags.
    #[inline]
    pub fn share_options(&self, a: usize, b: usize) -> bool {
        (self.timestamps.is_none() && self.flags.is_none()) || self.options(a) == self.options(b)
    }
}

#[cold]
fn payload_refusal(name: &str, len: usize, len_max: usize) -> String {
    match len {
        0 => format!("the payload in column {name:?} is empty"),
        _ => format!(
            "the payload in column {name:?} has {len} bytes, this log takes at most {len_max} \
             (segment_bytes_max less headers)"
        ),
    }
}

impl<K> Column<K> {
    /// The column's part of the batch; none of it may be null.
    fn window<'a>(&self, whole: &Window<'a>, first_row: u64) -> Result<Window<'a>> {
        let window = match self.index {
            Some(index) => whole.child(index)?,
            None => *whole,
        };
        match window.first_null()? {
            Some(row) => Err(Refusal::Row(format!(
                "row {}: column {:?} is null",
                first_row + row as u64,
                self.name
            ))),
            None => Ok(window),
        }
    }
}
