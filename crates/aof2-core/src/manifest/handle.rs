//! The open manifest of one stream: chunks, index, snapshots, retention, uploads.
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

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use super::config::{BLOB_LEN_MAX, KEY_LEN_MAX, ManifestConfig};
use super::index::ManifestIndex;
use super::layout::ManifestLayout;
use super::metrics::{ManifestMetrics, Metrics, count, set};
use super::position::ManifestPosition;
use super::reader::ManifestReader;
use super::replay::{ReplayReport, replay};
use super::staging::Batch;
use super::upload::ChunkUploader;
use super::uploads::Uploads;
use super::watch::CommitWatch;
use super::writer::{ManifestWriter, Reconciled, is_news};
use crate::error::{AofError, Damage, Result};
use crate::format::manifest::{ManifestEvent, ManifestRecord};
use crate::format::{SegmentId, StreamId};
use crate::io::{Clock, LockGuard, OpenMode, Storage};
use crate::planted;
use crate::planted::ManifestBug;

/// Records about the manifest itself name this segment.
pub(super) const NO_SEGMENT: SegmentId = SegmentId::from_u64(0);

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
    pub(super) storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    pub(super) layout: ManifestLayout,
    pub(super) config: ManifestConfig,
    pub(super) uploads: Mutex<Uploads>,
    pub(super) files: Mutex<Files>,
    pub(super) state: Mutex<State>,
    watch: CommitWatch,
    pub(super) metrics: Metrics,
    pub(super) uploader: Mutex<Option<Arc<dyn ChunkUploader>>>,
    notify: Mutex<Option<Notify>>,
    replayed: ReplayReport,
    reconciled: Reconciled,
    /// Given back by [`Manifest::close`], whoever still holds the handle.
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

/// What `files` guards.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) writer: ManifestWriter,
    /// Records that no chunk could be made for yet.
    pub(super) backlog: Batch,
    pub(super) last_commit_ms: u64,
    /// Position of the newest snapshot, whoever wrote it.
    pub(super) newest_snapshot: Option<ManifestPosition>,
    /// Chunk of the oldest kept snapshot, once this writer has written one. What an
    /// earlier process left may be in the page cache only, and no chunk is removed on
    /// the strength of that.
    pub(super) floor: Option<u64>,
    pub(super) snapshot_not_before_ms: u64,
}

/// What `state` guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) index: ManifestIndex,
    pub(super) staged: Batch,
    /// Bytes in `Files::backlog`.
    pub(super) backlog_len: u64,
    pub(super) staged_since_ms: Option<u64>,
    poison: Option<Arc<str>>,
    is_closed: bool,
}

impl State {
    pub(super) fn check(&self) -> Result<()> {
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

    pub(super) fn uploader(&self) -> Option<Arc<dyn ChunkUploader>> {
        self.uploader.lock().clone()
    }

    pub(super) fn notify(&self) {
        if let Some(notify) = &*self.notify.lock() {
            notify();
        }
    }

    /// Takes in what happened to a segment, dated by the clock, and gives its ordinal.
    ///
    /// Only memory is touched, unless `staged_bytes_max` is reached: then the caller
    /// commits first. Keys, ETags and blobs that are too long are refused, and so is an
    /// event of an unknown type.
    pub fn record(
        &self,
        segment_id: SegmentId,
        logical_offset: u64,
        event: ManifestEvent<'_>,
    ) -> Result<u64> {
        self.record_flagged(segment_id, logical_offset, 0, event)
    }

    /// [`Manifest::record`] with the event's flags.
    pub fn record_flagged(
        &self,
        segment_id: SegmentId,
        logical_offset: u64,
        flags: u16,
        event: ManifestEvent<'_>,
    ) -> Result<u64> {
        check_event(&event)?;
        let timestamp_ms = self.now_ms();
        let record = ManifestRecord { flags, segment_id, logical_offset, timestamp_ms, event };
        let len = record.encoded_len() as u64;
        let mut state = self.admit(len)?;
        let is_first = state.staged_since_ms.is_none();
        let before = state.staged.len();
        let ordinal = self.stage(&mut state, &record)?;
        let after = state.staged.len();
        drop(state);
        let is_much = (before..after).contains(&self.config.commit_bytes);
        if is_first || is_much {
            self.notify();
        }
        Ok(ordinal)
    }

    /// Takes a record in: one critical section for the batch and the index.
    pub(super) fn stage(&self, state: &mut State, record: &ManifestRecord<'_>) -> Result<u64> {
        let before = state.staged.len();
        let encoded = record.encode(state.staged.buffer());
        encoded.map_err(|error| AofError::InvalidRecord { reason: error.to_string() })?;
        let len = state.staged.len() - before;
        state.staged.push(len as usize, is_news(record));
        state.staged_since_ms.get_or_insert(record.timestamp_ms);
        let ordinal = state.index.next_record();
        state.index.fold(ordinal, record);
        count(&self.metrics.records, 1);
        count(&self.metrics.bytes, len);
        Ok(ordinal)
    }

    /// The state, with space for so many more bytes.
    fn admit(&self, len: u64) -> Result<MutexGuard<'_, State>> {
        loop {
            let state = self.state.lock();
            state.check()?;
            let waiting = state.staged.len() + state.backlog_len;
            if waiting == 0 || waiting + len <= self.config.staged_bytes_max {
                return Ok(state);
            }
            drop(state);
            self.commit()?;
        }
    }

