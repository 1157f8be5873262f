//! Coroutines whose steps are Rust: what `async def` would give, without a Python
//! frame. They start when they are awaited, so what can be done at once is done right
//! there, in the loop's thread, and only real waiting goes through the bridge.

use std::ffi::CString;

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::bridge::future_into_py;

/// How a step ends.
pub enum Next {
    /// With the coroutine's result.
    Done(PyResult<Py<PyAny>>),
    /// With an awaitable whose result goes to the next step.
    Await(Py<PyAny>),
}

type Step = Box<dyn FnMut(Python<'_>, Option<Py<PyAny>>) -> PyResult<Next> + Send>;

struct Running {
    step: Step,
    /// What is awaited now: the iterator of the awaitable.
    awaited: Option<Py<PyAny>>,
    is_started: bool,
}

/// A coroutine: await it, or give it to `asyncio.create_task`.
#[pyclass(module = "aof2._aof2", name = "_Coroutine", frozen)]
pub struct Coroutine {
    name: &'static str,
    /// Empty while it runs and once it has ended.
    running: Mutex<Option<Running>>,
}

/// What the loop does to the awaitable on the coroutine's behalf.
enum Resume<'py> {
    Send(Bound<'py, PyAny>),
    Throw(Bound<'py, PyTuple>),
}

impl Coroutine {
    /// A coroutine that does `step` until it is done. The first step gets `None`, later
    /// ones the result of what the one before awaited.
    pub fn new(
        name: &'static str,
        step: impl FnMut(Python<'_>, Option<Py<PyAny>>) -> PyResult<Next> + Send + 'static,
    ) -> Self {
        let running = Running { step: Box::new(step), awaited: None, is_started: false };
        Self { name, running: Mutex::new(Some(running)) }
    }

    /// A coroutine that awaits one future, which is made when it starts.
    pub fn of<F, T>(name: &'static str, future: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = PyResult<T>> + Send + 'static,
        T: for<'a> IntoPyObject<'a> + Send + 'static,
    {
        let mut future = Some(future);
        Self::new(name, move |py, result| match (future.take(), result) {
            (Some(future), _) => Ok(Next::Await(future_into_py(py, future())?.unbind())),
            (None, result) => Ok(Next::Done(Ok(result.unwrap_or_else(|| py.None())))),
        })
    }

    fn resume<'py>(&self, py: Python<'py>, resume: Resume<'py>) -> PyResult<Bound<'py, PyAny>> {
        let taken = self.running.lock().take();
        let Some(mut running) = taken else {
            return Err(PyRuntimeError::new_err("cannot reuse an awaited coroutine"));
        };
        let yielded = running.advance(py, resume)?;
        *self.running.lock() = Some(running);
        Ok(yielded)
    }
}

impl Running {
    /// Goes on to the next thing to await, which it returns. An error is the end, also
    /// the `StopIteration` that carries the result.
    fn advance<'py>(
        &mut self,
        py: Python<'py>,
        resume: Resume<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.is_started = true;
        let mut result = None;
        if let Some(awaited) = self.awaited.take() {
            let resumed = match resume {
                Resume::Send(value) => awaited.bind(py).call_method1("send", (value,)),
                Resume::Throw(error) => awaited.bind(py).call_method1("throw", error),
            };
            match resumed {
                Ok(yielded) => {
                    self.awaited = Some(awaited);
                    return Ok(yielded);
                }
                Err(ended) => result = Some(returned(py, ended)?),
            }
        } else if let Resume::Throw(error) = resume {
            return Err(thrown(&error));
        }
        loop {
            let awaitable = match (self.step)(py, result.take())? {
                Next::Done(done) => return Err(PyStopIteration::new_err((done?,))),
                Next::Await(awaitable) => awaitable,
            };
            let awaited = awaitable.call_method0(py, "__await__")?;
            match awaited.bind(py).call_method1("send", (py.None(),)) {
                Ok(yielded) => {
                    self.awaited = Some(awaited);
                    return Ok(yielded);
                }
                Err(ended) => result = Some(returned(py, ended)?),
            }
        }
    }
}

/// A forgotten `await` means a record that was never appended: it is told, as for any
/// coroutine.
impl Drop for Coroutine {
    fn drop(&mut self) {
        if self.running.get_mut().take().is_none_or(|running| running.is_started) {
            return;
        }
        let name = self.name;
        let Ok(text) = CString::new(format!("coroutine '{name}' was never awaited")) else {
            return;
        };
        // `None` when the interpreter is going away.
        Python::try_attach(|py| {
            // It may be dropped while an error is on its way.
            let raised = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &category, &text, 1) {
                error.write_unraisable(py, Some(&PyString::new(py, name)));
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

/// The value that an awaitable returned, or its error.
fn returned(py: Python<'_>, ended: PyErr) -> PyResult<Py<PyAny>> {
    match ended.is_instance_of::<PyStopIteration>(py) {
        true => Ok(ended.value(py).getattr("value")?.unbind()),
        false => Err(ended),
    }
}

/// The error that was thrown into a coroutine that awaits nothing: an instance, or a
/// class and perhaps a value.
fn thrown(arguments: &Bound<'_, PyTuple>) -> PyErr {
    let value = arguments.get_item(1).ok().filter(|value| !value.is_none());
    match value.map_or_else(|| arguments.get_item(0), Ok) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

#[pymethods]
impl Coroutine {
    /// Name of the method that made it.
    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    /// Name of the method that made it, with its class.
    #[getter]
    fn __qualname__(&self) -> &'static str {
        self.name
    }

    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.resume(py, Resume::Send(py.None().into_bound(py)))
    }

    /// Goes on; part of the coroutine protocol.
    fn send<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.resume(value.py(), Resume::Send(value))
    }

    /// Raises where it waits; part of the coroutine protocol.
    #[pyo3(signature = (*error))]
    fn throw<'py>(&self, error: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.resume(error.py(), Resume::Throw(error))
    }

    /// Ends it; part of the coroutine protocol.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.lock().take();
        match running.and_then(|running| running.awaited) {
            Some(awaited) => awaited.call_method0(py, "close").map(drop),
            None => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<coroutine {}>", self.name)
    }

    /// A task waits for a future that knows the task: the garbage collector has to see
    /// that circle, or a loop closed too early would leak everything on it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(running) = self.running.try_lock() else { return Ok(()) };
        match running.as_ref().and_then(|running| running.awaited.as_ref()) {
            Some(awaited) => visit.call(awaited),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let running = self.running.try_lock().and_then(|mut running| running.take());
        drop(running);
    }
}
