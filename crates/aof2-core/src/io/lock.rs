//! The writer lock: a POSIX record lock plus a table of this process's locks.
//!
//! Record locks belong to a process, so a forked child neither inherits nor keeps
//! one alive, and the kernel names the holder. Their known trap, that closing any
//! descriptor of the file drops the lock, cannot spring: this process opens the
//! lock file only after the table said that it does not hold it.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::{ForkStamp, LockError, LockGuard};

static HELD: LazyLock<Mutex<HashMap<PathBuf, ForkStamp>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct FileLock {
    // Closing the descriptor is what unlocks.
    _file: std::fs::File,
    key: PathBuf,
    stamp: ForkStamp,
}

impl LockGuard for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.stamp.is_forked() {
            HELD.lock().remove(&self.key);
        }
    }
}

pub(super) fn lock_file(path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let key = std::fs::canonicalize(parent)
        .map_err(LockError::Io)?
        .join(path.file_name().unwrap_or_default());
    let mut held = HELD.lock();
    if held.get(&key).is_some_and(|stamp| !stamp.is_forked()) {
        return Err(LockError::Held { pid: std::process::id() });
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&key)
        .map_err(LockError::Io)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => return Err(LockError::Held { pid: holder(&file) }),
        Err(e) => return Err(LockError::Io(e.into())),
    }
    let stamp = ForkStamp::now();
    held.insert(key.clone(), stamp);
    Ok(Box::new(FileLock { _file: file, key, stamp }))
}

fn holder(file: &std::fs::File) -> u32 {
    use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};
    let whole = Flock {
        start: 0,
        length: 0,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let found: io::Result<Option<Flock>> = fcntl_getlk(file, &whole).map_err(Into::into);
    found.ok().flatten().and_then(|l| l.pid).map_or(0, |pid| pid.as_raw_nonzero().get() as u32)
}
