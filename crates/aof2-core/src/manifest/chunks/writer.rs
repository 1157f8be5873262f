//! Chunks in order: append, commit, rotate, and going on after any restart.
//!
//! One thread at a time uses a writer; `handle` sees to that. A record is *appended*
//! when it is staged in memory and *committed* when it is on disk. Only what is
//! committed survives anything, so nothing else is promised.
//!
//! A write or sync that fails while records are made durable *poisons* the writer: what
//! is on disk is unknown, and a second sync of the same pages may report success
//! without having written them. From then on every append and commit fails; opening the
//! manifest again recovers. A chunk that cannot be created (a full disk) does not
//! poison: its records stay with the caller.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::active;
use super::active::{ActiveChunk, ChunkInfo};
use super::committed::{Chunk, read_header};
use super::damage::Spot;
use super::layout::ManifestLayout;
use super::position::ManifestPosition;
use crate::error::{AofError, Result};
use crate::format::manifest::{ChunkFlags, ManifestEvent, ManifestRecord, StoredChunkName};
use crate::io::{OpenMode, Storage};
use crate::planted;
use crate::planted::ManifestBug;

/// A chunk with less space than this is full: every event with a key of usual length
/// fits.
const SPACE_MIN: u64 = 512;

/// What opening found and reconciled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Bytes of an uncommitted tail that were trimmed.
    pub trimmed_bytes: u64,
    /// Whether the newest chunk's header had been torn by a crash.
    pub was_torn: bool,
}

/// Writes the chunks of one manifest.
#[derive(Debug)]
pub struct ManifestWriter {
    storage: Arc<dyn Storage>,
    layout: ManifestLayout,
    chunk_bytes: u64,
    active: Option<ActiveChunk>,
    /// The unbroken run of sealed chunks on disk, oldest first.
    sealed: VecDeque<ChunkInfo>,
    /// Chunks before a hole, see [`ManifestListing::run`](crate::manifest::ManifestListing::run).
    strays: Vec<u64>,
    next_chunk: u64,
    next_record: u64,
    committed: u64,
    seal_count: u64,
    poison: Option<Arc<str>>,
    reconciled: Reconciled,
}

impl ManifestWriter {
    /// Opens what is there, trims what was never committed, and continues behind it.
    /// The caller holds the writer lock and the directory exists.
    pub fn open(
        storage: Arc<dyn Storage>,
        layout: ManifestLayout,
        chunk_bytes: u64,
    ) -> Result<Self> {
        let listing = layout.list(&*storage)?;
        for name in &listing.temporaries {
            let path = layout.dir().join(name);
            storage.remove(&path).map_err(AofError::io("remove", &path))?;
        }
        let mut writer = Self {
            storage,
            layout,
            chunk_bytes,
            active: None,
            sealed: VecDeque::new(),
            strays: listing.strays().to_vec(),
            next_chunk: 0,
            next_record: 0,
            committed: 0,
            seal_count: 0,
            poison: None,
            reconciled: Reconciled::default(),
        };
        if let Some((&newest, older)) = listing.run().split_last() {
            for &chunk_index in older {
                writer.note_sealed(chunk_index)?;
            }
            writer.adopt(newest)?;
        }
        Ok(writer)
    }

    /// Takes over a chunk that must be sealed, by its header alone: replay and readers
    /// verify its records.
    fn note_sealed(&mut self, chunk_index: u64) -> Result<()> {
        let path = self.layout.chunk_path(chunk_index);
        let file = self.storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
        let header = read_header(&*file, &path, chunk_index)?;
        let is_sealed = header.flags.contains(ChunkFlags::SEALED);
        let broken = |offset, reason: &str| {
            let records = header.base_record..u64::MAX;
            let spot = Spot { path: &path, chunk_index, segment_id: None, offset, records };
            Err(spot.corrupt(reason))
        };
        if !is_sealed {
            return broken(56, "it is not sealed although another chunk follows");
        }
        self.follow(chunk_index, header.base_record, || {
            broken(24, "its first record does not follow")
        })?;
        self.sealed.push_back(ChunkInfo {
            chunk_index,
            base_record: header.base_record,
            record_count: 0,
            committed_len: header.committed_len,
            chunk_crc64: header.chunk_crc64,
            is_uploaded: header.flags.contains(ChunkFlags::UPLOADED),
        });
        Ok(())
    }

    /// A chunk starts behind the one before it, and chunk 0 with record 0; so the count
    /// of the one before is known.
    fn follow(
        &mut self,
        chunk_index: u64,
        base_record: u64,
        broken: impl Fn() -> Result<()>,
    ) -> Result<()> {
        match self.sealed.back_mut() {
            Some(before) if base_record > before.base_record => {
                before.record_count = base_record - before.base_record;
                Ok(())
            }
            Some(_) => broken(),
            None if chunk_index == 0 && base_record != 0 => broken(),
            None => Ok(()),
        }
    }

