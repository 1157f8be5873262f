//! The C structures that other libraries hand over in capsules.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

/// The data, chunk by chunk.
pub enum Chunks {
    One { data_type: DataType, array: Option<FFI_ArrowArray> },
    Stream { data_type: DataType, stream: FFI_ArrowArrayStream },
}

impl Chunks {
    /// Of anything that speaks the interface.
    pub fn of(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if data.hasattr("__arrow_c_array__")? {
            return Self::from_array(&data.call_method0("__arrow_c_array__")?);
        }
        if data.hasattr("__arrow_c_stream__")? {
            return Self::from_stream(&data.call_method0("__arrow_c_stream__")?);
        }
        Err(PyTypeError::new_err(format!(
            "{} is no Arrow data: it has neither __arrow_c_array__ nor __arrow_c_stream__",
            data.get_type().name()?
        )))
    }

    fn from_array(capsules: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (schema, array) = capsules.cast::<PyTuple>()?.extract()?;
        let schema: Bound<'_, PyCapsule> = schema;
        let array: Bound<'_, PyCapsule> = array;
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
        // SAFETY: capsules of these names hold these structures. They are moved out, as
        // the interface has it, so that the capsules release them no more.
        let (schema, array) = unsafe {
            (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr()))
        };
        if array.is_released() {
            return Err(consumed());
        }
        Ok(Self::One { data_type: data_type(&schema)?, array: Some(array) })
    }

    fn from_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = capsule.cast::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds this structure; moved out like above.
        let mut stream = unsafe {
            FFI_ArrowArrayStream::from_raw(stream.cast::<FFI_ArrowArrayStream>().as_ptr())
        };
        if stream.release().is_none() {
            return Err(consumed());
        }
        let mut schema = FFI_ArrowSchema::empty();
        let get_schema = stream.get_schema().ok_or_else(consumed)?;
        // SAFETY: the stream is not released, and the callback is its own.
        let code = capsule.py().detach(|| unsafe { get_schema(&mut stream, &mut schema) });
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        Ok(Self::Stream { data_type: data_type(&schema)?, stream })
    }

    pub fn data_type(&self) -> &DataType {
        match self {
            Self::One { data_type, .. } | Self::Stream { data_type, .. } => data_type,
        }
    }

    /// The next chunk. The producer takes the GIL if it needs it.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<FFI_ArrowArray>> {
        let stream = match self {
            Self::One { array, .. } => return Ok(array.take()),
            Self::Stream { stream, .. } => stream,
        };
        let mut array = FFI_ArrowArray::empty();
        let get_next = stream.get_next().ok_or_else(consumed)?;
        // SAFETY: the stream is not released, and the callback is its own.
        let code = py.detach(|| unsafe { get_next(stream, &mut array) });
        py.check_signals()?;
        match code {
            0 if array.is_released() => Ok(None),
            0 => Ok(Some(array)),
            code => Err(failed(stream, code)),
        }
    }
}

fn data_type(schema: &FFI_ArrowSchema) -> PyResult<DataType> {
    checked(|| DataType::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string())))
}

fn consumed() -> PyErr {
    PyValueError::new_err("the Arrow data was consumed already; make a new stream of it")
}

fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> PyErr {
    let text = stream.get_last_error().and_then(|get_last_error| {
        // SAFETY: the stream is not released, the callback is its own and the last one
        // failed. The text is null or ends with a zero byte, and is copied at once.
        unsafe {
            let text = get_last_error(stream);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    let text = text.unwrap_or_else(|| std::io::Error::from_raw_os_error(code).to_string());
    PyValueError::new_err(format!("reading the Arrow data failed: {text}"))
}

/// The arrow crates assert where a structure contradicts the interface. That is an
/// error of the data, not of this process.
pub fn checked<T>(read: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(PyValueError::new_err("the data is malformed: it breaks the Arrow C data interface"))
    })
}
