//! What the log tells the manifest: which segments were opened, sealed and let go.
//!
//! Each record is made in the critical section of the change it tells of: the lock
//! here is held while a segment gets its footer, and while its file goes. It is taken
//! by background steps and by calls about the manifest, never by an append or a flush,
//! and it may be held across I/O. A segment that a flush gave its name is recorded as
//! opened by the next background step.
//!
//! The segment files stay the truth. A manifest that cannot be written stops nothing:
//! it is let go, counted, and the next opening (or switching it off and on) records
//! what it missed. So a crash anywhere leaves a manifest that is behind the files at
//! most by what [`settle`] finds.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::state::{Store, Unsealed};
use super::survey::Survey;
use super::table::{SealedInfo, SegmentEntry};
use crate::error::{AofError, Result};
use crate::format::manifest::{EVICTED_WARM, ManifestEvent, ManifestSegment};
use crate::format::{ColdKey, SegmentId};
use crate::manifest::{
    Divergence, Manifest, ManifestIndex, ManifestMetrics, ManifestMode, ScannedSegment,
    find_divergences,
};
use crate::segment::SegmentMeta;

/// How long after something was recorded a shadow is compared with the files. The
/// comparison looks at every segment file, so a burst of seals gets one of them.
const SHADOW_COMPARE_MS: u64 = 10_000;

/// How soon a manifest that could not be tended, as on a full disk, is tended again.
const TEND_RETRY: Duration = Duration::from_millis(500);

/// The manifest of an open stream, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    state: Mutex<State>,
    /// Times the manifest could not be written.
    failures: AtomicU64,
}

#[derive(Debug)]
struct State {
    mode: ManifestMode,
    manifest: Option<Arc<Manifest>>,
    /// First segment that is not recorded as opened yet.
    next_opened: SegmentId,
    /// Segments in which a failed flush of an earlier writer left bytes.
    doubtful: Vec<SegmentId>,
    /// When a shadow is compared with the files; `None` when nothing was recorded since
    /// it was.
    compare_at_ms: Option<u64>,
    /// Whether no writer will record anything any more.
    is_stopped: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            mode: ManifestMode::Disabled,
            manifest: None,
            next_opened: SegmentId::from_u64(0),
            doubtful: Vec::new(),
            compare_at_ms: None,
            is_stopped: false,
        }
    }
}

impl State {
    fn manifest(&self) -> Result<&Manifest> {
        if self.is_stopped {
            return Err(AofError::Closed);
        }
        self.manifest.as_deref().ok_or_else(|| AofError::InvalidConfig {
            field: "manifest_mode",
            reason: match self.mode {
                ManifestMode::Disabled => "the manifest of this log is disabled".into(),
                _ => "the manifest failed and was let go; switch it off and on again".into(),
            },
        })
    }
}

/// A segment without a footer, as the manifest compares it.
fn unsealed(meta: &SegmentMeta) -> ScannedSegment {
    ScannedSegment {
        segment_id: meta.segment_id,
        base_offset: meta.base_offset,
        durable_bytes: None,
        segment_crc64: None,
        ext_id: None,
    }
}

impl Store {
    /// Opens the manifest if the configuration asks for one.
    pub(crate) fn start_transitions(
        &self,
        mode: ManifestMode,
        doubtful: Vec<SegmentId>,
    ) -> Result<()> {
        let mut state = self.transitions.state.lock();
        state.doubtful = doubtful;
        self.switch(&mut state, mode)
    }

