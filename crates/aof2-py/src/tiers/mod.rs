//! `Tiers`: how logs use their tiers. What is left out keeps the core's default.

mod cold;
mod getters;
mod status;

use std::hash::{DefaultHasher, Hash, Hasher};

use aof2_core::{AdmissionPolicy, AofError, TierConfig};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use self::cold::Reach;
pub use self::cold::cold_location;
pub use self::status::{metrics, status};
use crate::args::{Maybe, unsigned_if, word_or, wrong_type};
use crate::error::to_py;

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
            // A longer first pause moves the default of the longest one.
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
