//! Which bytes, timestamps and flags the rows of an Arrow batch stand for.
//!
//! Reads the C structures that another library filled in and borrows their bytes. The
//! interface cannot say how much memory a pointer points to, so that much has to be
//! believed; offsets, views and lengths are checked before they are followed.

use std::slice;

use aof2_core::{AppendOptions, RecordFlags, SegmentFormat, timestamp_refusal};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::{DataType, TimeUnit};

/// Why rows cannot be appended.
#[derive(Debug)]
pub enum Refusal {
    /// The data as a whole is not what was asked for, or contradicts itself.
    Data(String),
    /// A row can never be a record.
    Row(String),
}

type Result<T> = std::result::Result<T, Refusal>;

/// How a column stores its payloads.
#[derive(Clone, Copy, Debug)]
enum PayloadKind {
    Offsets32,
    Offsets64,
    Views,
    Fixed { width: usize },
}

/// How a column stores its numbers.
#[derive(Clone, Copy, Debug)]
struct NumberKind {
    width: usize,
    signed: bool,
}

/// What one timestamp counts, in milliseconds: `multiply` or `divide`, the other is 1.
#[derive(Clone, Copy, Debug)]
struct ToMilliseconds {
    multiply: i128,
    divide: i128,
}

#[derive(Debug)]
struct Column<K> {
    name: String,
    /// Place among the fields; `None` if the data is no struct but the column itself.
    index: Option<usize>,
    kind: K,
}

/// Which columns hold what; found once from the schema.
#[derive(Debug)]
pub struct Plan {
    payload: Column<PayloadKind>,
    timestamp: Option<Column<ToMilliseconds>>,
    flags: Option<Column<NumberKind>>,
}

impl Plan {
    /// Finds the columns by name; the payload's may be left out if there is only one
    /// that it could be.
    pub fn new(
        data_type: &DataType,
        column: Option<&str>,
        timestamp_column: Option<&str>,
        flags_column: Option<&str>,
    ) -> Result<Self> {
        let DataType::Struct(_) = data_type else {
            if let Some(name) = column.or(timestamp_column).or(flags_column) {
                return refuse(format!("there is no column {name:?}: the data is a plain array"));
            }
            let name = "payload".to_owned();
            let kind = payload_kind(&name, data_type)?;
            let payload = Column { name, index: None, kind };
            return Ok(Self { payload, timestamp: None, flags: None });
        };
        let others = [timestamp_column, flags_column];
        let name = match column {
            Some(name) => name,
            None => only_payload_column(data_type, &others)?,
        };
        let timestamp = timestamp_column.map(|name| find(data_type, name, timestamp_kind));
        let flags = flags_column.map(|name| find(data_type, name, flags_kind));
        Ok(Self {
            payload: find(data_type, name, payload_kind)?,
            timestamp: timestamp.transpose()?,
            flags: flags.transpose()?,
        })
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Refusal::Data(reason))
}

fn find<K>(
    data_type: &DataType,
    name: &str,
    kind: impl Fn(&str, &DataType) -> Result<K>,
) -> Result<Column<K>> {
    let DataType::Struct(fields) = data_type else { return refuse(no_column(name, &[])) };
    let mut found = fields.iter().enumerate().filter(|(_, field)| field.name() == name);
    let Some((index, field)) = found.next() else {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        return refuse(no_column(name, &names));
    };
    if found.next().is_some() {
        return refuse(format!("there is more than one column {name:?}"));
    }
    Ok(Column { name: name.into(), index: Some(index), kind: kind(name, field.data_type())? })
}

fn no_column(name: &str, names: &[&str]) -> String {
    format!("there is no column {name:?}; the columns are {}", listed(names))
}

fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    quoted.join(", ")
}

fn only_payload_column<'a>(data_type: &'a DataType, others: &[Option<&str>]) -> Result<&'a str> {
    let DataType::Struct(fields) = data_type else { return refuse(no_column("payload", &[])) };
    let candidates: Vec<&str> = fields
        .iter()
        .filter(|field| payload_kind(field.name(), field.data_type()).is_ok())
        .map(|field| field.name().as_str())
        .filter(|name| !others.contains(&Some(name)))
        .collect();
    match candidates[..] {
        [name] => Ok(name),
        [] => {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            refuse(format!("no column holds binary data or text: {}", listed(&names)))
        }
        _ => refuse(format!("say with column= which one is the payload: {}", listed(&candidates))),
    }
}

fn payload_kind(name: &str, data_type: &DataType) -> Result<PayloadKind> {
    Ok(match data_type {
        DataType::Binary | DataType::Utf8 => PayloadKind::Offsets32,
        DataType::LargeBinary | DataType::LargeUtf8 => PayloadKind::Offsets64,
        DataType::BinaryView | DataType::Utf8View => PayloadKind::Views,
        DataType::FixedSizeBinary(width) => match usize::try_from(*width) {
            Ok(width) => PayloadKind::Fixed { width },
            Err(_) => return refuse(format!("column {name:?} has a negative width")),
        },
        DataType::Dictionary(..) => {
            return refuse(format!("column {name:?} is dictionary-encoded; decode it first"));
        }
        other => {
            return refuse(format!("column {name:?} holds {other}, not binary data or text"));
        }
    })
}

