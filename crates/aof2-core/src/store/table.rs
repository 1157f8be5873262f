//! The segments of a stream, as its readers find them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::away::{AwayCopies, Residency, WindowCache};
use super::windows::fetch::WindowFetcher;
use super::windows::pieces;
use crate::error::{AofError, Damage, Result};
use crate::format::{SegmentFooter, SegmentFormat, SegmentId, StreamId};
use crate::io::{Keepable, Keeps, KeptPlace, LetGo, OpenLimit, Storage, is_used_up, make_map_room};
use crate::segment::{Artifact, Segment, SegmentMeta};

/// What a footer says, kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedInfo {
    /// Logical offsets the segment covers.
    pub record_count: u64,
    /// Bytes of header and records.
    pub durable_bytes: u32,
    /// Checksum over them.
    pub segment_crc64: u64,
    /// The user's identifier.
    pub ext_id: u64,
    /// Footer flags.
    pub flags: u64,
    /// Largest timestamp.
    pub last_timestamp_ms: u64,
    /// Whether this came from a footer, or from a scan because the footer is
    /// damaged.
    pub from_footer: bool,
}

impl From<&SegmentFooter> for SealedInfo {
    fn from(footer: &SegmentFooter) -> Self {
        Self {
            record_count: footer.record_count,
            durable_bytes: u32::try_from(footer.durable_bytes).unwrap_or(u32::MAX),
            segment_crc64: footer.segment_crc64,
            ext_id: footer.ext_id,
            flags: footer.flags,
            last_timestamp_ms: footer.last_timestamp_ms,
            from_footer: true,
        }
    }
}

/// One segment of the stream.
#[derive(Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) meta: SegmentMeta,
    pub(crate) path: PathBuf,
    sealed: OnceLock<SealedInfo>,
    /// Why the segment as a whole cannot be read.
    pub(crate) damage: Option<Damage>,
    /// Where its bytes are, and its map.
    copies: Mutex<Copies>,
    /// Its map's place among all that the process keeps open.
    place: KeptPlace,
    /// When its compressed file was made or brought back by this process, 0 if before.
    warm_since_ms: AtomicU64,
    /// When somebody last opened it, by [`USES`]: what was read longest ago leaves its
    /// tier first.
    last_read: AtomicU64,
    /// How often somebody read all of it while it was in another tier.
    scans: AtomicU64,
    /// Whether retention is removing its files.
    is_leaving: AtomicBool,
}

/// Openings of segments so far, of all streams: a clock for "longest ago".
static USES: AtomicU64 = AtomicU64::new(0);

/// The copies of a segment. Changed before a file is removed and after one is there, so
/// that whoever looks finds bytes.
#[derive(Debug, Default)]
struct Copies {
    /// Whether there is no segment file, or none to be read.
    is_evicted: bool,
    away: AwayCopies,
    /// The map of the segment file: the writer's own while unsealed, opened on demand
    /// afterwards. The table's hold on it, and a way to see whether readers hold it too.
    kept: Option<Arc<Segment>>,
    known: Weak<Segment>,
    /// The segment file read by windows, since there was no room to map it.
    pieces: Option<Arc<Artifact>>,
}

/// What a table keeps open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptOpen {
    pub(crate) maps: u64,
    pub(crate) files: u64,
}

/// How a segment can be read.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// Mapped as a whole.
    Whole(Arc<Segment>),
    /// By windows: it is in another tier, or there is no room to map it.
    Away(Arc<Artifact>),
}

impl SegmentEntry {
    pub(crate) fn sealed(meta: SegmentMeta, path: PathBuf, info: SealedInfo) -> Self {
        Self { sealed: OnceLock::from(info), ..Self::unmapped(meta, path) }
    }

    /// A segment that only other tiers hold. `path` is where its file would be.
    pub(crate) fn away(
        meta: SegmentMeta,
        path: PathBuf,
        info: SealedInfo,
        away: AwayCopies,
    ) -> Self {
        let entry = Self::sealed(meta, path, info);
        *entry.copies.lock() = Copies { is_evicted: true, away, ..Copies::default() };
        entry
    }

