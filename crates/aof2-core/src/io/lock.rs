//! The writer lock of a directory, held without a descriptor where that is possible.
//!
//! A process may have thousands of logs open, and most of them are idle. So the lock is
//! one of an *open file description* (Linux), and a page of the lock file that is mapped,
//! and never touched, keeps that description alive when its descriptor is closed. The
//! page is not inherited by forked children, and no fork happens while the descriptor is
//! open: so the lock ends with this process, or when the page is unmapped.
//!
//! Not every file system plays along (a map of an overlay belongs to the file below). So
//! whether the lock is still held is looked at after the descriptor was closed. If not,
//! and wherever there are no such locks, it is a POSIX record lock with a descriptor.
//! Those belong to the process as well; their known trap, that closing any descriptor of
//! the file drops the lock, cannot spring: this process opens the lock file only after a
//! table said that it does not hold it.
//!
//! Both kinds exclude each other. The kernel names the holder of a record lock; the
//! holder of the other kind writes its process id into the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::{ForkStamp, LockError, LockGuard};

static HELD: LazyLock<Mutex<HashMap<PathBuf, ForkStamp>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct FileLock {
    /// Dropping it is what unlocks.
    _hold: Hold,
    key: PathBuf,
    stamp: ForkStamp,
}

#[derive(Debug)]
enum Hold {
    Descriptor(#[allow(dead_code)] File),
    #[cfg(target_os = "linux")]
    Page(#[allow(dead_code)] detached::Page),
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
    let stamp = ForkStamp::now();
    let _hold = take(&key)?;
    held.insert(key.clone(), stamp);
    Ok(Box::new(FileLock { _hold, key, stamp }))
}

fn take(key: &Path) -> Result<Hold, LockError> {
    #[cfg(target_os = "linux")]
    if let Some(taken) = detached::take(key) {
        return taken.map(Hold::Page);
    }
    let file = open(key)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Hold::Descriptor(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(LockError::Held { pid: holder(&file) }),
        Err(e) => Err(LockError::Io(e.into())),
    }
}

fn open(key: &Path) -> Result<File, LockError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).open(key).map_err(LockError::Io)
}

/// Who has the lock, 0 if that is not known.
fn holder(file: &File) -> u32 {
    let mut found = whole_file();
    // SAFETY: the descriptor is open, and the kernel fills the struct.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut found) };
    match u32::try_from(found.l_pid) {
        Ok(pid) if asked == 0 && found.l_type != libc::F_UNLCK as libc::c_short && pid > 0 => pid,
        _ => noted_holder(file),
    }
}

/// An exclusive lock of everything in a file.
fn whole_file() -> libc::flock {
    // SAFETY: all zeros is a value of this plain struct.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    whole
}

/// The longest process id, and the line's end.
const NOTE_LEN: usize = 11;

fn noted_holder(file: &File) -> u32 {
    let mut note = [0; NOTE_LEN];
    let len = file.read_at(&mut note, 0).unwrap_or(0);
    let line = note.get(..len).unwrap_or_default().split(|&byte| byte == b'\n').next();
    let text = line.and_then(|line| std::str::from_utf8(line).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Holds back forks while a lock is being taken: the child would inherit a descriptor of
/// it, and find the table of locks locked.
pub(super) extern "C" fn before_fork() {
    std::mem::forget(HELD.lock());
}

pub(super) extern "C" fn after_fork() {
    // SAFETY: `before_fork` has locked it in this thread, which is the one that forked.
    unsafe { HELD.force_unlock() };
}

#[cfg(target_os = "linux")]
mod detached {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    use super::{File, holder, open, whole_file};
    use crate::io::{ForkStamp, LockError};

    /// A page of the lock file, mapped without any right to it.
    #[derive(Debug)]
    pub(super) struct Page {
        base: *mut std::ffi::c_void,
        len: usize,
        stamp: ForkStamp,
    }

    // SAFETY: nobody reaches memory through it; it is an address to unmap.
    unsafe impl Send for Page {}
    // SAFETY: as above.
    unsafe impl Sync for Page {}

    impl Drop for Page {
        fn drop(&mut self) {
            // A forked child does not have the page, and may have something else there.
            if !self.stamp.is_forked() {
                // SAFETY: mapped by `Page::of`, and nobody else knows where.
                let _ = unsafe { munmap(self.base, self.len) };
            }
        }
    }

    impl Page {
        fn of(file: &File) -> rustix::io::Result<Self> {
            let (len, stamp) = (rustix::param::page_size(), ForkStamp::now());
            let (protect, flags) = (ProtFlags::empty(), MapFlags::SHARED);
            // SAFETY: a new map at an address of the kernel's choice.
            let base = unsafe { mmap(std::ptr::null_mut(), len, protect, flags, file, 0) }?;
            let page = Self { base, len, stamp };
            // SAFETY: the page was just mapped; it is not touched.
            unsafe { madvise(page.base, page.len, Advice::LinuxDontFork) }?;
            Ok(page)
        }
    }

    /// Whether a lock was taken.
    enum Taken {
        Yes,
        Held,
        Unsupported,
    }

    /// Takes the lock of the description that this file is.
    fn take_description(file: &File) -> Taken {
        let whole = whole_file();
        // SAFETY: the descriptor is open, and the kernel only reads the struct.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) } {
            0 => Taken::Yes,
            _ => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => Taken::Held,
                _ => Taken::Unsupported,
            },
        }
    }

    /// The lock, or who has it; `None` where it cannot be held without a descriptor.
    pub(super) fn take(key: &Path) -> Option<Result<Page, LockError>> {
        let file = match open(key) {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        match take_description(&file) {
            Taken::Yes => {}
            Taken::Held => return Some(Err(LockError::Held { pid: holder(&file) })),
            Taken::Unsupported => return None,
        }
        let note = format!("{}\n", std::process::id());
        // Only messages depend on it: a disk may be full.
        let _ =
            file.write_all_at(note.as_bytes(), 0).and_then(|()| file.set_len(note.len() as u64));
        let page = Page::of(&file).ok()?;
        drop(file);
        match take_description(&open(key).ok()?) {
            Taken::Held => Some(Ok(page)),
            // It went with the descriptor.
            Taken::Yes | Taken::Unsupported => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = lock_file(&path).unwrap();
        assert!(
            matches!(lock_file(&path), Err(LockError::Held { pid }) if pid == std::process::id())
        );
        // As another process sees it, whichever kind of lock that one asks for.
        let file = open(&path).unwrap();
        #[cfg(target_os = "linux")]
        {
            let taken = detached::take(&path).unwrap();
            assert!(matches!(taken, Err(LockError::Held { pid }) if pid == std::process::id()));
            assert_eq!(
                fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive),
                Err(Errno::AGAIN)
            );
            assert_eq!(holder(&file), std::process::id());
        }
        drop(lock);
        assert!(lock_file(&path).is_ok());
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