fn timestamp_kind(name: &str, data_type: &DataType) -> Result<ToMilliseconds> {
    if let DataType::Timestamp(_, None) = data_type {
        return refuse(format!(
            "column {name:?} holds timestamps without a time zone, which could mean several \
             instants; give it one, for example with cast(pa.timestamp(\"us\", \"UTC\"))"
        ));
    }
    let (multiply, divide) = match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => (1_000, 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Int64 => (1, 1),
        DataType::Timestamp(TimeUnit::Microsecond, _) => (1, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (1, 1_000_000),
        other => {
            return refuse(format!(
                "column {name:?} holds {other}, not timestamps or int64 milliseconds"
            ));
        }
    };
    Ok(ToMilliseconds { multiply, divide })
}

fn flags_kind(name: &str, data_type: &DataType) -> Result<NumberKind> {
    let (width, signed) = match data_type {
        DataType::Int8 => (1, true),
        DataType::Int16 => (2, true),
        DataType::Int32 => (4, true),
        DataType::Int64 => (8, true),
        DataType::UInt8 => (1, false),
        DataType::UInt16 => (2, false),
        DataType::UInt32 => (4, false),
        DataType::UInt64 => (8, false),
        other => return refuse(format!("column {name:?} holds {other}, not integers")),
    };
    Ok(NumberKind { width, signed })
}

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
        let rows = Self { len: whole.len, payloads, timestamps, flags };
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

impl ToMilliseconds {
    #[inline]
    fn apply(self, value: i128) -> Option<u64> {
        u64::try_from(value * self.multiply).ok().map(|value| match self.divide {
            1 => value,
            divide => value / divide as u64,
        })
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

/// Some rows of an array: `len` of them behind `start`.
#[derive(Clone, Copy, Debug)]
struct Window<'a> {
    array: &'a FFI_ArrowArray,
    start: usize,
    len: usize,
}

impl<'a> Window<'a> {
    fn of(array: &'a FFI_ArrowArray) -> Result<Self> {
        let window = Self { array, start: array.offset(), len: array.len() };
        // The structure has signed numbers; negative ones arrive as huge ones.
        match window.start.checked_add(window.len).filter(|end| *end < isize::MAX as usize) {
            Some(_) => Ok(window),
            None => refuse("the data is malformed: an array has a negative length".into()),
        }
    }

    fn child(&self, index: usize) -> Result<Self> {
        if index >= self.array.num_children() {
            return refuse("the data is malformed: a column is missing".into());
        }
        let child = Self::of(self.array.child(index))?;
        if self.start + self.len > child.len {
            return refuse("the data is malformed: a column is too short".into());
        }
        Ok(Self { start: child.start + self.start, len: self.len, ..child })
    }

    /// The first `count` items of a buffer, of `N` bytes each. They need not be aligned.
    fn buffer<const N: usize>(&self, index: usize, count: usize) -> Result<&'a [[u8; N]]> {
        if count == 0 {
            return Ok(&[]);
        }
        let pointer = match index < self.array.num_buffers() {
            true => self.array.buffer(index),
            false => std::ptr::null(),
        };
        let bytes = count.checked_mul(N).filter(|bytes| *bytes <= isize::MAX as usize);
        if pointer.is_null() || bytes.is_none() {
            return refuse(format!("the data is malformed: buffer {index} is missing"));
        }
        // SAFETY: not null, not larger than an object can be, and items of bytes need no
        // alignment. That the producer's buffer has the length that its array implies is the
        // contract of the C data interface, as is that it stays unchanged until the array is
        // released; the array outlives 'a.
        Ok(unsafe { slice::from_raw_parts(pointer.cast::<[u8; N]>(), count) })
    }

    fn bytes(&self, index: usize, count: usize) -> Result<&'a [u8]> {
        self.buffer::<1>(index, count).map(<[[u8; 1]]>::as_flattened)
    }

    fn first_null(&self) -> Result<Option<usize>> {
        let has_none = self.array.null_count_opt() == Some(0)
            || self.array.num_buffers() == 0
            || self.array.buffer(0).is_null();
        if has_none {
            return Ok(None);
        }
        let valid = self.bytes(0, (self.start + self.len).div_ceil(8))?;
        let is_null = |row: &usize| {
            let bit = self.start + row;
            valid[bit / 8] & (1 << (bit % 8)) == 0
        };
        Ok((0..self.len).find(is_null))
    }

    fn payloads(&self, kind: PayloadKind) -> Result<Payloads<'a>> {
        let end = self.start + self.len;
        if self.len == 0 {
            return Ok(Payloads::Fixed { width: 0, values: &[] });
        }
        Ok(match kind {
            PayloadKind::Offsets32 => {
                let offsets = self.buffer::<4>(1, end + 1)?;
                let values_len = offsets.last().map_or(0, |last| i32::from_ne_bytes(*last).into());
                let values = self.values(values_len)?;
                Payloads::Offsets32 { offsets: &offsets[self.start..], values }
            }
            PayloadKind::Offsets64 => {
                let offsets = self.buffer::<8>(1, end + 1)?;
                let values_len = offsets.last().map_or(0, |last| i64::from_ne_bytes(*last));
                let values = self.values(values_len)?;
                Payloads::Offsets64 { offsets: &offsets[self.start..], values }
            }
            PayloadKind::Views => {
                let views = &self.buffer::<16>(1, end)?[self.start..];
                Payloads::Views { views, buffers: self.view_buffers()? }
            }
            PayloadKind::Fixed { width } => {
                let values = self.bytes(1, end.saturating_mul(width))?;
                Payloads::Fixed { width, values: &values[self.start * width..] }
            }
        })
    }

    fn values(&self, len: i64) -> Result<&'a [u8]> {
        match usize::try_from(len) {
            Ok(len) => self.bytes(2, len),
            Err(_) => refuse("the data is malformed: an offset is negative".into()),
        }
    }

    /// Behind validity and views come the buffers that views point into, and last the
    /// buffer with the lengths of those.
    fn view_buffers(&self) -> Result<Vec<&'a [u8]>> {
        let Some(last) = self.array.num_buffers().checked_sub(1).filter(|last| *last >= 2) else {
            return refuse("the data is malformed: a column of views has too few buffers".into());
        };
        let lengths = self.buffer::<8>(last, last - 2)?;
        let buffer = |(i, len): (usize, &[u8; 8])| match usize::try_from(i64::from_ne_bytes(*len)) {
            Ok(len) => self.bytes(2 + i, len),
            Err(_) => refuse("the data is malformed: a buffer has a negative length".into()),
        };
        lengths.iter().enumerate().map(buffer).collect()
    }

    fn numbers(&self, kind: NumberKind) -> Result<Numbers<'a>> {
        let values = self.bytes(1, (self.start + self.len).saturating_mul(kind.width))?;
        let values = values.get(self.start * kind.width..).unwrap_or_default();
        Ok(Numbers { kind, values })
    }
}

