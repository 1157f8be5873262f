//! The Python module `aof2._aof2`: converts, releases the GIL, calls the core, maps the
//! error. What a log does is decided in `aof2-core`; what a person imports is `aof2`.
//!
//! Invariants: nothing waits with the GIL held, every wait lets signal handlers run
//! (`wait`), every handle refuses to work after `fork()`, and importing starts no thread.

mod aof;
mod args;
mod arrow;
mod asyncio;
mod bucket;
mod catalog;
mod error;
mod log;
mod manager;
mod manifest;
mod path;
mod record;
mod report;
mod root;
mod scan;
mod scrub;
mod sizes;
mod tiers;
mod time;
mod verify;
mod wait;

use pyo3::prelude::*;

/// Native part of `aof2`; import that.
#[pymodule]
mod _aof2 {
    #[pymodule_export]
    use crate::aof::Aof;
    #[pymodule_export]
    use crate::args::{is_address, refuse_address};
    #[pymodule_export]
    use crate::arrow::{AppendedArrow, ArrowScan};
    #[pymodule_export]
    use crate::bucket::{archived, restore};
    #[pymodule_export]
    use crate::catalog::{
        Catalog, CatalogFeed, CatalogOperations, CatalogReader, CatalogTable, CatalogView, Pending,
        ReadableCatalog,
    };
    #[pymodule_export]
    use crate::log::{ReadableLog, Reader, open};
    #[pymodule_export]
    use crate::manager::AofManager;
    #[pymodule_export]
    use crate::manifest::ManifestFiles;
    #[pymodule_export]
    use crate::record::{Record, RecordId, RecordIds};
    #[pymodule_export]
    use crate::root::Root;
    #[pymodule_export]
    use crate::scan::{Follow, Scan};
    #[pymodule_export]
    use crate::scrub::scrub;
    #[pymodule_export]
    use crate::tiers::{Tiers, cold_location};
    #[pymodule_export]
    use crate::verify::{repair, verify};

    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
