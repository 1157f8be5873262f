//! `Follow`: an iterator that waits for more records, for threads and for asyncio.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aof2_core::io::ForkStamp;
use aof2_core::{Result, ScanOptions};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::Notify;

use super::ScanProgress;
use super::read_ahead::{ReadAhead, read_ahead_options};
use crate::asyncio::{Coroutine, Next, future_into_py};
use crate::error::to_py;
use crate::log::{Source, check_not_forked};
use crate::record::Record;
use crate::wait::{self, Shared};

struct State {
    /// Gone once the iterator was closed.
    follow: Option<aof2_core::Follow>,
    ahead: ReadAhead,
}

/// What a try to get a record gave.
enum Got {
    Record(aof2_core::Record),
    /// Nothing more will come.
    End,
    NothingYet,
}

impl Got {
    /// Ends a wait unless there is nothing yet.
    fn ended(self) -> Option<Option<aof2_core::Record>> {
        match self {
            Self::Record(record) => Some(Some(record)),
            Self::End => Some(None),
            Self::NothingYet => None,
        }
    }
}

/// An iterator of records that waits for more, from `follow`. Use `for`, or `async for`
/// in a coroutine. Threads may share it; each record goes to one of them.
///
/// After a timeout it may be asked again and goes on where it was.
///
/// >>> follow = log.follow("earliest", timeout=0)
/// >>> list(follow)
/// []
/// >>> rid = log.append(b"news")
/// >>> log.flush()
/// >>> [bytes(record) for record in follow]
/// [b'news']
/// >>> follow.close()
#[pyclass(module = "aof2", frozen)]
pub struct Follow {
    core: Arc<Core>,
}

struct Core {
    state: Arc<Shared<Box<State>>>,
    progress: ScanProgress,
    timeout: Option<Duration>,
    is_closed: AtomicBool,
    /// Raised when it is closed, for those who await a record.
    closing: Notify,
    stamp: ForkStamp,
}

impl Core {
    /// Hands out what was read ahead.
    fn pop(&self, state: &mut State) -> Option<aof2_core::Record> {
        let record = state.ahead.pop();
        if let Some(follow) = &state.follow {
            let next_offset = state.ahead.next_offset().unwrap_or(follow.next_offset());
            self.progress.set_next(next_offset);
            self.progress.set_skipped(follow.skipped(), follow.lost(), follow.skipped_ranges());
        }
        record
    }

    /// Gets a record, waiting for a slice of time at most.
    fn next_within(&self, slice: Duration) -> Result<Got> {
        let Some(mut state) = self.state.take_within(slice) else { return Ok(Got::NothingYet) };
        if self.is_closed.load(Ordering::Acquire) {
            state.follow = None;
        } else if let Some(record) = self.pop(&mut state) {
            return Ok(Got::Record(record));
        }
        let State { follow: Some(follow), ahead } = &mut **state else { return Ok(Got::End) };
        match follow.next_batch(Some(slice))? {
            Some(batch) => ahead.refill(batch),
            None if follow.is_finished() => return Ok(Got::End),
            None => return Ok(Got::NothingYet),
        }
        Ok(self.pop(&mut state).map_or(Got::NothingYet, Got::Record))
    }

    /// Reads ahead for a coroutine: whether there is something now. Nothing is lost when
    /// the future is dropped, for the records wait in the state.
    async fn read_ahead(self: Arc<Self>) -> Result<bool> {
        let mut closing = std::pin::pin!(self.closing.notified());
        closing.as_mut().enable();
        if self.is_closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        let reading = async {
            match self.timeout {
                Some(timeout) => {
                    tokio::time::timeout(timeout, self.fill()).await.unwrap_or(Ok(false))
                }
                None => self.fill().await,
            }
        };
        tokio::select! {
            biased;
            () = closing => Ok(false),
            found = reading => found,
        }
    }

