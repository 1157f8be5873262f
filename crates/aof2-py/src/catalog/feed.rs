//! `CatalogFeed`: every batch once, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aof2_core::catalog::{Feed, OperationBatch};
use aof2_core::io::ForkStamp;
use aof2_core::{AofError, Result};
use pyo3::prelude::*;

use super::operation;
use crate::args::{self, Maybe, unsigned};
use crate::error::{bug, to_py};
use crate::log::check_not_forked;
use crate::wait::{self, Shared};

/// Changes of a catalog in order, from `feed` or `changes`: an iterator of `OperationBatch`
/// that waits for more, up to the timeout that it was made with.
///
/// >>> with catalog.feed("search", timeout=0) as feed:
/// ...     for batch in feed:
/// ...         feed.acknowledge(batch.generation)
/// >>> with catalog.feed("search", timeout=0) as feed:
/// ...     list(feed)
/// []
#[pyclass(module = "aof2", frozen)]
pub struct CatalogFeed {
    /// Empty once it is closed.
    feed: Arc<Shared<Option<Feed>>>,
    next: AtomicU64,
    timeout: Option<Duration>,
    stamp: ForkStamp,
}

/// What a try to get a batch gave.
enum Got {
    Batch(OperationBatch),
    End,
}

impl CatalogFeed {
    pub fn new(feed: Feed, timeout: Option<Duration>) -> Self {
        let next = AtomicU64::new(feed.next_generation());
        Self { feed: Shared::new(Some(feed)), next, timeout, stamp: ForkStamp::now() }
    }

    fn step(&self, slice: Duration) -> Result<Option<Got>> {
        let Some(mut turn) = self.feed.take_within(slice) else { return Ok(None) };
        let feed = turn.as_mut().ok_or(AofError::Closed)?;
        match feed.next_batch(Some(slice))? {
            Some(batch) => {
                self.next.store(feed.next_generation(), Ordering::Release);
                Ok(Some(Got::Batch(batch)))
            }
            None if feed.is_finished() => Ok(Some(Got::End)),
            None => Ok(None),
        }
    }

    fn wait<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match wait::until(py, timeout, |slice| self.step(slice))? {
            Some(Got::Batch(batch)) => operation::batch(py, &batch).map(Some),
            Some(Got::End) | None => Ok(None),
        }
    }

    /// Does something with the feed while nobody else does.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut Option<Feed>) -> Result<T> + Send + Sync,
    ) -> PyResult<T> {
        check_not_forked(self.stamp).map_err(to_py)?;
        let done = wait::until(py, None, |slice| match self.feed.take_within(slice) {
            Some(mut turn) => work(&mut turn).map(Some),
            None => Ok(None),
        })?;
        done.ok_or_else(|| bug("a wait without a timeout ended"))
    }
}

#[pymethods]
impl CatalogFeed {
    /// The next batch; None if none comes within `timeout` seconds, or the catalog was closed
    /// by this process. Raises `FeedReset` if changes that were not read are gone.
    ///
    /// >>> feed = catalog.changes(start=1)
    /// >>> [operation.type for operation in feed.next_batch(timeout=60).operations]
    /// ['RegisterDb']
    /// >>> feed.next_batch(timeout=0) is None
    /// True
    #[pyo3(signature = (timeout = None), text_signature = "($self, timeout=None)")]
    fn next_batch<'py>(
        &self,
        py: Python<'py>,
        timeout: Maybe<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.wait(py, args::timeout(&timeout)?)
    }

    /// Notes, durably, that everything up to a generation was handled: it is not given to
    /// this reader again. By default, up to the last batch that was given out. Raises
    /// `Refused` for a feed without a name, and for a batch that was not given out yet.
    ///
    /// >>> feed = catalog.feed("search")
    /// >>> feed.acknowledge(feed.next_batch(timeout=60).generation)
    /// >>> feed.close()
    #[pyo3(signature = (generation = None), text_signature = "($self, generation=None)")]
    fn acknowledge(&self, py: Python<'_>, generation: Maybe<'_>) -> PyResult<()> {
        let generation = generation.map(|given| unsigned("generation", &given)).transpose()?;
        self.with(py, |feed| {
            let feed = feed.as_ref().ok_or(AofError::Closed)?;
            match generation.or(feed.next_generation().checked_sub(1)) {
                Some(generation) => feed.acknowledge(generation),
                None => Ok(()),
            }
        })
    }

    /// The generation that comes next.
    #[getter]
    fn next_generation(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Gives the place up: nothing is kept for this reader any more, and one of its name
    /// begins anew. The feed is closed.
    ///
    /// >>> catalog.feed("search").forget()
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |feed| feed.take().ok_or(AofError::Closed)?.forget())
    }

    /// Lets go of the name, so that another reader may have it. What was not acknowledged
    /// comes again. Closing twice is fine.
    ///
    /// >>> feed = catalog.feed("search")
    /// >>> feed.close()
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.stamp.is_forked() {
            return Ok(());
        }
        self.with(py, |feed| {
            drop(feed.take());
            Ok(())
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.wait(py, self.timeout)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Maybe<'_>,
        exc_value: Maybe<'_>,
        traceback: Maybe<'_>,
    ) -> PyResult<()> {
        let _unused = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<aof2.CatalogFeed: next generation {}>", self.next_generation())
    }
}
