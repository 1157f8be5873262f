//! `CatalogOperations`: the operation log, one operation after the other.

use std::sync::Arc;

use aof2_core::catalog::{Audit, Column, ColumnKind, Operation, Value};
use aof2_core::io::ForkStamp;
use aof2_core::{AofError, Result};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::{arrays, operation};
use crate::error::to_py;
use crate::log::check_not_forked;

/// Operations that become one batch of Arrow data.
const BATCH_ROWS: usize = 4096;

const fn column(name: &'static str, kind: ColumnKind, is_nullable: bool) -> Column {
    Column { name, kind, is_nullable }
}

const COLUMNS: [Column; 10] = [
    column("generation", ColumnKind::Number, false),
    column("index", ColumnKind::Number, false),
    column("type", ColumnKind::Text, false),
    column("phase", ColumnKind::Text, false),
    column("actor", ColumnKind::Text, false),
    column("timestamp", ColumnKind::Time, false),
    column("stream_id", ColumnKind::Hash, true),
    column("intent", ColumnKind::Text, true),
    column("segments", ColumnKind::Json, false),
    column("fields", ColumnKind::Json, false),
];

/// The operations of a catalog in order, from `operations` or `audit`: an iterator, or Arrow
/// data for any library that speaks it. Either can be read once.
///
/// >>> import pyarrow
/// >>> [operation.type for operation in catalog.operations()]
/// ['Migrate', 'RegisterDb']
/// >>> pyarrow.table(catalog.operations()).column("fields")[1].as_py()[:25]
/// '{"db_id":1,"name":"app","'
#[pyclass(module = "aof2", frozen)]
pub struct CatalogOperations {
    source: Mutex<Option<Source>>,
    error: Arc<Mutex<Option<AofError>>>,
    stamp: ForkStamp,
}

struct Source {
    audit: Audit,
    /// Generation before which it ends.
    end: u64,
}

impl Source {
    fn next(&mut self) -> Result<Option<Operation>> {
        let next = self.audit.next().transpose()?;
        Ok(next.filter(|operation| operation.id.generation < self.end))
    }
}

impl CatalogOperations {
    pub fn new(audit: Audit, end: Option<u64>) -> Self {
        Self {
            source: Mutex::new(Some(Source { audit, end: end.unwrap_or(u64::MAX) })),
            error: Arc::default(),
            stamp: ForkStamp::now(),
        }
    }
}

#[pymethods]
impl CatalogOperations {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_not_forked(self.stamp).map_err(to_py)?;
        let next = py.detach(|| {
            let mut source = self.source.lock();
            let next = source.as_mut().map_or(Ok(None), Source::next);
            if !matches!(next, Ok(Some(_))) {
                *source = None;
            }
            next
        });
        next.map_err(to_py)?.map(|next| operation::operation(py, &next)).transpose()
    }

    /// The rest of the operations as a stream of Arrow batches, for one reader. `fields` and
    /// `segments` are JSON.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        check_not_forked(self.stamp).map_err(to_py)?;
        let source = self.source.lock().take();
        let source = source.ok_or_else(|| {
            PyRuntimeError::new_err("these operations were read already; call operations() again")
        })?;
        let batches = Batches {
            source: Some(source),
            schema: arrays::schema(&COLUMNS),
            error: Arc::clone(&self.error),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The schema of the batches.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*arrays::schema(&COLUMNS))
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// What ended the Arrow stream, if it failed. Readers of Arrow streams get its text only.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.error.lock().clone()?;
        Some(to_py(error).into_value(py).into_any())
    }

    fn __repr__(&self) -> &'static str {
        match self.source.lock().is_some() {
            true => "<aof2.CatalogOperations>",
            false => "<aof2.CatalogOperations: at the end>",
        }
    }
}

/// The operations as Arrow batches. Called without the GIL.
struct Batches {
    source: Option<Source>,
    schema: SchemaRef,
    error: Arc<Mutex<Option<AofError>>>,
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let source = self.source.as_mut()?;
        let mut rows = Vec::new();
        while rows.len() < BATCH_ROWS {
            match source.next() {
                Ok(Some(operation)) => rows.push(row(&operation)),
                Ok(None) => {
                    self.source = None;
                    break;
                }
                Err(error) => {
                    self.source = None;
                    let text = error.to_string();
                    *self.error.lock() = Some(error);
                    return Some(Err(ArrowError::ExternalError(text.into())));
                }
            }
        }
        (!rows.is_empty()).then(|| arrays::batch(&self.schema, &COLUMNS, &rows))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn row(operation: &Operation) -> Vec<Value> {
    let segments = operation.segments.iter().map(|segment| segment.to_value()).collect();
    vec![
        Value::Number(operation.id.generation),
        Value::Number(operation.id.index.into()),
        Value::Text(operation.body.name().into()),
        Value::Text(operation.phase.as_str().into()),
        Value::Text(operation.actor.clone()),
        Value::Number(operation.timestamp_ms),
        operation.stream_id.map_or(Value::None, |id| Value::Hash(id.as_u64())),
        operation.intent.map_or(Value::None, |id| Value::Text(id.to_string())),
        Value::Text(Value::List(segments).to_json()),
        Value::Text(Value::Fields(operation.body.fields()).to_json()),
    ]
}
