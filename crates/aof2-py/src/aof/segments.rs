//! Segments: sealing, what goes into them, letting old ones go.

use aof2_core::{AofError, RetentionPolicy};
use pyo3::prelude::*;

use super::Aof;
use super::options::retention_action;
use crate::args::{Maybe, timeout, unsigned, unsigned_if};
use crate::error::to_py;
use crate::report;
use crate::wait;

#[pymethods]
impl Aof {
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
}