    /// A segment that is missing or beyond recognition; `info` covers the logical
    /// offsets that its neighbours leave for it.
    pub(crate) fn damaged(meta: SegmentMeta, path: PathBuf, info: SealedInfo, why: Damage) -> Self {
        Self { damage: Some(why), ..Self::sealed(meta, path, info) }
    }

    /// A segment without a footer that is not mapped yet.
    pub(crate) fn unmapped(meta: SegmentMeta, path: PathBuf) -> Self {
        Self {
            meta,
            path,
            sealed: OnceLock::new(),
            damage: None,
            copies: Mutex::default(),
            place: KeptPlace::default(),
            last_read: AtomicU64::new(0),
            warm_since_ms: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// A segment that is not in the log any more, and of which an object may be left.
    pub(crate) fn gone(segment_id: SegmentId, stream_id: StreamId) -> Self {
        let meta = SegmentMeta {
            stream_id,
            segment_id,
            format: SegmentFormat::Full,
            base_offset: 0,
            first_offset: 0,
            created_at_ns: 0,
            segment_bytes: 0,
        };
        Self::unmapped(meta, PathBuf::new())
    }

    pub(crate) fn unsealed(segment: Arc<Segment>) -> Self {
        let entry = Self::unmapped(*segment.meta(), segment.path().to_owned());
        *entry.copies.lock() =
            Copies { known: Arc::downgrade(&segment), kept: Some(segment), ..Copies::default() };
        entry
    }

    pub(crate) fn sealed_info(&self) -> Option<&SealedInfo> {
        self.sealed.get()
    }

    /// Bytes of header and records; 0 before it is final.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.sealed_info().map_or(0, |info| u64::from(info.durable_bytes))
    }

    /// First logical offset behind the segment, if it is final.
    pub(crate) fn end_offset(&self) -> Option<u64> {
        self.sealed_info().map(|info| self.meta.first_offset + info.record_count)
    }

    /// Records that the segment has its footer: new readers map it read-only.
    pub(crate) fn mark_sealed(&self, info: SealedInfo) {
        let _ = self.sealed.set(info);
        self.touch();
        self.copies.lock().kept = None;
    }

    /// Notes that it is in use.
    fn touch(&self) {
        let now = USES.fetch_add(1, Ordering::Relaxed) + 1;
        self.last_read.store(now, Ordering::Relaxed);
        self.place.touch();
    }

    pub(crate) fn mapped(&self) -> Option<Arc<Segment>> {
        self.copies.lock().kept.clone()
    }

    /// The nearest tier that holds it.
    pub(crate) fn residency(&self) -> Residency {
        let copies = self.copies.lock();
        match (copies.is_evicted, &copies.away) {
            (false, _) => Residency::Hot,
            (true, AwayCopies { warm: Some(_), .. }) => Residency::Warm,
            (true, _) => Residency::Cold,
        }
    }

    /// Whether it has a segment file.
    pub(crate) fn is_hot(&self) -> bool {
        !self.copies.lock().is_evicted
    }

    /// Its copies in other tiers.
    pub(crate) fn away_copies(&self) -> AwayCopies {
        self.copies.lock().away.clone()
    }

    /// Changes which copies in other tiers there are.
    pub(crate) fn set_away(&self, change: impl FnOnce(&mut AwayCopies)) {
        change(&mut self.copies.lock().away);
    }

    /// From now on it is read from another tier, if one holds it: its file is about to
    /// be removed. Whoever has it mapped keeps the map.
    pub(crate) fn leave_hot(&self) -> bool {
        let mut copies = self.copies.lock();
        if copies.away.is_empty() {
            return false;
        }
        copies.is_evicted = true;
        copies.kept = None;
        copies.pieces = None;
        true
    }

    /// [`SegmentEntry::leave_hot`] for a damaged file: nobody gets its map any more.
    pub(crate) fn leave_damaged(&self) -> bool {
        let has_left = self.leave_hot();
        if has_left {
            self.copies.lock().known = Weak::new();
        }
        has_left
    }

    /// Its file is there again.
    pub(crate) fn enter_hot(&self) {
        self.touch();
        self.copies.lock().is_evicted = false;
    }

    /// When its compressed file was made or brought back, as far as this process knows.
    pub(crate) fn warm_since_ms(&self) -> u64 {
        self.warm_since_ms.load(Ordering::Relaxed)
    }

    /// Its compressed file is there from now on.
    pub(crate) fn enter_warm(&self, warm: Arc<Artifact>, now_ms: u64) {
        self.warm_since_ms.store(now_ms, Ordering::Relaxed);
        self.copies.lock().away.warm = Some(warm);
    }

    /// When it was last opened or sealed; only the order means something.
    pub(crate) fn last_read(&self) -> u64 {
        self.last_read.load(Ordering::Relaxed)
    }

    /// Somebody read all of it while it was in another tier. Returns how often that was.
    pub(crate) fn note_scanned(&self) -> u64 {
        self.scans.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Maps and descriptors that the table keeps for it.
    fn kept_open(&self) -> KeptOpen {
        let copies = self.copies.lock();
        let sources = [&copies.away.warm, &copies.pieces].into_iter().flatten();
        KeptOpen {
            maps: u64::from(copies.kept.is_some()),
            files: sources.filter(|artifact| artifact.source().is_open()).count() as u64,
        }
    }

    /// Whether somebody besides the table reads it right now.
    pub(crate) fn is_held(&self) -> bool {
        let copies = self.copies.lock();
        copies.known.strong_count() > usize::from(copies.kept.is_some())
    }

    fn map_file(&self, storage: &dyn Storage) -> Result<Segment> {
        match self.sealed_info() {
            Some(info) => Segment::open_sealed(storage, &self.path, self.meta, info.durable_bytes),
            None => Segment::open_unsealed(storage, &self.path, self.meta),
        }
    }

    /// Maps the file, or finds out how to read it by windows if that is allowed and the
    /// process has no addresses left for it. Only a sealed one can be read like that.
    fn open_file(
        &self,
        storage: &dyn Storage,
        copies: &mut Copies,
        by_windows: bool,
    ) -> Result<Opened> {
        if let Some(segment) = copies.known.upgrade() {
            return Ok(Opened::Whole(segment));
        }
        let Some(info) = self.sealed_info().filter(|_| by_windows) else {
            return Ok(Opened::Whole(Arc::new(self.map_file(storage)?)));
        };
        if make_map_room(info.durable_bytes as usize) {
            match self.map_file(storage) {
                Err(error) if is_map_refused(&error) => {}
                mapped => return Ok(Opened::Whole(Arc::new(mapped?))),
            }
        }
        if copies.pieces.is_none() {
            copies.pieces = Some(Arc::new(pieces::open(storage, self, info)?));
        }
        copies.pieces.clone().map(Opened::Away).ok_or(AofError::NoSuchSegment(self.meta.segment_id))
    }

    /// Its files are about to be removed by retention: whoever finds them gone from now on
    /// is told so.
    pub(super) fn note_leaving(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    /// A file that is gone because the segment leaves the log.
    fn explain_missing(&self, error: AofError) -> AofError {
        let is_leaving = self.is_leaving.load(Ordering::Acquire);
        match self.end_offset().filter(|_| is_leaving && error.is_file_gone()) {
            Some(earliest) => AofError::Trimmed { earliest },
            None => error,
        }
    }

    /// Whether its file should be there and is not. Nothing else is looked at.
    pub(crate) fn is_file_missing(&self, storage: &dyn Storage) -> bool {
        let copies = self.copies.lock();
        !copies.is_evicted
            && copies.known.strong_count() == 0
            && matches!(storage.exists(&self.path), Ok(false))
    }

    /// The damage if its file is gone: all records up to `end`.
    pub(crate) fn file_missing(&self, end: u64) -> AofError {
        let first = self.meta.first_offset;
        AofError::Corrupt(Box::new(Damage {
            path: self.path.clone(),
            offset: 0,
            records: first..end.max(first),
            reason: "the file of the segment is missing".into(),
        }))
    }

    /// Lets go of the map of a sealed segment.
    fn forget_map(&self) {
        if self.sealed_info().is_some() {
            self.copies.lock().kept = None;
        }
    }
}

fn is_map_refused(error: &AofError) -> bool {
    error.io_source().is_some_and(|e| is_used_up(e, Keeps::Map))
}

/// Only sealed segments are kept like this: others are mapped as long as they are written.
impl Keepable for SegmentEntry {
    fn keeps(&self) -> Keeps {
        Keeps::Map
    }

    fn place(&self) -> &KeptPlace {
        &self.place
    }

    fn let_go(&self) -> LetGo {
        let Some(mut copies) = self.copies.try_lock() else { return LetGo::InUse };
        match copies.kept.take() {
            Some(segment) => LetGo::Closed(Box::new(segment)),
            None => LetGo::WasClosed,
        }
    }
}

/// All segments, oldest first. Locks are held for lookups only, never across I/O
/// (opening a map aside, which only its own entry waits for).
#[derive(Debug)]
pub(crate) struct SegmentTable {
    entries: RwLock<VecDeque<Arc<SegmentEntry>>>,
    /// Entries with an open map, oldest opening first.
    open: Mutex<VecDeque<Weak<SegmentEntry>>>,
    open_max: usize,
    windows: Arc<WindowCache>,
    fetcher: Arc<WindowFetcher>,
    /// Logical offset below which everything was trimmed, when no segment is left
    /// to tell.
    floor: RwLock<u64>,
}

impl SegmentTable {
    pub(crate) fn new(open_max: usize) -> Self {
        let windows = Arc::new(WindowCache::default());
        Self {
            fetcher: WindowFetcher::new(Arc::clone(&windows)),
            entries: RwLock::default(),
            open: Mutex::default(),
            open_max,
            windows,
            floor: RwLock::new(0),
        }
    }

    pub(crate) fn push(&self, entry: SegmentEntry) {
        self.entries.write().push_back(Arc::new(entry));
    }

    /// Replaces everything by `kept` and `new`; an unsealed entry that is still
    /// unsealed keeps its map.
    pub(crate) fn replace(&self, kept: Vec<Arc<SegmentEntry>>, new: Vec<SegmentEntry>) {
        let mut entries = self.entries.write();
        let mut merged: VecDeque<_> = kept.into();
        for entry in new {
            let index = entry.meta.segment_id.as_u32();
            let same = find_in(&entries, index).filter(|known| {
                known.path == entry.path
                    && known.sealed_info().is_none()
                    && entry.sealed_info().is_none()
            });
            merged.push_back(same.map_or_else(|| Arc::new(entry), Arc::clone));
        }
        *entries = merged;
    }

    pub(crate) fn find(&self, segment_index: u32) -> Option<Arc<SegmentEntry>> {
        find_in(&self.entries.read(), segment_index).cloned()
    }

    /// First entry whose id is larger.
    pub(crate) fn after(&self, segment_index: u32) -> Option<Arc<SegmentEntry>> {
        let entries = self.entries.read();
        let at = entries.partition_point(|e| e.meta.segment_id.as_u32() <= segment_index);
        entries.get(at).cloned()
    }

    /// The segment that would hold this logical offset: the last that starts at or
    /// before it.
    pub(crate) fn find_offset(&self, offset: u64) -> Option<Arc<SegmentEntry>> {
        let entries = self.entries.read();
        let at = entries.partition_point(|e| e.meta.first_offset <= offset);
        at.checked_sub(1).and_then(|i| entries.get(i)).cloned()
    }

    pub(crate) fn first(&self) -> Option<Arc<SegmentEntry>> {
        self.entries.read().front().cloned()
    }

    pub(crate) fn last(&self) -> Option<Arc<SegmentEntry>> {
        self.entries.read().back().cloned()
    }

    pub(crate) fn snapshot(&self) -> Vec<Arc<SegmentEntry>> {
        self.entries.read().iter().cloned().collect()
    }

    /// What is kept open of all segments, those being written included.
    pub(crate) fn kept_open(&self) -> KeptOpen {
        self.entries.read().iter().fold(KeptOpen::default(), |sum, entry| {
            let of_entry = entry.kept_open();
            KeptOpen { maps: sum.maps + of_entry.maps, files: sum.files + of_entry.files }
        })
    }

    /// First logical offset that still exists.
    pub(crate) fn earliest(&self) -> u64 {
        self.first().map_or_else(|| *self.floor.read(), |e| e.meta.first_offset)
    }

    pub(crate) fn set_floor(&self, offset: u64) {
        *self.floor.write() = offset;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.read().len()
    }

    /// Forgets the newest segment, if it is this one.
    pub(crate) fn remove_last(&self, segment_index: u32) {
        let mut entries = self.entries.write();
        if entries.back().is_some_and(|e| e.meta.segment_id.as_u32() == segment_index) {
            entries.pop_back();
        }
    }

    /// Forgets the oldest segment, if it is this one.
    pub(crate) fn remove_first(&self, segment_index: u32) {
        let mut entries = self.entries.write();
        if entries.front().is_some_and(|e| e.meta.segment_id.as_u32() == segment_index) {
            entries.pop_front();
        }
    }

    /// The segment's map, opened if need be. Opening one too many of this log lets go of
    /// the one opened longest ago, one too many of the process of the one that was not used
    /// for longest; whoever reads it keeps it alive.
    pub(crate) fn open(&self, storage: &dyn Storage, entry: &Arc<SegmentEntry>) -> Result<Opened> {
        self.open_copy(storage, entry, true)
    }

    fn open_copy(
        &self,
        storage: &dyn Storage,
        entry: &Arc<SegmentEntry>,
        by_windows: bool,
    ) -> Result<Opened> {
        if let Some(damage) = &entry.damage {
            return Err(AofError::Corrupt(Box::new(damage.clone())));
        }
        entry.touch();
        let mut copies = entry.copies.lock();
        if let Some(segment) = &copies.kept {
            return Ok(Opened::Whole(Arc::clone(segment)));
        }
        if copies.is_evicted
            && let Some(artifact) = copies.away.nearest()
        {
            return Ok(Opened::Away(Arc::clone(artifact)));
        }
        let opened = entry.open_file(storage, &mut copies, by_windows);
        let opened = opened.map_err(|error| entry.explain_missing(error))?;
        let Opened::Whole(segment) = &opened else { return Ok(opened) };
        copies.known = Arc::downgrade(segment);
        copies.kept = Some(Arc::clone(segment));
        copies.pieces = None;
        drop(copies);
        self.note_opened(entry);
        Ok(opened)
    }

    /// The map of a segment that is certainly not in another tier.
    pub(crate) fn open_whole(
        &self,
        storage: &dyn Storage,
        entry: &Arc<SegmentEntry>,
    ) -> Result<Arc<Segment>> {
        match self.open_copy(storage, entry, false)? {
            Opened::Whole(segment) => Ok(segment),
            Opened::Away(_) => Err(AofError::Trimmed { earliest: self.earliest() }),
        }
    }

    /// One window of an artifact, from the cache if it was read lately.
    pub(crate) fn window(&self, artifact: &Artifact, frame: usize) -> Result<Arc<Segment>> {
        let segment_index = artifact.meta().segment_id.as_u32();
        if let Some(window) = self.kept_window(artifact, frame) {
            return Ok(window);
        }
        let window = artifact.windows(frame..frame + 1)?.into_iter().next().map(Arc::new);
        let window = window.ok_or(AofError::NoSuchRecord(artifact.meta().record_id(0)))?;
        self.windows.put(segment_index, frame, Arc::clone(&window));
        Ok(window)
    }

    /// A window that was read lately. One of a copy that was compressed differently is
    /// none of this artifact's.
    pub(crate) fn kept_window(&self, artifact: &Artifact, frame: usize) -> Option<Arc<Segment>> {
        let place = artifact.index().frames.get(frame)?;
        let window = self.windows.get(artifact.meta().segment_id.as_u32(), frame)?;
        let range = window.window_range();
        ((range.start, range.end - range.start) == (place.position, place.len)).then_some(window)
    }

    /// Has a window read in the background. The error is that of the last try.
    pub(crate) fn fetch_window(&self, artifact: &Arc<Artifact>, frame: usize) -> Result<()> {
        self.fetcher.ask(artifact, frame)
    }

    /// Forgets what was kept of a segment's windows.
    pub(crate) fn forget_windows(&self, segment_index: u32) {
        self.windows.forget(segment_index);
    }

    fn note_opened(&self, entry: &Arc<SegmentEntry>) {
        let evicted = {
            let mut open = self.open.lock();
            open.push_back(Arc::downgrade(entry));
            if open.len() > self.open_max { open.pop_front() } else { None }
        };
        if let Some(entry) = evicted.and_then(|weak| weak.upgrade()) {
            entry.forget_map();
        }
        if entry.sealed_info().is_some() {
            OpenLimit::process().keep(entry);
        }
    }
}

fn find_in(
    entries: &VecDeque<Arc<SegmentEntry>>,
    segment_index: u32,
) -> Option<&Arc<SegmentEntry>> {
    // Ids are consecutive unless a file is missing, so the guess is nearly always right.
    let first = entries.front()?.meta.segment_id.as_u32();
    let guess = segment_index.checked_sub(first)? as usize;
    if let Some(entry) = entries.get(guess)
        && entry.meta.segment_id.as_u32() == segment_index
    {
        return Some(entry);
    }
    entries
        .binary_search_by_key(&segment_index, |e| e.meta.segment_id.as_u32())
        .ok()
        .and_then(|i| entries.get(i))
}

/// What a user sees of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub segment_id: u64,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// Records in it; for the active segment those appended so far.
    pub record_count: u64,
    /// Bytes of header and records.
    pub used_bytes: u64,
    /// Length of the file.
    pub segment_bytes: u64,
    /// Stream bytes before it.
    pub base_offset: u64,
    /// When it became active, nanoseconds since the epoch.
    pub created_at_ns: u64,
    /// Largest timestamp of its records, once sealed.
    pub last_timestamp_ms: Option<u64>,
    /// The user's identifier, once sealed.
    pub ext_id: Option<u64>,
    /// Whether it has its footer.
    pub is_sealed: bool,
    /// Its file; where it would be, if another tier holds the segment.
    pub path: PathBuf,
    /// The nearest tier that holds it.
    pub residency: Residency,
    /// Bytes of its compressed copy on the local disk, if there is one.
    pub warm_bytes: Option<u64>,
    /// Bytes of its copy in the object store, if there is one.
    pub cold_bytes: Option<u64>,
    /// What was found wrong with it when the log was opened.
    pub damage: Option<Damage>,
}

impl SegmentInfo {
    pub(crate) fn of(entry: &SegmentEntry, next_offset: u64, end: u32) -> Self {
        let meta = &entry.meta;
        let sealed = entry.sealed_info();
        let away = entry.away_copies();
        let bytes = |copy: Option<Arc<Artifact>>| copy.map(|a| a.index().artifact_len());
        Self {
            segment_id: meta.segment_id.as_u64(),
            first_offset: meta.first_offset,
            record_count: sealed
                .map_or(next_offset.saturating_sub(meta.first_offset), |s| s.record_count),
            used_bytes: sealed.map_or(u64::from(end), |s| u64::from(s.durable_bytes)),
            segment_bytes: u64::from(meta.segment_bytes),
            base_offset: meta.base_offset,
            created_at_ns: meta.created_at_ns,
            last_timestamp_ms: sealed.map(|s| s.last_timestamp_ms),
            ext_id: sealed.map(|s| s.ext_id),
            is_sealed: sealed.is_some(),
            path: entry.path.clone(),
            residency: entry.residency(),
            warm_bytes: bytes(away.warm),
            cold_bytes: bytes(away.cold),
            damage: entry.damage.clone(),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
