//! Which columns of Arrow data hold payloads, timestamps and flags, and how.

use arrow_schema::{DataType, TimeUnit};

/// Columns by name, as given.
pub struct ColumnNames {
    pub payload: Option<String>,
    pub timestamp: Option<String>,
    pub flags: Option<String>,
}

/// Why rows cannot be appended.
#[derive(Debug)]
pub enum Refusal {
    /// The data as a whole is not what was asked for, or contradicts itself.
    Data(String),
    /// A row can never be a record.
    Row(String),
}

pub type Result<T> = std::result::Result<T, Refusal>;

/// How a column stores its payloads.
#[derive(Clone, Copy, Debug)]
pub enum PayloadKind {
    Offsets32,
    Offsets64,
    Views,
    Fixed { width: usize },
}

/// How a column stores its numbers.
#[derive(Clone, Copy, Debug)]
pub struct NumberKind {
    pub width: usize,
    pub signed: bool,
}

/// What one timestamp counts, in milliseconds: `multiply` or `divide`, the other is 1.
#[derive(Clone, Copy, Debug)]
pub struct ToMilliseconds {
    multiply: i128,
    divide: i128,
}

#[derive(Debug)]
pub struct Column<K> {
    pub name: String,
    /// Place among the fields; `None` if the data is no struct but the column itself.
    pub index: Option<usize>,
    pub kind: K,
}

impl ToMilliseconds {
    #[inline]
    pub fn apply(self, value: i128) -> Option<u64> {
        u64::try_from(value * self.multiply).ok().map(|value| match self.divide {
            1 => value,
            divide => value / divide as u64,
        })
    }
}

/// Which columns hold what; found once from the schema.
#[derive(Debug)]
pub struct Plan {
    pub payload: Column<PayloadKind>,
    pub timestamp: Option<Column<ToMilliseconds>>,
    pub flags: Option<Column<NumberKind>>,
}

impl Plan {
    /// Finds the columns by name; the payload's may be left out if there is only one
    /// that it could be.
    pub fn new(data_type: &DataType, names: &ColumnNames) -> Result<Self> {
        let column = names.payload.as_deref();
        let timestamp_column = names.timestamp.as_deref();
        let flags_column = names.flags.as_deref();
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

pub fn refuse<T>(reason: String) -> Result<T> {
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
