//! The simulated file system, and its controls.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::clock::SimClock;
use super::crash::CrashImage;
use super::disk::Disk;
use super::faults::{Call, Fault, Op};
use super::file::SimFile;
use super::machine::{Files, Machine, named_files};
use super::rng::Rng;
use super::tree::{Node, components, errno};
use crate::io::{DirEntry, EntryKind, File, LockError, LockGuard, OpenMode, Storage};

/// A machine's storage, in memory. Clones are the same machine.
///
/// Paths start at the root, which always exists, whether written with a leading
/// slash or not. Files can be up to 64 MiB long.
#[derive(Clone)]
pub struct SimStorage {
    pub(super) machine: Arc<Machine>,
}

impl fmt::Debug for SimStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.machine.lock();
        f.debug_struct("SimStorage").field("faults", &core.faults).finish_non_exhaustive()
    }
}

impl Default for SimStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl SimStorage {
    /// An empty machine whose disk never fills up.
    pub fn new() -> Self {
        Self::with_clock(SimClock::default())
    }

    /// An empty machine that dates its files by this clock.
    pub fn with_clock(clock: SimClock) -> Self {
        let disk = Arc::new(Disk::new(u64::MAX));
        Self::from_machine(Machine::new(Files::default(), disk, clock))
    }

    pub(super) fn from_machine(machine: Machine) -> Self {
        Self { machine: Arc::new(machine) }
    }

    /// The clock that dates files. Machines made from this one's images share it.
    pub fn clock(&self) -> &SimClock {
        &self.machine.clock
    }

    /// Another machine draws other random numbers: those of this seed. Machines made from
    /// this one's images go on with them.
    pub fn seed_random(&self, seed: u64) {
        self.machine.clock.seed_random(seed);
    }

    /// Makes the disk this large; `None` makes it endless. Blocks in use stay.
    pub fn set_capacity_len(&self, capacity_len: Option<u64>) {
        self.machine.disk.set_capacity_len(capacity_len.unwrap_or(u64::MAX));
    }

    /// Bytes of disk in use. A removed file's blocks are in use until its directory
    /// is synced and the last handle is gone.
    pub fn used_len(&self) -> u64 {
        self.machine.disk.used_len()
    }

    /// Everything at this instant. Not a call: it is not counted and cannot fail.
    pub fn image(&self) -> CrashImage {
        let core = self.machine.lock();
        self.machine.image(&core.files)
    }

    /// The kernel writes some of what is dirty to disk unasked, so that what a
    /// later crash finds there may be a version between two syncs.
    pub fn writeback(&self, seed: u64) -> io::Result<()> {
        let rng = Rng::new(seed);
        let core = self.machine.lock();
        for (index, inode) in named_files(&core.files).iter().enumerate() {
            let mut rng = rng.fork(index as u64);
            if rng.percent(50) {
                inode.lock().write_back(&mut rng)?;
            }
        }
        Ok(())
    }

    /// Number of calls so far, those that failed included.
    pub fn calls(&self) -> u64 {
        self.machine.lock().faults.calls
    }

