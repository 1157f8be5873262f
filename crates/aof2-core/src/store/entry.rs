//! One segment of the table: what it is, and where its bytes are.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::copy::{Copies, Residency};
use super::info::SealedInfo;
use super::windows::pieces;
use crate::error::{AofError, Damage, Result};
use crate::format::{SegmentFormat, SegmentId, StreamId};
use crate::io::{Keepable, Keeps, KeptPlace, LetGo, Storage, is_used_up, make_map_space};
use crate::segment::{Artifact, Segment, SegmentMeta};

/// One segment of the stream.
#[derive(Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) meta: SegmentMeta,
    pub(crate) path: PathBuf,
    sealed: OnceLock<SealedInfo>,
    /// Why the segment as a whole cannot be read.
    pub(crate) damage: Option<Damage>,
    /// Whether it is another log's, and only the part up to `durable_bytes` is read.
    is_cut: bool,
    bytes: Mutex<Bytes>,
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

/// Where the bytes of a segment are. Changed before a file is removed and after one is
/// there, so that whoever looks finds bytes.
#[derive(Debug, Default)]
struct Bytes {
    copies: Copies,
    /// The map of the segment file: the writer's own while unsealed, opened on demand
    /// afterwards. The table's hold on it, and a way to see whether readers hold it too.
    kept: Option<Arc<Segment>>,
    known: Weak<Segment>,
    /// The segment file read by windows, since there were no addresses to map it.
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
    /// By windows: it is in another tier, or there are no addresses to map it.
    ByWindows(Arc<Artifact>),
}

impl SegmentEntry {
    /// A sealed segment. `path` is where its file is, or would be if only other tiers hold
    /// it.
    pub(crate) fn sealed(
        meta: SegmentMeta,
        path: PathBuf,
        info: SealedInfo,
        copies: Copies,
    ) -> Self {
        let bytes = Mutex::new(Bytes { copies, ..Bytes::default() });
        Self { sealed: OnceLock::from(info), bytes, ..Self::unmapped(meta, path) }
    }

    /// A segment that is missing or beyond recognition; `info` covers the logical
    /// offsets that its neighbours leave for it.
    pub(crate) fn damaged(meta: SegmentMeta, path: PathBuf, info: SealedInfo, why: Damage) -> Self {
        Self { damage: Some(why), ..Self::sealed(meta, path, info, Copies::hot()) }
    }