#[derive(Debug)]
enum Payloads<'a> {
    Offsets32 { offsets: &'a [[u8; 4]], values: &'a [u8] },
    Offsets64 { offsets: &'a [[u8; 8]], values: &'a [u8] },
    Views { views: &'a [[u8; 16]], buffers: Vec<&'a [u8]> },
    Fixed { width: usize, values: &'a [u8] },
}

impl<'a> Payloads<'a> {
    /// The bytes of a row; `None` if they would lie outside the buffers.
    #[inline]
    fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Offsets32 { offsets, values } => {
                let start = usize::try_from(i32::from_ne_bytes(*offsets.get(row)?)).ok()?;
                let end = usize::try_from(i32::from_ne_bytes(*offsets.get(row + 1)?)).ok()?;
                values.get(start..end)
            }
            Self::Offsets64 { offsets, values } => {
                let start = usize::try_from(i64::from_ne_bytes(*offsets.get(row)?)).ok()?;
                let end = usize::try_from(i64::from_ne_bytes(*offsets.get(row + 1)?)).ok()?;
                values.get(start..end)
            }
            Self::Views { views, buffers } => {
                let view: &'a [u8; 16] = views.get(row)?;
                let [len, _, buffer, start] = view.as_chunks::<4>().0 else { return None };
                let len = usize::try_from(i32::from_ne_bytes(*len)).ok()?;
                if len <= 12 {
                    return view.get(4..4 + len);
                }
                let buffer = usize::try_from(i32::from_ne_bytes(*buffer)).ok()?;
                let start = usize::try_from(i32::from_ne_bytes(*start)).ok()?;
                buffers.get(buffer)?.get(start..start.checked_add(len)?)
            }
            Self::Fixed { width, values } => {
                let start = row.checked_mul(*width)?;
                values.get(start..start.checked_add(*width)?)
            }
        }
    }
}

#[derive(Debug)]
struct Numbers<'a> {
    kind: NumberKind,
    values: &'a [u8],
}

impl Numbers<'_> {
    /// The number of a row.
    #[inline]
    fn get(&self, row: usize) -> i128 {
        let NumberKind { width, signed } = self.kind;
        let stored = self.values.get(row * width..(row + 1) * width).unwrap_or_default();
        // Every integer fits into the low bytes of a wider one, the rest repeats its sign.
        let mut wide = [0; 16];
        for (to, from) in wide.iter_mut().zip(stored) {
            *to = *from;
        }
        let value = i128::from_le_bytes(wide);
        let unused = 128 - 8 * width as u32;
        if signed { (value << unused) >> unused } else { value }
    }
}
