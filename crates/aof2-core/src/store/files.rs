//! Files that are written under a temporary name and then renamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::io::{File, Storage};

/// The name under which a file is written until it is complete.
pub(crate) fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Creates a file, replacing one that a crash left.
pub(crate) fn create_anew(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn File>> {
    if storage.exists(path).map_err(AofError::io("look for", path))? {
        storage.remove(path).map_err(AofError::io("remove", path))?;
    }
    storage.create_new(path).map_err(AofError::io("create", path))
}
