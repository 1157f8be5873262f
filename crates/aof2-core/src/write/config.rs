//! Configuration of a stream. Flat, validated, every default with its reason.

use std::path::PathBuf;
use std::time::Duration;

use super::retention::RetentionPolicy;
use crate::error::{AofError, Result};
use crate::format::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentFormat, validate_name};
use crate::manifest::{ManifestConfig, ManifestMode};
use crate::store::directory_name;

/// When appended records are made durable without anybody asking.
///
/// ```
/// use aof2_core::{AofConfig, FlushConfig};
/// // Only explicit flushes, and at most 1 MiB at risk.
/// let flush = FlushConfig { flush_interval_ms: 0, flush_bytes: 1 << 20, max_unflushed_bytes: 1 << 20 };
/// AofConfig::new("data/events").flush(flush).validate()?;
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushConfig {
    /// Longest time an appended record waits for a background flush. 5 ms by
    /// default: a power cut costs at most that much of what nobody waited for,
    /// and a flush every 5 ms is far below what any disk can do. 0 switches the
    /// timer off.
    pub flush_interval_ms: u64,
    /// Unflushed bytes that start a background flush at once. 8 MiB by default:
    /// large enough that the disk works in long writes, small enough that a flush
    /// takes milliseconds.
    pub flush_bytes: u64,
    /// Unflushed bytes above which appends are refused with
    /// `WouldBlock(Flush)`. 256 MiB by default: a disk that stalls for a moment
    /// goes unnoticed, one that cannot keep up slows the writer down instead of
    /// filling the page cache.
    pub max_unflushed_bytes: u64,
}

impl Default for FlushConfig {
    fn default() -> Self {
        Self { flush_interval_ms: 5, flush_bytes: 8 << 20, max_unflushed_bytes: 256 << 20 }
    }
}

/// Everything a stream can be told.
///
/// ```
/// use aof2_core::AofConfig;
///
/// let config = AofConfig::new("data/events").segment_bytes(64 << 20);
/// config.validate()?;
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AofConfig {
    /// Directory of the log; created with its parents if missing.
    pub root_dir: PathBuf,
    /// Name of the stream, by default the last part of `root_dir`. A label: the log is
    /// its id, which is drawn when it is created and never changes. Below one prefix of
    /// an object store a name belongs to one log.
    pub name: Option<String>,
    /// Whether a log of this name that the object store holds may come back to a
    /// directory that holds none. Its earlier writer, wherever it runs, is fenced. Needs a
    /// cold tier. `false` by default: such a name is refused as taken.
    pub recover: bool,
    /// Record layout for a new log; an existing log keeps its own. `Full` by
    /// default: its records carry identity, offset and proof of durability.
    pub format: SegmentFormat,
    /// Size of the first segment and of an idle stream's. 1 MiB by default, so
    /// that a log of three records costs a megabyte. Power of two from 64 KiB.
    pub segment_bytes_min: u64,
    /// Size that a busy stream's segments grow to by doubling. 256 MiB by default:
    /// at full speed a rollover every few hundred milliseconds. Power of two up to
    /// 2 GiB.
    pub segment_bytes_max: u64,
    /// Soft rollover point: once this many bytes are used, the stream moves on as
    /// soon as a successor is ready. By default the whole segment.
    pub segment_target_bytes: Option<u64>,
    /// Segments prepared ahead while the stream is busy. 1 by default: the next one
    /// is faulted in while this one fills. 0 prepares one only when an append has to
    /// wait for it.
    pub preallocate_segments: usize,
    /// Background flushing and its limits.
    pub flush: FlushConfig,
    /// What happens to old segments; applied after every rollover and by
    /// `apply_retention`. Keeps everything by default.
    pub retention: RetentionPolicy,
    /// Keeps a sparse index per segment: in memory once a lookup has walked it, and in
    /// `index/` for sealed segments. On by default: 24 bytes per 64 KiB.
    pub enable_sparse_index: bool,
    /// Sealed segments kept mapped for readers. 1,024 by default: with two streams
    /// per process well below the kernel's limit of 65,530 maps.
    pub open_segments_max: usize,
    /// User's identifier stored in the footers of segments (a Raft index, say);
    /// changed at run time with `set_ext_id`. 0 by default. `Full` format only.
    pub ext_id: u64,
    /// Whether what happens to segments is recorded in the manifest. `Disabled` by
    /// default: a log without tiers does not need it. Changed at run time with
    /// `set_manifest_mode`.
    pub manifest_mode: ManifestMode,
    /// How the manifest is kept; by default as suits a log without a cold tier.
    pub manifest: ManifestConfig,
    /// Bytes of this stream's segment files, besides the limit for all streams of the
    /// manager. Only where the manager has tiers. `None` by default.
    pub hot_bytes: Option<u64>,
}

