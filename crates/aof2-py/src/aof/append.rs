//! Appending: one record, the payloads of an iterable, the rows of Arrow data.

use aof2_core::{AofError, AppendOptions, RecordFlags};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Aof, batch};
use crate::args::{Maybe, text_if, timeout, unsigned_if};
use crate::arrow::{AppendedArrow, ColumnNames, append_arrow};
use crate::asyncio::{Coroutine, Next, future_into_py};
use crate::error::to_py;
use crate::record::{Payload, RecordId, RecordIds};
use crate::sizes::APPEND_WITH_GIL_BYTES;
use crate::wait;

impl Aof {
    /// Appends at once if there is room.
    fn append_now(
        &self,
        py: Python<'_>,
        payload: &[u8],
        options: &AppendOptions,
    ) -> Result<aof2_core::Appended, AofError> {
        match payload.len() {
            0..=APPEND_WITH_GIL_BYTES => self.log.append_record_with(payload, options),
            _ => py.detach(|| self.log.append_record_with(payload, options)),
        }
    }

    fn append_waiting(
        &self,
        py: Python<'_>,
        payload: &[u8],
        options: &AppendOptions,
        timeout: &Maybe<'_>,
    ) -> PyResult<RecordId> {
        let timeout = self::timeout(timeout)?;
        let appended = match self.append_now(py, payload, options) {
            Err(AofError::WouldBlock(_)) => {
                wait::until_or_timeout(py, timeout, "space to append", |slice| {
                    self.log.append_record_with_timeout(payload, options, slice)
                })?
            }
            done => done.map_err(to_py)?,
        };
        Ok(appended.id.into())
    }
}

fn append_options(timestamp_ms: &Maybe<'_>, flags: &Maybe<'_>) -> PyResult<AppendOptions> {
    Ok(AppendOptions {
        timestamp_ms: unsigned_if("timestamp_ms", timestamp_ms)?,
        flags: unsigned_if("flags", flags)?.map_or(RecordFlags::NONE, RecordFlags::from_bits),
    })
}

#[pymethods]
impl Aof {
    /// The longest payload that can be appended.
    #[getter]
    fn payload_len_max(&self) -> usize {
        self.log.payload_len_max()
    }

