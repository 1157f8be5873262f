//! Rust futures as awaitables of asyncio.
//!
//! The futures run on a small runtime of this module's own. It starts with the first
//! await, never at import, and belongs to one process: after `fork()` the child makes
//! its own and forgets its parent's, whose threads it does not have.
//!
//! Three ways an await can end, and none may leave something behind:
//! * the Rust future finishes: its result goes to the loop by `call_soon_threadsafe`;
//! * the asyncio future is cancelled: the Rust future is dropped before whoever awaited
//!   it goes on, so what it had borrowed is free again;
//! * the loop is closed, or the interpreter exits: the Rust future is dropped, or not
//!   polled again.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::task::Poll;
use std::time::Duration;

use aof2_core::io::ForkStamp;
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyNone;
use pyo3::{IntoPyObjectExt, intern};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// How often a pending await looks whether its loop still exists. Nobody announces
/// that a loop was closed.
const LOOP_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The runtime of one process; never freed, since its threads live as long.
struct Worker {
    stamp: ForkStamp,
    runtime: Runtime,
    /// Whether Python may be called. Held for reading while a future is polled and
    /// while a result is delivered, so that the exit of the interpreter can wait for
    /// both.
    python_is_up: RwLock<bool>,
}

static WORKER: AtomicPtr<Worker> = AtomicPtr::new(ptr::null_mut());

impl Worker {
    fn existing() -> Option<&'static Self> {
        // SAFETY: the pointer is null or comes from `Box::leak` in `start`, so it is valid for
        // the life of the process and nobody has a mutable reference.
        let worker = unsafe { WORKER.load(Ordering::Acquire).as_ref() };
        worker.filter(|worker| !worker.stamp.is_forked())
    }

    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        match Self::existing() {
            Some(worker) => Ok(worker),
            None => Self::start(py),
        }
    }

    /// No lock: it could be held by a thread that a forked child does not have.
    fn start(py: Python<'_>) -> PyResult<&'static Self> {
        let seen = WORKER.load(Ordering::Acquire);
        let runtime = Self::runtime()?;
        let fresh = Self { stamp: ForkStamp::now(), runtime, python_is_up: RwLock::new(true) };
        let fresh = Box::into_raw(Box::new(fresh));
        match WORKER.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => py
                .import("atexit")?
                .call_method1("register", (wrap_pyfunction!(stop_calling_python, py)?,))
                .map(drop)?,
            // SAFETY: another thread was quicker, so this one was never published.
            Err(_) => unsafe { Box::from_raw(fresh) }.runtime.shutdown_background(),
        }
        Self::existing().ok_or_else(|| PyRuntimeError::new_err("the process was forked"))
    }

    fn runtime() -> io::Result<Runtime> {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("aof2-await")
            .enable_time()
            .build()
    }

    /// Calls Python unless it is exiting. A thread that asks for the interpreter then
    /// would never come back.
    fn with_python<R>(&self, call: impl FnOnce(Python<'_>) -> R) -> Option<R> {
        let up = self.python_is_up.read();
        if *up { Python::try_attach(call) } else { None }
    }

    /// Polls the future only while Python is up, for it may call Python itself. `None`
    /// once it was cancelled.
    async fn run<F: Future>(&self, running: &Running<F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            let up = self.python_is_up.read();
            if !*up {
                return Poll::Pending;
            }
            match &mut *running.future.lock() {
                Some(future) => future.as_mut().poll(cx).map(Some),
                None => Poll::Ready(None),
            }
        })
        .await
    }
}

/// A Rust future that can be dropped by somebody else than the task that polls it.
struct Running<F> {
    future: Mutex<Option<Pin<Box<F>>>>,
}

trait Cancel: Send + Sync {
    fn cancel(&self);
}

impl<F: Send> Cancel for Running<F> {
    fn cancel(&self) {
        let dropped = self.future.lock().take();
        drop(dropped);
    }
}

/// Registered with `atexit`: waits until no thread of the runtime is in a call to
/// Python or on its way to one, and lets none start another.
#[pyfunction]
fn stop_calling_python(py: Python<'_>) {
    if let Some(worker) = Worker::existing() {
        py.detach(|| *worker.python_is_up.write() = false);
    }
}

