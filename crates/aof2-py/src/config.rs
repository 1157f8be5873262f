//! Options of `Aof.open` as a configuration of the core.

use std::path::PathBuf;

use aof2_core::manifest::ManifestMode;
use aof2_core::{AofConfig, AofError, RetentionAction, SegmentFormat};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::args::{Maybe, flag_or, text, unsigned_if, word_or};
use crate::error::to_py;

/// The modes of a manifest.
pub const MODES: [(&str, ManifestMode); 3] = [
    ("disabled", ManifestMode::Disabled),
    ("shadow", ManifestMode::Shadow),
    ("enabled", ManifestMode::Enabled),
];

/// What a new log is told about its segments' sizes.
pub struct SegmentSizes<'py> {
    pub fixed: Maybe<'py>,
    pub min: Maybe<'py>,
    pub max: Maybe<'py>,
    pub target: Maybe<'py>,
    pub preallocate: Maybe<'py>,
}

impl SegmentSizes<'_> {
    /// The option behind one end of the window: the fixed size, or the other end that
    /// moved this one's default.
    fn given(&self, field: &'static str) -> &'static str {
        match (&self.fixed, &self.min, &self.max) {
            (Some(_), _, _) => "segment_bytes",
            (_, Some(_), None) => "segment_bytes_min",
            (_, None, Some(_)) => "segment_bytes_max",
            _ => field,
        }
    }

    pub fn apply(&self, config: &mut AofConfig) -> PyResult<()> {
        let fixed = unsigned_if::<u64>("segment_bytes", &self.fixed)?;
        let min = unsigned_if::<u64>("segment_bytes_min", &self.min)?;
        let max = unsigned_if::<u64>("segment_bytes_max", &self.max)?;
        if fixed.is_some() && (min.is_some() || max.is_some()) {
            return Err(PyValueError::new_err(
                "segment_bytes fixes the size; leave out segment_bytes_min and segment_bytes_max",
            ));
        }
        // One end alone moves the other's default out of its way.
        let min = fixed.or(min);
        let max = fixed.or(max);
        config.segment_bytes_min =
            min.unwrap_or(config.segment_bytes_min.min(max.unwrap_or(u64::MAX)));
        config.segment_bytes_max =
            max.unwrap_or(config.segment_bytes_max.max(config.segment_bytes_min));
        config.segment_target_bytes = unsigned_if("segment_target_bytes", &self.target)?;
        if let Some(count) = unsigned_if("preallocate_segments", &self.preallocate)? {
            config.preallocate_segments = count;
        }
        Ok(())
    }
}

/// When appended records are made durable.
pub struct Flushing<'py> {
    pub interval_ms: Maybe<'py>,
    pub bytes: Maybe<'py>,
    pub max_unflushed_bytes: Maybe<'py>,
}

impl Flushing<'_> {
    pub fn apply(&self, config: &mut AofConfig) -> PyResult<()> {
        let flush = &mut config.flush;
        if let Some(ms) = unsigned_if("flush_interval_ms", &self.interval_ms)? {
            flush.flush_interval_ms = ms;
        }
        let bytes = unsigned_if("flush_bytes", &self.bytes)?;
        let max = unsigned_if("max_unflushed_bytes", &self.max_unflushed_bytes)?;
        // One alone moves the other's default out of its way.
        let default = flush.flush_bytes.min(max.unwrap_or(u64::MAX)).max(1);
        flush.flush_bytes = bytes.unwrap_or(default);
        flush.max_unflushed_bytes = max.unwrap_or(flush.max_unflushed_bytes.max(flush.flush_bytes));
        Ok(())
    }
}

/// What happens to old segments by themselves.
pub struct Retention<'py> {
    pub max_age_ms: Maybe<'py>,
    pub max_bytes: Maybe<'py>,
    pub action: Maybe<'py>,
}

impl Retention<'_> {
    pub fn apply(&self, config: &mut AofConfig) -> PyResult<()> {
        config.retention.max_age_ms = unsigned_if("retention_max_age_ms", &self.max_age_ms)?;
        config.retention.max_bytes = unsigned_if("retention_max_bytes", &self.max_bytes)?;
        config.retention.action = retention_action("retention_action", &self.action)?;
        Ok(())
    }
}

/// `"delete"` or `"archive"`.
pub fn retention_action(name: &str, given: &Maybe<'_>) -> PyResult<RetentionAction> {
    let words = [("delete", RetentionAction::Delete), ("archive", RetentionAction::Archive)];
    word_or(name, given, &words, RetentionAction::Delete)
}

/// The rest.
pub struct Other<'py> {
    pub name: Maybe<'py>,
    pub format: Maybe<'py>,
    pub sparse_index: Maybe<'py>,
    pub open_segments_max: Maybe<'py>,
    pub ext_id: Maybe<'py>,
    pub manifest_mode: Maybe<'py>,
}

impl Other<'_> {
    pub fn config(&self, root_dir: PathBuf) -> PyResult<AofConfig> {
        let mut config = AofConfig::new(root_dir);
        config.name = self.name.as_ref().map(|name| text("name", "str", name)).transpose()?;
        let formats = [("full", SegmentFormat::Full), ("compact", SegmentFormat::Compact)];
        config.format = word_or("format", &self.format, &formats, SegmentFormat::Full)?;
        config.enable_sparse_index = flag_or("sparse_index", &self.sparse_index, true)?;
        if let Some(count) = unsigned_if("open_segments_max", &self.open_segments_max)? {
            config.open_segments_max = count;
        }
        config.ext_id = unsigned_if("ext_id", &self.ext_id)?.unwrap_or(0);
        config.manifest_mode =
            word_or("manifest_mode", &self.manifest_mode, &MODES, ManifestMode::Disabled)?;
        Ok(config)
    }
}

/// What a log is told about its tiers, besides what holds for all logs of its manager.
pub struct OwnTiers<'py> {
    pub hot_bytes: Maybe<'py>,
    pub recover: Maybe<'py>,
    /// Whether there are any, from its own options or its manager.
    pub has_tiers: bool,
    /// Whether the log is archived.
    pub has_cold: bool,
}

impl OwnTiers<'_> {
    /// Refuses what would not be heeded.
    pub fn apply(&self, config: &mut AofConfig, mode_given: bool) -> PyResult<()> {
        config.hot_bytes = unsigned_if("hot_bytes", &self.hot_bytes)?;
        config.recover = flag_or("recover", &self.recover, false)?;
        let refuse = |field, reason: &str| {
            Err(to_py(AofError::InvalidConfig { field, reason: reason.into() }))
        };
        if config.hot_bytes.is_some() && !self.has_tiers {
            return refuse("hot_bytes", "needs tiers: an AofManager with tiers=aof2.Tiers(...)");
        }
        if config.recover && !self.has_cold {
            return refuse("recover", "needs a cold tier: tiers=aof2.Tiers(cold=...)");
        }
        if self.has_tiers && mode_given && config.manifest_mode != ManifestMode::Enabled {
            return refuse("manifest_mode", "must be \"enabled\" for a log with tiers");
        }
        Ok(())
    }
}

/// Calls a field by the name of the option that was given for it.
pub fn rename_field(error: AofError, sizes: &SegmentSizes<'_>) -> AofError {
    match error {
        AofError::InvalidConfig { field, reason } => {
            let field = match field {
                "max_age_ms" => "retention_max_age_ms",
                "segment_bytes_min" | "segment_bytes_max" => sizes.given(field),
                field => field,
            };
            AofError::InvalidConfig { field, reason }
        }
        other => other,
    }
}
