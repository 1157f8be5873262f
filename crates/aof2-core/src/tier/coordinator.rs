//! Keeps the streams of a manager within their budgets.
//!
//! It sleeps until something was sealed, a writer waits for room, somebody asks for a
//! segment, or a failed job is due again; an idle manager costs nothing. A look
//! ([`Coordinator::look`]) gives the jobs to do now, most urgent first: room for
//! writers, segments that somebody waits for, then the rest. Jobs are done by whoever
//! asked for the plan: a few at a time on blocking threads by the manager's tasks, one by
//! one by a simulation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::config::TierConfig;
use super::jobs::Job;
use super::lanes::Bells;
use super::plan::{Candidate, Request, StreamView, plan};
use super::stream::StreamTiers;
use crate::bucket::ColdTier;
use crate::error::Result;
use crate::format::SegmentId;
use crate::io::Clock;
use crate::object::ObjectStore;
use crate::store::{Change, Residency};
use crate::write::Stream;

/// One for a manager.
#[derive(Debug)]
pub(crate) struct Coordinator {
    config: TierConfig,
    pub(super) clock: Arc<dyn Clock>,
    cold: Option<Arc<ColdTier>>,
    streams: Mutex<Vec<Weak<StreamTiers>>>,
    pub(super) bells: Bells,
    /// Jobs that were begun, of all streams: whose turn it is.
    turns: AtomicU64,
    /// Whether readers hold what should leave; nobody rings when they let go.
    is_held_back: AtomicBool,
}

