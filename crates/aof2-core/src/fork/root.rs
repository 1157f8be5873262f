//! `LogRoot`: a directory of logs, and forking them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cut::ForkAt;
use super::dropping::Doomed;
use super::shared::Parent;
use super::snapshot::{self, SnapshotInfo};
use super::sweep::{self, Swept};
use super::tree::{self, LogTree};
use super::{detach, make};
use crate::error::{AofError, Result};
use crate::format::{StreamId, StreamIdentity, validate_name};
use crate::io::{Clock, OsStorage, Storage, SystemClock};
use crate::read::{AofReader, Handle};
use crate::store::{ColdStore, Holds, Layout, normal, refuse_address};

/// A directory of logs: forks, snapshots and dropping of the logs in it. Nothing is kept
/// open, and nothing but the logs' own directories is needed.
///
/// ```
/// use aof2_core::{Aof, AofConfig, AofReader, ForkAt, LogRoot, ScanOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let root = LogRoot::open(dir.path())?;
/// let log = Aof::open(AofConfig::new(dir.path().join("events")))?;
/// log.append_batch(&["a", "b", "c"], &Default::default())?;
/// log.flush()?;
///
/// root.fork("events", "trial", &ForkAt::Offset(2))?;
/// let trial = Aof::open(AofConfig::new(dir.path().join("trial")))?;
/// trial.append(b"another c")?;
/// trial.flush()?;
///
/// let records: Vec<_> = trial.scan(ScanOptions::default())?.collect::<Result<_, _>>()?;
/// let payloads: Vec<&[u8]> = records.iter().map(|record| &*record.payload).collect();
/// assert_eq!(payloads, [&b"a"[..], b"b", b"another c"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogRoot {
    dir: PathBuf,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
}

/// A fork that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkedLog {
    /// Its directory.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// Its id.
    pub stream_id: StreamId,
    /// The first logical offset that is its own.
    pub offset: u64,
}