    /// Makes the call with this [`Call::index`] fail.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.machine.lock().faults.fail_at(call, fault);
    }

    /// Makes calls fail for which the predicate says so. It runs while the machine
    /// is busy with the call, so it must not use the machine itself.
    pub fn fail_when(
        &self,
        predicate: impl Fn(&Call<'_>) -> Option<Fault> + Send + Sync + 'static,
    ) {
        self.machine.lock().faults.fail_when(Box::new(predicate));
    }

    /// Calls this before and after every call: time in which whoever made it stands still,
    /// and others may do something. It may use the machine, and must not want what the
    /// caller holds.
    pub fn on_call(&self, action: impl Fn(&Call<'_>) + Send + Sync + 'static) {
        *self.machine.on_call.lock() = Some(Arc::new(action));
    }

    /// Cuts the power when this call is reached, before it has an effect. This and
    /// every later call fails.
    pub fn crash_at(&self, call: u64) {
        self.machine.lock().faults.cut_before(call);
    }

    /// Cuts the power after this call had its effect and before it can tell. This
    /// and every later call fails.
    pub fn crash_after(&self, call: u64) {
        self.machine.lock().faults.cut_after(call);
    }

    /// The instant at which the power was cut, once.
    pub fn take_crash(&self) -> Option<CrashImage> {
        self.machine.lock().crash.take()
    }

    /// Whether the power was cut.
    pub fn is_crashed(&self) -> bool {
        self.machine.lock().faults.is_off
    }

    /// Forgets planned faults and crashes. A power cut that happened stays, and so
    /// does what failed syncs left behind.
    pub fn clear_faults(&self) {
        self.machine.lock().faults.clear();
    }

    fn file(
        &self,
        inode: &Arc<crate::io::sim::inode::Inode>,
        path: &Path,
        mode: OpenMode,
    ) -> Arc<dyn File> {
        Arc::new(SimFile::new(Arc::clone(&self.machine), Arc::clone(inode), path, mode))
    }
}

impl Storage for SimStorage {
    fn share(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.machine.call(Op::CreateDirAll, path, |files| files.make_dirs(path).map(drop))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.machine.call(Op::List, path, |files| {
            let dir = files.find_dir(path)?;
            let entry = |(name, node): (&String, &Node<_>)| DirEntry {
                name: name.clone(),
                kind: match node {
                    Node::File(_) => EntryKind::File,
                    Node::Dir(_) => EntryKind::Directory,
                },
            };
            Ok(files.dirs[dir].volatile.iter().map(entry).collect())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.machine.call(Op::Exists, path, |files| match files.find(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        })
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.machine.call(Op::Open, path, |files| match files.find(path)? {
            Node::File(inode) => Ok(self.file(&inode, path, mode)),
            Node::Dir(_) => Err(errno(libc::EISDIR)),
        })
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.machine.call(Op::CreateNew, path, |files| {
            let (dir, name) = files.find_parent(path)?;
            if files.get(dir, &name).is_some() {
                return Err(errno(libc::EEXIST));
            }
            let inode = self.machine.new_inode();
            files.link(dir, name, Node::File(Arc::clone(&inode)));
            Ok(self.file(&inode, path, OpenMode::ReadWrite))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.call(Op::Rename, from, |files| rename(files, from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.machine.call(Op::Remove, path, |files| {
            let (dir, name) = files.find_parent(path)?;
            match files.get(dir, &name) {
                Some(Node::File(_)) => files.unlink(dir, name),
                Some(Node::Dir(_)) => return Err(errno(libc::EISDIR)),
                None => return Err(errno(libc::ENOENT)),
            }
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.machine.call(Op::Remove, path, |files| {
            let (dir, name) = files.find_parent(path)?;
            match files.get(dir, &name) {
                Some(Node::Dir(of)) if files.dirs[*of].volatile.is_empty() => {
                    files.unlink(dir, name);
                    Ok(())
                }
                Some(Node::Dir(_)) => Err(errno(libc::ENOTEMPTY)),
                Some(Node::File(_)) => Err(errno(libc::ENOTDIR)),
                None => Err(errno(libc::ENOENT)),
            }
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.machine.call_or(
            Op::SyncDir,
            path,
            |files| {
                let dir = files.find_dir(path)?;
                files.sync(dir);
                Ok(())
            },
            |files, _| {
                if let Ok(dir) = files.find_dir(path) {
                    files.fail_sync(dir);
                }
            },
        )
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let key = components(path);
        let taken = self.machine.call(Op::Lock, path, |files| {
            let (dir, name) = files.find_parent(path)?;
            if !self.machine.locks.lock().insert(key.clone()) {
                return Ok(false);
            }
            if files.get(dir, &name).is_none() {
                files.link(dir, name, Node::File(self.machine.new_inode()));
            }
            Ok(true)
        });
        match taken {
            Ok(true) => Ok(Box::new(SimLock { machine: Arc::clone(&self.machine), key })),
            Ok(false) => Err(LockError::Held { pid: 1 }),
            Err(e) => Err(LockError::Io(e)),
        }
    }

    fn random_u64(&self) -> io::Result<u64> {
        Ok(self.machine.clock.draw())
    }
}

fn rename(files: &mut Files, from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (files.find_parent(from)?, files.find_parent(to)?);
    let node = files.get(source.0, &source.1).cloned().ok_or_else(|| errno(libc::ENOENT))?;
    match (&node, files.get(target.0, &target.1)) {
        // Two names of one file: POSIX has both stay.
        (Node::File(a), Some(Node::File(b))) if Arc::ptr_eq(a, b) => return Ok(()),
        (Node::File(_), None | Some(Node::File(_))) => {}
        (Node::File(_), Some(Node::Dir(_))) => return Err(errno(libc::EISDIR)),
        (Node::Dir(_), None) => {}
        (Node::Dir(_), Some(Node::Dir(to))) if files.dirs[*to].volatile.is_empty() => {}
        (Node::Dir(_), Some(Node::Dir(_))) => return Err(errno(libc::ENOTEMPTY)),
        (Node::Dir(_), Some(Node::File(_))) => return Err(errno(libc::ENOTDIR)),
    }
    files.rename(source, target, node);
    Ok(())
}

struct SimLock {
    machine: Arc<Machine>,
    key: Vec<String>,
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimLock").field(&self.key).finish()
    }
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.machine.locks.lock().remove(&self.key);
    }
}
