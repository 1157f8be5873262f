//! `Tiers`: how logs use their tiers; and what `Aof` does with them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use aof2_core::io::object::{ColdConfig, ObjectOp, Sse};
use aof2_core::{AdmissionPolicy, AofError, ColdStatus, Result, TierConfig, TierStatus};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{self, Maybe, flag_or, text, unsigned_if, word_or, wrong_type};
use crate::error::to_py;
use crate::report::{Built, Fields};
use crate::wait;

const POLICIES: [(&str, AdmissionPolicy); 2] =
    [("elastic", AdmissionPolicy::Elastic), ("strict", AdmissionPolicy::Strict)];

/// How logs use their tiers: how many bytes of segment files stay (hot), how the others
/// are compressed (warm), and which object store gets all of them (cold). Given to
/// `Aof.open` or `AofManager`; never changes.
///
/// hot_bytes is the budget of all logs of a manager. With admission "elastic" a writer
/// that outruns compression exceeds it for a while, with "strict" it waits. frame_bytes
/// is what reading one record of a compressed segment decompresses. jobs_max segments
/// move at a time, activations_max may wait to come back; a move that failed is tried
/// again after retry_ms, doubled up to retry_ms_max. Raises `InvalidConfig`.
///
/// cold is "s3://bucket/prefix". Every sealed segment is uploaded there, and the one that
/// is being written is sealed after archive_after_ms (0: never). With it, warm_bytes is
/// the budget of the compressed files, each of which stays for warm_min_ms at least.
/// A log uploads one segment after the other, all logs uploads_max at a time; an object stays for
/// cold_delete_after_ms when its segment was let go. cold_endpoint, cold_region,
/// cold_path_style and cold_sse ("none", "s3", "kms", "kms:KEY" or "customer") say how to
/// reach the store; AOF2_COLD_ENDPOINT, _REGION, _PATH_STYLE and _SSE override them.
/// Credentials come from the environment and the places where the AWS tools look, never
/// from here. Every scrub_interval_ms (0: never) all copies are checked, reading
/// scrub_bytes_per_second at most.
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
        options.set_item("warm_bytes", self.warm_bytes())?;
        options.set_item("cold", self.cold())?;
        options.set_item("admission", self.admission())?;
        options.set_item("compression_level", self.compression_level())?;
        options.set_item("frame_bytes", self.frame_bytes())?;
        options.set_item("jobs_max", self.jobs_max())?;
        options.set_item("activations_max", self.activations_max())?;
        options.set_item("retry_ms", self.retry_ms())?;
        options.set_item("retry_ms_max", self.retry_ms_max())?;
        options.set_item("warm_min_ms", self.warm_min_ms())?;
        options.set_item("archive_after_ms", self.archive_after_ms())?;
        options.set_item("uploads_max", self.uploads_max())?;
        options.set_item("cold_delete_after_ms", self.cold_delete_after_ms())?;
        options.set_item("cold_endpoint", self.cold_endpoint())?;
        options.set_item("cold_region", self.cold_region())?;
        options.set_item("cold_path_style", self.cold_path_style())?;
        options.set_item("cold_sse", self.cold_sse())?;
        options.set_item("cold_metadata", self.cold_metadata())?;
        options.set_item("cold_exclusive", self.cold_exclusive())?;
        options.set_item("scrub_interval_ms", self.scrub_interval_ms())?;
        options.set_item("scrub_bytes_per_second", self.scrub_bytes_per_second())?;
        Ok(options)
    }
}

