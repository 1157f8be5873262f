//! Plain values of the catalog as Python has them.

use aof2_core::catalog::{Column, ColumnKind, OperationId, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::TYPES;
use crate::report::{Built, Fields};
use crate::time::to_datetime;

/// A value; checksums and ids are numbers here, which Python does not round.
pub fn value<'py>(py: Python<'py>, value: &Value) -> Built<'py> {
    match value {
        Value::Number(number) | Value::Hash(number) => number.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Value::List(items) => {
            let items: Vec<_> =
                items.iter().map(|item| self::value(py, item)).collect::<PyResult<_>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Value::Fields(named) => Ok(fields(py, named)?.into_any()),
        _ => Ok(py.None().into_bound(py)),
    }
}

/// Values with names.
pub fn fields<'py>(
    py: Python<'py>,
    named: &[(&'static str, Value)],
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    for (name, value) in named {
        fields.set_item(name, self::value(py, value)?)?;
    }
    Ok(fields)
}

/// A value of a column: times are aware datetimes.
pub fn cell<'py>(py: Python<'py>, column: &Column, value: &Value) -> Built<'py> {
    match (column.kind, value) {
        (ColumnKind::Time, Value::Number(ms)) => to_datetime(py, *ms),
        _ => self::value(py, value),
    }
}

/// The id of an operation.
pub fn operation_id(py: Python<'_>, id: OperationId) -> Built<'_> {
    Fields::new(py)
        .set("generation", id.generation)?
        .set("index", id.index)?
        .build_in(TYPES, "OperationId")
}
