//! Waiting for a future of the core in the caller's thread.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use aof2_core::{AofError, Result};
use pyo3::prelude::*;

use super::until;
use crate::error::to_py;

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
