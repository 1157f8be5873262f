//! Long work in a thread of its own that tells how far it has got, so that a signal need
//! not wait for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use aof2_core::{AofError, Result};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::wait;

/// How long an interrupt waits for the work to notice, so that it can be begun again.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Work under way.
pub struct Work<P, T> {
    events: Receiver<Event<P, T>>,
    is_cancelled: Arc<AtomicBool>,
}

enum Event<P, T> {
    At(P),
    Done(Result<T>),
}

impl<P: Send + 'static, T: Send + 'static> Work<P, T> {
    /// Starts a thread. What the work is given tells how far it is, and answers whether it
    /// goes on.
    pub fn start(
        name: &str,
        work: impl FnOnce(&mut dyn FnMut(P) -> ControlFlow<()>) -> Result<T> + Send + 'static,
    ) -> PyResult<Self> {
        let (say, events) = channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        thread::Builder::new().name(name.into()).spawn(move || {
            let result = work(&mut |at| {
                let is_heard = say.send(Event::At(at)).is_ok();
                match is_heard && !cancelled.load(Ordering::Acquire) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            let _ = say.send(Event::Done(result));
        })?;
        Ok(Self { events, is_cancelled })
    }

    /// Hands progress on until it is done. What `tell` or a signal handler raises ends it.
    pub fn watch(
        self,
        py: Python<'_>,
        mut tell: impl FnMut(Python<'_>, P) -> PyResult<()>,
    ) -> PyResult<T> {
        let Self { mut events, is_cancelled } = self;
        let ended = loop {
            let next = wait::until(py, None, |slice| receive(&mut events, slice));
            let told = match next {
                Ok(Some(Event::Done(result))) => break result.map_err(to_py),
                Ok(Some(Event::At(at))) => py.check_signals().and_then(|()| tell(py, at)),
                Ok(None) => Ok(()),
                Err(raised) => Err(raised),
            };
            if let Err(raised) = told {
                break Err(raised);
            }
        };
        if ended.is_err() {
            is_cancelled.store(true, Ordering::Release);
            // Locks that it holds go with the thread.
            py.detach(move || {
                let deadline = Instant::now() + END_WITHIN;
                while let Some(left) = deadline.checked_duration_since(Instant::now()) {
                    if events.recv_timeout(left).is_err() {
                        break;
                    }
                }
            });
        }
        ended
    }
}

fn receive<P, T>(
    events: &mut Receiver<Event<P, T>>,
    slice: Duration,
) -> Result<Option<Event<P, T>>> {
    match events.recv_timeout(slice) {
        Ok(event) => Ok(Some(event)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(AofError::Cancelled),
    }
}
