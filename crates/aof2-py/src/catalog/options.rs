//! The options of `Catalog.open`.

use aof2_core::CatalogConfig;
use pyo3::prelude::*;

use crate::args::{self, Maybe, unsigned_if};

/// As they are given.
pub struct Options<'py> {
    pub actor: Maybe<'py>,
    pub queue_max: Maybe<'py>,
    pub batch_bytes: Maybe<'py>,
    pub linger_us: Maybe<'py>,
    pub checkpoint_operations: Maybe<'py>,
    pub segment_bytes: Maybe<'py>,
    pub cursor_batches_max: Maybe<'py>,
    pub cursor_age_ms_max: Maybe<'py>,
}

impl Options<'_> {
    /// The configuration of the catalog of a directory.
    pub fn config(&self, root: &Bound<'_, PyAny>) -> PyResult<CatalogConfig> {
        let mut config = CatalogConfig::new(args::path("root", root)?);
        config.actor = args::text_if("actor", "a str or None", &self.actor)?;
        macro_rules! set {
            ($($field:ident),*) => {$(
                if let Some(given) = unsigned_if(stringify!($field), &self.$field)? {
                    config.$field = given;
                }
            )*};
        }
        set!(queue_max, batch_bytes, linger_us, checkpoint_operations, segment_bytes);
        set!(cursor_batches_max, cursor_age_ms_max);
        Ok(config)
    }
}