    /// Writes the manifest, or no longer, from now on.
    pub(crate) fn set_manifest_mode(&self, mode: ManifestMode) -> Result<()> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let mut state = self.lock_transitions()?;
        self.switch(&mut state, mode)
    }

    pub(crate) fn manifest_mode(&self) -> ManifestMode {
        self.transitions.state.lock().mode
    }

    fn lock_transitions(&self) -> Result<MutexGuard<'_, State>> {
        self.check_not_forked()?;
        let state = self.transitions.state.lock();
        if state.is_stopped { Err(AofError::Closed) } else { Ok(state) }
    }

    /// A mode that cannot be switched to leaves the one before.
    fn switch(&self, state: &mut State, mode: ManifestMode) -> Result<()> {
        if mode == ManifestMode::Disabled {
            state.mode = mode;
            return state.manifest.take().map_or(Ok(()), |manifest| manifest.close());
        }
        if state.manifest.is_none() {
            match self.open_manifest(state) {
                Ok(manifest) => {
                    self.cold().manifest_opened(&manifest);
                    state.manifest = Some(Arc::new(manifest));
                }
                // Nothing depends on a shadow.
                Err(error) if mode == ManifestMode::Shadow => self.note_manifest_failure(&error),
                Err(error) => return Err(error),
            }
        }
        state.mode = mode;
        state.compare_at_ms = Some(self.now_ms());
        self.manifest_changed();
        Ok(())
    }

    fn open_manifest(&self, state: &mut State) -> Result<Manifest> {
        let manifest = Manifest::open(
            self.shared_storage(),
            self.shared_clock(),
            self.layout().root(),
            self.identity().stream_id,
            self.manifest_config().clone(),
        )?;
        self.settle(state, manifest)
    }

    /// Records what happened while nobody wrote the manifest, and makes it durable.
    fn settle(&self, state: &mut State, manifest: Manifest) -> Result<Manifest> {
        let entries = self.table().snapshot();
        let unsealed = self.unsealed();
        let unnamed = unsealed.iter().find(|u| !u.is_named).map(|u| u.meta.segment_id);
        let present: Vec<_> = entries
            .iter()
            .filter(|e| Some(e.meta.segment_id) != unnamed && e.damage.is_none())
            .collect();
        let known: Vec<_> = manifest.with_index(|index| index.segments().cloned().collect());
        for segment in known.iter().filter(|segment| segment.hot) {
            let same = present.iter().any(|e| {
                e.meta.segment_id == segment.segment_id
                    && e.is_hot()
                    && e.meta.base_offset == segment.base_offset
                    && seal_agrees(e.sealed_info(), segment.durable_bytes, segment.segment_crc64)
            });
            if !same {
                let bytes = segment.durable_bytes.unwrap_or(0);
                let gone = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
                manifest.record(segment.segment_id, bytes, gone)?;
            }
        }
        // Let go by retention, and the crash came before that was recorded.
        for segment in &known {
            let is_gone = present.iter().all(|e| e.meta.segment_id != segment.segment_id);
            if let Some(bytes) = segment.warm_bytes.filter(|_| is_gone) {
                evict_warm(&manifest, segment.segment_id, bytes)?;
            }
        }
        let is_known = |id: SegmentId| manifest.with_index(|index| index.get(id).cloned());
        for entry in &present {
            let known = is_known(entry.meta.segment_id).filter(|k| k.hot || !entry.is_hot());
            if known.is_none() {
                record_opened(&manifest, &entry.meta)?;
            }
            let is_recorded = known.as_ref().is_some_and(|k| k.durable_bytes.is_some());
            if let Some(info) = entry.sealed_info().filter(|_| !is_recorded) {
                let doubtful = state.doubtful.contains(&entry.meta.segment_id);
                self.record_sealed(&manifest, &entry.meta, info, doubtful)?;
            }
            settle_copies(&manifest, entry, known.as_ref(), &self.manifest_config().upload_prefix)?;
        }
        let newest = present.last().map(|e| e.meta.segment_id);
        state.next_opened = newest.map_or(SegmentId::from_u64(0), SegmentId::next);
        manifest.commit()?;
        Ok(manifest)
    }

    fn record_sealed(
        &self,
        manifest: &Manifest,
        meta: &SegmentMeta,
        info: &SealedInfo,
        flush_failure: bool,
    ) -> Result<()> {
        let sealed = ManifestEvent::SealSegment {
            durable_bytes: u64::from(info.durable_bytes),
            segment_crc64: info.segment_crc64,
            ext_id: info.ext_id,
            coordinator_watermark: self.owner()?.durable_count(),
            flush_failure,
        };
        manifest.record(meta.segment_id, meta.first_offset + info.record_count, sealed).map(drop)
    }

    /// Lets a manifest that failed go.
    fn tell(&self, state: &mut State, say: impl FnOnce(&Manifest) -> Result<()>) {
        let Some(manifest) = &state.manifest else { return };
        if let Err(error) = say(manifest) {
            self.let_go_of(state);
            self.note_manifest_failure(&error);
        }
        state.compare_at_ms.get_or_insert(self.now_ms() + SHADOW_COMPARE_MS);
        self.manifest_changed();
    }

    /// Closes a manifest that failed, so that it can be opened again.
    fn let_go_of(&self, state: &mut State) {
        if let Some(manifest) = state.manifest.take() {
            let _ = manifest.close();
        }
    }

    fn note_manifest_failure(&self, error: &AofError) {
        self.transitions.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "the manifest is not written until the log is opened again");
    }

    /// Records that the active segment, and the one that waits for its footer, exist,
    /// once their files have names.
    pub(crate) fn tell_opened(&self) {
        self.tell_opened_in(&mut self.transitions.state.lock());
    }

    fn tell_opened_in(&self, state: &mut State) {
        if state.manifest.is_none() {
            return;
        }
        for Unsealed { meta, .. } in self.unsealed().into_iter().filter(|u| u.is_named) {
            // An empty segment that turns out too small for a record is replaced by one
            // with the same number and base: for the manifest it is the same segment.
            if meta.segment_id >= state.next_opened {
                state.next_opened = meta.segment_id.next();
                self.tell(state, |manifest| record_opened(manifest, &meta));
            }
        }
    }

    /// Seals a segment and records it.
    pub(crate) fn while_sealing(
        &self,
        meta: &SegmentMeta,
        seal: impl FnOnce() -> Result<SealedInfo>,
    ) -> Result<()> {
        let mut state = self.transitions.state.lock();
        self.tell_opened_in(&mut state);
        let info = seal()?;
        let doubtful = state.doubtful.contains(&meta.segment_id);
        self.tell(&mut state, |manifest| self.record_sealed(manifest, meta, &info, doubtful));
        Ok(())
    }

    /// Changes which tiers hold a segment and records it. `change` may fail half way;
    /// then the next opening records what the files show.
    pub(crate) fn while_moving<T>(
        &self,
        change: impl FnOnce() -> Result<T>,
        record: impl FnOnce(&Manifest, &T) -> Result<()>,
    ) -> Result<T> {
        let mut state = self.transitions.state.lock();
        if state.is_stopped {
            return Err(AofError::Closed);
        }
        let changed = change()?;
        self.tell(&mut state, |manifest| record(manifest, &changed));
        Ok(changed)
    }

    /// Records that the empty active segment was removed.
    pub(crate) fn tell_taken_back(&self, taken_back: SegmentId) {
        let mut state = self.transitions.state.lock();
        if taken_back < state.next_opened {
            state.next_opened = taken_back;
            self.tell(&mut state, |manifest| evict(manifest, taken_back, 0));
        }
    }

    /// Background: the manifest's timers. Says when to come again; `None`: when the
    /// bell rings. Nobody waits for what it uploads.
    pub(crate) fn tend_manifest(&self) -> Option<Duration> {
        self.tell_opened();
        let compare_in = self.compare_shadow_if_due();
        let manifest = self.transitions.state.lock().manifest.clone()?;
        let tend_in = manifest.maintain_local().unwrap_or_else(|error| {
            self.drop_poisoned(&mut self.transitions.state.lock(), &error);
            // What could not be written is still there to be written.
            manifest.poison().is_none().then_some(TEND_RETRY)
        });
        tend_in.into_iter().chain(compare_in).min()
    }

    /// Uploads what is sealed of the manifest, where a store was named for it. Says when
    /// to come again.
    pub(crate) fn tend_manifest_store(&self) -> Option<Duration> {
        let manifest = self.transitions.state.lock().manifest.clone()?;
        manifest.maintain_store().unwrap_or_else(|error| {
            self.drop_poisoned(&mut self.transitions.state.lock(), &error);
            manifest.poison().is_none().then_some(TEND_RETRY)
        })
    }

    /// Whether the manifest waits for its store.
    pub(crate) fn has_manifest_to_upload(&self) -> bool {
        let state = self.transitions.state.lock();
        state.manifest.as_ref().is_some_and(|manifest| manifest.has_chunks_to_upload())
    }

    /// Looks at what the manifest adds up to; `None` while there is none.
    pub(crate) fn look_at_manifest<T>(&self, look: impl FnOnce(&ManifestIndex) -> T) -> Option<T> {
        let manifest = self.transitions.state.lock().manifest.clone()?;
        Some(manifest.with_index(look))
    }

    /// Records something that concerns other tiers, and makes it durable if asked to.
    pub(crate) fn tell_tiers(
        &self,
        segment_id: SegmentId,
        offset: u64,
        event: ManifestEvent<'_>,
        is_urgent: bool,
    ) -> Result<()> {
        self.while_moving(
            || Ok(()),
            |manifest, ()| {
                manifest.record(segment_id, offset, event)?;
                if is_urgent { manifest.commit() } else { Ok(()) }
            },
        )
    }

    /// Compares a shadow with the files when it is time, for the gauge. Says when it will
    /// be; `None` as long as nothing is recorded.
    fn compare_shadow_if_due(&self) -> Option<Duration> {
        let mut state = self.transitions.state.lock();
        if state.mode != ManifestMode::Shadow || state.manifest.is_none() {
            return None;
        }
        let wait_ms = state.compare_at_ms?.saturating_sub(self.now_ms());
        if wait_ms > 0 {
            return Some(Duration::from_millis(wait_ms));
        }
        state.compare_at_ms = None;
        match self.compare_in(&mut state) {
            Ok(found) => {
                for divergence in &found {
                    tracing::warn!(%divergence, "the manifest does not agree with the files");
                }
            }
            Err(error) => tracing::warn!(%error, "the manifest was not compared with the files"),
        }
        None
    }

    fn manifest_changed(&self) {
        if let Ok(owner) = self.owner() {
            owner.manifest_changed();
        }
    }

    fn unsealed(&self) -> Vec<Unsealed> {
        self.owner().map_or_else(|_| Vec::new(), |owner| owner.unsealed())
    }

    /// Lets the manifest go if an error was its last.
    fn drop_poisoned(&self, state: &mut State, error: &AofError) {
        if state.manifest.as_ref().is_some_and(|manifest| manifest.poison().is_some()) {
            self.let_go_of(state);
            self.note_manifest_failure(error);
        }
    }

    /// Makes the manifest durable and ends it; the log is being closed.
    pub(crate) fn stop_transitions(&self) {
        let mut state = self.transitions.state.lock();
        state.is_stopped = true;
        if let Some(manifest) = state.manifest.take()
            && let Err(error) = manifest.close()
        {
            self.note_manifest_failure(&error);
        }
    }

    // ---- what users ask of it ----

    /// Runs on the manifest; its error is the caller's, and lets the manifest go only if
    /// it failed for good.
    fn with_manifest<T>(&self, run: impl FnOnce(&Manifest) -> Result<T>) -> Result<T> {
        let mut state = self.lock_transitions()?;
        self.tell_opened_in(&mut state);
        let result = run(state.manifest()?);
        if let Err(error) = &result {
            self.drop_poisoned(&mut state, error);
        }
        self.manifest_changed();
        result
    }

    pub(crate) fn record_event(
        &self,
        segment: Option<SegmentId>,
        schema_id: u32,
        blob: &[u8],
    ) -> Result<u64> {
        let newest = || self.table().last().map(|entry| entry.meta.segment_id);
        let owner = self.owner()?;
        let segment = segment.or_else(newest).unwrap_or_else(|| owner.next_segment());
        if segment.as_u64() > u64::from(u32::MAX) {
            let reason = format!("segment {segment} cannot exist: segments count to {}", u32::MAX);
            return Err(AofError::InvalidRecord { reason });
        }
        let offset = owner.appended_count();
        self.with_manifest(|manifest| {
            manifest.record(segment, offset, ManifestEvent::CustomEvent { schema_id, blob })
        })
    }

    pub(crate) fn commit_manifest(&self) -> Result<()> {
        self.with_manifest(Manifest::commit)
    }

    pub(crate) fn snapshot_manifest(&self) -> Result<u64> {
        self.with_manifest(Manifest::snapshot)
    }

    /// Compares what the manifest takes for uploaded with what the store holds.
    pub(crate) fn check_manifest_uploads(&self) -> Result<()> {
        // Asked without the lock: recording must not wait for a store.
        let manifest = self.transitions.state.lock().manifest.clone();
        let Some(manifest) = manifest else { return Ok(()) };
        manifest.check_uploads().map_err(|error| {
            let cause = std::io::Error::other(error.to_string());
            AofError::io("list manifest chunks", self.layout().root())(cause)
        })
    }

    pub(crate) fn manifest_index(&self) -> Result<ManifestIndex> {
        self.with_manifest(|manifest| Ok(manifest.index()))
    }

    /// What the manifest says that the files do not, and the other way round. No segment
    /// is sealed or let go meanwhile.
    pub(crate) fn compare_manifest(&self) -> Result<Vec<Divergence>> {
        self.compare_in(&mut *self.lock_transitions()?)
    }

    fn compare_in(&self, state: &mut State) -> Result<Vec<Divergence>> {
        // A segment that comes back has its file before it is recorded. Whatever begins
        // later cannot record anything until we are done.
        let moving = self.busy.segments();
        let survey = Survey::take(self.storage(), self.layout(), self.cold())?;
        let mut files: Vec<ScannedSegment> = survey
            .found
            .iter()
            .filter(|found| !found.is_blank() || self.is_unsealed(found.name.segment_id))
            .filter(|found| !found.is_away)
            .map(ScannedSegment::of_file)
            .collect();
        self.tell_opened_in(state);
        // A file has its name in the directory a moment before that is durable, and is
        // recorded only then; and a flush may have named one since the files were listed.
        let next_opened = state.next_opened;
        files.retain(|f| f.segment_id < next_opened || !self.is_unsealed(f.segment_id));
        let listed_until = files.last().map(|f| f.segment_id);
        if let Some(active) = self.table().last().filter(|e| {
            let id = e.meta.segment_id;
            e.is_hot() && id < state.next_opened && listed_until < Some(id)
        }) {
            files.push(unsealed(&active.meta));
        }
        let manifest = state.manifest()?;
        let mut found = manifest.with_index(|index| find_divergences(index, &files));
        let still_moving = self.busy.segments();
        found.retain(|divergence| {
            let id = &divergence.segment_id;
            !moving.contains(id) && !still_moving.contains(id)
        });
        manifest.set_shadow_divergence(found.len() as u64);
        Ok(found)
    }

    fn is_unsealed(&self, id: SegmentId) -> bool {
        self.unsealed().iter().any(|u| u.meta.segment_id == id)
    }

    pub(crate) fn manifest_metrics(&self) -> Option<ManifestMetrics> {
        self.transitions.state.lock().manifest.as_ref().map(|manifest| manifest.metrics())
    }

    pub(crate) fn manifest_failures(&self) -> u64 {
        self.transitions.failures.load(Ordering::Relaxed)
    }
}

