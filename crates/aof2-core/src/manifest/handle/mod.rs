//! The open manifest of one stream: chunks, index, snapshots, retention, uploads.
//!
//! `recording` takes records in and commits them, `snapshots` knows what must be safe
//! before the index is written down, `uploads` and `retention` move chunks to the cold tier
//! and off the disk, `upkeep` knows when what is due.
//!
//! Two locks, so that recording never waits for a disk:
//!
//! | lock | guards | held across I/O |
//! |---|---|---|
//! | `uploads` | uploads and retention: one of each at a time | yes |
//! | `files` | chunks and snapshots | yes |
//! | `state` | the index, and records on their way to a chunk | no |
//!
//! They are taken in this order. Appending to the batch and folding into the index is
//! one critical section of `state`: whoever looks at the index sees a state that is the
//! fold of a prefix of the records, and a snapshot takes batch and index at the same
//! instant.

mod metrics;
mod recording;
mod retention;
mod snapshots;
mod staging;
mod upkeep;
mod uploads;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::chunks::{ManifestLayout, ManifestPosition, ManifestReader, ManifestWriter, Reconciled};
use super::cold::ChunkUploader;
use super::config::ManifestConfig;
use super::index::ManifestIndex;
use super::snapshot::{ReplayReport, replay};
use crate::error::{AofError, Damage, Result};
use crate::format::manifest::ManifestRecord;
use crate::format::{SegmentId, StreamId};
use crate::io::{Clock, LockGuard, OpenMode, Storage};
use crate::planted;
use crate::planted::ManifestBug;

pub use metrics::ManifestMetrics;
use metrics::{Metrics, set};
pub use retention::{SEALED_CHUNKS_KEPT, removable};
use staging::Batch;
use uploads::Uploads;
use watch::CommitWatch;

/// Records about the manifest itself name this segment.
const NO_SEGMENT: SegmentId = SegmentId::from_u64(0);

type Notify = Box<dyn Fn() + Send + Sync>;

/// The manifest of one stream, open for writing.
///
/// [`Manifest::record`] takes a transition in and gives its ordinal; it is committed by
/// [`Manifest::commit`], by [`Manifest::maintain`] when its time has come, or when much is
/// waiting. What is committed is there after any crash, in order, once. A write or sync
/// that fails poisons the manifest: every later call says so, the index stays readable,
/// and the owner may go on without it or open it again.
///
/// ```
/// use std::sync::Arc;
/// use aof2_core::{SegmentId, StreamId};
/// use aof2_core::io::{OsStorage, SystemClock};
/// use aof2_core::manifest::{Manifest, ManifestConfig};
/// use aof2_core::format::manifest::ManifestEvent;
///
/// # let dir = tempfile::tempdir()?;
/// let manifest = Manifest::open(
///     Arc::new(OsStorage),
///     Arc::new(SystemClock),
///     dir.path(),
///     StreamId::legacy_of_name("events"),
///     ManifestConfig::local(),
/// )?;
/// let segment = SegmentId::from_u64(1);
/// let ordinal =
///     manifest.record(segment, 0, ManifestEvent::SegmentOpened { base_offset: 0, epoch: 0 })?;
/// manifest.commit()?;
/// assert!(manifest.committed() > ordinal);
/// assert!(manifest.with_index(|index| index.get(segment).is_some()));
/// manifest.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Manifest {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    layout: ManifestLayout,
    config: ManifestConfig,
    uploads: Mutex<Uploads>,
    files: Mutex<Files>,
    state: Mutex<State>,
    watch: CommitWatch,
    metrics: Metrics,
    uploader: Mutex<Option<Arc<dyn ChunkUploader>>>,
    notify: Mutex<Option<Notify>>,
    replayed: ReplayReport,
    reconciled: Reconciled,
    /// Given back by [`Manifest::close`], whoever still holds the handle.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

