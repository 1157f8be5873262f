//! `CatalogTable`: a table of one state as Arrow data.

use aof2_core::catalog::{Table, View};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::arrays;
use crate::args;
use crate::error::to_py;

/// Rows that become one batch.
const BATCH_ROWS: usize = 16_384;

/// A table of a catalog as it was after one generation, for any library that speaks Arrow.
/// Checksums and random ids are text of 16 hexadecimal digits.
///
/// >>> import pyarrow
/// >>> table = catalog.view().table("db")
/// >>> table.name, table.num_rows, table.columns[:2]
/// ('db', 1, ['db_id', 'name'])
/// >>> pyarrow.table(table).column("name").to_pylist()
/// ['app']
#[pyclass(module = "aof2", frozen)]
pub struct CatalogTable {
    table: Table,
    generation: u64,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// The table of this name.
pub fn table_of(given: &Bound<'_, PyAny>) -> PyResult<Table> {
    let name = args::text("name", "a str", given)?;
    Table::from_name(&name).ok_or_else(|| {
        let names = Table::ALL.map(Table::name).join(", ");
        PyValueError::new_err(format!("there is no table {name:?}; there are {names}"))
    })
}

impl CatalogTable {
    pub fn read(py: Python<'_>, view: &View, table: Table) -> PyResult<Self> {
        let schema = arrays::schema(table.columns());
        let mut batches = Vec::new();
        py.detach(|| {
            let (mut rows, mut failed) = (Vec::new(), None);
            let mut flush = |rows: &mut Vec<_>| {
                match arrays::batch(&schema, table.columns(), rows) {
                    Ok(batch) => batches.push(batch),
                    Err(error) => failed = Some(error),
                }
                rows.clear();
            };
            let walked = view.each_row(table, |row| {
                rows.push(row);
                if rows.len() == BATCH_ROWS {
                    flush(&mut rows);
                }
                Ok(true)
            });
            if !rows.is_empty() {
                flush(&mut rows);
            }
            walked.map_err(to_py)?;
            failed.map_or(Ok(()), |error| Err(PyRuntimeError::new_err(error.to_string())))
        })?;
        Ok(Self { table, generation: view.generation(), schema, batches })
    }
}

#[pymethods]
impl CatalogTable {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The last batch that it includes.
    #[getter]
    fn generation(&self) -> u64 {
        self.generation
    }

    /// Rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of its columns, those of the key first.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.table.columns().iter().map(|column| column.name).collect()
    }

    /// The rows as a stream of batches, as often as asked for. Whoever asks for another
    /// schema gets this one and has to convert.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The schema of the batches.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let (name, rows) = (self.table.name(), self.num_rows());
        format!("<aof2.CatalogTable {name:?}: {rows} rows, generation {}>", self.generation)
    }
}
