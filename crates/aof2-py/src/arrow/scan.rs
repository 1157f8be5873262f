//! `ArrowScan`: a scan as a stream of Arrow batches.

use std::sync::Arc;

use aof2_core::ScanOptions;
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::batches::{ArrowProgress, Batches};
use super::columns::Column;
use crate::error::to_py;
use crate::log::Source;

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
    progress: Arc<ArrowProgress>,
    /// Taken by the first reader.
    batches: Mutex<Option<Batches>>,
}

impl ArrowScan {
    /// Opens the scan; nothing is read yet.
    pub fn new(
        source: Source,
        options: ScanOptions,
        columns: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let columns = Column::named(columns)?;
        let batches = Batches::new(source, options, columns).map_err(to_py)?;
        Ok(Self {
            schema: batches.schema(),
            progress: batches.progress(),
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
        self.progress.scan.next_offset()
    }

    /// Records passed over: those that a repair left a gap for and, with
    /// on_corruption="skip", damaged ones.
    #[getter]
    fn skipped(&self) -> u64 {
        self.progress.scan.skipped()
    }

    /// Of the records passed over, those that a repair left a gap for.
    #[getter]
    fn lost(&self) -> u64 {
        self.progress.scan.lost()
    }

    /// Which records were passed over, in order, and why. Of more than a thousand ranges,
    /// the first ones and the last.
    #[getter]
    fn skipped_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.progress.scan.skipped_ranges(py)
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
