//! An open log as the segments it has: the table, the copies, the manifest.
//!
//! Locks, in the order they may be taken: the right to change a segment (`busy`), the
//! manifest's, then those of the owner and of the segment table (lookups only).

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::busy::{Busy, Right, Slot};
use super::cold::ColdStore;
use super::copy::Copies;
use super::entry::SegmentEntry;
use super::layout::Layout;
use super::lineage::Inherited;
use super::pins::Pins;
use super::table::SegmentTable;
use super::transitions::Transitions;
use crate::error::{AofError, Result};
use crate::format::{Lineage, SegmentId, StreamId, StreamIdentity};
use crate::io::{Clock, ForkStamp, Storage};
use crate::manifest::ManifestConfig;
use crate::planted::{self, StoreBug};
use crate::segment::{ArtifactOptions, SegmentMeta};
use crate::sync::{Position, Watermark};

/// What the store needs of whoever writes the log.
pub(crate) trait Owner: Send + Sync + Debug {
    /// The error that every change gets from now on, if any.
    fn refusal(&self) -> Option<AofError>;

    /// Another writer has the log, or its name.
    fn fence(&self, error: &AofError);

    /// A name in a directory may not survive a power cut: nothing more is promised.
    fn poison(&self, cause: &AofError) -> AofError;

    /// The segments without a footer, oldest first.
    fn unsealed(&self) -> Vec<Unsealed>;

    /// The segment that is written after those that exist.
    fn next_segment(&self) -> SegmentId;

    /// Records appended since the log was created.
    fn appended_count(&self) -> u64;

    /// Those that are durable.
    fn durable_count(&self) -> u64;

    /// Something was recorded in the manifest, which may have to be committed.
    fn manifest_changed(&self);

    /// Deletes the segments that end at or before this offset.
    fn trim_before(&self, offset: u64) -> Result<()>;
}

/// A segment that is written, or waits for its footer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsealed {
    pub(crate) meta: SegmentMeta,
    /// Whether its file has a name that survives a power cut.
    pub(crate) is_named: bool,
}

/// What a store is made of.
#[derive(Debug)]
pub(crate) struct StoreParts {
    pub(crate) identity: StreamIdentity,
    pub(crate) layout: Layout,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) table: SegmentTable,
    pub(crate) cold: Arc<ColdStore>,
    pub(crate) manifest: ManifestConfig,
    /// What the log has from others, if it is a fork.
    pub(crate) lineage: Option<Lineage>,
}

/// The segments of an open log.
#[derive(Debug)]
pub(crate) struct Store {
    identity: StreamIdentity,
    layout: Layout,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    table: SegmentTable,
    inherited: ArcSwapOption<Inherited>,
    cold: Arc<ColdStore>,
    manifest_config: ManifestConfig,
    /// Who changes what.
    pub(super) busy: Busy,
    pub(super) pins: Pins,
    /// How segments are compressed, and how many were begun to be.
    compression: Mutex<ArtifactOptions>,
    compressions: AtomicU32,
    pub(super) transitions: Transitions,
    /// How far the object store holds the log without a gap.
    archived: Watermark,
    /// Serialises moving it.
    archiving: Mutex<()>,
    fork: ForkStamp,
    owner: OnceLock<Weak<dyn Owner>>,
}

impl Store {
    pub(crate) fn new(parts: StoreParts) -> Arc<Self> {
        let StoreParts { identity, layout, storage, clock, table, cold, manifest, lineage } = parts;
        let inherited = lineage
            .map(|lineage| Arc::new(Inherited::new(Arc::clone(&storage), layout.root(), lineage)));
        let store = Self {
            inherited: ArcSwapOption::new(inherited),
            identity,
            layout,
            storage,
            clock,
            table,
            cold,
            manifest_config: manifest,
            busy: Busy::default(),
            pins: Pins::default(),
            compression: Mutex::default(),
            compressions: AtomicU32::new(0),
            transitions: Transitions::default(),
            archived: Watermark::default(),
            archiving: Mutex::new(()),
            fork: ForkStamp::now(),
            owner: OnceLock::new(),
        };
        store.note_archived();
        Arc::new(store)
    }