#[pymethods]
impl Tiers {
    #[new]
    #[pyo3(
        signature = (*, hot_bytes = None, warm_bytes = None, cold = None, admission = None,
            compression_level = None, frame_bytes = None, jobs_max = None,
            activations_max = None, retry_ms = None, retry_ms_max = None, warm_min_ms = None,
            archive_after_ms = None, uploads_max = None, cold_delete_after_ms = None,
            cold_endpoint = None, cold_region = None, cold_path_style = None, cold_sse = None,
            cold_metadata = None, cold_exclusive = None, scrub_interval_ms = None,
            scrub_bytes_per_second = None),
        text_signature = "(*, hot_bytes=1073741824, warm_bytes=None, cold=None, admission='elastic', compression_level=3, frame_bytes=262144, jobs_max=1, activations_max=1024, retry_ms=500, retry_ms_max=60000, warm_min_ms=0, archive_after_ms=300000, uploads_max=2, cold_delete_after_ms=600000, cold_endpoint=None, cold_region=None, cold_path_style=None, cold_sse='none', cold_metadata=None, cold_exclusive=False, scrub_interval_ms=0, scrub_bytes_per_second=16777216)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        hot_bytes: Maybe<'_>,
        warm_bytes: Maybe<'_>,
        cold: Maybe<'_>,
        admission: Maybe<'_>,
        compression_level: Maybe<'_>,
        frame_bytes: Maybe<'_>,
        jobs_max: Maybe<'_>,
        activations_max: Maybe<'_>,
        retry_ms: Maybe<'_>,
        retry_ms_max: Maybe<'_>,
        warm_min_ms: Maybe<'_>,
        archive_after_ms: Maybe<'_>,
        uploads_max: Maybe<'_>,
        cold_delete_after_ms: Maybe<'_>,
        cold_endpoint: Maybe<'_>,
        cold_region: Maybe<'_>,
        cold_path_style: Maybe<'_>,
        cold_sse: Maybe<'_>,
        cold_metadata: Maybe<'_>,
        cold_exclusive: Maybe<'_>,
        scrub_interval_ms: Maybe<'_>,
        scrub_bytes_per_second: Maybe<'_>,
    ) -> PyResult<Self> {
        let reach = Reach {
            endpoint: cold_endpoint,
            region: cold_region,
            path_style: cold_path_style,
            sse: cold_sse,
            metadata: cold_metadata,
            exclusive: cold_exclusive,
        };
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
            warm_bytes: unsigned_if("warm_bytes", &warm_bytes)?,
            cold: reach.config(&cold)?,
            warm_min_ms: unsigned_if("warm_min_ms", &warm_min_ms)?.unwrap_or(default.warm_min_ms),
            archive_after_ms: unsigned_if("archive_after_ms", &archive_after_ms)?
                .unwrap_or(default.archive_after_ms),
            uploads_max: unsigned_if("uploads_max", &uploads_max)?.unwrap_or(default.uploads_max),
            cold_delete_after_ms: unsigned_if("cold_delete_after_ms", &cold_delete_after_ms)?
                .unwrap_or(default.cold_delete_after_ms),
            scrub_interval_ms: unsigned_if("scrub_interval_ms", &scrub_interval_ms)?
                .unwrap_or(default.scrub_interval_ms),
            scrub_bytes_per_second: unsigned_if("scrub_bytes_per_second", &scrub_bytes_per_second)?
                .unwrap_or(default.scrub_bytes_per_second),
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

    /// Bytes of compressed files that all logs of a manager may have together; `None`: no
    /// limit.
    #[getter]
    fn warm_bytes(&self) -> Option<u64> {
        self.config.warm_bytes
    }

    /// How long a compressed file stays at least.
    #[getter]
    fn warm_min_ms(&self) -> u64 {
        self.config.warm_min_ms
    }

    /// Where every sealed segment goes: "s3://bucket/prefix", or `None`.
    #[getter]
    fn cold(&self) -> Option<&str> {
        self.config.cold.as_ref().map(|cold| cold.url.as_str())
    }

    /// After how long the segment that is being written is sealed, to be archived; 0:
    /// never.
    #[getter]
    fn archive_after_ms(&self) -> u64 {
        self.config.archive_after_ms
    }

    /// Uploads and deletes of all logs at the same time.
    #[getter]
    fn uploads_max(&self) -> usize {
        self.config.uploads_max
    }

    /// How long an object stays after its segment was let go.
    #[getter]
    fn cold_delete_after_ms(&self) -> u64 {
        self.config.cold_delete_after_ms
    }

    /// Address of the object store; `None`: S3 itself.
    #[getter]
    fn cold_endpoint(&self) -> Option<&str> {
        self.config.cold.as_ref()?.endpoint.as_deref()
    }

    /// Its region; `None`: what the environment says.
    #[getter]
    fn cold_region(&self) -> Option<&str> {
        self.config.cold.as_ref()?.region.as_deref()
    }

    /// Whether the bucket stands in the path and not in the host's name; `None`: where an
    /// endpoint is given.
    #[getter]
    fn cold_path_style(&self) -> Option<bool> {
        self.config.cold.as_ref()?.path_style
    }

    /// How the store encrypts objects.
    #[getter]
    fn cold_sse(&self) -> String {
        self.config.cold.as_ref().map_or_else(|| "none".into(), |cold| cold.sse.to_string())
    }

    /// Metadata of every object.
    #[getter]
    fn cold_metadata(&self) -> Option<BTreeMap<String, String>> {
        self.config.cold.as_ref().map(|cold| cold.metadata.clone()).filter(|m| !m.is_empty())
    }

    /// Whether nothing else ever writes below the prefix, so that a store without
    /// conditional creation may be written to.
    #[getter]
    fn cold_exclusive(&self) -> bool {
        self.config.cold.as_ref().is_some_and(|cold| cold.exclusive)
    }

    /// How often all copies are checked; 0: never.
    #[getter]
    fn scrub_interval_ms(&self) -> u64 {
        self.config.scrub_interval_ms
    }

    /// Bytes that the check reads in a second at most.
    #[getter]
    fn scrub_bytes_per_second(&self) -> u64 {
        self.config.scrub_bytes_per_second
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Equal configurations print the same.
        format!("{:?}", self.config).hash(&mut hasher);
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

/// Where the archived segments of the log in this directory are, as its writer left
/// word; `None` if it never had a cold tier.
///
/// >>> import aof2
/// >>> aof2.Aof.open("data/orders").close()
/// >>> print(aof2.cold_location("data/orders"))
/// None
#[pyfunction]
pub fn cold_location<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let path = args::path("path", path)?;
    let Some(found) = py.detach(|| aof2_core::cold_location(path)).map_err(to_py)? else {
        return Ok(None);
    };
    let location = Fields::new(py)
        .set("url", found.url)?
        .set("endpoint", found.endpoint)?
        .set("region", found.region)?
        .set("path_style", found.path_style)?
        .set("sse", found.sse)?
        .build("ColdLocation")?;
    Ok(Some(location))
}

/// How to get to an object store, as given.
struct Reach<'py> {
    endpoint: Maybe<'py>,
    region: Maybe<'py>,
    path_style: Maybe<'py>,
    sse: Maybe<'py>,
    metadata: Maybe<'py>,
    exclusive: Maybe<'py>,
}

