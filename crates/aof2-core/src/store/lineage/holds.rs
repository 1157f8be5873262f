//! The files in `holds/` of a log: forks and snapshots that read its segments.
//!
//! Whoever puts a hold and whoever removes a segment has `holds/lock` meanwhile, and reads
//! the holds from the disk: so either the remover sees the hold, or the forker sees that the
//! segment is gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{AofError, Result};
use crate::format::{HOLD_LEN_MAX, Hold, HolderKind, SegmentId, StreamId};
use crate::io::{EntryKind, LockError, LockGuard, OpenMode, Storage};
use crate::planted::{self, ForkBug};
use crate::store::layout::Layout;

/// How long somebody who puts a hold or removes a segment waits for another.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// For a planted bug: the latest time that was ever seen.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);

/// Which forks and snapshots hold a log, on the disk.
#[derive(Clone, Copy)]
pub(crate) struct Holds<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) layout: &'a Layout,
}

/// Nobody else puts a hold on the log or removes a segment of it.
#[derive(Debug)]
pub(crate) struct HoldsLock {
    _guard: Box<dyn LockGuard>,
}

/// The holds that are there.
#[derive(Debug, Default)]
pub(crate) struct ListedHolds {
    pub(crate) holds: Vec<Hold>,
    /// Files that cannot be read as a hold. Nobody knows what they hold, so all of it.
    pub(crate) unreadable: Vec<PathBuf>,
}

impl ListedHolds {
    /// Who holds this segment at this time.
    pub(crate) fn holders_of(&self, segment: SegmentId, now_ms: u64) -> Vec<String> {
        let counts = |hold: &&Hold| hold.covers(segment) && !is_expired(hold, now_ms);
        let known = self.holds.iter().filter(counts).map(describe);
        known.chain(self.unreadable.iter().map(|path| path.display().to_string())).collect()
    }

    /// Who holds anything at this time.
    pub(crate) fn holders(&self, now_ms: u64) -> Vec<String> {
        let known = self.holds.iter().filter(|hold| !is_expired(hold, now_ms)).map(describe);
        known.chain(self.unreadable.iter().map(|path| path.display().to_string())).collect()
    }

    /// Logical offset of the last snapshot that this log has of itself.
    pub(crate) fn last_place_of(&self, log: StreamId, now_ms: u64) -> Option<u64> {
        let is_own = |hold: &&Hold| {
            hold.kind == HolderKind::Snapshot && hold.holder == log && !is_expired(hold, now_ms)
        };
        self.holds.iter().filter(is_own).map(|hold| hold.end_offset).max()
    }

    /// The first logical offset behind all that was durable when it was held, which no
    /// clock takes back.
    pub(crate) fn durable_end(&self) -> u64 {
        let ends = self.holds.iter().filter(|hold| hold.cut > 0).map(|hold| hold.end_offset);
        ends.max().unwrap_or(0)
    }
}

/// Who it is, for messages.
fn describe(hold: &Hold) -> String {
    format!("{} {:?}", hold.kind.as_str(), hold.name)
}

/// Whether its time is over.
pub(crate) fn is_expired(hold: &Hold, now_ms: u64) -> bool {
    let now_ms = match planted::in_forks(ForkBug::ExpiryByLatestClock) {
        true => LATEST_MS.fetch_max(now_ms, Ordering::Relaxed).max(now_ms),
        false => now_ms,
    };
    hold.expires_at_ms.is_some_and(|expires| expires <= now_ms)
}

impl Holds<'_> {
    pub(crate) fn of<'a>(storage: &'a dyn Storage, layout: &'a Layout) -> Holds<'a> {
        Holds { storage, layout }
    }

    /// Waits until nobody else changes what is held.
    pub(crate) fn lock(&self) -> Result<HoldsLock> {
        // The log may be dropped meanwhile, and must not be taken for one that is there.
        self.layout.check_is_log(self.storage)?;
        let dir = self.layout.holds_dir();
        self.layout.ensure_dir(self.storage, &dir)?;
        let path = dir.join("lock");
        let deadline = Instant::now() + LOCK_WAIT_MAX;
        loop {
            match self.storage.lock(&path) {
                Ok(guard) => {
                    self.layout.check_is_log(self.storage)?;
                    return Ok(HoldsLock { _guard: guard });
                }
                Err(LockError::Held { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(LockError::Held { pid }) => return Err(AofError::Locked { path, pid }),
                Err(LockError::Io(error)) => return Err(AofError::io("lock", &path)(error)),
            }
        }
    }

    /// What is there now.
    pub(crate) fn list(&self) -> Result<ListedHolds> {
        let dir = self.layout.holds_dir();
        let entries = match self.storage.list(&dir) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Default::default()),
            entries => entries.map_err(AofError::io("list directory", &dir))?,
        };
        let mut listed = ListedHolds::default();
        for entry in entries.iter().filter(|entry| Hold::is_file_name(&entry.name)) {
            let path = dir.join(&entry.name);
            let hold = match entry.kind {
                EntryKind::File => self.read(&path)?,
                _ => None,
            };
            match hold.filter(|hold| hold.file_name() == entry.name) {
                Some(hold) => listed.holds.push(hold),
                None => listed.unreadable.push(path),
            }
        }
        listed.holds.sort_by(|a, b| (a.kind, &a.name, a.holder).cmp(&(b.kind, &b.name, b.holder)));
        Ok(listed)
    }

    fn read(&self, path: &Path) -> Result<Option<Hold>> {
        let file = self.storage.open(path, OpenMode::Read).map_err(AofError::io("open", path))?;
        let len = file.len().map_err(AofError::io("read", path))?;
        let mut bytes = vec![0; len.min(HOLD_LEN_MAX as u64) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", path))?;
        Ok(Hold::decode(&bytes).ok())
    }

    /// The hold of a fork or a snapshot.
    pub(crate) fn find(
        &self,
        kind: HolderKind,
        holder: StreamId,
        name: &str,
    ) -> Result<Option<Hold>> {
        let listed = self.list()?;
        let is_it = |hold: &Hold| {
            hold.kind == kind
                && hold.holder == holder
                && (kind == HolderKind::Fork || hold.name == name)
        };
        Ok(listed.holds.into_iter().find(is_it))
    }

    /// Puts a hold there, or replaces it, durably. The log is locked.
    pub(crate) fn put(&self, hold: &Hold) -> Result<()> {
        let dir = self.layout.holds_dir();
        self.layout.replace_file(self.storage, &dir.join(hold.file_name()), &hold.encode())
    }

    /// A planted bug: the hold may be gone after a power cut.
    pub(crate) fn put_unsynced(&self, hold: &Hold) -> Result<()> {
        let dir = self.layout.holds_dir();
        let path = dir.join(hold.file_name());
        let file = crate::store::create_anew(self.storage, &path)?;
        file.write_all_at(&hold.encode(), 0).map_err(AofError::io("write", &path))
    }

    /// Takes a hold away, durably, if it is there.
    pub(crate) fn release(&self, file_name: &str) -> Result<()> {
        let dir = self.layout.holds_dir();
        let path = dir.join(file_name);
        match self.storage.remove(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(AofError::io("remove", &path))?,
        }
        self.storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))
    }
}