/// How soon segments that readers held are looked at again.
const HELD_PAUSE_MS: u64 = 100;

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
            bells: Bells::default(),
            turns: AtomicU64::new(0),
            is_held_back: AtomicBool::new(false),
        })
    }

    pub(crate) fn cold(&self) -> Option<&Arc<ColdTier>> {
        self.cold.as_ref()
    }

    pub(crate) fn config(&self) -> &TierConfig {
        &self.config
    }

    pub(super) fn add(&self, tiers: &Arc<StreamTiers>) {
        self.streams.lock().push(Arc::downgrade(tiers));
    }

    pub(super) fn remove(&self, tiers: &StreamTiers) {
        self.streams.lock().retain(|weak| !std::ptr::eq(weak.as_ptr(), tiers));
        // What it used is free for the others.
        self.ring();
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
    pub(crate) fn open_streams(&self) -> Vec<(Arc<Stream>, Arc<StreamTiers>)> {
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

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    /// What should be moved at this time.
    pub(super) fn plan_moves(&self, now_ms: u64) -> Vec<Job> {
        let streams = self.open_streams();
        let mut views = Vec::with_capacity(streams.len());
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut requests: Vec<Request> = Vec::new();
        let mut is_held = false;
        for (index, (stream, tiers)) in streams.iter().enumerate() {
            tiers.measure(stream);
            let wanted = tiers.wanted.load(Ordering::Acquire);
            let used = tiers.used.load(Ordering::Acquire);
            views.push(StreamView { used: used + wanted, hot_bytes: tiers.hot_bytes });
            let asked = tiers.activations.lock().in_order();
            let backoff = tiers.backoff.lock();
            for entry in stream.store().table().snapshot() {
                let Some(info) = entry.sealed_info() else { continue };
                let segment_id = entry.meta.segment_id;
                let change = Change::Evict(segment_id, Residency::Hot);
                let objections = stream.store().objections(&change, &entry);
                let stays = objections.is_pinned || asked.contains(&segment_id);
                let may_go = entry.is_hot() && entry.damage.is_none() && !stays;
                if may_go && objections.is_read {
                    is_held = true;
                    continue;
                }
                if may_go && backoff.is_due(&segment_id, now_ms) {
                    candidates.push(Candidate {
                        stream: index,
                        segment_id,
                        bytes: u64::from(info.durable_bytes),
                        last_read: entry.last_read(),
                    });
                }
            }
            for &segment_id in asked.iter().filter(|id| backoff.is_due(id, now_ms)) {
                let away =
                    stream.store().sealed_entry(segment_id).ok().filter(|entry| !entry.is_hot());
                let bytes = away.and_then(|e| Some(u64::from(e.sealed_info()?.durable_bytes)));
                requests.push(Request { stream: index, segment_id, bytes: bytes.unwrap_or(0) });
            }
        }
        let plan = plan(&views, candidates, requests, self.config.hot_bytes);
        self.is_held_back.store(is_held && plan.is_short, Ordering::Relaxed);
        let evictions = plan.evictions.iter().filter_map(|chosen| {
            let (stream, tiers) = streams.get(chosen.stream)?;
            Some(Job::evict(stream, tiers, chosen.segment_id))
        });
        let hydrations = plan.hydrations.iter().filter_map(|chosen| {
            let (stream, tiers) = streams.get(chosen.stream)?;
            Some(Job::hydrate(stream, tiers, chosen.segment_id))
        });
        // Room first: what comes back needs it.
        let mut jobs: Vec<Job> = evictions.chain(hydrations).collect();
        if self.cold.is_some() {
            let leaving: Vec<(usize, SegmentId)> =
                plan.evictions.iter().map(|chosen| (chosen.stream, chosen.segment_id)).collect();
            self.plan_archiving(now_ms, &streams, &leaving, &mut jobs);
        }
        jobs
    }

    /// What the object store shall get: segments to compress, and to seal.
    fn plan_archiving(
        &self,
        now_ms: u64,
        streams: &[(Arc<Stream>, Arc<StreamTiers>)],
        leaving: &[(usize, SegmentId)],
        jobs: &mut Vec<Job>,
    ) {
        // One segment of every stream, then another: one that is written faster than it is
        // compressed must not keep the others from being archived.
        let mut in_turn = Vec::new();
        for (at, (stream, tiers)) in streams.iter().enumerate() {
            if self.is_stale(stream) {
                jobs.push(Job::seal(stream, tiers));
            }
            let mut rank = 0;
            let last_turn = tiers.compress_turn.load(Ordering::Relaxed);
            let backoff = tiers.backoff.lock();
            for entry in stream.store().table().snapshot() {
                let id = entry.meta.segment_id;
                let is_new = entry.is_hot()
                    && entry.sealed_info().is_some()
                    && entry.damage.is_none()
                    && entry.copies().compressed().is_none();
                if is_new && !leaving.contains(&(at, id)) && backoff.is_due(&id, now_ms) {
                    in_turn.push(((rank, last_turn, at), Job::compress(stream, tiers, id)));
                    rank += 1;
                }
            }
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        jobs.extend(in_turn.into_iter().map(|(_, job)| job));
    }

    /// Whether the segment that is being written waits too long to be archived.
    fn is_stale(&self, stream: &Stream) -> bool {
        let limit_ms = self.config.archive_after_ms;
        let since_ms = stream.written_since_ms();
        limit_ms > 0
            && since_ms.is_some_and(|since| self.now_ms() >= since.saturating_add(limit_ms))
    }

    /// When the next move is due after this time, if nobody rings; `None`: never.
    pub(super) fn next_move_ms(&self, now_ms: u64) -> Option<u64> {
        let failed = self.live().into_iter().filter_map(|t| t.backoff.lock().next_due_ms(now_ms));
        let mut due: Vec<u64> = failed.collect();
        // Nobody rings when a segment gets its first record: looked at a few times.
        let limit_ms = self.config.archive_after_ms;
        if self.cold.is_some() && limit_ms > 0 && !self.streams.lock().is_empty() {
            due.push(now_ms.saturating_add(limit_ms / 4));
        }
        if self.is_held_back.load(Ordering::Relaxed) {
            due.push(now_ms.saturating_add(HELD_PAUSE_MS));
        }
        due.into_iter().min()
    }

    /// What should be moved now.
    #[cfg(test)]
    pub(crate) fn plan(&self) -> Vec<Job> {
        self.plan_moves(self.now_ms())
    }

    /// Everything that is due, on this thread, until nothing is. For simulations, and
    /// for whoever wants to wait for it.
    #[cfg(test)]
    pub(crate) fn settle(&self) {
        loop {
            let jobs = self.plan();
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(Job::run);
        }
    }
}