/// What `files` guards.
#[derive(Debug)]
struct Files {
    writer: ManifestWriter,
    /// Records that no chunk could be made for yet.
    backlog: Batch,
    last_commit_ms: u64,
    /// Position of the newest snapshot, whoever wrote it.
    newest_snapshot: Option<ManifestPosition>,
    /// Chunk of the oldest kept snapshot, once this writer has written one. What an
    /// earlier process left may be in the page cache only, and no chunk is removed on
    /// the strength of that.
    floor: Option<u64>,
    snapshot_not_before_ms: u64,
}

/// What `state` guards.
#[derive(Debug)]
struct State {
    index: ManifestIndex,
    staged: Batch,
    /// Bytes in `Files::backlog`.
    backlog_len: u64,
    staged_since_ms: Option<u64>,
    poison: Option<Arc<str>>,
    is_closed: bool,
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.poison {
            Some(reason) => Err(AofError::Poisoned { reason: Arc::clone(reason) }),
            None if self.is_closed => Err(AofError::Closed),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manifest")
            .field("dir", &self.layout.dir())
            .field("committed", &self.committed())
            .finish_non_exhaustive()
    }
}

impl Manifest {
    /// Opens the manifest of the stream whose log is in `root_dir`, creates it if there
    /// is none, trims what was never committed, replays, and continues.
    pub fn open(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        root_dir: impl AsRef<Path>,
        stream_id: StreamId,
        config: ManifestConfig,
    ) -> Result<Self> {
        config.validate()?;
        let layout = ManifestLayout::new(root_dir, stream_id);
        layout.ensure(&*storage)?;
        let lock = layout.lock(&*storage)?;
        let writer =
            ManifestWriter::open(Arc::clone(&storage), layout.clone(), config.chunk_bytes)?;
        let reader = ManifestReader::of_layout(Arc::clone(&storage), layout.clone());
        let (index, replayed) = replay(&reader, &*clock)?;
        check_end(&layout, &index, &writer)?;
        let metrics = Metrics::default();
        set(&metrics.replay_ns, replayed.elapsed_ns);
        set(&metrics.replay_records, replayed.records);
        set(&metrics.trimmed_bytes, writer.reconciled().trimmed_bytes);
        set(&metrics.crc_errors, replayed.rejected.len() as u64);
        set(&metrics.chunks_active, writer.chunk_count());
        if let Some(snapshot) = &replayed.snapshot {
            let path = layout.snapshot_path(snapshot.snapshot_id);
            set(&metrics.snapshot_at_ms, modified_ms(&*storage, &path));
        }
        let reconciled = writer.reconciled();
        let manifest = Self {
            watch: CommitWatch::starting_at(writer.committed()),
            uploads: Mutex::new(Uploads::default()),
            files: Mutex::new(Files {
                backlog: Batch::default(),
                last_commit_ms: clock.now_ns() / 1_000_000,
                newest_snapshot: replayed.snapshot.map(|info| info.position),
                floor: None,
                snapshot_not_before_ms: 0,
                writer,
            }),
            state: Mutex::new(State {
                index,
                staged: Batch::default(),
                backlog_len: 0,
                staged_since_ms: None,
                poison: None,
                is_closed: false,
            }),
            metrics,
            uploader: Mutex::new(None),
            notify: Mutex::new(None),
            storage,
            clock,
            layout,
            config,
            replayed,
            reconciled,
            lock: Mutex::new(Some(lock)),
        };
        if planted::has(ManifestBug::DoubleAppend) {
            manifest.append_last_again(&reader)?;
        }
        Ok(manifest)
    }

    fn append_last_again(&self, reader: &ManifestReader) -> Result<()> {
        let mut cursor = reader.cursor()?;
        let mut last = Vec::new();
        while let Some(placed) = cursor.next_record()? {
            last.clear();
            let _ = placed.record.encode(&mut last);
        }
        if let Ok((record, _)) = ManifestRecord::decode(&last) {
            self.record(record.segment_id, record.logical_offset, record.event)?;
        }
        self.commit()
    }

    /// Gives sealed chunks to this store from now on, whenever [`Manifest::maintain`] is called.
    pub fn set_uploader(&self, uploader: Arc<dyn ChunkUploader>) {
        *self.uploader.lock() = Some(uploader);
        self.notify();
    }

