//! Rows of plain values as Arrow arrays.

use std::sync::Arc;

use aof2_core::catalog::{Column, ColumnKind, Value};
use arrow_array::builder::{
    BinaryBuilder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

/// Checksums and ids are text of 16 hexadecimal digits, since Spark has no unsigned numbers.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let data_type = match column.kind {
            ColumnKind::Number => DataType::Int64,
            ColumnKind::Bytes => DataType::Binary,
            ColumnKind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ColumnKind::Numbers => DataType::new_list(DataType::Int64, true),
            _ => DataType::Utf8,
        };
        Field::new(column.name, data_type, column.is_nullable)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows as one batch.
pub fn batch(
    schema: &SchemaRef,
    columns: &[Column],
    rows: &[Vec<Value>],
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns
        .iter()
        .enumerate()
        .map(|(place, column)| array(column, rows.iter().map(|row| row.get(place))))
        .collect();
    RecordBatch::try_new(Arc::clone(schema), arrays)
}

fn number(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Number(number)) => Some(number.cast_signed()),
        _ => None,
    }
}

fn array<'v>(column: &Column, values: impl Iterator<Item = Option<&'v Value>>) -> ArrayRef {
    match column.kind {
        ColumnKind::Number => {
            let mut builder = Int64Builder::new();
            values.for_each(|value| builder.append_option(number(value)));
            Arc::new(builder.finish())
        }
        ColumnKind::Time => {
            let mut builder = TimestampMicrosecondBuilder::new();
            let micros = |value| number(value).map(|ms: i64| ms.saturating_mul(1000));
            values.for_each(|value| builder.append_option(micros(value)));
            Arc::new(builder.finish().with_timezone("UTC"))
        }
        ColumnKind::Bytes => {
            let mut builder = BinaryBuilder::new();
            values.for_each(|value| match value {
                Some(Value::Bytes(bytes)) => builder.append_value(bytes),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        ColumnKind::Numbers => {
            let mut builder = ListBuilder::new(Int64Builder::new());
            values.for_each(|value| match value {
                Some(Value::List(items)) => {
                    builder.append_value(items.iter().map(|item| number(Some(item))));
                }
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::new();
            values.for_each(|value| match value {
                Some(Value::Text(text)) => builder.append_value(text),
                Some(Value::Hash(hash)) => builder.append_value(format!("{hash:016x}")),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
    }
}