    /// Called once, before anything is changed.
    pub(crate) fn set_owner(&self, owner: Weak<dyn Owner>) {
        let _ = self.owner.set(owner);
    }

    pub(super) fn owner(&self) -> Result<Arc<dyn Owner>> {
        self.owner.get().and_then(Weak::upgrade).ok_or(AofError::Closed)
    }

    /// Waits for changes under way, makes the manifest durable and ends it.
    pub(crate) fn close(&self) {
        self.busy.drain();
        self.stop_transitions();
    }

    pub(crate) fn identity(&self) -> &StreamIdentity {
        &self.identity
    }

    pub(crate) fn stream_id(&self) -> StreamId {
        self.identity.stream_id
    }

    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(super) fn shared_storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    pub(crate) fn table(&self) -> &SegmentTable {
        &self.table
    }

    /// What the log has from others, if it is a fork.
    #[inline]
    pub(crate) fn inherited(&self) -> Option<Arc<Inherited>> {
        // Asked for every lookup, and most logs are no forks.
        match self.identity.lineage {
            Some(_) => self.inherited.load_full(),
            None => None,
        }
    }

    /// From now on the log inherits this.
    pub(crate) fn set_lineage(&self, lineage: Option<Lineage>) {
        let inherited = lineage.map(|lineage| {
            Arc::new(Inherited::new(Arc::clone(&self.storage), self.layout.root(), lineage))
        });
        self.inherited.store(inherited);
    }

    pub(crate) fn cold(&self) -> &ColdStore {
        &self.cold
    }

    /// Whether a bucket was named when the log was opened.
    pub(crate) fn has_cold_tier(&self) -> bool {
        self.cold.tier().is_some()
    }

    pub(super) fn manifest_config(&self) -> &ManifestConfig {
        &self.manifest_config
    }

    pub(crate) fn archived(&self) -> &Watermark {
        &self.archived
    }

    /// How segments are compressed from now on.
    pub(crate) fn set_compression(&self, options: ArtifactOptions) {
        *self.compression.lock() = options;
    }

    /// The number of a compression, and how it is done.
    pub(super) fn next_compression(&self) -> (u32, ArtifactOptions) {
        (self.compressions.fetch_add(1, Ordering::Relaxed), *self.compression.lock())
    }

    /// The right to write a small file of the log that is not a segment: a log that is being
    /// closed waits for it.
    pub(crate) fn begin_note(&self) -> Result<Right<'_>> {
        let right = self.busy.begin(Slot::Notes);
        self.refusal().map_or(Ok(right), Err)
    }

    /// A forked child has none of the threads that would end its wait.
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        match self.fork.is_forked() {
            true => Err(AofError::Forked),
            false => Ok(()),
        }
    }

    /// The error that every change gets from now on, if any.
    pub(crate) fn refusal(&self) -> Option<AofError> {
        self.owner().map_or_else(Some, |owner| owner.refusal())
    }

    pub(crate) fn fence(&self, error: &AofError) {
        if let Ok(owner) = self.owner() {
            owner.fence(error);
        }
    }

    /// A directory that cannot be synced leaves names in doubt, those of the next
    /// segments included.
    pub(crate) fn sync_names(&self, dir: &std::path::Path) -> Result<()> {
        let synced = self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir));
        synced.map_err(|error| self.owner().map_or_else(|e| e, |owner| owner.poison(&error)))
    }

    /// Moves the archived watermark to the end of what the object store holds without a
    /// gap.
    pub(crate) fn note_archived(&self) {
        let _one_at_a_time = self.archiving.lock();
        let is_archived = |entry: &Arc<SegmentEntry>| {
            let Copies { warm, cold, .. } = entry.copies();
            let is_coming = planted::in_store(StoreBug::ArchivedBeforePut) && warm.is_some();
            entry.damage.is_none() && (cold.is_some() || is_coming)
        };
        let entries = self.table.snapshot();
        let last = entries.iter().take_while(|entry| is_archived(entry)).last();
        let Some((last, end)) = last.and_then(|last| Some((last, last.end_offset()?))) else {
            return;
        };
        // Retention at the front of the log does not move it back.
        if end > self.archived.count() {
            self.archived.advance(Position::new(last.meta.segment_id.next(), 0), end);
        }
    }
}