    /// Takes over the newest chunk. Only here can a crash have left anything to reconcile.
    fn adopt(&mut self, chunk_index: u64) -> Result<()> {
        let chunk = Chunk::load(&*self.storage, &self.layout, chunk_index, false, Vec::new())?;
        let base_record = chunk.header().base_record;
        let path = chunk.path().to_owned();
        self.follow(chunk_index, base_record, || {
            let records = base_record..u64::MAX;
            let spot = Spot { path: &path, chunk_index, segment_id: None, offset: 24, records };
            Err(spot.corrupt("its first record does not follow"))
        })?;
        let (mut record_count, mut has_news) = (0, false);
        for placed in chunk.records() {
            let placed = placed?;
            record_count += 1;
            has_news |= is_news(&placed.record);
        }
        self.reconciled =
            Reconciled { trimmed_bytes: chunk.uncommitted_len(), was_torn: chunk.was_torn() };
        self.next_chunk = chunk_index + 1;
        self.next_record = base_record + record_count;
        self.committed = self.next_record;
        if chunk.is_sealed() {
            return self.adopt_sealed(&chunk, record_count);
        }
        let mut active = ActiveChunk::reopen(
            &*self.storage,
            &self.layout,
            &chunk,
            record_count,
            self.chunk_bytes,
        )?;
        active.has_news = has_news;
        self.active = Some(active);
        Ok(())
    }

    /// The seal may be in the page cache only: it is written again before a chunk can
    /// follow that relies on it.
    fn adopt_sealed(&mut self, chunk: &Chunk, record_count: u64) -> Result<()> {
        let header = chunk.header();
        active::mark(&*self.storage, &self.layout, header.chunk_index, header.flags)?;
        self.sealed.push_back(ChunkInfo {
            chunk_index: header.chunk_index,
            base_record: header.base_record,
            record_count,
            committed_len: header.committed_len,
            chunk_crc64: header.chunk_crc64,
            is_uploaded: chunk.is_uploaded(),
        });
        Ok(())
    }

    /// Appends a record; it is committed by the next [`ManifestWriter::commit`]. A chunk
    /// that has no space for it is sealed first.
    pub fn append(&mut self, record: &ManifestRecord<'_>) -> Result<u64> {
        let mut bytes = Vec::with_capacity(record.encoded_len());
        record
            .encode(&mut bytes)
            .map_err(|error| AofError::InvalidRecord { reason: error.to_string() })?;
        self.append_encoded(&bytes, is_news(record))
    }

    /// Appends a record that is encoded already.
    pub(in crate::manifest) fn append_encoded(
        &mut self,
        record: &[u8],
        is_news: bool,
    ) -> Result<u64> {
        self.check()?;
        let len = record.len() as u64;
        if self.active.as_ref().is_some_and(|active| active.space() < len) {
            self.rotate()?;
        }
        let active = match &mut self.active {
            Some(active) => active,
            empty => empty.insert(ActiveChunk::create(
                &*self.storage,
                &self.layout,
                self.next_chunk,
                self.next_record,
                active::capacity_for(self.chunk_bytes, len),
            )?),
        };
        self.next_chunk = active.index() + 1;
        active.append(record);
        active.has_news |= is_news;
        let ordinal = self.next_record;
        self.next_record += 1;
        Ok(ordinal)
    }

    /// Makes everything appended durable.
    pub fn commit(&mut self) -> Result<()> {
        self.check()?;
        let Some(active) = &mut self.active else { return Ok(()) };
        if active.has_staged() {
            let file = active.open(&*self.storage)?;
            let committed = active.commit(&*file, &*self.storage, &self.layout);
            self.or_poison("commit", committed)?;
        }
        self.committed = self.next_record;
        Ok(())
    }