impl LogRoot {
    /// The logs in this directory.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        Self::on(dir, Arc::new(OsStorage), Arc::new(SystemClock))
    }

    /// The same on other storage and with another clock than the machine's.
    pub fn on(
        dir: impl Into<PathBuf>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let dir = dir.into();
        refuse_address(&dir)?;
        if !storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
            let reason = "the directory does not exist".into();
            return Err(AofError::NotALog { path: dir, reason });
        }
        Ok(Self { dir: normal(&dir), storage, clock })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    /// Where the log of this name is, or would be.
    pub fn path_of(&self, name: &str) -> Result<PathBuf> {
        let invalid = |reason: String| AofError::InvalidConfig { field: "name", reason };
        validate_name(name).map_err(|e| invalid(e.to_string()))?;
        let path = normal(&self.dir.join(name));
        let is_inside = path.starts_with(&self.dir) && path != self.dir;
        let is_hidden =
            |part: &std::path::Component<'_>| part.as_os_str().to_string_lossy().starts_with('.');
        let below = path.strip_prefix(&self.dir).unwrap_or(&path);
        if !is_inside || below.components().any(|part| is_hidden(&part)) {
            return Err(invalid(format!(
                "{name:?} is not the name of a log in {}: it must lie in that directory, and no \
                 part of it may begin with a dot",
                self.dir.display()
            )));
        }
        Ok(path)
    }

    fn identity(&self, dir: &Path) -> Result<StreamIdentity> {
        let layout = Layout::new(dir);
        layout.check_is_log(&*self.storage)?;
        let reader = self.reader(dir)?;
        Ok(Handle::identity(&reader).clone())
    }

    fn reader(&self, dir: &Path) -> Result<AofReader> {
        let cold = ColdStore::named_by_log(Arc::clone(&self.storage), dir);
        AofReader::open_with(Arc::clone(&self.storage), cold, dir)
    }

    /// Calls `work` with a log as it can be read now.
    fn with_parent<T>(
        &self,
        log: &dyn Handle,
        dir: &Path,
        work: impl FnOnce(&Parent<'_>) -> Result<T>,
    ) -> Result<T> {
        let source = log.reads().0;
        work(&Parent { storage: &*self.storage, dir, identity: log.identity(), source: &source })
    }

    /// Makes the log `to`, which begins with the records of `from` before this place.
    ///
    /// The parent is neither copied, nor sealed, nor stopped, and it does not matter in
    /// which tier its segments are. Records that somebody else appends to it and that are
    /// not durable yet are not part of the fork.
    pub fn fork(&self, from: &str, to: &str, at: &ForkAt) -> Result<ForkedLog> {
        let dir = self.path_of(from)?;
        self.fork_of(&self.reader(&dir)?, &dir, to, at)
    }

    /// [`fork`](Self::fork) of a log that this process has open.
    pub fn fork_from(
        &self,
        log: &impl crate::read::ReadableLog,
        dir: &Path,
        to: &str,
        at: &ForkAt,
    ) -> Result<ForkedLog> {
        self.fork_of(log, &normal(dir), to, at)
    }

    fn fork_of(&self, log: &dyn Handle, dir: &Path, to: &str, at: &ForkAt) -> Result<ForkedLog> {
        let path = self.path_of(to)?;
        let at = self.resolve(dir, log.identity(), at)?;
        let made = self.with_parent(log, dir, |parent| {
            make::fork(parent, &*self.clock, &self.dir, &path, to, &at)
        })?;
        let stream_id = made.identity.stream_id;
        Ok(ForkedLog { path, name: to.to_owned(), stream_id, offset: made.offset })
    }

    /// The place of a snapshot, if that is asked for.
    fn resolve(&self, dir: &Path, identity: &StreamIdentity, at: &ForkAt) -> Result<ForkAt> {
        let ForkAt::Snapshot(name) = at else { return Ok(at.clone()) };
        let snapshots = snapshot::list(&*self.storage, dir, identity, self.now_ms())?;
        let found = snapshots.iter().find(|snapshot| snapshot.name == *name);
        let missing = || AofError::NoSuchSnapshot { name: name.clone() };
        found.map(|snapshot| ForkAt::Offset(snapshot.offset)).ok_or_else(missing)
    }

    /// Gives a place of a log a name, and keeps what is before it until the snapshot is
    /// dropped, or until `expires_at_ms`.
    pub fn snapshot(
        &self,
        log: &str,
        name: &str,
        at: &ForkAt,
        expires_at_ms: Option<u64>,
    ) -> Result<SnapshotInfo> {
        let dir = self.path_of(log)?;
        self.snapshot_of(&self.reader(&dir)?, &dir, name, at, expires_at_ms)
    }

    /// [`snapshot`](Self::snapshot) of a log that this process has open.
    pub fn snapshot_from(
        &self,
        log: &impl crate::read::ReadableLog,
        dir: &Path,
        name: &str,
        at: &ForkAt,
        expires_at_ms: Option<u64>,
    ) -> Result<SnapshotInfo> {
        self.snapshot_of(log, &normal(dir), name, at, expires_at_ms)
    }

    fn snapshot_of(
        &self,
        log: &dyn Handle,
        dir: &Path,
        name: &str,
        at: &ForkAt,
        expires_at_ms: Option<u64>,
    ) -> Result<SnapshotInfo> {
        let at = self.resolve(dir, log.identity(), at)?;
        self.with_parent(log, dir, |parent| {
            snapshot::take(parent, &*self.clock, name, &at, expires_at_ms)
        })
    }

    /// The snapshots of a log, by name.
    pub fn snapshots(&self, log: &str) -> Result<Vec<SnapshotInfo>> {
        let dir = self.path_of(log)?;
        snapshot::list(&*self.storage, &dir, &self.identity(&dir)?, self.now_ms())
    }

    /// Drops a snapshot. Forks that were made from it stay as they are.
    pub fn drop_snapshot(&self, log: &str, name: &str) -> Result<()> {
        let dir = self.path_of(log)?;
        let identity = self.identity(&dir)?;
        let layout = Layout::new(&dir);
        let holds = Holds::of(&*self.storage, &layout);
        {
            let _lock = holds.lock()?;
            let missing = || AofError::NoSuchSnapshot { name: name.to_owned() };
            let hold = snapshot::find_own(&holds, &identity, name)?.ok_or_else(missing)?;
            holds.release(&hold.file_name())?;
        }
        self.release_snapshot(&dir, &identity, name)
    }

    /// Takes away what a snapshot that is gone held of ancestors.
    fn release_snapshot(&self, dir: &Path, identity: &StreamIdentity, name: &str) -> Result<()> {
        let storage = &*self.storage;
        let lineage = crate::store::load_lineage(storage, &Layout::new(dir), identity)?;
        for origin in super::dropping::origin_dirs(storage, dir, lineage.as_ref())? {
            let layout = Layout::new(&origin);
            let holds = Holds::of(storage, &layout);
            let kind = crate::format::HolderKind::Snapshot;
            let file_name = crate::format::Hold::file_name_of(kind, identity.stream_id, name);
            {
                let _lock = holds.lock()?;
                holds.release(&file_name)?;
            }
            if super::dropping::is_dropped(&self.dir, &origin) {
                sweep::clean_dropped(storage, &origin, self.now_ms())?;
            }
        }
        Ok(())
    }

    /// Drops a log. Its name is free at once; what forks and snapshots read of it stays
    /// until they go. Returns who that is. A log that is being written is `Locked`.
    pub fn drop_log(&self, log: &str) -> Result<Vec<String>> {
        self.doomed(log, |doomed| doomed.drop_log(false, self.now_ms()))
    }

    /// Drops a log that nobody else reads; `Held` otherwise.
    pub fn purge(&self, log: &str) -> Result<()> {
        self.doomed(log, |doomed| doomed.drop_log(true, self.now_ms())).map(drop)
    }

    fn doomed<T>(&self, log: &str, work: impl FnOnce(&Doomed<'_>) -> Result<T>) -> Result<T> {
        let dir = self.path_of(log)?;
        let identity = self.identity(&dir)?;
        work(&Doomed { storage: &*self.storage, root: &self.dir, dir: &dir, identity: &identity })
    }

    /// Copies what a fork shares with others into the fork, which then needs them no more.
    /// Its records, their offsets, ids and timestamps stay as they are. Returns how many
    /// were copied. A log that is being written is `Locked`.
    pub fn detach(&self, log: &str) -> Result<u64> {
        let dir = self.path_of(log)?;
        let reader = self.reader(&dir)?;
        self.with_parent(&reader, &dir, |fork| detach::detach(fork, &self.dir, &*self.clock))
    }

    /// The logs of the root, and which was forked from which.
    pub fn tree(&self) -> Result<LogTree> {
        tree::read(&*self.storage, &self.dir, self.now_ms())
    }

    /// Takes away what crashes left, and what nobody reads of dropped logs.
    pub fn sweep(&self) -> Result<Swept> {
        sweep::sweep(&*self.storage, &self.dir, self.now_ms())
    }
}
