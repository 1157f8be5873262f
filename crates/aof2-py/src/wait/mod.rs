//! Calls that take long: the one place that says how they wait.
//!
//! | what takes long | where it is done | how it is waited for |
//! |---|---|---|
//! | the log has to get somewhere: room, a watermark, a record, a turn | the caller's thread, slice by slice | [`until`], [`until_or_timeout`] |
//! | a sync, which cannot be cut into slices | a background thread of the log | [`until_ready`] on the future |
//! | checking a log in its directory | the caller's thread | [`here`], with reports of progress |
//! | an object store answers, or does not | a thread of the call's own | [`aside`], with reports of progress, or [`left_alone`] |
//! | a segment moves between tiers, a log is forked, dropped or detached | a thread of the call's own | [`left_alone`] |
//! | anything that is awaited | the runtime of [`asyncio`](crate::asyncio) | the loop of the caller |
//!
//! What is over in a moment, such as opening a directory, is only called without the GIL.
//!
//! * **GIL.** It is released while anything here waits or works, and taken to run signal
//!   handlers and to report progress.
//! * **Ctrl-C.** Python's signal handlers run every [`SLICE`] at least; in [`here`], at
//!   every report. What they raise ends the wait: `KeyboardInterrupt` in the main thread.
//!   The work ends with it, too ([`here`], [`aside`]), or goes on ([`left_alone`]).
//! * **`fork()`.** No call needs a thread or a lock of an earlier one, so a child misses
//!   none of its parent's. Handles refuse to wait in a child of the process that opened
//!   them.
//! * **Closed handles.** The core ends what waits on a handle that another thread closes:
//!   with `Closed`, or as the end of the records.

mod aside;
mod future;
mod progress;
mod turn;

use std::time::{Duration, Instant};

use aof2_core::{AofError, Result};
use pyo3::prelude::*;

pub use self::aside::{aside, left_alone};
pub use self::future::until_ready;
pub use self::progress::{Progress, here};
pub use self::turn::Shared;
use crate::error::to_py;

/// How long a signal may go unnoticed. What is waited for is noticed at once.
const SLICE: Duration = Duration::from_millis(50);

/// Calls `step` with the time it may take until it gives something. `None` when
/// `timeout` is over; without a timeout it goes on for ever.
pub fn until<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    // A deadline beyond what the clock can express is no deadline.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if let Some(value) = py.detach(|| step(slice)).map_err(to_py)? {
            return Ok(Some(value));
        }
        py.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(None);
        }
    }
}

/// [`until`] for steps that end with [`AofError::Timeout`], as that error.
pub fn until_or_timeout<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    what: &'static str,
    mut step: impl FnMut(Duration) -> Result<T> + Send,
) -> PyResult<T> {
    let waited = until(py, timeout, |slice| match step(slice) {
        Ok(value) => Ok(Some(value)),
        Err(AofError::Timeout { .. }) => Ok(None),
        Err(error) => Err(error),
    })?;
    waited.ok_or_else(|| to_py(AofError::Timeout { what }))
}