    /// Whether the active chunk is full: one more record of usual length may not fit.
    pub fn needs_rotation(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.space() < SPACE_MIN)
    }

    /// Commits and seals the active chunk; the next append starts another. A chunk
    /// without records does not exist, so there may be nothing to seal.
    pub fn rotate(&mut self) -> Result<Option<ChunkInfo>> {
        self.check()?;
        let Some(active) = &mut self.active else { return Ok(None) };
        let file = active.open(&*self.storage)?;
        let sealed = active.seal(&*file, &*self.storage, &self.layout);
        let info = self.or_poison("seal", sealed)?;
        self.committed = self.next_record;
        self.active = None;
        self.sealed.push_back(info);
        self.seal_count += 1;
        Ok(Some(info))
    }

    /// Chunks sealed by this writer.
    pub fn seal_count(&self) -> u64 {
        self.seal_count
    }

    /// Forgets that a chunk was uploaded: the store does not have it.
    pub(in crate::manifest) fn forget_upload(&mut self, chunk_index: u64) {
        if let Some(info) = self.sealed.iter_mut().find(|info| info.chunk_index == chunk_index) {
            info.is_uploaded = false;
        }
    }

    /// The same for all that the store does not have.
    pub(in crate::manifest) fn forget_uploads_but(&mut self, stored: &BTreeSet<u64>) {
        let missing = |info: &&mut ChunkInfo| !stored.contains(&info.chunk_index);
        self.sealed.iter_mut().filter(missing).for_each(|info| info.is_uploaded = false);
    }

    /// Marks a sealed chunk as uploaded.
    pub fn mark_uploaded(&mut self, chunk_index: u64) -> Result<()> {
        self.check()?;
        let Some(info) = self.sealed.iter_mut().find(|info| info.chunk_index == chunk_index) else {
            return Ok(());
        };
        info.is_uploaded = true;
        let flags = ChunkFlags::SEALED.union(ChunkFlags::UPLOADED);
        let marked = active::mark(&*self.storage, &self.layout, chunk_index, flags);
        self.or_poison("mark as uploaded", marked)
    }

    /// Removes the oldest chunk and makes that durable: a power cut must not bring it
    /// back behind a younger one that is gone.
    pub(in crate::manifest) fn remove_oldest(&mut self) -> Result<Option<ChunkInfo>> {
        self.check()?;
        let Some(info) = self.sealed.front().copied() else { return Ok(None) };
        self.remove_file(info.chunk_index)?;
        self.sealed.pop_front();
        Ok(Some(info))
    }

    /// Removes chunks before a hole that a power cut brought back.
    pub(in crate::manifest) fn remove_strays(&mut self) -> Result<u64> {
        self.check()?;
        let mut removed = 0;
        while let Some(&chunk_index) = self.strays.first() {
            self.remove_file(chunk_index)?;
            self.strays.remove(0);
            removed += 1;
        }
        Ok(removed)
    }

    fn remove_file(&mut self, chunk_index: u64) -> Result<()> {
        let path = self.layout.chunk_path(chunk_index);
        self.storage.remove(&path).map_err(AofError::io("remove", &path))?;
        if planted::has(ManifestBug::RemoveWithoutSync) {
            return Ok(());
        }
        let dir = self.layout.dir();
        let synced = self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir));
        self.or_poison("remove", synced)
    }

    /// Gives the unused end of the active chunk back: it is written afresh when the
    /// manifest is opened again.
    pub(in crate::manifest) fn give_back_unused(&self) {
        if let Some(active) = &self.active
            && let Ok(file) = active.open(&*self.storage)
        {
            active.give_back_unused(&*file);
        }
    }

    /// Records below this ordinal are committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Ordinal that the next record gets.
    pub fn next_record(&self) -> u64 {
        self.next_record
    }

    /// Where the next record will stand, if it fits. With no chunk to write into it is
    /// the end of the newest one.
    pub fn end(&self) -> ManifestPosition {
        match (&self.active, self.sealed.back()) {
            (Some(active), _) => {
                ManifestPosition { chunk_index: active.index(), chunk_offset: active.tail_offset() }
            }
            (None, Some(info)) => {
                ManifestPosition { chunk_index: info.chunk_index, chunk_offset: info.committed_len }
            }
            (None, None) => ManifestPosition::start_of(self.next_chunk),
        }
    }

    /// Sealed chunks on disk, oldest first.
    pub fn sealed(&self) -> impl DoubleEndedIterator<Item = &ChunkInfo> + ExactSizeIterator {
        self.sealed.iter()
    }

    /// Chunks before a hole.
    pub(in crate::manifest) fn strays(&self) -> &[u64] {
        &self.strays
    }

    /// Chunk files on disk, the one being written included.
    pub fn chunk_count(&self) -> u64 {
        self.sealed.len() as u64 + u64::from(self.active.is_some())
    }

    /// Whether records wait for a commit.
    pub fn has_staged(&self) -> bool {
        self.active.as_ref().is_some_and(ActiveChunk::has_staged)
    }

    /// Whether the active chunk holds records that somebody else may wait for. A chunk
    /// of nothing but notes about uploads and snapshots is not sealed by a timer:
    /// uploading it would only make the next such chunk.
    pub(in crate::manifest) fn has_news(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.has_news)
    }

    /// Records in the active chunk.
    pub fn active_records(&self) -> u64 {
        self.active.as_ref().map_or(0, ActiveChunk::record_count)
    }

    /// What opening reconciled.
    pub fn reconciled(&self) -> Reconciled {
        self.reconciled
    }

    /// Why nothing more is written, after a failure.
    pub fn poison(&self) -> Option<&Arc<str>> {
        self.poison.as_ref()
    }

    fn check(&self) -> Result<()> {
        match &self.poison {
            Some(reason) => Err(AofError::Poisoned { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }

    fn or_poison<T>(&mut self, what: &str, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let reason: Arc<str> = format!("{what} of a manifest chunk: {error}").into();
            self.poison = Some(Arc::clone(&reason));
            AofError::Poisoned { reason }
        })
    }
}

/// Whether a record says something about the stream, and not about the manifest itself.
pub(in crate::manifest) fn is_news(record: &ManifestRecord<'_>) -> bool {
    match record.event {
        ManifestEvent::SnapshotMarker { .. } => false,
        ManifestEvent::UploadStarted { key }
        | ManifestEvent::UploadDone { key, .. }
        | ManifestEvent::UploadFailed { key, .. } => StoredChunkName::parse(key).is_none(),
        _ => true,
    }
}