    /// Appends a record and returns its id. Blocks while there is no room: then `Timeout`
    /// after `timeout` seconds, and nothing was written.
    ///
    /// The payload is anything bytes-like and not empty. timestamp_ms is now by default;
    /// flags are bits, 1 for a snapshot boundary and 2 for a control record.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> rid = log.append(bytearray(b"world"), timestamp_ms=1_700_000_000_000, flags=1)
    /// >>> log.watermarks().appended
    /// 2
    #[pyo3(
        signature = (payload, *, timestamp_ms = None, flags = None, timeout = None),
        text_signature = "($self, payload, *, timestamp_ms=None, flags=0, timeout=None)"
    )]
    fn append(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        timestamp_ms: Maybe<'_>,
        flags: Maybe<'_>,
        timeout: Maybe<'_>,
    ) -> PyResult<RecordId> {
        let options = append_options(&timestamp_ms, &flags)?;
        if let Ok(bytes) = payload.cast::<PyBytes>() {
            return self.append_waiting(py, bytes.as_bytes(), &options, &timeout);
        }
        let payload = Payload::of("payload", payload)?;
        self.append_waiting(py, payload.as_ref(), &options, &timeout)
    }

    /// Appends a record without waiting: `WouldBlock` if there is no room right now, with
    /// the reason in `kind`, and nothing was written.
    ///
    /// >>> rid = log.try_append(b"now or never")
    #[pyo3(
        signature = (payload, *, timestamp_ms = None, flags = None),
        text_signature = "($self, payload, *, timestamp_ms=None, flags=0)"
    )]
    fn try_append(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        timestamp_ms: Maybe<'_>,
        flags: Maybe<'_>,
    ) -> PyResult<RecordId> {
        let options = append_options(&timestamp_ms, &flags)?;
        let payload = Payload::of("payload", payload)?;
        let appended = self.append_now(py, payload.as_ref(), &options).map_err(to_py)?;
        Ok(appended.id.into())
    }

    /// Appends the payloads of any iterable, in batches with one reservation each, and
    /// returns the ids.
    ///
    /// If it fails halfway, `appended` of the error has the ids of the records that are
    /// in the log.
    ///
    /// >>> ids = log.append_many(f"event {i}".encode() for i in range(1000))
    /// >>> len(ids), ids.first_offset
    /// (1000, 0)
    #[pyo3(
        signature = (payloads, *, timeout = None),
        text_signature = "($self, payloads, *, timeout=None)"
    )]
    fn append_many(&self, payloads: &Bound<'_, PyAny>, timeout: Maybe<'_>) -> PyResult<RecordIds> {
        batch::append_many(self.live()?, payloads, self::timeout(&timeout)?)
    }

    /// Appends the rows of Arrow data: a record batch, table, array or stream, of any
    /// library that has `__arrow_c_array__` or `__arrow_c_stream__`.
    ///
    /// `column` names the column with the payloads, needed if there are several that could
    /// be; timestamp_column and flags_column name those with timestamps and flags. Timestamps
    /// have a time zone, or are int64 milliseconds since the epoch.
    ///
    /// >>> import pyarrow
    /// >>> appended = log.append_arrow(pyarrow.array([b"a", b"b"]))
    /// >>> appended.count, appended.first_offset, appended.next_offset
    /// (2, 0, 2)
    #[pyo3(
        signature = (data, *, column = None, timestamp_column = None, flags_column = None, timeout = None),
        text_signature = "($self, data, *, column=None, timestamp_column=None, flags_column=None, timeout=None)"
    )]
    fn append_arrow(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        column: Maybe<'_>,
        timestamp_column: Maybe<'_>,
        flags_column: Maybe<'_>,
        timeout: Maybe<'_>,
    ) -> PyResult<AppendedArrow> {
        let columns = ColumnNames {
            payload: text_if("column", "str or None", &column)?,
            timestamp: text_if("timestamp_column", "str or None", &timestamp_column)?,
            flags: text_if("flags_column", "str or None", &flags_column)?,
        };
        append_arrow(self.live()?, py, data, &columns, self::timeout(&timeout)?)
    }

    /// `append` for asyncio: awaits room instead of blocking.
    ///
    /// If it is cancelled while it waits, the record may have been appended just before.
    ///
    /// >>> import asyncio
    /// >>> async def main():
    /// ...     rid = await log.append_async(b"hello")
    /// ...     await log.flush_async(rid)
    /// >>> asyncio.run(main())
    /// >>> log.watermarks().durable
    /// 1
    #[pyo3(
        signature = (payload, *, timestamp_ms = None, flags = None),
        text_signature = "($self, payload, *, timestamp_ms=None, flags=0)"
    )]
    fn append_async(
        slf: Bound<'_, Self>,
        payload: &Bound<'_, PyAny>,
        timestamp_ms: Maybe<'_>,
        flags: Maybe<'_>,
    ) -> PyResult<Coroutine> {
        let options = append_options(&timestamp_ms, &flags)?;
        let mut payload = Some(Payload::of("payload", payload)?);
        let slf = slf.unbind();
        Ok(Coroutine::new("Aof.append_async", move |py, result| {
            let Some(payload) = payload.take() else {
                return Ok(Next::Done(Ok(result.unwrap_or_else(|| py.None()))));
            };
            let aof = slf.get();
            match aof.append_now(py, payload.as_ref(), &options) {
                Ok(appended) => {
                    Ok(Next::Done(Py::new(py, RecordId::from(appended.id)).map(Py::into_any)))
                }
                Err(AofError::WouldBlock(_)) => {
                    let log = aof.log.clone();
                    let future = future_into_py(py, async move {
                        let appended = log.append_record_async(payload.as_ref(), &options).await;
                        appended.map(|appended| RecordId::from(appended.id)).map_err(to_py)
                    })?;
                    Ok(Next::Await(future.unbind()))
                }
                Err(error) => Err(to_py(error)),
            }
        }))
    }

    /// `append_many` for asyncio. The iterable is read at once; batches that were appended
    /// before a cancellation stay.
    ///
    /// >>> import asyncio
    /// >>> async def main():
    /// ...     return await log.append_many_async([b"a", b"b"])
    /// >>> len(asyncio.run(main()))
    /// 2
    fn append_many_async(&self, payloads: &Bound<'_, PyAny>) -> PyResult<Coroutine> {
        let log = self.live()?.clone();
        let batches = batch::collect(&log, payloads)?;
        Ok(Coroutine::of("Aof.append_many_async", move || batch::append_collected(log, batches)))
    }
}
