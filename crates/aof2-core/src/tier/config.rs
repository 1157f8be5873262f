//! What the tiers may use. Flat, validated, every default with its reason.

use crate::error::{AofError, Result};
use crate::object::ColdConfig;
use crate::segment::ArtifactOptions;

/// What a writer does when the hot tier is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdmissionPolicy {
    /// It waits (`WouldBlock(Admission)`) until old segments have left: the budget holds,
    /// and a writer that outruns compression slows down to its speed.
    Strict,
    /// It goes on; the budget is exceeded until compression has caught up.
    #[default]
    Elastic,
}

/// How a stream, or all streams of a manager together, use their tiers.
///
/// ```
/// use aof2_core::TierConfig;
/// let tiers = TierConfig { hot_bytes: 256 << 20, ..TierConfig::default() };
/// tiers.validate()?;
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Bytes of segment files: sealed ones and those being written, less what is only
    /// prepared. Sealed segments leave, those read longest ago first, when there are more.
    /// 1 GiB by default: a few segments of the largest size.
    pub hot_bytes: u64,
    /// Bytes of compressed copies on the local disk, of all streams. Those that the
    /// object store holds leave, used longest ago first, when there are more. Without
    /// `cold` nothing could leave, so it is an error then. No limit by default.
    pub warm_bytes: Option<u64>,
    /// How long a compressed copy stays at least once it was made or brought back, so
    /// that what is read now does not come and go. 0 by default.
    pub warm_min_ms: u64,
    /// The object store that gets every sealed segment. None by default.
    pub cold: Option<ColdConfig>,
    /// With `cold`: a segment that is being written is sealed after about this time, so
    /// that a slow stream is archived too. 5 minutes by default, 0 for never.
    pub archive_after_ms: u64,
    /// Uploads, and other requests to the object store in the background, at the same
    /// time. 2 by default: one reads the disk while the other waits for an answer. A
    /// stream uploads one segment after the other, so that a lost machine leaves no hole.
    pub uploads_max: usize,
    /// How long an object stays after its segment was let go, for readers that still
    /// know it. 10 minutes by default.
    pub cold_delete_after_ms: u64,
    /// How often every byte of every copy of a sealed segment is checked against its
    /// checksum, and damage healed from another copy. Counted from the end of the last
    /// check, or from opening the log. 0, never, by default: it costs what it reads.
    pub scrub_interval_ms: u64,
    /// Bytes that the check reads in a second at most, of all streams together. 16 MiB by
    /// default.
    pub scrub_bytes_per_second: u64,
    /// Whether writers wait for the hot tier's budget. `Elastic` by default: a log that
    /// is written faster than it is compressed should not stop.
    pub admission: AdmissionPolicy,
    /// zstd's level. 3 by default: about 300 MB/s and most of what higher ones gain.
    pub compression_level: i32,
    /// Bytes of a segment in one frame, which is what reading a single record
    /// decompresses. 256 KiB by default.
    pub frame_bytes: u32,
    /// Segments compressed or brought back at the same time. 1 by default: half of the
    /// smallest machine.
    pub jobs_max: usize,
    /// Requests to bring a segment back that may wait. 1,024 by default; one more is
    /// refused with `WouldBlock(Hydration)`.
    pub activations_max: usize,
    /// How soon a failed job is tried again; doubled with each failure up to the next
    /// field. 500 ms by default.
    pub retry_ms: u64,
    /// 60 s by default.
    pub retry_ms_max: u64,
}

impl Default for TierConfig {
    fn default() -> Self {
        let artifact = ArtifactOptions::default();
        Self {
            hot_bytes: 1 << 30,
            warm_bytes: None,
            warm_min_ms: 0,
            cold: None,
            archive_after_ms: 300_000,
            uploads_max: 2,
            cold_delete_after_ms: 600_000,
            scrub_interval_ms: 0,
            scrub_bytes_per_second: 16 << 20,
            admission: AdmissionPolicy::default(),
            compression_level: artifact.level,
            frame_bytes: artifact.frame_bytes,
            jobs_max: 1,
            activations_max: 1024,
            retry_ms: 500,
            retry_ms_max: 60_000,
        }
    }
}

impl TierConfig {
    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        let invalid =
            |field, reason: &str| Err(AofError::InvalidConfig { field, reason: reason.to_owned() });
        if self.hot_bytes == 0 {
            return invalid("hot_bytes", "must be at least 1");
        }
        if self.warm_bytes == Some(0) {
            return invalid("warm_bytes", "must be at least 1");
        }
        if self.warm_bytes.is_some() && self.cold.is_none() {
            let reason = "needs cold: without it every compressed copy may be the last";
            return invalid("warm_bytes", reason);
        }
        if !(1..=64).contains(&self.uploads_max) {
            return invalid("uploads_max", "must be from 1 to 64");
        }
        if self.scrub_bytes_per_second == 0 {
            return invalid("scrub_bytes_per_second", "must be at least 1");
        }
        if let Some(cold) = &self.cold {
            // As given, and as the environment changes it.
            cold.validate()?;
            cold.clone().with_env()?.validate()?;
        }
        if !(1..=19).contains(&self.compression_level) {
            return invalid("compression_level", "must be from 1 to 19");
        }
        if !(4 << 10..=16 << 20).contains(&self.frame_bytes) {
            return invalid("frame_bytes", "must be from 4 KiB to 16 MiB");
        }
        if !(1..=64).contains(&self.jobs_max) {
            return invalid("jobs_max", "must be from 1 to 64");
        }
        if self.activations_max == 0 {
            return invalid("activations_max", "must be at least 1");
        }
        if self.retry_ms == 0 || self.retry_ms_max < self.retry_ms {
            return invalid("retry_ms_max", "must be at least retry_ms, which is at least 1");
        }
        Ok(())
    }

    pub(crate) fn artifact_options(&self) -> ArtifactOptions {
        ArtifactOptions { level: self.compression_level, frame_bytes: self.frame_bytes }
    }
}