impl Reach<'_> {
    /// The store that `cold` names. The rest is refused without it: it would say nothing.
    fn config(&self, cold: &Maybe<'_>) -> PyResult<Option<ColdConfig>> {
        let Some(url) = cold else {
            let given = [
                ("cold_endpoint", &self.endpoint),
                ("cold_region", &self.region),
                ("cold_path_style", &self.path_style),
                ("cold_metadata", &self.metadata),
            ];
            let mut refused =
                given.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
            let is_exclusive = flag_or("cold_exclusive", &self.exclusive, false)?;
            return match refused.next().or(is_exclusive.then_some("cold_exclusive")) {
                Some(name) => {
                    Err(to_py(AofError::InvalidConfig { field: name, reason: "needs cold".into() }))
                }
                None => Ok(None),
            };
        };
        let mut config = ColdConfig::new(&text("cold", "a str or None", url)?);
        let text_if = |name, given: &Maybe<'_>| {
            given.as_ref().map(|given| text(name, "a str or None", given)).transpose()
        };
        config.endpoint = text_if("cold_endpoint", &self.endpoint)?;
        config.region = text_if("cold_region", &self.region)?;
        if self.path_style.is_some() {
            config.path_style = Some(flag_or("cold_path_style", &self.path_style, false)?);
        }
        if let Some(sse) = text_if("cold_sse", &self.sse)? {
            config.sse = Sse::from_str(&sse).map_err(to_py)?;
        }
        config.exclusive = flag_or("cold_exclusive", &self.exclusive, false)?;
        if let Some(given) = &self.metadata {
            config.metadata = given
                .extract()
                .map_err(|_| wrong_type("cold_metadata", "a dict of str to str or None", given))?;
        }
        Ok(Some(config))
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
        .set("warm_evictions", m.warm_evictions)?
        .set("uploads", m.uploads)?
        .set("uploaded_bytes", m.uploaded_bytes)?
        .set("upload_seconds", m.upload_seconds)?
        .set("deletes", m.deletes)?
        .set("cold_failures", m.cold_failures)?
        .set("cold_missing", m.cold_missing)?
        .set("scrubbed_bytes", m.scrubbed_bytes)?
        .set("scrubbed_segments", m.scrubbed_segments)?
        .set("damage_found", m.damage_found)?
        .set("healed", m.healed)?
        .build("TierMetrics")?;
    let cold = status.cold.as_ref().map(|cold| cold_status(py, cold)).transpose()?;
    Fields::new(py)
        .set("hot_segments", status.hot_segments)?
        .set("hot_bytes", status.hot_bytes)?
        .set("hot_bytes_max", status.hot_bytes_max)?
        .set("stream_hot_bytes_max", status.stream_hot_bytes_max)?
        .set("warm_segments", status.warm_segments)?
        .set("warm_bytes", status.warm_bytes)?
        .set("warm_bytes_max", status.warm_bytes_max)?
        .set("cold", cold)?
        .set("evicted_segments", status.evicted_segments)?
        .set("pinned_segments", status.pinned_segments)?
        .set("activations_pending", status.activations_pending)?
        .set("needs_repair_segments", status.needs_repair_segments)?
        .set("last_scrub_ms", status.last_scrub_ms)?
        .set("metrics", metrics)?
        .build("TierStatus")
}

