//! Opening a log to read it, wherever its segments are.

use std::path::Path;
use std::sync::Arc;

use super::reader::AofReader;
use crate::bucket::{ColdTier, FoundStream, split_url};
use crate::error::Result;
use crate::format::StreamIdentity;
use crate::io::{OsStorage, Storage};
use crate::object::{ColdConfig, ObjectStore};
use crate::store::ColdStore;

impl AofReader {
    /// Opens the log in this directory. Segments that its writer archived are read from
    /// where `cold/location` says, with the credentials of this process.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Arc::new(OsStorage), root)
    }

    /// Opens a log on other storage than the machine's files.
    pub fn open_on(storage: Arc<dyn Storage>, root: impl AsRef<Path>) -> Result<Self> {
        let reach = ColdStore::named_by_log(Arc::clone(&storage), root.as_ref());
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
        let reach = ColdStore::of_reader(tier);
        Self::open_with(storage, reach, root)
    }

    /// Opens a log from the object store alone: `s3://bucket/prefix/NAME`, where the last
    /// part is the stream's name or the 16 digits of its id. Credentials and endpoint are
    /// those of this process.
    ///
    /// It sees what was archived: opening costs a listing and a small request for each
    /// segment. New segments are found by listing again, once a second at most.
    pub fn open_url(url: &str) -> Result<Self> {
        let (prefix, name) = split_url(url)?;
        Self::open_stream(&ColdTier::open(&ColdConfig::new(prefix))?, &name)
    }

    /// [`AofReader::open_url`] for the stream with this name or id in any object store.
    pub fn open_bucket_on(
        store: Arc<dyn ObjectStore>,
        cold: &ColdConfig,
        name: &str,
    ) -> Result<Self> {
        Self::open_stream(&ColdTier::on(store, cold)?, name)
    }

    fn open_stream(tier: &Arc<ColdTier>, name: &str) -> Result<Self> {
        let found = FoundStream::find(tier, name)?;
        let identity = found.identity_or_derived();
        Self::open_archive(found.archive, identity, &found.listed)
    }
}

/// The streams that were archived below `s3://bucket/prefix`, by name. Credentials and
/// endpoint are those of this process.
pub fn archived_streams(url: &str) -> Result<Vec<StreamIdentity>> {
    ColdTier::open(&ColdConfig::new(url))?.streams()
}

/// [`archived_streams`] of any object store.
pub fn archived_streams_on(
    store: Arc<dyn ObjectStore>,
    cold: &ColdConfig,
) -> Result<Vec<StreamIdentity>> {
    ColdTier::on(store, cold)?.streams()
}