/// Records the copies in other tiers that the manifest does not know, and that there is
/// no segment file where it just learned of the segment.
fn settle_copies(
    manifest: &Manifest,
    entry: &SegmentEntry,
    known: Option<&ManifestSegment>,
    prefix: &str,
) -> Result<()> {
    let id = entry.meta.segment_id;
    let copies = entry.away_copies();
    if let Some(warm) =
        copies.warm.as_ref().filter(|_| known.is_none_or(|k| k.warm_bytes.is_none()))
    {
        let done = compressed(warm.index().artifact_len());
        manifest.record(id, entry.meta.base_offset, done)?;
    }
    let key_of = |epoch: u32| ColdKey::new(prefix, entry.meta.stream_id, id, epoch);
    if copies.cold.is_some()
        && let Ok(key) = key_of(copies.cold_epoch)
    {
        let key = key.to_string();
        if known.is_none_or(|k| k.cold_key.as_deref() != Some(&key)) {
            // Its tag was not kept; nothing depends on it.
            let done = ManifestEvent::UploadDone { key: &key, etag: "" };
            manifest.record(id, entry.meta.base_offset, done)?;
        }
    }
    if known.is_none() && !entry.is_hot() {
        evict(manifest, id, 0)?;
    }
    // The warm file is gone, and was not the last copy.
    if let Some(gone) = known.and_then(|k| k.warm_bytes)
        && copies.warm.is_none()
        && copies.cold.is_some()
    {
        evict_warm(manifest, id, gone)?;
    }
    Ok(())
}