    /// Of a segment of another log: what follows its `durable_bytes` is not read.
    pub(super) fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }

    /// Where it is cut, if it is.
    pub(crate) fn cut_end(&self) -> Option<u32> {
        self.sealed_info().filter(|_| self.is_cut).map(|info| info.durable_bytes)
    }

    /// Whether it is cut at or before this position.
    pub(crate) fn is_cut_before(&self, position: u32) -> bool {
        self.cut_end().is_some_and(|end| end <= position)
    }

    /// A segment without a footer that is not mapped yet.
    pub(crate) fn unmapped(meta: SegmentMeta, path: PathBuf) -> Self {
        Self {
            meta,
            path,
            sealed: OnceLock::new(),
            damage: None,
            is_cut: false,
            bytes: Mutex::new(Bytes { copies: Copies::hot(), ..Bytes::default() }),
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
        {
            let mut bytes = entry.bytes.lock();
            bytes.known = Arc::downgrade(&segment);
            bytes.kept = Some(segment);
        }
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
        self.bytes.lock().kept = None;
    }

    /// Notes that it is in use.
    pub(super) fn touch(&self) {
        let now = USES.fetch_add(1, Ordering::Relaxed) + 1;
        self.last_read.store(now, Ordering::Relaxed);
        self.place.touch();
    }

    pub(crate) fn mapped(&self) -> Option<Arc<Segment>> {
        self.bytes.lock().kept.clone()
    }

    /// Its copies now.
    pub(crate) fn copies(&self) -> Copies {
        self.bytes.lock().copies.clone()
    }

    /// The nearest tier that holds it.
    pub(crate) fn residency(&self) -> Residency {
        self.bytes.lock().copies.nearest()
    }

    /// Whether it has a segment file.
    pub(crate) fn is_hot(&self) -> bool {
        self.bytes.lock().copies.is_hot
    }

    /// Changes which compressed copies there are.
    pub(super) fn set_copies(&self, change: impl FnOnce(&mut Copies)) {
        change(&mut self.bytes.lock().copies);
    }

    /// From now on it is read from another tier, if one holds it: its file is about to
    /// be removed. Whoever has it mapped keeps the map.
    pub(super) fn leave_hot(&self) -> bool {
        let mut bytes = self.bytes.lock();
        if !bytes.copies.is_beside(Residency::Hot) {
            return false;
        }
        bytes.copies.is_hot = false;
        bytes.kept = None;
        bytes.pieces = None;
        true
    }

    /// [`SegmentEntry::leave_hot`] for a damaged file: nobody gets its map any more.
    pub(super) fn leave_damaged(&self) -> bool {
        let has_left = self.leave_hot();
        if has_left {
            self.bytes.lock().known = Weak::new();
        }
        has_left
    }

    /// Its file is there again.
    pub(super) fn enter_hot(&self) {
        self.touch();
        self.bytes.lock().copies.is_hot = true;
    }

    /// When its compressed file was made or brought back, as far as this process knows.
    pub(crate) fn warm_since_ms(&self) -> u64 {
        self.warm_since_ms.load(Ordering::Relaxed)
    }

    /// Its compressed file is there from now on.
    pub(super) fn enter_warm(&self, warm: Arc<Artifact>, now_ms: u64) {
        self.warm_since_ms.store(now_ms, Ordering::Relaxed);
        self.bytes.lock().copies.warm = Some(warm);
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
    pub(super) fn kept_open(&self) -> KeptOpen {
        let bytes = self.bytes.lock();
        let sources = [&bytes.copies.warm, &bytes.pieces].into_iter().flatten();
        KeptOpen {
            maps: u64::from(bytes.kept.is_some()),
            files: sources.filter(|artifact| artifact.source().is_open()).count() as u64,
        }
    }

    /// Whether somebody besides the table reads it right now.
    pub(crate) fn is_held(&self) -> bool {
        let bytes = self.bytes.lock();
        bytes.known.strong_count() > usize::from(bytes.kept.is_some())
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
        bytes: &mut Bytes,
        by_windows: bool,
    ) -> Result<Opened> {
        if let Some(segment) = bytes.known.upgrade() {
            return Ok(Opened::Whole(segment));
        }
        let Some(info) = self.sealed_info().filter(|_| by_windows) else {
            return Ok(Opened::Whole(Arc::new(self.map_file(storage)?)));
        };
        if make_map_space(info.durable_bytes as usize) {
            match self.map_file(storage) {
                Err(error) if is_map_refused(&error) => {}
                mapped => return Ok(Opened::Whole(Arc::new(mapped?))),
            }
        }
        if bytes.pieces.is_none() {
            bytes.pieces = Some(Arc::new(pieces::open(storage, self, info)?));
        }
        bytes
            .pieces
            .clone()
            .map(Opened::ByWindows)
            .ok_or(AofError::NoSuchSegment(self.meta.segment_id))
    }

    /// What reads it: the map that is kept, the nearest copy in another tier, or the file,
    /// opened. Whether a map was opened for it just now.
    pub(super) fn open(&self, storage: &dyn Storage, by_windows: bool) -> Result<(Opened, bool)> {
        let mut bytes = self.bytes.lock();
        if let Some(segment) = &bytes.kept {
            return Ok((Opened::Whole(Arc::clone(segment)), false));
        }
        if !bytes.copies.is_hot
            && let Some(artifact) = bytes.copies.compressed()
        {
            return Ok((Opened::ByWindows(Arc::clone(artifact)), false));
        }
        let opened = self.open_file(storage, &mut bytes, by_windows);
        let opened = opened.map_err(|error| self.explain_missing(error))?;
        let Opened::Whole(segment) = &opened else { return Ok((opened, false)) };
        bytes.known = Arc::downgrade(segment);
        bytes.kept = Some(Arc::clone(segment));
        bytes.pieces = None;
        Ok((opened, true))
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
        let bytes = self.bytes.lock();
        bytes.copies.is_hot
            && bytes.known.strong_count() == 0
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
    pub(super) fn forget_map(&self) {
        if self.sealed_info().is_some() {
            self.bytes.lock().kept = None;
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
        let Some(mut bytes) = self.bytes.try_lock() else { return LetGo::InUse };
        match bytes.kept.take() {
            Some(segment) => LetGo::Closed(Box::new(segment)),
            None => LetGo::WasClosed,
        }
    }
}
