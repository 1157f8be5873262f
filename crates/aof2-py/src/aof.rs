//! `Aof`: a log open for appending.

use std::path::PathBuf;

use aof2_core::io::ForkStamp;
use aof2_core::{
    AofConfig, AofError, AppendOptions, ManagerConfig, RecordFlags, RetentionPolicy, TierConfig,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::args::{self, Maybe, timeout, unsigned, unsigned_if, wrong_type};
use crate::arrow_in::{AppendedArrow, append_arrow};
use crate::batch;
use crate::bridge::{Nothing, future_into_py};
use crate::config::{
    Flushing, MODES, Other, OwnTiers, Retention, SegmentSizes, rename_field, retention_action,
};
use crate::coroutine::{Coroutine, Next};
use crate::error::to_py;
use crate::id::{RecordId, RecordIds};
use crate::log::ReadableLog;
use crate::manager::AofManager;
use crate::manifest;
use crate::options::{self, Until};
use crate::payload::Payload;
use crate::report;
use crate::scrub;
use crate::source::{Source, check_not_forked};
use crate::tiers::{self, Tiers};
use crate::wait;

/// Payload bytes up to which an append that finds room keeps the GIL: copying them
/// takes less time than giving the GIL away and getting it back.
const SMALL_PAYLOAD_LEN: usize = 64 << 10;

/// A log open for appending and reading, from `Aof.open`. Threads may share it. One
/// process writes a log at a time; any number may read it, see `open`.
///
/// >>> import aof2
/// >>> with aof2.Aof.open("data/orders") as orders:
/// ...     rid = orders.append(b"hello")     # safe from the death of this process
/// ...     orders.flush()                    # safe from a power cut
/// ...     bytes(orders.read(rid))
/// b'hello'
#[pyclass(module = "aof2", frozen, extends = ReadableLog)]
pub struct Aof {
    log: aof2_core::Aof,
    stamp: ForkStamp,
}

impl Aof {
    /// The log, if the handle may be used.
    fn live(&self) -> PyResult<&aof2_core::Aof> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match self.log.is_closed() {
            true => Err(to_py(AofError::Closed)),
            false => Ok(&self.log),
        }
    }

    fn open_config(
        py: Python<'_>,
        config: AofConfig,
        manager: Option<&AofManager>,
        tiers: Option<TierConfig>,
        sizes: &SegmentSizes<'_>,
    ) -> PyResult<Py<Self>> {
        let path: PathBuf = config.root_dir.clone();
        let manager = manager.map(AofManager::live).transpose()?;
        let opened = py.detach(|| match manager {
            Some(manager) => manager.open(config),
            None => {
                let alone = ManagerConfig { tiers, ..ManagerConfig::for_one_stream() };
                aof2_core::AofManager::new(alone)?.open(config)
            }
        });
        let log = opened.map_err(|error| to_py(rename_field(error, sizes)))?;
        let base = ReadableLog::new(path, Source::Writer(log.clone()));
        Py::new(
            py,
            PyClassInitializer::from(base).add_subclass(Self { log, stamp: ForkStamp::now() }),
        )
    }

    /// Appends at once if there is room.
    fn append_now(
        &self,
        py: Python<'_>,
        payload: &[u8],
        options: &AppendOptions,
    ) -> Result<aof2_core::Appended, AofError> {
        match payload.len() {
            0..=SMALL_PAYLOAD_LEN => self.log.append_record_with(payload, options),
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
                wait::until_or_timeout(py, timeout, "room to append", |slice| {
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

fn column_name(name: &str, given: &Maybe<'_>) -> PyResult<Option<String>> {
    given.as_ref().map(|given| args::text(name, "str or None", given)).transpose()
}

/// A coroutine that awaits one future.
fn awaiting<F, T>(name: &'static str, future: impl FnOnce() -> F + Send + 'static) -> Coroutine
where
    F: Future<Output = PyResult<T>> + Send + 'static,
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    let mut future = Some(future);
    Coroutine::new(name, move |py, result| match (future.take(), result) {
        (Some(future), _) => Ok(Next::Await(future_into_py(py, future())?.unbind())),
        (None, result) => Ok(Next::Done(Ok(result.unwrap_or_else(|| py.None())))),
    })
}

#[pymethods]
impl Aof {
    /// Opens the log in this directory for appending, creating it if there is none, and
    /// recovers what an earlier writer left.
    ///
    /// segment_bytes fixes the size of segments; segment_bytes_min and segment_bytes_max
    /// set the window in which it grows with the write rate (powers of two from 64 KiB
    /// to 2 GiB). flush_interval_ms, flush_bytes and max_unflushed_bytes say when
    /// records become durable without a flush and how much may be at risk. With `tiers`
    /// only so many bytes of segments stay as they are, and the rest is compressed; the
    /// manifest is enabled then. With a cold tier this becomes the one writer of the log,
    /// also across machines; recover=True lets a log that only the object store holds come
    /// back to an empty directory. Raises `Locked` if another writer has it, `NameTaken`,
    /// `Diverged`, `Corrupt`, `ForeignFile`, `InvalidConfig`.
    ///
    /// >>> import aof2
    /// >>> log = aof2.Aof.open("data/clicks", segment_bytes=1 << 20, flush_interval_ms=20)
    /// >>> log.name, log.format, log.watermarks().appended
    /// ('clicks', 'full', 0)
    /// >>> log.close()
    #[staticmethod]
    #[pyo3(
        signature = (path, *, name = None, format = None, segment_bytes = None,
            segment_bytes_min = None, segment_bytes_max = None, segment_target_bytes = None,
            preallocate_segments = None, flush_interval_ms = None, flush_bytes = None,
            max_unflushed_bytes = None, retention_max_age_ms = None, retention_max_bytes = None,
            retention_action = None, sparse_index = None, open_segments_max = None,
            ext_id = None, manifest_mode = None, tiers = None, hot_bytes = None,
            recover = None, manager = None),
        text_signature = "(path, *, name=None, format='full', segment_bytes=None, segment_bytes_min=None, segment_bytes_max=None, segment_target_bytes=None, preallocate_segments=None, flush_interval_ms=None, flush_bytes=None, max_unflushed_bytes=None, retention_max_age_ms=None, retention_max_bytes=None, retention_action='delete', sparse_index=True, open_segments_max=None, ext_id=None, manifest_mode='disabled', tiers=None, hot_bytes=None, recover=False, manager=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: Maybe<'_>,
        format: Maybe<'_>,
        segment_bytes: Maybe<'_>,
        segment_bytes_min: Maybe<'_>,
        segment_bytes_max: Maybe<'_>,
        segment_target_bytes: Maybe<'_>,
        preallocate_segments: Maybe<'_>,
        flush_interval_ms: Maybe<'_>,
        flush_bytes: Maybe<'_>,
        max_unflushed_bytes: Maybe<'_>,
        retention_max_age_ms: Maybe<'_>,
        retention_max_bytes: Maybe<'_>,
        retention_action: Maybe<'_>,
        sparse_index: Maybe<'_>,
        open_segments_max: Maybe<'_>,
        ext_id: Maybe<'_>,
        manifest_mode: Maybe<'_>,
        tiers: Maybe<'_>,
        hot_bytes: Maybe<'_>,
        recover: Maybe<'_>,
        manager: Maybe<'_>,
    ) -> PyResult<Py<Self>> {
        let mode_given = manifest_mode.is_some();
        let other = Other { name, format, sparse_index, open_segments_max, ext_id, manifest_mode };
        let mut config = other.config(args::path("path", path)?)?;
        let sizes = SegmentSizes {
            fixed: segment_bytes,
            min: segment_bytes_min,
            max: segment_bytes_max,
            target: segment_target_bytes,
            preallocate: preallocate_segments,
        };
        sizes.apply(&mut config)?;
        Flushing { interval_ms: flush_interval_ms, bytes: flush_bytes, max_unflushed_bytes }
            .apply(&mut config)?;
        Retention {
            max_age_ms: retention_max_age_ms,
            max_bytes: retention_max_bytes,
            action: retention_action,
        }
        .apply(&mut config)?;
        let manager = manager
            .as_ref()
            .map(|given| {
                given
                    .cast::<AofManager>()
                    .map_err(|_| wrong_type("manager", "an AofManager or None", given))
            })
            .transpose()?
            .map(Bound::get);
        let tiers = Tiers::of(&tiers)?;
        if tiers.is_some() && manager.is_some() {
            return Err(PyValueError::new_err(
                "tiers belong to the manager; give them to AofManager and leave them out here",
            ));
        }
        let has_tiers = tiers.is_some() || manager.is_some_and(AofManager::has_tiers);
        let own_cold = tiers.as_ref().is_some_and(|tiers| tiers.cold.is_some());
        let has_cold = own_cold || manager.is_some_and(AofManager::has_cold);
        OwnTiers { hot_bytes, recover, has_tiers, has_cold }.apply(&mut config, mode_given)?;
        Self::open_config(py, config, manager, tiers, &sizes)
    }

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
        let column = column_name("column", &column)?;
        let timestamp_column = column_name("timestamp_column", &timestamp_column)?;
        let flags_column = column_name("flags_column", &flags_column)?;
        append_arrow(
            self.live()?,
            py,
            data,
            column.as_deref(),
            timestamp_column.as_deref(),
            flags_column.as_deref(),
            self::timeout(&timeout)?,
        )
    }

    /// Returns when everything appended so far is durable, or everything up to the record
    /// `until`. `Timeout` if that takes longer than `timeout` seconds.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.flush(rid, timeout=60)
    /// >>> log.watermarks().durable
    /// 1
    #[pyo3(
        signature = (until = None, *, timeout = None),
        text_signature = "($self, until=None, *, timeout=None)"
    )]
    fn flush(&self, py: Python<'_>, until: Maybe<'_>, timeout: Maybe<'_>) -> PyResult<()> {
        let log = self.live()?;
        let timeout = self::timeout(&timeout)?;
        let until = until.map(|until| RecordId::of("until", &until)).transpose()?;
        wait::until_ready(py, timeout, "a flush", async {
            match until {
                Some(id) => log.flush_until_async(id).await,
                None => log.flush_async().await,
            }
        })
    }

    /// Waits until all records below `offset` are "appended", "durable" or "archived",
    /// without causing a flush. False if that takes longer than `timeout` seconds. The id of
    /// a record may stand for the offset: then that record is, and all before it.
    ///
    /// "archived", in the object store, needs tiers with `cold`. Only sealed segments get
    /// there: `seal` hurries, archive_after_ms bounds it.
    ///
    /// >>> rid = log.append(b"flushed in the background")
    /// >>> log.wait("durable", 1, timeout=60), log.wait("durable", rid, timeout=60)
    /// (True, True)
    #[pyo3(
        signature = (level, offset, *, timeout = None),
        text_signature = "($self, level, offset, *, timeout=None)"
    )]
    fn wait(
        &self,
        py: Python<'_>,
        level: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        timeout: Maybe<'_>,
    ) -> PyResult<bool> {
        let log = self.live()?;
        let (level, until) = options::level_and_until(level, offset)?;
        let reached = wait::until(py, self::timeout(&timeout)?, |slice| {
            let reached = match until {
                Until::Offset(offset) => log.wait(level, offset, Some(slice))?,
                Until::Record(id) => log.wait_record(level, id, Some(slice))?,
            };
            Ok(reached.then_some(()))
        })?;
        Ok(reached.is_some())
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
        Ok(awaiting("Aof.append_many_async", move || batch::append_collected(log, batches)))
    }

    /// `flush` for asyncio.
    ///
    /// >>> import asyncio
    /// >>> rid = log.append(b"hello")
    /// >>> async def main():
    /// ...     await log.flush_async()
    /// >>> asyncio.run(main())
    /// >>> log.watermarks().durable
    /// 1
    #[pyo3(signature = (until = None), text_signature = "($self, until=None)")]
    fn flush_async(&self, until: Maybe<'_>) -> PyResult<Coroutine> {
        let log = self.live()?.clone();
        let until = until.map(|until| RecordId::of("until", &until)).transpose()?;
        Ok(awaiting("Aof.flush_async", move || async move {
            match until {
                Some(id) => log.flush_until_async(id).await,
                None => log.flush_async().await,
            }
            .map(|()| Nothing)
            .map_err(to_py)
        }))
    }

    /// `wait` for asyncio: True once it is so; use `asyncio.timeout` to give up.
    ///
    /// >>> import asyncio
    /// >>> rid = log.append(b"flushed in the background")
    /// >>> async def main():
    /// ...     return await log.wait_async("durable", rid)
    /// >>> asyncio.run(main())
    /// True
    fn wait_async(
        &self,
        level: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
    ) -> PyResult<Coroutine> {
        let log = self.live()?.clone();
        let (level, until) = options::level_and_until(level, offset)?;
        Ok(awaiting("Aof.wait_async", move || async move {
            match until {
                Until::Offset(offset) => log.wait_async(level, offset).await,
                Until::Record(id) => log.wait_record_async(level, id).await,
            }
            .map(|()| true)
            .map_err(to_py)
        }))
    }

    /// Sets the number that goes into the footers of segments sealed from now on, for
    /// example an index of your own. "full" format only.
    ///
    /// >>> log.set_ext_id(42)
    /// >>> rid = log.append(b"index 42")
    /// >>> log.seal()
    /// >>> log.segments()[0].ext_id
    /// 42
    fn set_ext_id(&self, py: Python<'_>, ext_id: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = self.live()?;
        let ext_id = unsigned("ext_id", ext_id)?;
        py.detach(|| log.set_ext_id(ext_id)).map_err(to_py)
    }

    /// Closes the active segment although it is not full, and returns when it is sealed.
    /// `Timeout` if that takes longer than `timeout` seconds; the sealing goes on.
    ///
    /// >>> rid = log.append(b"the last of its segment")
    /// >>> log.seal()
    /// >>> log.segments()[0].is_sealed
    /// True
    #[pyo3(signature = (*, timeout = None), text_signature = "($self, *, timeout=None)")]
    fn seal(&self, py: Python<'_>, timeout: Maybe<'_>) -> PyResult<()> {
        let mut sealing = self.live()?.sealing();
        let timeout = self::timeout(&timeout)?;
        let sealed =
            wait::until(py, timeout, |slice| Ok(sealing.wait(Some(slice))?.then_some(())))?;
        sealed.ok_or_else(|| to_py(AofError::Timeout { what: "the segment to be sealed" }))
    }

    /// Touches the whole active segment, so that the first appends and flushes cost what
    /// all others do.
    ///
    /// >>> log.warm_up()
    fn warm_up(&self, py: Python<'_>) -> PyResult<()> {
        let log = self.live()?;
        py.detach(|| log.warm_up()).map_err(to_py)
    }

    /// Lets old segments go: those whose newest record is older than max_age_ms, the
    /// oldest while the log uses more than max_bytes, and those that end at or before
    /// before_offset. The action is "delete" or "archive".
    ///
    /// The newest segment with records stays, and so do segments that a reader of this
    /// process holds (`held_back`).
    ///
    /// >>> for text in (b"old", b"new"):
    /// ...     rid = log.append(text)
    /// ...     log.seal()
    /// >>> report = log.apply_retention(before_offset=1)
    /// >>> report.record_count, report.earliest_offset
    /// (1, 1)
    #[pyo3(
        signature = (*, max_age_ms = None, max_bytes = None, before_offset = None, action = None),
        text_signature = "($self, *, max_age_ms=None, max_bytes=None, before_offset=None, action='delete')"
    )]
    fn apply_retention<'py>(
        &self,
        py: Python<'py>,
        max_age_ms: Maybe<'_>,
        max_bytes: Maybe<'_>,
        before_offset: Maybe<'_>,
        action: Maybe<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log = self.live()?;
        let policy = RetentionPolicy {
            max_age_ms: unsigned_if("max_age_ms", &max_age_ms)?,
            max_bytes: unsigned_if("max_bytes", &max_bytes)?,
            before_offset: unsigned_if("before_offset", &before_offset)?,
            action: retention_action("action", &action)?,
        };
        let report = py.detach(|| log.apply_retention(&policy)).map_err(to_py)?;
        report::retention(py, &report)
    }

    /// What the hot and warm tier hold and did. `InvalidConfig` if the log has none.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     gone_bytes = orders.evict(0)
    /// ...     status = orders.tiers()
    /// >>> status.warm_segments, status.evicted_segments, status.metrics.evictions
    /// (1, 1, 1)
    fn tiers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let log = self.live()?;
        let status = py.detach(|| log.tiers()).map_err(tiers::explain)?;
        tiers::status(py, &status)
    }

    /// Compresses a sealed segment, removes its file, and returns the bytes of header and
    /// records that were in it; 0 if there was no file. It is read as before.
    ///
    /// If Ctrl-C ends the wait, it leaves all the same. Raises `SegmentNotFound` if no
    /// sealed segment has this id.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     orders.evict(0), orders.segments()[0].residency, bytes(orders.read(rid))
    /// (104, 'warm', b'hello')
    fn evict(&self, py: Python<'_>, segment_id: &Bound<'_, PyAny>) -> PyResult<u64> {
        let log = self.live()?.clone();
        let segment_id = unsigned("segment_id", segment_id)?;
        tiers::done_aside(py, move || log.evict(segment_id), || {})
    }

    /// Brings a segment back to the hot tier and returns its bytes once it is there; 0 if
    /// it was there. Others leave first where the budget asks for it, and it may itself
    /// leave again: `pin` keeps it there.
    ///
    /// `Timeout` if that takes longer than `timeout` seconds; it comes back all the same,
    /// also if Ctrl-C ends the wait. `WouldBlock` if activations_max wait already.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     orders.evict(0), orders.hydrate(0), orders.hydrate(0)
    /// (104, 104, 0)
    #[pyo3(
        signature = (segment_id, *, timeout = None),
        text_signature = "($self, segment_id, *, timeout=None)"
    )]
    fn hydrate(
        &self,
        py: Python<'_>,
        segment_id: &Bound<'_, PyAny>,
        timeout: Maybe<'_>,
    ) -> PyResult<u64> {
        let log = self.live()?.clone();
        let segment_id = unsigned("segment_id", segment_id)?;
        let timeout = self::timeout(&timeout)?;
        tiers::done_aside(py, move || log.hydrate(segment_id, timeout), || {})
    }

    /// Puts a sealed segment into the cold tier now, and those before it that are not
    /// there, compressing them first if need be, and returns the bytes of the objects; 0 if
    /// all were there. The background does it, too, sooner or later; `wait` with "archived"
    /// waits for that.
    ///
    /// `ColdError` if the object store cannot be reached. Ctrl-C ends the wait; the upload
    /// goes on.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     orders.upload(0)
    /// Traceback (most recent call last):
    ///     ...
    /// aof2._errors.InvalidConfig: cold: this log was opened without a cold tier
    fn upload(&self, py: Python<'_>, segment_id: &Bound<'_, PyAny>) -> PyResult<u64> {
        let log = self.live()?.clone();
        let segment_id = unsigned("segment_id", segment_id)?;
        tiers::done_aside(py, move || log.upload(segment_id), || {})
    }

    /// Reads every byte of every copy of the sealed segments, compares it with its
    /// checksum, and replaces what is damaged or gone from a copy that is good.
    ///
    /// tiers says which copies ("hot", "warm", "cold"; all by default), first_segment and
    /// end_segment which segments, bytes_per_second how fast, heal=False only looks.
    /// Replaced files stay in `quarantine/`, findings are recorded in the manifest.
    /// `progress` is called with a `ScrubProgress`. The background does it every
    /// scrub_interval_ms. Needs tiers.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     report = orders.scrub()
    /// >>> report.is_clean, report.copies, report.findings
    /// (True, 1, [])
    #[pyo3(
        signature = (*, tiers = None, first_segment = None, end_segment = None,
            bytes_per_second = None, heal = None, progress = None),
        text_signature = "($self, *, tiers=('hot', 'warm', 'cold'), first_segment=0, end_segment=None, bytes_per_second=None, heal=True, progress=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn scrub<'py>(
        &self,
        py: Python<'py>,
        tiers: Maybe<'py>,
        first_segment: Maybe<'py>,
        end_segment: Maybe<'py>,
        bytes_per_second: Maybe<'py>,
        heal: Maybe<'py>,
        progress: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log = self.live()?;
        let options =
            scrub::options(&tiers, &first_segment, &end_segment, &bytes_per_second, &heal)?;
        scrub::run(py, log, &options, &progress)
    }

    /// Asks for a segment to come back to the hot tier, and does not wait for it.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     gone_bytes = orders.evict(0)
    /// ...     orders.prefetch(0)
    fn prefetch(&self, py: Python<'_>, segment_id: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = self.live()?;
        let segment_id = unsigned("segment_id", segment_id)?;
        py.detach(|| log.prefetch(segment_id)).map_err(tiers::explain)
    }

    /// Keeps a segment in the hot tier, bringing it back if need be, until `unpin` or until
    /// the log is closed. It counts for the budget.
    ///
    /// `Timeout` if it is not there within `timeout` seconds: then, and if Ctrl-C ends the
    /// wait, it is not pinned.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     rid = orders.append(b"hello")
    /// ...     orders.seal()
    /// ...     orders.pin(0)
    /// ...     orders.tiers().pinned_segments, orders.unpin(0), orders.unpin(0)
    /// (1, True, False)
    #[pyo3(
        signature = (segment_id, *, timeout = None),
        text_signature = "($self, segment_id, *, timeout=None)"
    )]
    fn pin(
        &self,
        py: Python<'_>,
        segment_id: &Bound<'_, PyAny>,
        timeout: Maybe<'_>,
    ) -> PyResult<()> {
        let log = self.live()?.clone();
        let segment_id = unsigned("segment_id", segment_id)?;
        let timeout = self::timeout(&timeout)?;
        let (now, later) = (log.clone(), log.clone());
        // An interrupt unpins at once, and again if the pin was only then set.
        let unpin = move || drop(later.unpin(segment_id));
        tiers::done_aside(py, move || log.pin(segment_id, timeout), unpin)
            .inspect_err(|_| drop(now.unpin(segment_id)))
    }

    /// Lets a pinned segment leave the hot tier again. Returns whether it was pinned.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    /// ...     orders.unpin(0)
    /// False
    fn unpin(&self, py: Python<'_>, segment_id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let log = self.live()?;
        let segment_id = unsigned("segment_id", segment_id)?;
        py.detach(|| log.unpin(segment_id)).map_err(tiers::explain)
    }

    /// Whether what happens to segments is recorded: "disabled", "shadow" or "enabled".
    ///
    /// >>> log.manifest_mode
    /// 'disabled'
    #[getter]
    fn manifest_mode(&self) -> PyResult<&'static str> {
        let mode = self.live()?.manifest_mode();
        let found = MODES.iter().find(|(_, known)| *known == mode);
        Ok(found.map_or("disabled", |(word, _)| word))
    }

    /// Starts or stops recording what happens to segments.
    ///
    /// Starting records what is there. "enabled" raises `Corrupt` if an existing manifest is
    /// damaged; "shadow" goes on without it and counts the failure.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> log.manifest_mode
    /// 'enabled'
    fn set_manifest_mode(&self, py: Python<'_>, mode: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = self.live()?;
        let mode = args::word("mode", mode, &MODES)?;
        py.detach(|| log.set_manifest_mode(mode)).map_err(to_py)
    }

    /// Records an event of your own in the manifest, about a segment (by default the newest
    /// one), and returns its ordinal. `commit_manifest` makes it durable.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> ordinal = log.record_event(7, b"backup taken")
    /// >>> log.commit_manifest()
    #[pyo3(
        signature = (schema_id, blob, *, segment_id = None),
        text_signature = "($self, schema_id, blob, *, segment_id=None)"
    )]
    fn record_event(
        &self,
        py: Python<'_>,
        schema_id: &Bound<'_, PyAny>,
        blob: &Bound<'_, PyAny>,
        segment_id: Maybe<'_>,
    ) -> PyResult<u64> {
        let log = self.live()?;
        let schema_id = unsigned("schema_id", schema_id)?;
        let blob = Payload::of("blob", blob)?;
        let segment = manifest::segment_id("segment_id", &segment_id)?;
        py.detach(|| log.record_event(segment, schema_id, blob.as_ref())).map_err(to_py)
    }

    /// Returns when everything recorded in the manifest is durable.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> log.commit_manifest()
    fn commit_manifest(&self, py: Python<'_>) -> PyResult<()> {
        let log = self.live()?;
        py.detach(|| log.commit_manifest()).map_err(to_py)
    }

    /// Writes a snapshot of the manifest, from which replay starts, and returns its id.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> snapshot_id = log.snapshot_manifest()
    fn snapshot_manifest(&self, py: Python<'_>) -> PyResult<u64> {
        let log = self.live()?;
        py.detach(|| log.snapshot_manifest()).map_err(to_py)
    }

    /// What the manifest says of the segments.
    ///
    /// >>> log.set_manifest_mode("enabled")
    /// >>> rid = log.append(b"hello")
    /// >>> log.seal()
    /// >>> log.manifest_index().segments[0].is_sealed
    /// True
    fn manifest_index<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let log = self.live()?;
        let index = py.detach(|| log.manifest_index()).map_err(to_py)?;
        manifest::index(py, &index)
    }

    /// Compares the manifest with the segment files; an empty list when they agree.
    ///
    /// >>> log.set_manifest_mode("shadow")
    /// >>> log.compare_manifest()
    /// []
    fn compare_manifest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let log = self.live()?;
        let found = py.detach(|| log.compare_manifest()).map_err(to_py)?;
        manifest::divergences(py, &found)
    }

    /// Figures of the stream: counters, gauges, and histograms as dicts; those of the
    /// `manifest` and the `tiers`, if it has them, as dicts too.
    ///
    /// >>> rid = log.append(b"hello")
    /// >>> log.metrics()["appended_records"]
    /// 1
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let log = self.live()?;
        let (snapshot, tiers) = py.detach(|| (log.metrics(), log.tiers().ok()));
        report::metrics(py, &snapshot, tiers.as_ref())
    }

    /// The figures in the Prometheus text format.
    ///
    /// >>> print(log.metrics_text().splitlines()[2])
    /// aof2_appended_records_total{stream="events"} 0
    fn metrics_text(&self, py: Python<'_>) -> PyResult<String> {
        let log = self.live()?;
        Ok(py.detach(|| {
            let tiers = log.tiers().map(|tiers| tiers.to_prometheus(log.name()));
            log.metrics().to_prometheus() + &tiers.unwrap_or_default()
        }))
    }
}
