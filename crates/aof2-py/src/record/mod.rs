//! Records as Python sees them. `Record` is one, with its payload where it lies in the mapped
//! segment.

mod id;
mod ids;
mod payload;

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aof2_core::RecordFlags;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyType};

pub use self::id::RecordId;
pub use self::ids::RecordIds;
pub use self::payload::Payload;
use crate::args::unsigned;
use crate::time::to_datetime;

/// A record's payload. Never changes, stays where it is; cloning it copies nothing.
#[derive(Clone)]
pub enum Bytes {
    /// In a segment, which it keeps mapped.
    Mapped(aof2_core::Payload),
    /// In memory: of a record that was unpickled or made by hand.
    Owned(Arc<[u8]>),
}

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(payload) => payload.as_slice(),
            Self::Owned(bytes) => bytes,
        }
    }
}

/// One record of a log. Has the buffer protocol: `bytes(record)` copies the payload,
/// `record.payload` and `memoryview(record)` do not.
///
/// The payload is a view of the mapped segment. It stays valid after the log is closed
/// and after retention has removed the segment, and keeps the segment mapped meanwhile.
///
/// >>> rid = log.append(b"hello", timestamp_ms=1_700_000_000_000)
/// >>> log.flush()
/// >>> record = log.read(rid)
/// >>> record.offset, len(record), bytes(record)
/// (0, 5, b'hello')
/// >>> record.timestamp.isoformat()
/// '2023-11-14T22:13:20+00:00'
/// >>> log.close()
/// >>> record.payload[:2].tobytes()
/// b'he'
#[pyclass(module = "aof2", frozen)]
pub struct Record {
    id: RecordId,
    offset: u64,
    timestamp_ms: u64,
    flags: u32,
    bytes: Bytes,
}

impl From<aof2_core::Record> for Record {
    fn from(record: aof2_core::Record) -> Self {
        Self {
            id: record.id.into(),
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            flags: record.flags.bits(),
            bytes: Bytes::Mapped(record.payload),
        }
    }
}

impl Record {
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn key(&self) -> (RecordId, u64, u64, u32) {
        (self.id, self.offset, self.timestamp_ms, self.flags)
    }
}

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (id, offset, timestamp_ms, flags, payload))]
    fn new(
        id: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        timestamp_ms: &Bound<'_, PyAny>,
        flags: &Bound<'_, PyAny>,
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let payload = Payload::of("payload", payload)?;
        Ok(Self {
            id: RecordId::of("id", id)?.into(),
            offset: unsigned("offset", offset)?,
            timestamp_ms: unsigned("timestamp_ms", timestamp_ms)?,
            flags: unsigned("flags", flags)?,
            bytes: Bytes::Owned(payload.as_ref().into()),
        })
    }

    /// Segment and byte.
    #[getter]
    fn id(&self) -> RecordId {
        self.id
    }

    /// Ordinal in the stream.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    /// When it was appended, milliseconds since the epoch.
    #[getter]
    fn timestamp_ms(&self) -> u64 {
        self.timestamp_ms
    }

    /// When it was appended, as an aware datetime in UTC. The last millisecond of the year
    /// 9999 stands for all later ones, which earlier versions took; `timestamp_ms` is exact.
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_datetime(py, self.timestamp_ms)
    }

    /// Bits: 1 for a snapshot boundary, 2 for a control record.
    #[getter]
    fn flags(&self) -> u32 {
        self.flags
    }

    /// The bytes, read-only and not copied.
    #[getter]
    fn payload(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    fn __len__(&self) -> usize {
        self.bytes.as_slice().len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes.as_slice())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        let other = other.get();
        self.key() == other.key() && self.bytes.as_slice() == other.bytes.as_slice()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.key().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        /// Bytes of the payload that are shown.
        const SHOWN: usize = 24;
        let bytes = self.bytes.as_slice();
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        let flags = RecordFlags::from_bits(self.flags);
        let flags = match flags {
            RecordFlags::NONE => String::new(),
            flags => format!(", flags {:#x}", flags.bits()),
        };
        format!(
            "<Record {} at {}: {} bytes b\"{shown}{more}\", {} ms{flags}>",
            self.offset,
            self.id.core(),
            bytes.len(),
            self.timestamp_ms,
        )
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyType>, (RecordId, u64, u64, u32, Bound<'py, PyBytes>)) {
        let (id, offset, timestamp_ms, flags) = self.key();
        (py.get_type::<Self>(), (id, offset, timestamp_ms, flags, self.__bytes__(py)))
    }

    /// The buffer, as `memoryview` takes it; interpreters before 3.12 have no such
    /// method of their own.
    fn __buffer__<'py>(slf: Bound<'py, Self>, flags: c_int) -> PyResult<Bound<'py, PyMemoryView>> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a record is read-only"));
        }
        PyMemoryView::from(slf.as_any())
    }

    /// # Safety
    /// `view` points to a `Py_buffer` to fill, or is null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().bytes.as_slice();
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the caller gives a view to fill. The slice neither moves nor changes
        // while the record lives, and the view holds a reference to the record. It is
        // filled as read-only, so nobody writes through the pointer.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, bytes.len() as isize, 1, flags)
        };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
