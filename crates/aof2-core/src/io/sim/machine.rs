//! The machine itself: every trait call passes through here, one at a time, and is
//! counted, refused, or made the last one.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::clock::SimClock;
use super::crash::CrashImage;
use super::disk::Disk;
use super::faults::{Call, Fault, Faults, Op, Verdict, power_cut};
use super::inode::{Contents, Inode};
use super::tree::{Node, Tree};

pub(super) type Files = Tree<Arc<Inode>>;
pub(super) type OnCall = Arc<dyn Fn(&Call<'_>) + Send + Sync>;

pub(super) struct Machine {
    core: Mutex<Core>,
    pub(super) disk: Arc<Disk>,
    pub(super) clock: SimClock,
    /// Paths of the locks that are held.
    pub(super) locks: Mutex<HashSet<Vec<String>>>,
    pub(super) on_call: Mutex<Option<OnCall>>,
}

pub(super) struct Core {
    pub(super) files: Files,
    pub(super) faults: Faults,
    pub(super) crash: Option<CrashImage>,
}

impl Machine {
    pub(super) fn new(files: Files, disk: Arc<Disk>, clock: SimClock) -> Self {
        let core = Core { files, faults: Faults::default(), crash: None };
        let (locks, on_call) = Default::default();
        Self { core: Mutex::new(core), disk, clock, locks, on_call }
    }

    /// For what is not a call of the machine: tests looking in from outside.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    pub(super) fn new_inode(&self) -> Arc<Inode> {
        let contents = Contents::empty(Arc::clone(&self.disk), self.clock.peek_ns());
        Arc::new(Inode::new(contents))
    }

    /// Everything, at this instant.
    pub(super) fn image(&self, files: &Files) -> CrashImage {
        CrashImage::take(files, self.disk.capacity_len(), &self.clock)
    }

    /// A call that has no effect when it fails.
    pub(super) fn call<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut Files) -> io::Result<T>,
    ) -> io::Result<T> {
        self.call_or(op, path, effect, |_, _| {})
    }

    /// A call, and what it does when it is made to fail.
    pub(super) fn call_or<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut Files) -> io::Result<T>,
        failure: impl FnOnce(&mut Files, Fault),
    ) -> io::Result<T> {
        self.pause(op, path);
        let answer = self.carry_out(op, path, effect, failure);
        self.pause(op, path);
        answer
    }

    /// Lets others do something while a call is on its way.
    fn pause(&self, op: Op, path: &Path) {
        let action = self.on_call.lock().clone();
        if let Some(action) = action {
            let index = self.core.lock().faults.calls;
            action(&Call { index, op, path });
        }
    }

    fn carry_out<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut Files) -> io::Result<T>,
        failure: impl FnOnce(&mut Files, Fault),
    ) -> io::Result<T> {
        let mut core = self.core.lock();
        match core.faults.enter(op, path) {
            Verdict::Run => effect(&mut core.files),
            Verdict::Off => Err(power_cut()),
            Verdict::CutBefore => {
                self.cut(&mut core);
                Err(power_cut())
            }
            Verdict::CutAfter => {
                // Whether it worked is something nobody will ever know.
                let _ = effect(&mut core.files);
                self.cut(&mut core);
                Err(power_cut())
            }
            Verdict::Fail(fault) => {
                failure(&mut core.files, fault);
                Err(fault.error())
            }
        }
    }

    fn cut(&self, core: &mut Core) {
        core.crash = Some(self.image(&core.files));
        core.faults.is_off = true;
    }
}

/// All files that have a name in the running machine or on disk, each once, in an
/// order that depends on nothing but the names.
pub(super) fn named_files(files: &Files) -> Vec<Arc<Inode>> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for dir in &files.dirs {
        for node in dir.volatile.values().chain(dir.durable.values()) {
            if let Node::File(inode) = node
                && seen.insert(Arc::as_ptr(inode))
            {
                found.push(Arc::clone(inode));
            }
        }
    }
    found
}
