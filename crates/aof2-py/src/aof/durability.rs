//! Durability: flushing, and waiting for a watermark.

use pyo3::prelude::*;

use super::Aof;
use crate::args::{Maybe, timeout};
use crate::asyncio::{Coroutine, Nothing};
use crate::error::to_py;
use crate::log::{Until, level_and_until};
use crate::record::RecordId;
use crate::wait;

#[pymethods]
impl Aof {
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
        let (level, until) = level_and_until(level, offset)?;
        let reached = wait::until(py, self::timeout(&timeout)?, |slice| {
            let reached = match until {
                Until::Offset(offset) => log.wait(level, offset, Some(slice))?,
                Until::Record(id) => log.wait_record(level, id, Some(slice))?,
            };
            Ok(reached.then_some(()))
        })?;
        Ok(reached.is_some())
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
        Ok(Coroutine::of("Aof.flush_async", move || async move {
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
        let (level, until) = level_and_until(level, offset)?;
        Ok(Coroutine::of("Aof.wait_async", move || async move {
            match until {
                Until::Offset(offset) => log.wait_async(level, offset).await,
                Until::Record(id) => log.wait_record_async(level, id).await,
            }
            .map(|()| true)
            .map_err(to_py)
        }))
    }
}
