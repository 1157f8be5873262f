//! Payloads as Python gives them: anything with contiguous bytes.
//!
//! An append computes a checksum over the payload and then copies it, so the bytes
//! must not change in between. `bytes` and records of a log cannot change and are
//! borrowed; any other buffer is copied once, under the GIL.

use std::fmt::Display;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

use super::{Bytes, Record};
use crate::args::wrong_type;

/// A payload that stays as it is for as long as it is held, on any thread.
pub enum Payload {
    /// Borrowed from a `bytes` object.
    Bytes(PyBackedBytes),
    /// Borrowed from a record.
    Record(Bytes),
    /// Copied from a buffer that somebody may change.
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Record(bytes) => bytes.as_slice(),
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Payload {
    /// Takes the payload out of an object; `name` is the argument's.
    pub fn of(name: impl Display, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone().into()));
        }
        if let Ok(record) = given.cast::<Record>() {
            return Ok(Self::Record(record.get().bytes().clone()));
        }
        copy(&name.to_string(), given).map(Self::Copied)
    }
}

/// What a payload may be, as messages say it.
const EXPECTED: &str = "bytes-like (bytes, bytearray, memoryview or an array of numbers)";

/// Why an object has no buffer that can be appended.
fn refused(name: &str, given: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = given.py();
    if error.is_instance_of::<PyBufferError>(py) {
        // A single number, or an array of ctypes: memory without a layout.
        return explained(name, given, "take its bytes first, for example with bytes()");
    }
    if error.is_instance_of::<PyValueError>(py) {
        return PyValueError::new_err(format!("{name}: {}", error.value(py)));
    }
    match error.is_instance_of::<PyTypeError>(py) {
        true => wrong_type(name, EXPECTED, given),
        false => error,
    }
}

fn explained(name: &str, given: &Bound<'_, PyAny>, hint: &str) -> PyErr {
    let wrong = wrong_type(name, EXPECTED, given);
    PyTypeError::new_err(format!("{}; {hint}", wrong.value(given.py())))
}

/// Whether a format of the `struct` module has items that are objects or pointers. Names
/// of fields stand between colons.
fn holds_objects(format: &[u8]) -> bool {
    let mut codes = format.split(|&byte| byte == b':').step_by(2).flatten();
    codes.any(|code| b"OPX&".contains(code))
}

/// The bytes of an object that has a buffer.
fn copy(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if given.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!(
            "{name} must be bytes-like, not str; encode it first, for example with .encode()"
        )));
    }
    let buffer = PyUntypedBuffer::get(given).map_err(|error| refused(name, given, error))?;
    if holds_objects(buffer.format().to_bytes()) {
        let hint = "it holds Python objects, whose addresses mean nothing elsewhere";
        return Err(explained(name, given, hint));
    }
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err(format!(
            "{name} must be contiguous; copy it first, for example with bytes()"
        )));
    }
    let len = buffer.len_bytes();
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the buffer is contiguous, so `len` bytes lie at `buf_ptr`, and they stay
    // allocated while `buffer` is held. The GIL is held, so no Python code changes
    // them during the copy.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), len) }.to_vec())
}