impl AofConfig {
    /// Defaults for a log in this directory.
    pub fn new(root_dir: impl Into<PathBuf>) -> Self {
        Self {
            root_dir: root_dir.into(),
            name: None,
            recover: false,
            format: SegmentFormat::Full,
            segment_bytes_min: 1 << 20,
            segment_bytes_max: 256 << 20,
            segment_target_bytes: None,
            preallocate_segments: 1,
            flush: FlushConfig::default(),
            retention: RetentionPolicy::default(),
            enable_sparse_index: true,
            open_segments_max: 1024,
            ext_id: 0,
            manifest_mode: ManifestMode::Disabled,
            manifest: ManifestConfig::local(),
            hot_bytes: None,
        }
    }

    /// Fixes the segment size.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes_min = bytes;
        self.segment_bytes_max = bytes;
        self
    }

    /// Lets a log that only the object store holds come back.
    #[must_use]
    pub fn recover(mut self) -> Self {
        self.recover = true;
        self
    }

    /// Sets the flush configuration.
    #[must_use]
    pub fn flush(mut self, flush: FlushConfig) -> Self {
        self.flush = flush;
        self
    }

    /// Sets the record layout of a new log.
    #[must_use]
    pub fn format(mut self, format: SegmentFormat) -> Self {
        self.format = format;
        self
    }

    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        check_segment_bytes("segment_bytes_min", self.segment_bytes_min)?;
        check_segment_bytes("segment_bytes_max", self.segment_bytes_max)?;
        if self.segment_bytes_min > self.segment_bytes_max {
            return invalid(
                "segment_bytes_min",
                format!(
                    "{} is larger than segment_bytes_max, {}",
                    self.segment_bytes_min, self.segment_bytes_max
                ),
            );
        }
        if self.segment_target_bytes.is_some_and(|b| b < SEGMENT_BYTES_MIN / 2) {
            return invalid("segment_target_bytes", "must be at least 32 KiB".into());
        }
        if self.flush.flush_bytes == 0 {
            return invalid("flush_bytes", "must be at least 1".into());
        }
        if self.flush.max_unflushed_bytes < self.flush.flush_bytes {
            return invalid("max_unflushed_bytes", "must be at least flush_bytes".into());
        }
        if self.preallocate_segments > 8 {
            return invalid("preallocate_segments", "must be at most 8".into());
        }
        if self.open_segments_max == 0 {
            return invalid("open_segments_max", "must be at least 1".into());
        }
        if self.ext_id != 0 && self.format == SegmentFormat::Compact {
            return invalid("ext_id", "the compact format has no place for it".into());
        }
        if let Err(e) = validate_name(&self.stream_name()) {
            return invalid("name", e.to_string());
        }
        if self.hot_bytes == Some(0) {
            return invalid("hot_bytes", "must be at least 1".into());
        }
        self.manifest.validate()?;
        self.retention.validate()
    }

    /// The stream's name: given, or the directory's.
    pub fn stream_name(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => directory_name(&self.root_dir),
        }
    }

    pub(crate) fn flush_interval(&self) -> Option<Duration> {
        (self.flush.flush_interval_ms > 0)
            .then(|| Duration::from_millis(self.flush.flush_interval_ms))
    }
}

fn check_segment_bytes(field: &'static str, bytes: u64) -> Result<()> {
    if bytes.is_power_of_two() && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    invalid(field, format!("{bytes} is not a power of two from 64 KiB to 2 GiB"))
}

pub(crate) fn invalid<T>(field: &'static str, reason: String) -> Result<T> {
    Err(AofError::InvalidConfig { field, reason })
}
