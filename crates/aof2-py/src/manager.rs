//! `AofManager`: one set of background threads for many logs.

use std::sync::atomic::{AtomicBool, Ordering};

use aof2_core::io::ForkStamp;
use aof2_core::{AofError, ManagerConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::aof::Aof;
use crate::args::{Maybe, unsigned_if};
use crate::error::to_py;
use crate::log::check_not_forked;
use crate::tiers::Tiers;

/// Runs the background work of many logs on one set of threads. Without one, every log
/// has its own. With `tiers` the logs share a budget of segment files, see `Tiers`.
///
/// >>> import aof2
/// >>> with aof2.AofManager() as manager:
/// ...     orders = manager.open("data/orders")
/// ...     clicks = manager.open("data/clicks", segment_bytes=1 << 20)
/// ...     manager.open_streams
/// 2
/// >>> orders.closed, clicks.closed
/// (True, True)
#[pyclass(module = "aof2", frozen)]
pub struct AofManager {
    manager: aof2_core::AofManager,
    has_tiers: bool,
    has_cold: bool,
    is_shut_down: AtomicBool,
    stamp: ForkStamp,
}

impl AofManager {
    /// The manager, if it may be used.
    pub fn live(&self) -> PyResult<&aof2_core::AofManager> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match self.is_shut_down.load(Ordering::Acquire) {
            true => Err(to_py(AofError::Closed)),
            false => Ok(&self.manager),
        }
    }

    /// Whether its logs have tiers.
    pub fn has_tiers(&self) -> bool {
        self.has_tiers
    }

    /// Whether its logs are archived.
    pub fn has_cold(&self) -> bool {
        self.has_cold
    }
}

#[pymethods]
impl AofManager {
    #[new]
    #[pyo3(
        signature = (worker_threads = None, blocking_threads_max = None, *, tiers = None),
        text_signature = "(worker_threads=2, blocking_threads_max=16, *, tiers=None)"
    )]
    fn new(
        py: Python<'_>,
        worker_threads: Maybe<'_>,
        blocking_threads_max: Maybe<'_>,
        tiers: Maybe<'_>,
    ) -> PyResult<Self> {
        let mut config = ManagerConfig { tiers: Tiers::of(&tiers)?, ..ManagerConfig::default() };
        let has_tiers = config.tiers.is_some();
        let has_cold = config.tiers.as_ref().is_some_and(|tiers| tiers.cold.is_some());
        if let Some(count) = unsigned_if("worker_threads", &worker_threads)? {
            config.worker_threads = count;
        }
        if let Some(count) = unsigned_if("blocking_threads_max", &blocking_threads_max)? {
            config.blocking_threads_max = count;
        }
        let manager = py.detach(|| aof2_core::AofManager::new(config)).map_err(to_py)?;
        let is_shut_down = AtomicBool::new(false);
        Ok(Self { manager, has_tiers, has_cold, is_shut_down, stamp: ForkStamp::now() })
    }

    /// Opens a log as `Aof.open` does, with the same options but `tiers`. Where the manager
    /// has tiers, hot_bytes is the log's own limit besides the one for all logs.
    ///
    /// >>> import aof2
    /// >>> manager = aof2.AofManager()
    /// >>> log = manager.open("data/orders", flush_interval_ms=20)
    /// >>> manager.shutdown()
    #[pyo3(signature = (path, **options))]
    fn open<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = options.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())?;
        options.set_item("manager", slf)?;
        py.get_type::<Aof>().getattr("open")?.call((path,), Some(&options))
    }

    /// Logs that are open.
    #[getter]
    fn open_streams(&self) -> PyResult<usize> {
        check_not_forked(self.stamp).map_err(to_py)?;
        Ok(self.manager.open_streams())
    }

    /// The figures of all open logs in the Prometheus text format, as one exposition: the
    /// texts of single logs behind each other would not be valid. Every sample has the
    /// labels `path`, the log's directory, and `stream`, its name.
    ///
    /// >>> import aof2
    /// >>> with aof2.AofManager() as manager:
    /// ...     logs = [manager.open(f"data/{name}") for name in ("orders", "clicks")]
    /// ...     text = manager.metrics_text()
    /// >>> text.count("# TYPE aof2_segments gauge"), text.count("\naof2_segments{")
    /// (1, 2)
    fn metrics_text(&self, py: Python<'_>) -> PyResult<String> {
        let manager = self.live()?;
        Ok(py.detach(|| manager.to_prometheus()))
    }

    /// Closes every log of this manager. Raises the first error, after trying all of them.
    ///
    /// >>> import aof2
    /// >>> manager = aof2.AofManager()
    /// >>> manager.shutdown()
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        if self.stamp.is_forked() {
            // The parent's to shut down.
            return Ok(());
        }
        self.is_shut_down.store(true, Ordering::Release);
        py.detach(|| self.manager.shutdown()).map_err(to_py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().live()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Maybe<'_>,
        exc_value: Maybe<'_>,
        traceback: Maybe<'_>,
    ) -> PyResult<()> {
        let _unused = (exc_type, traceback);
        match (self.shutdown(py), exc_value) {
            (Err(error), Some(raised)) => {
                // What went wrong in the block matters more than that closing did, too.
                let note = format!("closing the logs failed, too: {error}");
                raised.call_method1("add_note", (note,)).map(drop)
            }
            (shut_down, _) => shut_down,
        }
    }

    fn __repr__(&self) -> String {
        match self.live() {
            Ok(manager) => format!("<aof2.AofManager: {} open>", manager.open_streams()),
            Err(_) if self.stamp.is_forked() => "<aof2.AofManager: made before fork()>".into(),
            Err(_) => "<aof2.AofManager: shut down>".into(),
        }
    }
}
