//! The tiers of one stream.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::activation::{PendingActivationQueue, Priority};
use super::config::AdmissionPolicy;
use super::coordinator::Coordinator;
use super::counters::TierCounters;
use super::outcome::Backoff;
use super::task::{Lane, Task};
use crate::check::ScrubState;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::io::{Clock, Storage};
use crate::read::Comeback;
use crate::store::ColdStore;
use crate::write::{AofConfig, Stream, Tiers};

/// How long a scan waits for a segment. Longer than a large one takes from a slow
/// network; with no room at all it would be for ever.
const BRING_BACK_WAIT: Duration = Duration::from_secs(30);

/// What the coordinator knows of a stream, and what the stream asks of it.
#[derive(Debug)]
pub(crate) struct StreamTiers {
    pub(super) coordinator: Arc<Coordinator>,
    stream: OnceLock<Weak<Stream>>,
    /// The stream's own limit, besides that of all streams of the manager.
    pub(super) hot_bytes: Option<u64>,
    /// Bytes in the hot tier, less prepared segments: counted before every plan, and kept
    /// up in between.
    pub(super) used: AtomicU64,
    /// Those of them that could leave it.
    pub(super) evictable: AtomicU64,
    /// What a writer that was refused asked for.
    pub(super) wanted: AtomicU64,
    pub(super) activations: Mutex<PendingActivationQueue>,
    pub(super) backoff: Mutex<Backoff>,
    /// Tasks that somebody has taken.
    pub(super) running: Mutex<BTreeSet<Task>>,
    pub(super) counters: TierCounters,
    pub(super) scrub: ScrubState,
    /// When its segments were compressed for the object store last, and when something was
    /// done there: see [`Coordinator::had_turn`].
    pub(super) compress_turn: AtomicU64,
    pub(super) cold_turn: AtomicU64,
}

impl StreamTiers {
    fn new(coordinator: Arc<Coordinator>, hot_bytes: Option<u64>) -> Arc<Self> {
        let config = coordinator.config();
        let backoff = Backoff::new(config.retry_ms, config.retry_ms_max);
        let tiers = Arc::new(Self {
            stream: OnceLock::new(),
            hot_bytes,
            used: AtomicU64::new(0),
            evictable: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            activations: Mutex::default(),
            backoff: Mutex::new(backoff),
            running: Mutex::default(),
            counters: TierCounters::default(),
            scrub: ScrubState::default(),
            compress_turn: AtomicU64::new(0),
            cold_turn: AtomicU64::new(0),
            coordinator,
        });
        tiers.coordinator.add(&tiers);
        tiers
    }

    /// Opens a log whose segments this coordinator keeps within their budgets.
    pub(crate) fn open(
        coordinator: &Arc<Coordinator>,
        config: AofConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Stream>, Arc<Self>)> {
        let bucket = coordinator.cold().map(Arc::clone);
        let cold = ColdStore::of_writer(bucket, Arc::clone(&storage), &config.root_dir);
        let tiers = Self::new(Arc::clone(coordinator), config.hot_bytes);
        let stream = Stream::open_with(config, storage, clock, cold, Arc::clone(&tiers) as _)?;
        tiers.attach(&stream);
        Ok((stream, tiers))
    }

    fn attach(&self, stream: &Arc<Stream>) {
        let _ = self.stream.set(Arc::downgrade(stream));
        stream.store().set_compression(self.coordinator.config().artifact_options());
        self.measure(stream);
        for id in stream.store().load_pins() {
            let _ = self.ask(id, Priority::Prefetch);
        }
        let interval_ms = self.coordinator.config().scrub_interval_ms;
        self.scrub.resume(stream, self.coordinator.now_ms(), interval_ms);
        self.coordinator.notify_lane(Lane::Scrub);
        self.notify();
    }

    /// The stream, while it is open.
    pub(super) fn stream(&self) -> Option<Arc<Stream>> {
        self.attached().filter(|stream| !stream.is_stopped())
    }

    /// The stream, also one that does nothing more.
    pub(super) fn attached(&self) -> Option<Arc<Stream>> {
        self.stream.get()?.upgrade()
    }

    /// Counts what is in the hot tier anew.
    pub(super) fn measure(&self, stream: &Stream) {
        let usage = stream.store().hot_usage();
        self.used.store(usage.total(), Ordering::Release);
        self.evictable.store(usage.sealed_bytes, Ordering::Release);
    }

    /// Something moved: counts anew, and wakes a writer that waits for room.
    pub(crate) fn moved(&self, stream: &Stream) {
        self.measure(stream);
        stream.space_changed();
        // There may be something to upload, or to remove because it was.
        self.coordinator.notify_lane(Lane::Cold);
    }
}

impl Tiers for StreamTiers {
    fn bring_back(&self, segment_id: SegmentId) -> Comeback {
        let deadline = Instant::now().checked_add(BRING_BACK_WAIT);
        match self.ask(segment_id, Priority::Wanted).and_then(|asked| asked.wait(deadline)) {
            Ok(_) => Comeback::There,
            Err(AofError::Timeout { .. }) => Comeback::Late,
            Err(error) => {
                tracing::debug!(%error, segment = segment_id.as_u64(), "read where it is");
                Comeback::Refused
            }
        }
    }

    fn prefetch(&self, segment_id: SegmentId, if_room: bool) {
        if !if_room || self.has_room_for(segment_id) {
            // A refusal leaves it where it is, and it is read there.
            let _ = self.ask(segment_id, Priority::Prefetch);
        }
    }

    fn admits(&self, bytes: u64) -> bool {
        let config = self.coordinator.config();
        if config.admission == AdmissionPolicy::Elastic {
            return true;
        }
        let fits = |used: u64, limit: u64| used.saturating_add(bytes) <= limit;
        let own = self.hot_bytes.is_none_or(|limit| fits(self.used.load(Ordering::Acquire), limit));
        let all = fits(self.coordinator.used(), config.hot_bytes);
        // With nothing left to evict waiting would be for ever.
        if (own && all) || self.coordinator.evictable() == 0 {
            return true;
        }
        self.wanted.fetch_max(bytes, Ordering::AcqRel);
        false
    }

    fn activated(&self, segment_bytes: u64) {
        self.wanted.store(0, Ordering::Release);
        self.used.fetch_add(segment_bytes, Ordering::AcqRel);
        self.notify();
    }

    fn sealed(&self, segment_bytes: u64, durable_bytes: u64) {
        self.used.fetch_sub(segment_bytes.saturating_sub(durable_bytes), Ordering::AcqRel);
        self.evictable.fetch_add(durable_bytes, Ordering::AcqRel);
    }

    fn notify(&self) {
        self.coordinator.notify();
    }

    /// Nobody must wait for what will not happen.
    fn closed(&self) {
        self.activations.lock().finish_all(&AofError::Closed);
        self.coordinator.remove(self);
    }
}
