//! Options of `Aof.open` as a configuration of the core. What is left out keeps the core's
//! default.

use std::path::PathBuf;

use aof2_core::manifest::ManifestMode;
use aof2_core::{AofConfig, AofError, RetentionAction, SegmentFormat};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::args::{Maybe, flag_or, limits, text_if, unsigned_if, word_or};
use crate::error::to_py;

/// The modes of a manifest.
pub const MODES: [(&str, ManifestMode); 3] = [
    ("disabled", ManifestMode::Disabled),
    ("shadow", ManifestMode::Shadow),
    ("enabled", ManifestMode::Enabled),
];

const FORMATS: [(&str, SegmentFormat); 2] =
    [("full", SegmentFormat::Full), ("compact", SegmentFormat::Compact)];

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
        let defaults = (config.segment_bytes_min, config.segment_bytes_max);
        (config.segment_bytes_min, config.segment_bytes_max) =
            limits(fixed.or(min), fixed.or(max), defaults);
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
        let bytes = unsigned_if::<u64>("flush_bytes", &self.bytes)?;
        let max = unsigned_if("max_unflushed_bytes", &self.max_unflushed_bytes)?;
        let defaults = (flush.flush_bytes, flush.max_unflushed_bytes);
        (flush.flush_bytes, flush.max_unflushed_bytes) = limits(bytes, max, defaults);
        if bytes.is_none() {
            // A limit of 0 is refused as that, not for the default that it moves.
            flush.flush_bytes = flush.flush_bytes.max(1);
        }
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
    word_or(name, given, &words, RetentionAction::default())
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
        let default = AofConfig::new(root_dir);
        Ok(AofConfig {
            name: text_if("name", "str", &self.name)?,
            format: word_or("format", &self.format, &FORMATS, default.format)?,
            enable_sparse_index: flag_or(
                "sparse_index",
                &self.sparse_index,
                default.enable_sparse_index,
            )?,
            open_segments_max: unsigned_if("open_segments_max", &self.open_segments_max)?
                .unwrap_or(default.open_segments_max),
            ext_id: unsigned_if("ext_id", &self.ext_id)?.unwrap_or(default.ext_id),
            manifest_mode: word_or(
                "manifest_mode",
                &self.manifest_mode,
                &MODES,
                default.manifest_mode,
            )?,
            ..default
        })
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
        config.recover = flag_or("recover", &self.recover, config.recover)?;
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
