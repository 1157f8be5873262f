//! `Pending`: an operation on its way.

use std::pin::Pin;
use std::time::Duration;

use aof2_core::Result;
use aof2_core::catalog::{Committed, Guard, OperationId};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::{TYPES, values};
use crate::args::{self, Maybe};
use crate::asyncio::Coroutine;
use crate::error::to_py;
use crate::report::Fields;
use crate::wait;

/// What an operation gives its caller.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    Nothing,
    Number(u64),
    Operation(OperationId),
}

impl From<()> for Given {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl From<u32> for Given {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Given {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<OperationId> for Given {
    fn from(id: OperationId) -> Self {
        Self::Operation(id)
    }
}

/// An operation that is durable, on its way to Python.
struct Done(Committed<Given>);

impl<'py> IntoPyObject<'py> for Done {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Committed { generation, operation_id, value } = self.0;
        let value = match value {
            Given::Nothing => py.None().into_bound(py),
            Given::Number(number) => number.into_bound_py_any(py)?,
            Given::Operation(id) => values::operation_id(py, id)?,
        };
        Fields::new(py)
            .set("generation", generation)?
            .set("operation_id", values::operation_id(py, operation_id)?)?
            .set("value", value)?
            .build_in(TYPES, "Committed")
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<Committed<Given>>> + Send>>;

/// A guard of the core, whatever it gives.
trait AnyGuard: Send + Sync {
    fn wait(&self, timeout: Duration) -> Result<Committed<Given>>;
    fn wait_async(&self) -> Waiting;
    fn is_finished(&self) -> bool;
}

impl<T: Into<Given> + Send + 'static> AnyGuard for Guard<T> {
    fn wait(&self, timeout: Duration) -> Result<Committed<Given>> {
        self.wait_timeout(timeout).map(without_type)
    }

    fn wait_async(&self) -> Waiting {
        let guard = self.clone();
        Box::pin(async move { guard.wait_async().await.map(without_type) })
    }

    fn is_finished(&self) -> bool {
        self.is_finished()
    }
}

fn without_type<T: Into<Given>>(committed: Committed<T>) -> Committed<Given> {
    let Committed { generation, operation_id, value } = committed;
    Committed { generation, operation_id, value: value.into() }
}

/// An operation on its way, from the calls of a `Catalog`. It is done whether anybody waits
/// for it or not; `wait`, or `await` in a coroutine, tells when it is durable, or why it was
/// refused.
///
/// >>> pending = catalog.register_db("shop", "pages")
/// >>> committed = pending.wait()
/// >>> committed.value == catalog.view().database("shop").db_id
/// True
/// >>> pending.is_finished
/// True
#[pyclass(module = "aof2", frozen)]
pub struct Pending {
    guard: Box<dyn AnyGuard>,
    name: &'static str,
}

impl Pending {
    pub fn new<T: Into<Given> + Send + 'static>(name: &'static str, guard: Guard<T>) -> Self {
        Self { guard: Box::new(guard), name }
    }
}

#[pymethods]
impl Pending {
    /// Returns when the operation is durable: its generation, its id and, where something new
    /// got a number, that number. Raises why it was refused, or `Timeout`, which says nothing
    /// about the operation: it goes on.
    ///
    /// >>> catalog.record_metric(1, 7, 250).wait(timeout=60).value is None
    /// True
    #[pyo3(signature = (timeout = None), text_signature = "($self, timeout=None)")]
    fn wait<'py>(&self, py: Python<'py>, timeout: Maybe<'py>) -> PyResult<Bound<'py, PyAny>> {
        let timeout = args::timeout(&timeout)?;
        let what = "an operation to be durable";
        let done = wait::until_or_timeout(py, timeout, what, |slice| self.guard.wait(slice))?;
        Done(done).into_pyobject(py)
    }

    /// Whether it has ended, one way or the other.
    #[getter]
    fn is_finished(&self) -> bool {
        self.guard.is_finished()
    }

    fn __await__(&self) -> Coroutine {
        let waiting = self.guard.wait_async();
        Coroutine::of(
            "Pending.__await__",
            move || async move { waiting.await.map(Done).map_err(to_py) },
        )
    }

    fn __repr__(&self) -> String {
        let state = if self.guard.is_finished() { "finished" } else { "on its way" };
        format!("<aof2.Pending: {}, {state}>", self.name)
    }
}
