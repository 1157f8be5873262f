//! Sealed segments whose bytes are not in `segments/`: compressed in `warm/`, or in the
//! cold tier with the end of the artifact, its index, kept in `cold/`.
//!
//! Either way a segment is read as windows, one frame at a time. Which of its copies is
//! read is decided by its entry in the segment table; this file finds the copies and
//! keeps a few windows that were read lately.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::cold::ColdStore;
use super::files::create_anew;
use super::layout::Layout;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::format::{ARTIFACT_TAIL_LEN_MAX, ArtifactIndex, ColdTailName, WarmFileName};
use crate::io::{EntryKind, OpenMode, Storage};
use crate::planted::{self, StoreBug};
use crate::segment::{Artifact, FileSource, Segment};

/// Where a copy of a segment is read from first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Residency {
    /// A segment file, mapped.
    Hot,
    /// Compressed on the local disk.
    Warm,
    /// Compressed in the object store.
    Cold,
}

impl Residency {
    /// The word that options, output and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

impl std::fmt::Display for Residency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The compressed copies of a segment that were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwayCopies {
    pub(crate) warm: Option<Arc<Artifact>>,
    pub(crate) cold: Option<Arc<Artifact>>,
    /// Which of the segment's uploads `cold` is.
    pub(crate) cold_epoch: u32,
    /// Whether a file of another copy could not be used when the segment was found. It goes
    /// when the segment goes.
    pub(crate) has_stray: bool,
}

impl AwayCopies {
    /// The copy to read: the nearest.
    pub(crate) fn nearest(&self) -> Option<&Arc<Artifact>> {
        self.warm.as_ref().or(self.cold.as_ref())
    }

    /// The name under which the end of the cold copy is kept here.
    pub(crate) fn cold_name(&self, cold: &Artifact) -> ColdTailName {
        let artifact = WarmFileName::of(&cold.index().summary);
        ColdTailName { artifact, epoch: self.cold_epoch }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nearest().is_none()
    }
}

/// A segment's object, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivedObject {
    pub(crate) segment_id: SegmentId,
    pub(crate) epoch: u32,
    pub(crate) len: u64,
}

/// What `warm/` and `cold/` hold of one segment.
#[derive(Clone, Debug)]
pub(crate) struct AwayNames {
    pub(crate) segment_id: SegmentId,
    warm: Option<WarmFileName>,
    cold: Option<ColdTailName>,
    /// Whether there are earlier files of one of these copies.
    has_earlier: bool,
}

