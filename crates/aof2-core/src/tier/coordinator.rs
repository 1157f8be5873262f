//! Knows the streams of a manager and their budgets, and says what is due.
//!
//! A lane sleeps until it is notified (something was sealed, a writer waits for room,
//! somebody asks for a segment) or until something becomes due by itself; an idle manager
//! costs nothing. [`Coordinator::due`] then plans and gives the jobs to do now, most urgent
//! first. Whoever asks runs as many of them as [`Coordinator::at_once`] allows and drops the
//! others: the next plan names them again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cold_plan::plan_cold;
use super::config::TierConfig;
use super::local_plan::plan_moves;
use super::plan::{Open, State};
use super::scrub::plan_scrub;
use super::stream::StreamTiers;
use super::task::{Job, Lane};
use crate::bucket::ColdTier;
use crate::error::Result;
use crate::io::Clock;
use crate::object::ObjectStore;

/// One for a manager.
#[derive(Debug)]
pub(crate) struct Coordinator {
    config: TierConfig,
    clock: Arc<dyn Clock>,
    cold: Option<Arc<ColdTier>>,
    streams: Mutex<Vec<Weak<StreamTiers>>>,
    notify_moves: Notify,
    notify_cold: Notify,
    notify_scrub: Notify,
    /// Jobs that were begun, of all streams: whose turn it is.
    turns: AtomicU64,
}

/// What is to be done in a lane.
pub(crate) struct Due {
    /// Due now, most urgent first.
    pub(crate) jobs: Vec<Job>,
    /// When to ask again if nobody notifies the lane before; `None`: never.
    pub(crate) pause: Option<Duration>,
}

impl Coordinator {
    /// With the object store that the configuration names.
    pub(crate) fn new(config: TierConfig, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        config.validate()?;
        let open = |cold| ColdTier::open_with(cold, Arc::clone(&clock));
        let cold = config.cold.as_ref().map(open).transpose()?;
        Ok(Self::assemble(config, clock, cold))
    }

    /// With an object store of the caller's.
    pub(crate) fn on_store(
        config: TierConfig,
        clock: Arc<dyn Clock>,
        store: Arc<dyn ObjectStore>,
    ) -> Result<Arc<Self>> {
        config.validate()?;
        let on = |cold| ColdTier::on_with(store, cold, Arc::clone(&clock));
        let cold = config.cold.as_ref().map(on).transpose()?;
        Ok(Self::assemble(config, clock, cold))
    }

    fn assemble(
        config: TierConfig,
        clock: Arc<dyn Clock>,
        cold: Option<Arc<ColdTier>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            config,
            clock,
            cold,
            streams: Mutex::default(),
            notify_moves: Notify::new(),
            notify_cold: Notify::new(),
            notify_scrub: Notify::new(),
            turns: AtomicU64::new(0),
        })
    }

    pub(crate) fn cold(&self) -> Option<&Arc<ColdTier>> {
        self.cold.as_ref()
    }

    pub(crate) fn config(&self) -> &TierConfig {
        &self.config
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    /// The lanes in which there can be something to do.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane> {
        let cold = self.cold.is_some().then_some(Lane::Cold);
        let scrub = (self.config.scrub_interval_ms > 0).then_some(Lane::Scrub);
        [Some(Lane::Moves), cold, scrub].into_iter().flatten()
    }

    /// How many jobs of a lane run at the same time.
    pub(crate) fn at_once(&self, lane: Lane) -> usize {
        match lane {
            Lane::Moves => self.config.jobs_max,
            Lane::Cold => self.config.uploads_max,
            // The budget is that of all streams together.
            Lane::Scrub => 1,
        }
    }

    /// What should be done now.
    pub(crate) fn due(&self, lane: Lane) -> Due {
        let streams = self.streams_for(lane);
        // One time for both: what becomes due in between would be seen by neither.
        let now_ms = self.now_ms();
        let cold = self.cold.as_deref();
        let state = State { config: &self.config, cold, streams: &streams, now_ms };
        let plan = match lane {
            Lane::Moves => plan_moves(state),
            Lane::Cold => plan_cold(state),
            Lane::Scrub => plan_scrub(state),
        };
        let take = |&(at, task): &(usize, _)| {
            let (stream, tiers) = streams.get(at)?;
            Job::take(task, stream, tiers)
        };
        let jobs = plan.due.iter().filter_map(take).collect();
        let pause_ms = plan.next_ms.map(|next_ms| next_ms.saturating_sub(now_ms).max(1));
        Due { jobs, pause: pause_ms.map(Duration::from_millis) }
    }

    /// The open streams, as a plan of this lane needs them.
    fn streams_for(&self, lane: Lane) -> Vec<Open> {
        let mut streams = self.open_streams();
        match lane {
            // Their budgets hold only if they know what they use.
            Lane::Moves => streams.iter().for_each(|(stream, tiers)| tiers.measure(stream)),
            // Read once for each: turns go on while this sorts.
            Lane::Cold => {
                streams.sort_by_cached_key(|(_, tiers)| tiers.cold_turn.load(Ordering::Relaxed));
            }
            Lane::Scrub => {}
        }
        streams
    }

    /// Completes when there may be something to do.
    pub(crate) async fn notified(&self, lane: Lane) {
        self.notify_of(lane).notified().await;
    }

    /// There may be something to do in a lane.
    pub(super) fn notify_lane(&self, lane: Lane) {
        self.notify_of(lane).notify_one();
    }

    /// Something changed that may concern the local tiers and the object store.
    pub(super) fn notify(&self) {
        self.notify_lane(Lane::Moves);
        self.notify_lane(Lane::Cold);
    }

    fn notify_of(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::Moves => &self.notify_moves,
            Lane::Cold => &self.notify_cold,
            Lane::Scrub => &self.notify_scrub,
        }
    }

    pub(super) fn add(&self, tiers: &Arc<StreamTiers>) {
        self.streams.lock().push(Arc::downgrade(tiers));
    }

    pub(super) fn remove(&self, tiers: &StreamTiers) {
        self.streams.lock().retain(|weak| !std::ptr::eq(weak.as_ptr(), tiers));
        // What it used is free for the others.
        self.notify();
    }

    /// Writes down that a stream had its turn. The next plan begins with the stream whose
    /// last turn was longest ago.
    pub(super) fn had_turn(&self, last_turn: &AtomicU64) {
        last_turn.store(self.turns.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn live(&self) -> Vec<Arc<StreamTiers>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The streams that are open, with their tiers.
    fn open_streams(&self) -> Vec<Open> {
        self.live().into_iter().filter_map(|tiers| Some((tiers.stream()?, tiers))).collect()
    }

    /// Bytes in the hot tiers of all streams.
    pub(super) fn used(&self) -> u64 {
        self.sum(|tiers| &tiers.used)
    }

    /// The same once everything that was asked for is back.
    pub(super) fn used_soon(&self) -> u64 {
        self.live().iter().map(|tiers| tiers.used_soon()).sum()
    }

    pub(super) fn evictable(&self) -> u64 {
        self.sum(|tiers| &tiers.evictable)
    }

    fn sum(&self, part: impl Fn(&StreamTiers) -> &AtomicU64) -> u64 {
        let load = |tiers: Arc<StreamTiers>| part(&tiers).load(Ordering::Acquire);
        self.streams.lock().iter().filter_map(Weak::upgrade).map(load).sum()
    }
}