pub(crate) fn evict_warm(manifest: &Manifest, segment: SegmentId, bytes: u64) -> Result<()> {
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
    manifest.record_flagged(segment, bytes, EVICTED_WARM, evicted).map(drop)
}

pub(crate) fn compressed(compressed_bytes: u64) -> ManifestEvent<'static> {
    ManifestEvent::CompressionDone { compressed_bytes, dictionary_id: 0 }
}

fn record_opened(manifest: &Manifest, meta: &SegmentMeta) -> Result<()> {
    // The epoch tells uploads of one segment apart once a segment can be written twice.
    let opened = ManifestEvent::SegmentOpened { base_offset: meta.base_offset, epoch: 0 };
    manifest.record(meta.segment_id, meta.first_offset, opened).map(drop)
}

pub(crate) fn evict(manifest: &Manifest, segment: SegmentId, bytes: u64) -> Result<()> {
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
    manifest.record(segment, bytes, evicted).map(drop)
}

/// Whether a recorded seal is the file's: not if a repair changed the file.
fn seal_agrees(info: Option<&SealedInfo>, bytes: Option<u64>, crc: Option<u64>) -> bool {
    match (info, bytes) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(info), Some(bytes)) => {
            u64::from(info.durable_bytes) == bytes && Some(info.segment_crc64) == crc
        }
    }
}
