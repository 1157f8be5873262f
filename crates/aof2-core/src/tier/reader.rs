//! Opening a log to read it, wherever its segments are.

use std::path::Path;
use std::sync::Arc;

use super::cold::{ColdTier, ReachStore};
use crate::error::Result;
use crate::io::object::{ColdConfig, ObjectStore};
use crate::io::{OsStorage, Storage};
use crate::log::AofReader;

impl AofReader {
    /// Opens the log in this directory. Segments that its writer archived are read from
    /// where `cold/location` says, with the credentials of this process.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Arc::new(OsStorage), root)
    }

    /// Opens a log on other storage than the machine's files.
    pub fn open_on(storage: Arc<dyn Storage>, root: impl AsRef<Path>) -> Result<Self> {
        let reach = ReachStore::new(Arc::clone(&storage), root.as_ref());
        Self::open_with(storage, reach, root)
    }

    /// Opens a log whose cold tier is this object store.
    pub fn open_on_store(
        storage: Arc<dyn Storage>,
        store: Arc<dyn ObjectStore>,
        cold: &ColdConfig,
        root: impl AsRef<Path>,
    ) -> Result<Self> {
        let tier = ColdTier::on(store, cold)?;
        let reach = ReachStore::with_tier(Arc::clone(&storage), root.as_ref(), tier);
        Self::open_with(storage, reach, root)
    }
}