    /// What to call when [`Manifest::maintain`] should be called earlier than it last said: a
    /// first record waits for its commit, or many do. Called on the recording thread; it must
    /// not block or call the manifest.
    pub fn set_notify(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.notify.lock() = Some(Box::new(notify));
    }

    fn uploader(&self) -> Option<Arc<dyn ChunkUploader>> {
        self.uploader.lock().clone()
    }

    fn notify(&self) {
        if let Some(notify) = &*self.notify.lock() {
            notify();
        }
    }

    /// Records below this ordinal are committed.
    pub fn committed(&self) -> u64 {
        self.watch.committed()
    }

    /// Ordinal that the next record gets.
    pub fn next_record(&self) -> u64 {
        self.state.lock().index.next_record()
    }

    /// Waits until a record is committed; somebody else must commit. The error
    /// is `Timeout` at the deadline, `Poisoned` or `Closed` if it never will be.
    pub fn wait_committed(&self, ordinal: u64, deadline: Option<Instant>) -> Result<()> {
        self.watch.wait(ordinal, deadline)
    }

    /// Looks at the index; recording waits meanwhile.
    pub fn with_index<T>(&self, look: impl FnOnce(&ManifestIndex) -> T) -> T {
        look(&self.state.lock().index)
    }

    /// A copy of the index.
    pub fn index(&self) -> ManifestIndex {
        self.with_index(ManifestIndex::clone)
    }

    /// What replay did when the manifest was opened.
    pub fn replayed(&self) -> &ReplayReport {
        &self.replayed
    }

    /// What opening had to reconcile.
    pub fn reconciled(&self) -> Reconciled {
        self.reconciled
    }

    /// A reader of the same manifest.
    pub fn reader(&self) -> ManifestReader {
        ManifestReader::of_layout(Arc::clone(&self.storage), self.layout.clone())
    }

    /// How it is kept.
    pub fn config(&self) -> &ManifestConfig {
        &self.config
    }

    /// Notes how many differences a comparison with a scan has found.
    pub fn set_shadow_divergence(&self, count: u64) {
        set(&self.metrics.shadow_divergence, count);
    }

    /// Why nothing more is written, after a failed write or sync.
    pub fn poison(&self) -> Option<Arc<str>> {
        self.state.lock().poison.clone()
    }

    /// All figures.
    pub fn metrics(&self) -> ManifestMetrics {
        ManifestMetrics {
            committed_records: self.committed(),
            poisoned: self.poison().is_some(),
            ..self.metrics.snapshot(self.now_ms())
        }
    }

    /// Commits what is left and refuses everything from then on. Dropping a manifest
    /// without closing it loses what was not committed, as a crash would.
    pub fn close(&self) -> Result<()> {
        let closed = self.finish();
        *self.lock.lock() = None;
        closed
    }

    fn finish(&self) -> Result<()> {
        // Whatever is being uploaded or removed right now is done first.
        let _none_at_work = self.uploads.lock();
        let mut files = self.files.lock();
        let checked = self.state.lock().check();
        let outcome = match checked {
            Err(AofError::Closed) => return Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.commit_files(&mut files),
        };
        self.state.lock().is_closed = true;
        self.watch.close();
        if outcome.is_ok() {
            files.writer.give_back_unused();
        }
        outcome
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }
}

/// Replay and the writer have each found out how many records there are.
fn check_end(
    layout: &ManifestLayout,
    index: &ManifestIndex,
    writer: &ManifestWriter,
) -> Result<()> {
    let (replayed, written) = (index.next_record(), writer.next_record());
    if replayed == written {
        return Ok(());
    }
    Err(AofError::Corrupt(Box::new(Damage {
        path: layout.dir().to_owned(),
        offset: 0,
        records: replayed.min(written)..replayed.max(written),
        reason: format!("the manifest replays to record {replayed}, its chunks end at {written}"),
    })))
}

fn modified_ms(storage: &dyn Storage, path: &Path) -> u64 {
    let modified = storage.open(path, OpenMode::Read).and_then(|file| file.modified_ns());
    modified.map_or(0, |ns| ns / 1_000_000)
}