/// The asyncio future that somebody awaits, and the loop to reach it by.
struct Awaited {
    worker: &'static Worker,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
}

impl Drop for Awaited {
    /// Lets go of the objects now. Without Python, that would wait for the next call
    /// into this module, and there may be none.
    fn drop(&mut self) {
        self.worker.with_python(|py| {
            for object in [&mut self.event_loop, &mut self.future] {
                drop(std::mem::replace(object, py.None()));
            }
        });
    }
}

impl Awaited {
    /// Returns once the loop is closed and nothing can be delivered any more.
    async fn loop_closed(&self) {
        let is_open = |py: Python<'_>| {
            let closed = self.event_loop.call_method0(py, intern!(py, "is_closed"));
            closed.and_then(|closed| closed.is_truthy(py)).is_ok_and(|closed| !closed)
        };
        loop {
            tokio::time::sleep(LOOP_CHECK_INTERVAL).await;
            if self.worker.with_python(is_open) != Some(true) {
                return;
            }
        }
    }

    fn deliver<T>(&self, py: Python<'_>, result: PyResult<T>) -> PyResult<()>
    where
        T: for<'a> IntoPyObject<'a>,
    {
        let (setter, value) = match result.and_then(|value| value.into_py_any(py)) {
            Ok(value) => ("set_result", value),
            Err(error) => ("set_exception", error.into_py_any(py)?),
        };
        let arguments = (wrap_pyfunction!(set_unless_done, py)?, &self.future, setter, value);
        self.event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), arguments).map(drop)
    }
}

/// `None` as the result of an await: Rust's `()` would be an empty tuple.
pub struct Nothing;

impl<'py> IntoPyObject<'py> for Nothing {
    type Target = PyNone;
    type Output = Borrowed<'py, 'py, PyNone>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyNone::get(py))
    }
}

/// Runs in the loop's thread. The future may have been cancelled on the way here.
#[pyfunction]
fn set_unless_done(future: &Bound<'_, PyAny>, setter: &str, value: Py<PyAny>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        future.call_method1(setter, (value,))?;
    }
    Ok(())
}

/// The asyncio future's done callback: drops the Rust future. It is registered before
/// anybody awaits, so it is called before anybody wakes.
#[pyclass(frozen, module = "aof2._aof2")]
struct DropOnDone {
    running: Arc<dyn Cancel>,
    task: AbortHandle,
    stamp: ForkStamp,
}

#[pymethods]
impl DropOnDone {
    fn __call__(&self, py: Python<'_>, _future: &Bound<'_, PyAny>) {
        // A forked child must not touch what its parent's threads may have locked.
        if !self.stamp.is_forked() {
            // The future may be in the middle of a poll that waits for the GIL.
            py.detach(|| self.running.cancel());
            self.task.abort();
        }
    }
}

/// An asyncio future of the running loop that gets the result of `future`.
pub fn future_into_py<'py, F, T>(py: Python<'py>, future: F) -> PyResult<Bound<'py, PyAny>>
where
    F: Future<Output = PyResult<T>> + Send + 'static,
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    let event_loop =
        py.import(intern!(py, "asyncio"))?.call_method0(intern!(py, "get_running_loop"))?;
    let awaited = event_loop.call_method0(intern!(py, "create_future"))?;
    let worker = Worker::get(py)?;
    let future_object = awaited.clone().unbind();
    let target = Awaited { worker, event_loop: event_loop.unbind(), future: future_object };
    let running = Arc::new(Running { future: Mutex::new(Some(Box::pin(future))) });
    let polled = Arc::clone(&running);
    let task = worker.runtime.spawn(async move {
        let result = tokio::select! {
            biased;
            result = worker.run(&polled) => result,
            () = target.loop_closed() => None,
        };
        // Before the result is known: what the future had borrowed is free by then.
        polled.cancel();
        let Some(result) = result else { return };
        worker.with_python(|py| {
            // Fails if the loop was closed meanwhile: then nobody waits.
            let _ = target.deliver(py, result);
        });
    });
    let callback = DropOnDone { running, task: task.abort_handle(), stamp: worker.stamp };
    awaited.call_method1(intern!(py, "add_done_callback"), (callback,))?;
    Ok(awaited)
}
