//! `Tiers`: how logs use their hot and warm tier; and what `Aof` does with them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use aof2_core::{AdmissionPolicy, AofError, Result, TierConfig, TierStatus};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{Maybe, unsigned_if, word_or, wrong_type};
use crate::error::to_py;
use crate::report::{Built, Fields};
use crate::wait;

const POLICIES: [(&str, AdmissionPolicy); 2] =
    [("elastic", AdmissionPolicy::Elastic), ("strict", AdmissionPolicy::Strict)];

/// How logs use their tiers: how many bytes of segment files stay (hot), and how the
/// others are compressed (warm). Given to `Aof.open` or `AofManager`; never changes.
///
/// hot_bytes is the budget of all logs of a manager. With admission "elastic" a writer
/// that outruns compression exceeds it for a while, with "strict" it waits. frame_bytes
/// is what reading one record of a compressed segment decompresses. jobs_max segments
/// move at a time, activations_max may wait to come back; a move that failed is tried
/// again after retry_ms, doubled up to retry_ms_max. Raises `InvalidConfig`.
///
/// >>> import aof2
/// >>> tiers = aof2.Tiers(hot_bytes=64 << 20, admission="strict")
/// >>> tiers.hot_bytes, tiers.admission, tiers.compression_level
/// (67108864, 'strict', 3)
/// >>> with aof2.Aof.open("data/orders", tiers=tiers) as orders:
/// ...     orders.tiers().hot_bytes_max
/// 67108864
#[pyclass(module = "aof2", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct Tiers {
    config: TierConfig,
}

impl Tiers {
    /// The argument `tiers`.
    pub fn of(given: &Maybe<'_>) -> PyResult<Option<TierConfig>> {
        let Some(given) = given else { return Ok(None) };
        let tiers =
            given.cast::<Self>().map_err(|_| wrong_type("tiers", "a Tiers or None", given))?;
        Ok(Some(tiers.get().config.clone()))
    }

    /// Every option by its name, in the order of the signature.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        options.set_item("hot_bytes", self.hot_bytes())?;
        options.set_item("admission", self.admission())?;
        options.set_item("compression_level", self.compression_level())?;
        options.set_item("frame_bytes", self.frame_bytes())?;
        options.set_item("jobs_max", self.jobs_max())?;
        options.set_item("activations_max", self.activations_max())?;
        options.set_item("retry_ms", self.retry_ms())?;
        options.set_item("retry_ms_max", self.retry_ms_max())?;
        Ok(options)
    }
}

#[pymethods]
impl Tiers {
    #[new]
    #[pyo3(
        signature = (*, hot_bytes = None, admission = None, compression_level = None,
            frame_bytes = None, jobs_max = None, activations_max = None, retry_ms = None,
            retry_ms_max = None),
        text_signature = "(*, hot_bytes=1073741824, admission='elastic', compression_level=3, frame_bytes=262144, jobs_max=1, activations_max=1024, retry_ms=500, retry_ms_max=60000)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        hot_bytes: Maybe<'_>,
        admission: Maybe<'_>,
        compression_level: Maybe<'_>,
        frame_bytes: Maybe<'_>,
        jobs_max: Maybe<'_>,
        activations_max: Maybe<'_>,
        retry_ms: Maybe<'_>,
        retry_ms_max: Maybe<'_>,
    ) -> PyResult<Self> {
        let default = TierConfig::default();
        let level = unsigned_if::<u32>("compression_level", &compression_level)?;
        // What does not fit is refused below.
        let level = level.map(|level| i32::try_from(level).unwrap_or(i32::MAX));
        let retry_ms = unsigned_if("retry_ms", &retry_ms)?.unwrap_or(default.retry_ms);
        let config = TierConfig {
            hot_bytes: unsigned_if("hot_bytes", &hot_bytes)?.unwrap_or(default.hot_bytes),
            admission: word_or("admission", &admission, &POLICIES, default.admission)?,
            compression_level: level.unwrap_or(default.compression_level),
            frame_bytes: unsigned_if("frame_bytes", &frame_bytes)?.unwrap_or(default.frame_bytes),
            jobs_max: unsigned_if("jobs_max", &jobs_max)?.unwrap_or(default.jobs_max),
            activations_max: unsigned_if("activations_max", &activations_max)?
                .unwrap_or(default.activations_max),
            retry_ms,
            // One alone moves the other's default out of its way.
            retry_ms_max: unsigned_if("retry_ms_max", &retry_ms_max)?
                .unwrap_or(default.retry_ms_max.max(retry_ms)),
            ..default
        };
        config.validate().map_err(to_py)?;
        Ok(Self { config })
    }

    /// Bytes of segment files that all logs of a manager may have together.
    #[getter]
    fn hot_bytes(&self) -> u64 {
        self.config.hot_bytes
    }

    /// What a writer does when they have more: "elastic", it goes on; "strict", it waits.
    #[getter]
    fn admission(&self) -> &'static str {
        let found = POLICIES.iter().find(|(_, known)| *known == self.config.admission);
        found.map_or("elastic", |(word, _)| word)
    }

    /// Level of zstd, from 1 to 19.
    #[getter]
    fn compression_level(&self) -> i32 {
        self.config.compression_level
    }

    /// Bytes of a segment that are compressed, and so read, together.
    #[getter]
    fn frame_bytes(&self) -> u32 {
        self.config.frame_bytes
    }

    /// Segments that are compressed or brought back at the same time.
    #[getter]
    fn jobs_max(&self) -> usize {
        self.config.jobs_max
    }

    /// Segments of a log that may wait to come back.
    #[getter]
    fn activations_max(&self) -> usize {
        self.config.activations_max
    }

    /// How soon a move that failed is tried again, doubled with each failure.
    #[getter]
    fn retry_ms(&self) -> u64 {
        self.config.retry_ms
    }

    /// The longest pause before it is tried again.
    #[getter]
    fn retry_ms_max(&self) -> u64 {
        self.config.retry_ms_max
    }

    fn __hash__(&self) -> u64 {
        let TierConfig {
            hot_bytes,
            admission,
            compression_level,
            frame_bytes,
            jobs_max,
            activations_max,
            retry_ms,
            retry_ms_max,
            ..
        } = &self.config;
        let mut hasher = DefaultHasher::new();
        (hot_bytes, admission, compression_level, frame_bytes).hash(&mut hasher);
        (jobs_max, activations_max, retry_ms, retry_ms_max).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::new();
        for (name, value) in self.options(py)? {
            parts.push(format!("{}={}", name.str()?, value.repr()?));
        }
        Ok(format!("Tiers({})", parts.join(", ")))
    }

    /// For pickle: the options that make an equal one.
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        Ok((PyTuple::empty(py), self.options(py)?))
    }
}