fn cold_status<'py>(py: Python<'py>, cold: &ColdStatus) -> Built<'py> {
    let requests = &cold.requests;
    let sum = |part: fn(&aof2_core::io::object::OpMetrics) -> u64| -> u64 {
        ObjectOp::ALL.iter().map(|op| part(&requests.op(*op))).sum()
    };
    let by_kind = PyDict::new(py);
    for op in ObjectOp::ALL {
        by_kind.set_item(op.name(), requests.op(op).requests)?;
    }
    let capabilities = cold.capabilities.map(|can| -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        found.set_item("conditional_create", can.conditional_create)?;
        found.set_item("conditional_finish", can.conditional_finish)?;
        found.set_item("checksum_kept", can.checksum_kept)?;
        found.set_item("checksum_verified", can.checksum_verified)?;
        found.set_item("multipart_checksum_verified", can.multipart_checksum_verified)?;
        found.set_item("suffix_range", can.suffix_range)?;
        Ok(found)
    });
    Fields::new(py)
        .set("url", &cold.url)?
        .set("segments", cold.segments)?
        .set("bytes", cold.bytes)?
        .set("archived", cold.archived)?
        .set("uploads_pending", cold.uploads_pending)?
        .set("deletes_pending", cold.deletes_pending)?
        .set("requests", requests.requests())?
        .set("requests_by_kind", by_kind)?
        .set("retries", sum(|op| op.retries))?
        .set("failures", sum(|op| op.failures))?
        .set("bytes_in", requests.bytes_in)?
        .set("bytes_out", requests.bytes_out)?
        .set("requests_per_gb", requests.per_gb())?
        .set("down_since_ms", requests.down_since_ms)?
        .set("outages", requests.outages)?
        .set("probes", requests.probes)?
        .set("capabilities", capabilities.transpose()?)?
        .set("error", cold.error.as_deref())?
        .build("ColdStatus")
}

/// The figures as a plain dict, for `Aof.metrics`.
pub fn metrics<'py>(py: Python<'py>, given: &TierStatus) -> PyResult<Bound<'py, PyAny>> {
    let figures = py.import("dataclasses")?.call_method1("asdict", (status(py, given)?,))?;
    let moved = figures.call_method1("pop", ("metrics",))?;
    figures.call_method1("update", (moved,))?;
    Ok(figures)
}
