//! `Aof.open` and its options.

use std::path::PathBuf;

use aof2_core::io::ForkStamp;
use aof2_core::{AofConfig, ManagerConfig, TierConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Aof;
use super::options::{Flushing, Other, OwnTiers, Retention, SegmentSizes, rename_field};
use crate::args::{self, Maybe, wrong_type};
use crate::error::to_py;
use crate::log::{ReadableLog, Source};
use crate::manager::AofManager;
use crate::tiers::Tiers;

impl Aof {
    fn open_config(
        py: Python<'_>,
        config: AofConfig,
        manager: Option<&AofManager>,
        tiers: Option<TierConfig>,
        sizes: &SegmentSizes<'_>,
    ) -> PyResult<Py<Self>> {
        let path: PathBuf = config.root_dir.clone();
        let manager = manager.map(AofManager::live).transpose()?;
        let opened = py.detach(|| match manager {
            Some(manager) => manager.open(config),
            None => {
                let alone = ManagerConfig { tiers, ..ManagerConfig::for_one_stream() };
                aof2_core::AofManager::new(alone)?.open(config)
            }
        });
        let log = opened.map_err(|error| to_py(rename_field(error, sizes)))?;
        let base = ReadableLog::new(path, Source::Writer(log.clone()));
        Py::new(
            py,
            PyClassInitializer::from(base).add_subclass(Self { log, stamp: ForkStamp::now() }),
        )
    }
}

#[pymethods]
impl Aof {
    /// Opens the log in this directory for appending, creating it if there is none, and
    /// recovers what an earlier writer left.
    ///
    /// segment_bytes fixes the size of segments; segment_bytes_min and segment_bytes_max
    /// set the window in which it grows with the write rate (powers of two from 64 KiB
    /// to 2 GiB). flush_interval_ms, flush_bytes and max_unflushed_bytes say when
    /// records become durable without a flush and how much may be at risk. With `tiers`
    /// only so many bytes of segments stay as they are, and the rest is compressed; the
    /// manifest is enabled then. With a cold tier this becomes the one writer of the log,
    /// also across machines; recover=True lets a log that only the object store holds come
    /// back to an empty directory. Raises `Locked` if another writer has it, `NameTaken`,
    /// `Diverged`, `Corrupt`, `ForeignFile`, `InvalidConfig`.
    ///
    /// >>> import aof2
    /// >>> log = aof2.Aof.open("data/clicks", segment_bytes=1 << 20, flush_interval_ms=20)
    /// >>> log.name, log.format, log.watermarks().appended
    /// ('clicks', 'full', 0)
    /// >>> log.close()
    #[staticmethod]
    #[pyo3(
        signature = (path, *, name = None, format = None, segment_bytes = None,
            segment_bytes_min = None, segment_bytes_max = None, segment_target_bytes = None,
            preallocate_segments = None, flush_interval_ms = None, flush_bytes = None,
            max_unflushed_bytes = None, retention_max_age_ms = None, retention_max_bytes = None,
            retention_action = None, sparse_index = None, open_segments_max = None,
            ext_id = None, manifest_mode = None, tiers = None, hot_bytes = None,
            recover = None, manager = None),
        text_signature = "(path, *, name=None, format='full', segment_bytes=None, segment_bytes_min=None, segment_bytes_max=None, segment_target_bytes=None, preallocate_segments=None, flush_interval_ms=None, flush_bytes=None, max_unflushed_bytes=None, retention_max_age_ms=None, retention_max_bytes=None, retention_action='delete', sparse_index=True, open_segments_max=None, ext_id=None, manifest_mode='disabled', tiers=None, hot_bytes=None, recover=False, manager=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: Maybe<'_>,
        format: Maybe<'_>,
        segment_bytes: Maybe<'_>,
        segment_bytes_min: Maybe<'_>,
        segment_bytes_max: Maybe<'_>,
        segment_target_bytes: Maybe<'_>,
        preallocate_segments: Maybe<'_>,
        flush_interval_ms: Maybe<'_>,
        flush_bytes: Maybe<'_>,
        max_unflushed_bytes: Maybe<'_>,
        retention_max_age_ms: Maybe<'_>,
        retention_max_bytes: Maybe<'_>,
        retention_action: Maybe<'_>,
        sparse_index: Maybe<'_>,
        open_segments_max: Maybe<'_>,
        ext_id: Maybe<'_>,
        manifest_mode: Maybe<'_>,
        tiers: Maybe<'_>,
        hot_bytes: Maybe<'_>,
        recover: Maybe<'_>,
        manager: Maybe<'_>,
    ) -> PyResult<Py<Self>> {
        let mode_given = manifest_mode.is_some();
        let other = Other { name, format, sparse_index, open_segments_max, ext_id, manifest_mode };
        let mut config = other.config(args::path("path", path)?)?;
        let sizes = SegmentSizes {
            fixed: segment_bytes,
            min: segment_bytes_min,
            max: segment_bytes_max,
            target: segment_target_bytes,
            preallocate: preallocate_segments,
        };
        sizes.apply(&mut config)?;
        Flushing { interval_ms: flush_interval_ms, bytes: flush_bytes, max_unflushed_bytes }
            .apply(&mut config)?;
        Retention {
            max_age_ms: retention_max_age_ms,
            max_bytes: retention_max_bytes,
            action: retention_action,
        }
        .apply(&mut config)?;
        let manager = manager
            .as_ref()
            .map(|given| {
                given
                    .cast::<AofManager>()
                    .map_err(|_| wrong_type("manager", "an AofManager or None", given))
            })
            .transpose()?
            .map(Bound::get);
        let tiers = Tiers::of(&tiers)?;
        if tiers.is_some() && manager.is_some() {
            return Err(PyValueError::new_err(
                "tiers belong to the manager; give them to AofManager and leave them out here",
            ));
        }
        let has_tiers = tiers.is_some() || manager.is_some_and(AofManager::has_tiers);
        let own_cold = tiers.as_ref().is_some_and(|tiers| tiers.cold.is_some());
        let has_cold = own_cold || manager.is_some_and(AofManager::has_cold);
        OwnTiers { hot_bytes, recover, has_tiers, has_cold }.apply(&mut config, mode_given)?;
        Self::open_config(py, config, manager, tiers, &sizes)
    }
}
