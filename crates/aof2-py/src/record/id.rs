//! `RecordId`: where a record is.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::args::{unsigned, wrong_type};

/// Where a record is: segment and byte in the segment's file. Ids order as the records do.
///
/// >>> import aof2
/// >>> rid = aof2.RecordId(3, 64)
/// >>> rid.segment_index, rid.segment_offset
/// (3, 64)
/// >>> str(rid), int(rid) == 3 << 32 | 64
/// ('3:64', True)
/// >>> rid < aof2.RecordId(3, 72) < aof2.RecordId(4, 64)
/// True
#[pyclass(module = "aof2", frozen, eq, ord, hash)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub(super) u64);

impl From<aof2_core::RecordId> for RecordId {
    fn from(id: aof2_core::RecordId) -> Self {
        Self(id.as_u64())
    }
}

impl RecordId {
    pub fn core(self) -> aof2_core::RecordId {
        aof2_core::RecordId::from_u64(self.0)
    }

    /// The id in an argument.
    pub fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<aof2_core::RecordId> {
        let id = given.cast::<Self>().map_err(|_| wrong_type(name, "a RecordId", given))?;
        Ok(id.get().core())
    }
}

#[pymethods]
impl RecordId {
    #[new]
    #[pyo3(signature = (segment_index, segment_offset))]
    fn new(segment_index: &Bound<'_, PyAny>, segment_offset: &Bound<'_, PyAny>) -> PyResult<Self> {
        let segment_index = unsigned("segment_index", segment_index)?;
        let segment_offset = unsigned("segment_offset", segment_offset)?;
        Ok(aof2_core::RecordId::from_parts(segment_index, segment_offset).into())
    }

    /// Reads "segment:offset", as `str` gives it, or the packed value in decimal.
    ///
    /// >>> import aof2
    /// >>> aof2.RecordId.parse("3:64")
    /// RecordId(3, 64)
    /// >>> aof2.RecordId.parse("12884901952")
    /// RecordId(3, 64)
    #[staticmethod]
    fn parse(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given = text.cast::<PyString>().map_err(|_| wrong_type("text", "str", text))?;
        let id = given.to_cow()?.parse::<aof2_core::RecordId>();
        id.map(Into::into).map_err(|_| {
            PyValueError::new_err(format!(
                "text must be \"segment:offset\" or a packed id in decimal, not {given:?}"
            ))
        })
    }

    /// The id with this packed value, as `int` gives it.
    ///
    /// >>> import aof2
    /// >>> aof2.RecordId.from_int(12884901952)
    /// RecordId(3, 64)
    #[staticmethod]
    fn from_int(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        unsigned("value", value).map(Self)
    }

    /// Number of the segment.
    #[getter]
    fn segment_index(&self) -> u32 {
        self.core().segment_index()
    }

    /// First byte of the record in the segment's file.
    #[getter]
    fn segment_offset(&self) -> u32 {
        self.core().segment_offset()
    }

    fn __int__(&self) -> u64 {
        self.0
    }

    fn __str__(&self) -> String {
        self.core().to_string()
    }

    fn __repr__(&self) -> String {
        format!("RecordId({}, {})", self.segment_index(), self.segment_offset())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (u32, u32)) {
        (py.get_type::<Self>(), (self.segment_index(), self.segment_offset()))
    }
}
