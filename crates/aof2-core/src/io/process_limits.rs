//! What the system allows this process. Looked at whenever it matters, since it can be
//! changed while the process runs.

use rustix::process::{Resource, getrlimit};

/// Files that the process may have open at a time.
pub(super) fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Bytes of addresses that the process may use; `None` if nobody limits them.
pub(super) fn address_space_max() -> Option<u64> {
    getrlimit(Resource::As).current
}
