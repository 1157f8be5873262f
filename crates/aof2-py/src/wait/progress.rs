//! Work that reports how far it has got.

use std::ops::ControlFlow;

use aof2_core::Result;
use pyo3::prelude::*;

use crate::args::{Maybe, callable};
use crate::report::Built;

/// Tells how far the work has got, and answers whether it goes on.
pub type Report<'a, P> = &'a mut dyn FnMut(P) -> ControlFlow<()>;

/// The argument `progress` of a call: a callable that hears how far the work has got.
pub struct Progress<P> {
    callback: Option<Py<PyAny>>,
    /// What it is called with.
    convert: for<'py> fn(Python<'py>, P) -> Built<'py>,
}

impl<P> Progress<P> {
    pub fn of(
        given: &Maybe<'_>,
        convert: for<'py> fn(Python<'py>, P) -> Built<'py>,
    ) -> PyResult<Self> {
        Ok(Self { callback: callable("progress", given)?, convert })
    }

    /// Lets signal handlers run, then calls what was given.
    pub fn tell(&self, py: Python<'_>, at: P) -> PyResult<()> {
        py.check_signals()?;
        let Some(callback) = &self.callback else { return Ok(()) };
        callback.call1(py, ((self.convert)(py, at)?,)).map(drop)
    }
}

/// Does `work` in the caller's thread. It stops at its reports while Python hears of them,
/// and what that raises ends it.
pub fn here<P, T: Send>(
    py: Python<'_>,
    progress: &Progress<P>,
    work: impl FnOnce(Report<'_, P>) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    let mut raised = None;
    let ended = py.detach(|| {
        work(&mut |at| match Python::attach(|py| progress.tell(py, at)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        })
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(ended),
    }
}
