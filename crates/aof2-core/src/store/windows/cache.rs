//! Windows of segments that were read lately.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::segment::Segment;

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
    use std::path::PathBuf;

    use super::*;
    use crate::format::{IndexPoint, SegmentFormat, SegmentId, StreamId};
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