/// Tells how to get tiers where the core only knows that there are none.
pub fn explain(error: AofError) -> PyErr {
    to_py(match error {
        AofError::InvalidConfig { field: "tiers", reason } => AofError::InvalidConfig {
            field: "tiers",
            reason: format!("{reason}; give tiers=aof2.Tiers(...) to Aof.open or AofManager"),
        },
        other => other,
    })
}

/// Has the work done by a thread of its own and waits for it, so that Ctrl-C can end the
/// wait. The work goes on then; `abandoned` follows it.
pub fn done_aside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    abandoned: impl FnOnce() + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = channel();
    thread::Builder::new().name("aof2-move".into()).spawn(move || {
        if done.send(work()).is_err() {
            abandoned();
        }
    })?;
    let ended = wait::until(py, None, move |slice| match outcome.recv_timeout(slice) {
        Ok(result) => Ok(Some(result)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(AofError::Cancelled),
    })?;
    ended.unwrap_or(Err(AofError::Cancelled)).map_err(explain)
}

pub fn status<'py>(py: Python<'py>, status: &TierStatus) -> Built<'py> {
    let m = &status.metrics;
    let metrics = Fields::new(py)
        .set("evictions", m.evictions)?
        .set("failures", m.failures)?
        .set("compressions", m.compressions)?
        .set("compressed_raw_bytes", m.compressed_raw_bytes)?
        .set("compressed_bytes", m.compressed_bytes)?
        .set("compression_seconds", m.compression_seconds)?
        .set("hydrations", m.hydrations)?
        .set("hydration_seconds", m.hydration_seconds)?
        .build("TierMetrics")?;
    Fields::new(py)
        .set("hot_segments", status.hot_segments)?
        .set("hot_bytes", status.hot_bytes)?
        .set("hot_bytes_max", status.hot_bytes_max)?
        .set("stream_hot_bytes_max", status.stream_hot_bytes_max)?
        .set("warm_segments", status.warm_segments)?
        .set("warm_bytes", status.warm_bytes)?
        .set("evicted_segments", status.evicted_segments)?
        .set("pinned_segments", status.pinned_segments)?
        .set("activations_pending", status.activations_pending)?
        .set("metrics", metrics)?
        .build("TierStatus")
}

/// The figures as a plain dict, for `Aof.metrics`.
pub fn metrics<'py>(py: Python<'py>, given: &TierStatus) -> PyResult<Bound<'py, PyAny>> {
    let figures = py.import("dataclasses")?.call_method1("asdict", (status(py, given)?,))?;
    let moved = figures.call_method1("pop", ("metrics",))?;
    figures.call_method1("update", (moved,))?;
    Ok(figures)
}
