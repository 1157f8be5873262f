//! Work in a thread of its own, so that a signal need not wait for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use aof2_core::{AofError, Result};
use pyo3::prelude::*;

use super::progress::{Progress, Report};
use super::until;
use crate::error::bug;

/// How long an interrupt waits for the work to notice, so that it can be begun again.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Does `work` in a thread of this name and hands on what it reports. What Python raises
/// meanwhile ends the work: it is told so at its next report.
pub fn aside<P: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    progress: &Progress<P>,
    work: impl FnOnce(Report<'_, P>) -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let cancelled = Arc::clone(&is_cancelled);
    let mut events = start(name, move |events| {
        let result = work(&mut |at| {
            let is_heard = events.send(Event::At(at)).is_ok();
            match is_heard && !cancelled.load(Ordering::Acquire) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let _ = events.send(Event::Done(result));
    })?;
    let raised = loop {
        match next(py, &mut events) {
            Ok(Event::Done(result)) => return Ok(result),
            Ok(Event::At(at)) => {
                if let Err(raised) = progress.tell(py, at) {
                    break raised;
                }
            }
            Err(raised) => break raised,
        }
    };
    is_cancelled.store(true, Ordering::Release);
    py.detach(move || drain(&events));
    Err(raised)
}

/// Does `work` in a thread of this name. What a signal handler raises ends the wait; the
/// work goes on then, and `abandoned` follows it.
pub fn left_alone<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    abandoned: impl FnOnce() + Send + 'static,
) -> PyResult<Result<T>> {
    let mut outcome = start(name, move |outcome| {
        if outcome.send(work()).is_err() {
            abandoned();
        }
    })?;
    next(py, &mut outcome)
}

enum Event<P, T> {
    At(P),
    Done(Result<T>),
}

fn start<E: Send + 'static>(
    name: &str,
    work: impl FnOnce(Sender<E>) + Send + 'static,
) -> PyResult<Receiver<E>> {
    let (say, events) = channel();
    thread::Builder::new().name(name.into()).spawn(move || work(say))?;
    Ok(events)
}

/// What the thread says next.
fn next<E: Send>(py: Python<'_>, events: &mut Receiver<E>) -> PyResult<E> {
    let next = until(py, None, move |slice| match events.recv_timeout(slice) {
        Ok(event) => Ok(Some(event)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(AofError::Cancelled),
    })?;
    next.ok_or_else(|| bug("a wait without a timeout ended"))
}

/// Waits for the end of a thread that was told to end: locks that it holds go with it.
fn drain<E>(events: &Receiver<E>) {
    let deadline = Instant::now() + END_WITHIN;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        if events.recv_timeout(left).is_err() {
            return;
        }
    }
}