    async fn fill(&self) -> Result<bool> {
        let mut state = self.state.take_async().await;
        let State { follow, ahead } = &mut **state;
        if ahead.next_offset().is_some() {
            return Ok(true);
        }
        let Some(follow) = follow else { return Ok(false) };
        let Some(batch) = follow.next_batch_async().await? else { return Ok(false) };
        ahead.refill(batch);
        Ok(true)
    }

    /// One step of `__anext__`: a record that was read ahead, or something to await.
    fn step(self: &Arc<Self>, py: Python<'_>, found: Option<Py<PyAny>>) -> PyResult<Next> {
        check_not_forked(self.stamp).map_err(to_py)?;
        let end = || Ok(Next::Done(Err(PyStopAsyncIteration::new_err(()))));
        if self.is_closed.load(Ordering::Acquire) {
            return end();
        }
        if let Some(Some(record)) = self.state.here(|state| self.pop(state)) {
            return Ok(Next::Done(Py::new(py, Record::from(record)).map(Py::into_any)));
        }
        if found.is_some_and(|found| !found.is_truthy(py).unwrap_or(false)) {
            return end();
        }
        let reading = Arc::clone(self).read_ahead();
        let future = future_into_py(py, async move { reading.await.map_err(to_py) })?;
        Ok(Next::Await(future.unbind()))
    }
}

impl Follow {
    pub fn open(
        source: &Source,
        options: ScanOptions,
        timeout: Option<Duration>,
        until_closed: bool,
    ) -> Result<Self> {
        let mut follow = source.follow(read_ahead_options(options))?;
        if until_closed {
            follow = follow.until_closed();
        }
        let progress = ScanProgress::at(follow.next_offset());
        let state = State { follow: Some(follow), ahead: ReadAhead::default() };
        Ok(Self {
            core: Arc::new(Core {
                state: Shared::new(Box::new(state)),
                progress,
                timeout,
                is_closed: AtomicBool::new(false),
                closing: Notify::new(),
                stamp: ForkStamp::now(),
            }),
        })
    }
}

#[pymethods]
impl Follow {
    /// Logical offset of the record that comes next.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.core.progress.next_offset()
    }

    /// Records passed over: those that a repair left a gap for and, with
    /// on_corruption="skip", damaged ones.
    #[getter]
    fn skipped(&self) -> u64 {
        self.core.progress.skipped()
    }

    /// Of the records passed over, those that a repair left a gap for.
    #[getter]
    fn lost(&self) -> u64 {
        self.core.progress.lost()
    }

    /// Which records were passed over, in order, and why. Of more than a thousand ranges,
    /// the first ones and the last.
    #[getter]
    fn skipped_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.core.progress.skipped_ranges(py)
    }

    /// Ends the iteration, also for those who wait for it, and lets go of the segment.
    ///
    /// >>> follow = log.follow()
    /// >>> follow.close()
    /// >>> list(follow)
    /// []
    fn close(&self) {
        self.core.is_closed.store(true, Ordering::Release);
        if self.core.stamp.is_forked() {
            return;
        }
        self.core.closing.notify_waiters();
        // Whoever has it now lets go when its slice of waiting is over.
        if let Some(mut state) = self.core.state.take() {
            **state = State { follow: None, ahead: ReadAhead::default() };
        }
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let core = &*self.core;
        check_not_forked(core.stamp).map_err(to_py)?;
        if core.is_closed.load(Ordering::Acquire) {
            return Ok(None);
        }
        if let Some(Some(record)) = core.state.here(|state| core.pop(state)) {
            return Ok(Some(record.into()));
        }
        let found = wait::until(py, core.timeout, |slice| Ok(core.next_within(slice)?.ended()))?;
        Ok(found.flatten().map(Into::into))
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__(&self) -> Coroutine {
        let core = Arc::clone(&self.core);
        Coroutine::new("Follow.__anext__", move |py, found| core.step(py, found))
    }

    fn __repr__(&self) -> String {
        format!("<aof2.Follow: next offset {}, {} skipped>", self.next_offset(), self.skipped())
    }
}
