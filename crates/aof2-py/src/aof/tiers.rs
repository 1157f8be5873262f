//! Tiers: what they hold, moving segments between them, checking all copies.

use aof2_core::Result;
use pyo3::prelude::*;

use super::Aof;
use crate::args::{Maybe, timeout, unsigned};
use crate::scrub;
use crate::tiers::{self, explain};
use crate::wait;

/// Waits for a segment to move. If Ctrl-C ends that, it moves all the same, and `abandoned`
/// follows.
fn moved<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    abandoned: impl FnOnce() + Send + 'static,
) -> PyResult<T> {
    wait::left_alone(py, "aof2-move", work, abandoned)?.map_err(explain)
}

#[pymethods]
impl Aof {
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
        let status = py.detach(|| log.tiers()).map_err(explain)?;
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
        moved(py, move || log.evict(segment_id), || {})
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
        moved(py, move || log.hydrate(segment_id, timeout), || {})
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
        moved(py, move || log.upload(segment_id), || {})
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
        py.detach(|| log.prefetch(segment_id)).map_err(explain)
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
        moved(py, move || log.pin(segment_id, timeout), unpin)
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
        py.detach(|| log.unpin(segment_id)).map_err(explain)
    }
}
