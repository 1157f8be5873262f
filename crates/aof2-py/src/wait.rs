//! Waiting without keeping other Python threads or Ctrl-C waiting.
//!
//! Every wait is a row of short ones with the GIL released. Python's signal handlers
//! run in between, and what they raise ends the wait: `KeyboardInterrupt` in the main
//! thread.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use aof2_core::{AofError, Result};
use pyo3::prelude::*;

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

/// [`until`] for a future of the core. Unlike the blocking twin of the same call, it
/// leaves long work (a sync) to a background thread, so that a signal need not wait for
/// that either.
pub fn until_ready<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    what: &'static str,
    future: impl Future<Output = Result<T>> + Send,
) -> PyResult<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let ready = until(py, timeout, |slice| {
        let deadline = Instant::now() + slice;
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value.map(Some);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::park_timeout(left);
        }
    })?;
    ready.ok_or_else(|| to_py(AofError::Timeout { what }))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