impl AwayNames {
    /// Opens the copies. One that is damaged is passed over if there is another.
    pub(crate) fn open(
        &self,
        storage: &dyn Storage,
        layout: &Layout,
        cold: &ColdStore,
    ) -> Result<AwayCopies> {
        let warm = self.warm.map(|name| open_warm(storage, layout.warm_path(&name)));
        let cold = self.cold.map(|name| open_cold(storage, layout, &name, cold));
        let cold_epoch = self.cold.map_or(0, |name| name.epoch);
        let usable = |copy: Option<Result<Artifact>>| match copy {
            Some(Ok(artifact)) => Ok(Some(Arc::new(artifact))),
            Some(Err(error)) => Err(error),
            None => Ok(None),
        };
        let has_stray = self.has_earlier;
        match (usable(warm), usable(cold)) {
            (Ok(warm), Ok(cold)) => Ok(AwayCopies { warm, cold, cold_epoch, has_stray }),
            (Ok(Some(warm)), Err(error)) => {
                tracing::warn!(%error, segment = %self.segment_id, "a copy is left aside");
                Ok(AwayCopies { warm: Some(warm), has_stray: true, ..AwayCopies::default() })
            }
            (Err(error), Ok(Some(cold))) => {
                tracing::warn!(%error, segment = %self.segment_id, "a copy is left aside");
                Ok(AwayCopies { warm: None, cold: Some(cold), cold_epoch, has_stray: true })
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// The files of the copies, the kept end of a cold one last.
    pub(crate) fn paths(&self, layout: &Layout) -> impl Iterator<Item = PathBuf> {
        let warm = self.warm.map(|name| layout.warm_path(&name));
        warm.into_iter().chain(self.cold.map(|name| layout.cold_path(&name)))
    }

    /// Where the nearest copy is, for messages.
    pub(crate) fn path(&self, layout: &Layout) -> PathBuf {
        match (&self.warm, &self.cold) {
            (Some(name), _) => layout.warm_path(name),
            (None, Some(name)) => layout.cold_path(name),
            (None, None) => layout.warm_dir(),
        }
    }

    /// Whether these are the copies that an entry of the table knows.
    pub(crate) fn agrees(&self, copies: &AwayCopies) -> bool {
        let name_of = |copy: &Arc<Artifact>| WarmFileName::of(&copy.index().summary);
        // One that was replaced has its name and is another.
        let known = copies.warm.as_ref().filter(|copy| !copy.source().is_replaced());
        let warm = known.map(name_of);
        let cold = copies.cold.as_ref().map(|copy| copies.cold_name(copy));
        self.warm == warm && self.cold == cold
    }
}

/// Lists `warm/` and `cold/` by segment, oldest first. Neither need exist.
pub(crate) fn list_away(storage: &dyn Storage, layout: &Layout) -> Result<Vec<AwayNames>> {
    let warm = list_dir(storage, layout.warm_dir(), WarmFileName::parse)?;
    let cold = list_dir(storage, layout.cold_dir(), ColdTailName::parse)?;
    let mut names: std::collections::BTreeMap<SegmentId, AwayNames> = Default::default();
    let blank = |segment_id| AwayNames { segment_id, warm: None, cold: None, has_earlier: false };
    // Of two copies of one segment the later one counts: names are in order.
    for name in warm {
        let of_segment = names.entry(name.segment_id).or_insert_with(|| blank(name.segment_id));
        of_segment.has_earlier |= of_segment.warm.replace(name).is_some();
    }
    for name in cold {
        let segment_id = name.artifact.segment_id;
        let of_segment = names.entry(segment_id).or_insert_with(|| blank(segment_id));
        of_segment.has_earlier |= of_segment.cold.replace(name).is_some();
    }
    Ok(names.into_values().collect())
}

/// Names in order; of the uploads of one segment the latest is last.
pub(crate) fn list_dir<T: Ord>(
    storage: &dyn Storage,
    dir: PathBuf,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>> {
    let entries = match storage.list(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(AofError::io("list directory", &dir)(e)),
    };
    let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
    let mut names: Vec<_> = files.filter_map(|entry| parse(&entry.name)).collect();
    names.sort();
    Ok(names)
}

fn open_warm(storage: &dyn Storage, path: PathBuf) -> Result<Artifact> {
    Artifact::open(Arc::new(FileSource::open(storage, path)?))
}

/// A cold copy as the end of its artifact, kept here, tells it. Nothing is asked of the
/// object store.
fn open_cold(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    cold: &ColdStore,
) -> Result<Artifact> {
    let path = layout.cold_path(name);
    let file = storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
    let len = file.len().map_err(AofError::io("read", &path))?;
    let mut tail = vec![0; len.min(ARTIFACT_TAIL_LEN_MAX) as usize];
    file.read_exact_at(&mut tail, 0).map_err(AofError::io("read", &path))?;
    let kept = match len > ARTIFACT_TAIL_LEN_MAX {
        true => Err(format!("{len} bytes are too long for the index of a segment")),
        false => ArtifactIndex::decode_kept_tail(&tail)
            .map_err(|e| format!("it is not the index of a segment ({e})")),
    };
    let index = match kept {
        Ok(index) => index,
        Err(reason) => match fetch_index(storage, layout, name, cold) {
            Some(index) => {
                let path = path.display();
                tracing::warn!(%path, reason, "an index was fetched from the object store");
                index
            }
            None => return Err(AofError::Foreign { path, reason }),
        },
    };
    let source = cold.source(&index, name.epoch)?;
    Ok(Artifact::with_index(source, index))
}

/// The index from the object itself, if that is the segment it should be.
fn fetch_index(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    cold: &ColdStore,
) -> Option<ArtifactIndex> {
    let stream_id = layout.load_identity(storage).ok()??.stream_id;
    let index = cold.index(stream_id, name)?;
    (WarmFileName::of(&index.summary) == name.artifact).then_some(index)
}

/// The ends of cold artifacts that are kept here, oldest segment first.
pub(crate) fn list_cold_tails(storage: &dyn Storage, layout: &Layout) -> Result<Vec<ColdTailName>> {
    list_dir(storage, layout.cold_dir(), ColdTailName::parse)
}

/// Keeps the end of a cold artifact, durably.
pub(crate) fn store_cold_tail(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    index: &ArtifactIndex,
) -> Result<()> {
    let dir = layout.cold_dir();
    if !storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
        storage.create_dir_all(&dir).map_err(AofError::io("create directory", &dir))?;
        let root = layout.root();
        storage.sync_dir(root).map_err(AofError::io("sync directory", root))?;
    }
    let path = layout.cold_path(name);
    if planted::in_store(StoreBug::KeptIndexUnsynced) {
        let written = create_anew(storage, &path)?.write_all_at(&index.encode_tail(), 0);
        return written.map_err(AofError::io("write", &path));
    }
    layout.replace_file(storage, &path, &index.encode_tail())
}

/// Bytes of windows that are kept for random reads.
const WINDOW_CACHE_BYTES: u64 = 16 << 20;
/// About as many windows as that is.
const WINDOW_CACHE_COUNT: usize = 64;
/// How much of it is for windows that are read again and again. The rest is for new ones:
/// whoever had one fetched must find it, though others had theirs fetched since.
const WINDOW_CACHE_HOT: f64 = 0.5;

/// Segment and frame.
type WindowKey = (u32, usize);

#[derive(Clone, Debug)]
struct WindowLen;

impl Weighter<WindowKey, Arc<Segment>> for WindowLen {
    fn weight(&self, _: &WindowKey, window: &Arc<Segment>) -> u64 {
        window.map().len() as u64
    }
}

/// Windows read lately, by segment and frame.
#[derive(Debug)]
pub(crate) struct WindowCache {
    kept: Cache<WindowKey, Arc<Segment>, WindowLen>,
    /// The newest stays, however large: `kept` takes none that fills it.
    newest: Mutex<Option<(WindowKey, Arc<Segment>)>>,
}

impl Default for WindowCache {
    #[allow(clippy::expect_used)]
    fn default() -> Self {
        let options = OptionsBuilder::new()
            // A shard has its share of the bytes, which a large window would not fit.
            .shards(1)
            .estimated_items_capacity(WINDOW_CACHE_COUNT)
            .weight_capacity(WINDOW_CACHE_BYTES)
            .hot_allocation(WINDOW_CACHE_HOT)
            .build()
            .expect("both capacities are set");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let kept = Cache::with_options(options, WindowLen, hasher, lifecycle);
        Self { kept, newest: Mutex::default() }
    }
}

impl WindowCache {
    pub(crate) fn get(&self, segment_index: u32, frame: usize) -> Option<Arc<Segment>> {
        let key = (segment_index, frame);
        self.kept.get(&key).or_else(|| {
            let newest = self.newest.lock();
            newest.as_ref().filter(|(of, _)| *of == key).map(|(_, window)| Arc::clone(window))
        })
    }

    pub(crate) fn put(&self, segment_index: u32, frame: usize, window: Arc<Segment>) {
        let key = (segment_index, frame);
        // What it replaces is unmapped when the lock is free again.
        let _replaced = self.newest.lock().replace((key, Arc::clone(&window)));
        self.kept.insert(key, window);
    }

    /// Forgets the windows of a segment that is gone.
    pub(crate) fn forget(&self, segment_index: u32) {
        self.kept.retain(|(of, _), _| *of != segment_index);
        self.newest.lock().take_if(|((of, _), _)| *of == segment_index);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::{IndexPoint, SegmentFormat, StreamId};
    use crate::segment::SegmentMeta;

    const USUAL: usize = 256 << 10;

    fn window(len: usize) -> Arc<Segment> {
        let meta = SegmentMeta {
            stream_id: StreamId::legacy_of_name("events"),
            segment_id: SegmentId::from_u64(0),
            format: SegmentFormat::Full,
            base_offset: 0,
            first_offset: 0,
            created_at_ns: 0,
            segment_bytes: 1 << 30,
        };
        let first = IndexPoint { position: 0, offset: 0, timestamp_before_ms: 0 };
        Arc::new(Segment::window(meta, PathBuf::new(), vec![0; len], 0, first))
    }

    #[test]
    fn the_newest_window_is_kept_however_large_and_the_others_within_their_bytes() {
        let windows: Vec<_> =
            [4 << 10, USUAL, 1 << 20, 5 << 20, 9 << 20, 20 << 20].map(window).into();
        let cache = WindowCache::default();
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let key = (rng.u32(..3), rng.usize(..40));
            let put = &windows[rng.usize(..windows.len())];
            cache.put(key.0, key.1, Arc::clone(put));
            assert!(Arc::ptr_eq(&cache.get(key.0, key.1).unwrap(), put));
            assert!(cache.kept.weight() <= WINDOW_CACHE_BYTES);
            for _ in 0..rng.usize(..4) {
                cache.get(rng.u32(..3), rng.usize(..40));
            }
        }
    }

    /// A read that does not wait asks, and comes back later: by then others had windows
    /// fetched too, and must not have pushed out what it asked for.
    #[test]
    fn windows_that_were_fetched_are_found_though_others_are_read_all_the_time() {
        let cache = WindowCache::default();
        let usual = window(USUAL);
        for _ in 0..4 {
            for frame in 0..WINDOW_CACHE_COUNT {
                cache.put(0, frame, Arc::clone(&usual));
                cache.get(0, frame);
            }
        }
        let fetched = WINDOW_CACHE_COUNT / 2 - 1;
        (0..fetched).for_each(|frame| cache.put(1, frame, Arc::clone(&usual)));
        assert!((0..fetched).all(|frame| cache.get(1, frame).is_some()));
        // What is read all the time is still there too.
        assert!((0..WINDOW_CACHE_COUNT).any(|frame| cache.get(0, frame).is_some()));
    }

    #[test]
    fn the_windows_of_a_segment_are_forgotten_together() {
        let cache = WindowCache::default();
        for key in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            cache.put(key.0, key.1, window(USUAL));
        }
        cache.put(1, 2, window(20 << 20));
        cache.forget(1);
        assert!((0..3).all(|frame| cache.get(1, frame).is_none()));
        assert!((0..2).all(|frame| cache.get(0, frame).is_some()));
    }
}
