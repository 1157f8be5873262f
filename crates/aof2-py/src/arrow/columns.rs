//! The columns of a scan.

use arrow_schema::{DataType, Field, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A column of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
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

    pub fn field(self) -> Field {
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
    pub fn is_of_runs(self) -> bool {
        matches!(self, Self::Stream | Self::SegmentId | Self::Offset)
    }

    /// The columns of these names; all but the stream's name by default.
    pub fn named(names: Option<Vec<String>>) -> PyResult<Vec<Self>> {
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
