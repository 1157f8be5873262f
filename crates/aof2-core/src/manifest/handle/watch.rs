//! How far the manifest is committed, to read and to wait for.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::{AofError, Result};
use crate::planted;
use crate::planted::ManifestBug;

#[derive(Debug, Default)]
struct Progress {
    /// Records below this ordinal are committed.
    committed: u64,
    poison: Option<Arc<str>>,
    is_closed: bool,
}

/// Callers wait on it, the one who commits moves it. The condition is only looked at
/// and changed under its own lock, which is never held across I/O, so a wake-up cannot
/// fall between looking and sleeping.
#[derive(Debug, Default)]
pub(super) struct CommitWatch {
    progress: Mutex<Progress>,
    moved: Condvar,
}

impl CommitWatch {
    pub(super) fn starting_at(committed: u64) -> Self {
        let progress = Progress { committed, ..Progress::default() };
        Self { progress: Mutex::new(progress), moved: Condvar::new() }
    }

    pub(super) fn committed(&self) -> u64 {
        self.progress.lock().committed
    }

    pub(super) fn publish(&self, committed: u64) {
        self.change(|progress| progress.committed = progress.committed.max(committed));
    }

    pub(super) fn poison(&self, reason: &Arc<str>) {
        self.change(|progress| progress.poison = Some(Arc::clone(reason)));
    }

    pub(super) fn close(&self) {
        self.change(|progress| progress.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        if !planted::has(ManifestBug::LostWakeup) {
            self.moved.notify_all();
        }
    }

    /// Waits until the record is committed, or never can be.
    pub(super) fn wait(&self, ordinal: u64, deadline: Option<Instant>) -> Result<()> {
        let mut progress = self.progress.lock();
        loop {
            if progress.committed > ordinal {
                return Ok(());
            }
            if let Some(reason) = &progress.poison {
                return Err(AofError::Poisoned { reason: Arc::clone(reason) });
            }
            if progress.is_closed {
                return Err(AofError::Closed);
            }
            match deadline {
                None => self.moved.wait(&mut progress),
                Some(at) if Instant::now() >= at => {
                    return Err(AofError::Timeout { what: "a manifest commit" });
                }
                Some(at) => {
                    self.moved.wait_until(&mut progress, at);
                }
            }
        }
    }
}
