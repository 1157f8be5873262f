//! The options of a `Tiers`, one by one and all together.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{POLICIES, Tiers};

impl Tiers {
    /// Every option by its name, in the order of the signature.
    pub(super) fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
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
}
