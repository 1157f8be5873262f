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

/// Bytes of addresses that it uses, where the system tells.
pub(super) fn address_space_used() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
