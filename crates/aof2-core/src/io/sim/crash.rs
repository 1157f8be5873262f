//! The instant of a crash, and the machines that may wake up after it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::clock::SimClock;
use super::disk::Disk;
use super::fate::{CrashOptions, Fates};
use super::frozen::Frozen;
use super::inode::Inode;
use super::machine::{Files, Machine};
use super::storage::SimStorage;
use super::tree::Tree;

/// A machine at one instant: what it saw, what its disk held, and which directory
/// changes were in between. Cheap to clone, immutable, shareable by threads.
#[derive(Clone)]
pub struct CrashImage {
    instant: Arc<Instant>,
}

struct Instant {
    /// Names, with indexes into `files`.
    names: Tree<usize>,
    files: Vec<Frozen>,
    capacity_len: u64,
    clock: SimClock,
}

impl fmt::Debug for CrashImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashImage")
            .field("files", &self.instant.files.len())
            .field("dirty_sectors", &self.dirty_sector_count())
            .field("pending_names", &self.pending_name_count())
            .finish()
    }
}

impl CrashImage {
    pub(super) fn take(files: &Files, capacity_len: u64, clock: &SimClock) -> Self {
        let mut frozen = Vec::new();
        let mut index_of: HashMap<*const Inode, usize> = HashMap::new();
        let names = files.map(|inode| {
            *index_of.entry(Arc::as_ptr(inode)).or_insert_with(|| {
                frozen.push(inode.lock().freeze());
                frozen.len() - 1
            })
        });
        let instant = Instant { names, files: frozen, capacity_len, clock: clock.clone() };
        Self { instant: Arc::new(instant) }
    }

    /// A new machine, powered on after a power cut at this instant; nothing in it
    /// is unsynced, locked or planned to fail. The same seed and options give the
    /// same machine.
    ///
    /// * seed 0: everything that was not synced is lost;
    /// * seed 1: nothing is lost, not even what a failed sync lied about. A process
    ///   that dies leaves the same to see, but see [`CrashImage::after_kill`];
    /// * seed 2: all directory changes survive and no unsynced data does;
    /// * seed 3: all data survives and no directory change does;
    /// * others: chance, in patterns that differ from seed to seed.
    pub fn materialize(&self, seed: u64, options: &CrashOptions) -> SimStorage {
        let mut fates = Fates::new(seed, *options);
        let names = self.instant.names.after_cut(|| fates.keeps_name());
        self.power_on(&names, |index, file, disk| {
            file.after_cut(fates.for_file(index, file.dirty_sector_count()), disk)
        })
    }

    /// The same machine after the process was killed: locks and planned faults are
    /// gone, all else goes on, including what is visible but not durable.
    pub fn after_kill(&self) -> SimStorage {
        self.power_on(&self.instant.names, |_, file, disk| file.thaw(disk))
    }

    fn power_on(
        &self,
        names: &Tree<usize>,
        mut wake: impl FnMut(usize, &Frozen, Arc<Disk>) -> Inode,
    ) -> SimStorage {
        let disk = Arc::new(Disk::new(self.instant.capacity_len));
        let mut awake: Vec<Option<Arc<Inode>>> = vec![None; self.instant.files.len()];
        let files = names.map(|&index| {
            let inode = awake[index].get_or_insert_with(|| {
                Arc::new(wake(index, &self.instant.files[index], Arc::clone(&disk)))
            });
            Arc::clone(inode)
        });
        SimStorage::from_machine(Machine::new(files, disk, self.instant.clock.clone()))
    }

    /// Sectors whose contents were not durable.
    pub fn dirty_sector_count(&self) -> usize {
        self.instant.files.iter().map(Frozen::dirty_sector_count).sum()
    }

    /// Directory changes that were not durable.
    pub fn pending_name_count(&self) -> usize {
        self.instant.names.pending_count()
    }

    /// Whether everything was durable, so that all seeds give the same machine.
    pub fn is_all_durable(&self) -> bool {
        self.dirty_sector_count() == 0
            && self.pending_name_count() == 0
            && !self.instant.files.iter().any(Frozen::is_len_pending)
    }
}