    /// Makes everything recorded so far durable.
    pub fn commit(&self) -> Result<()> {
        let mut files = self.files.lock();
        self.state.lock().check()?;
        self.commit_files(&mut files)
    }

    pub(super) fn commit_files(&self, files: &mut Files) -> Result<()> {
        self.drain(files);
        self.write_out(files)
    }

    /// Takes over what was recorded.
    fn drain(&self, files: &mut Files) {
        let mut state = self.state.lock();
        files.backlog.take(&mut state.staged);
        state.staged_since_ms = None;
        state.backlog_len = files.backlog.len();
    }

    /// Writes what was taken over, and tells who waits.
    pub(super) fn write_out(&self, files: &mut Files) -> Result<()> {
        let before = files.writer.committed();
        let fed = files.backlog.feed(&mut files.writer);
        let mut outcome = fed.and(files.writer.commit());
        if files.writer.committed() > before {
            files.last_commit_ms = self.now_ms();
            count(&self.metrics.commits, 1);
        }
        if outcome.is_ok() && files.writer.needs_rotation() {
            outcome = files.writer.rotate().map(drop);
        }
        self.publish(files);
        outcome
    }

    /// Publishes what became of the files.
    pub(super) fn publish(&self, files: &Files) {
        {
            let mut state = self.state.lock();
            state.backlog_len = files.backlog.len();
            if let Some(reason) = files.writer.poison() {
                state.poison = Some(Arc::clone(reason));
            }
        }
        set(&self.metrics.chunks_active, files.writer.chunk_count());
        set(&self.metrics.chunks_sealed, files.writer.seal_count());
        self.watch.publish(files.writer.committed());
        if let Some(reason) = files.writer.poison() {
            self.watch.poison(reason);
        }
    }

    /// Seals the active chunk, so that it can be uploaded. There may be none.
    pub fn rotate(&self) -> Result<()> {
        let mut files = self.files.lock();
        self.state.lock().check()?;
        self.commit_files(&mut files)?;
        let rotated = files.writer.rotate();
        self.publish(&files);
        rotated.map(drop)
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

    pub(super) fn now_ms(&self) -> u64 {
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

fn check_event(event: &ManifestEvent<'_>) -> Result<()> {
    let limit = |what: &str, len: usize, len_max: usize| {
        if len <= len_max {
            return Ok(());
        }
        let reason = format!("{what} of {len} bytes, at most {len_max} are recorded");
        Err(AofError::InvalidRecord { reason })
    };
    match *event {
        ManifestEvent::UploadStarted { key }
        | ManifestEvent::UploadFailed { key, .. }
        | ManifestEvent::Tier2DeleteQueued { key }
        | ManifestEvent::Tier2Deleted { key } => limit("key", key.len(), KEY_LEN_MAX),
        ManifestEvent::UploadDone { key, etag } => {
            limit("key", key.len(), KEY_LEN_MAX)?;
            limit("etag", etag.len(), KEY_LEN_MAX)
        }
        ManifestEvent::CustomEvent { blob, .. } => limit("blob", blob.len(), BLOB_LEN_MAX),
        ManifestEvent::Unknown { record_type, .. } => Err(AofError::InvalidRecord {
            reason: format!("record type {record_type} is not one this version writes"),
        }),
        _ => Ok(()),
    }
}
