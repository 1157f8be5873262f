//! Keeps the streams of a manager within their budgets.
//!
//! It sleeps until something was sealed, a writer waits for room, somebody asks for a
//! segment, or a failed job is due again; an idle manager costs nothing. A look
//! ([`Coordinator::plan`]) gives the jobs to do now, most urgent first: room for
//! writers, segments that somebody waits for, then the rest. Jobs are done by whoever
//! asked for the plan: a few at a time on blocking threads by the manager's task, one by
//! one by a simulation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::config::TierConfig;
use super::jobs::Job;
use super::plan::{Candidate, Request, StreamView, plan};
use super::stream::StreamTiers;
use crate::error::Result;
use crate::format::SegmentId;
use crate::io::Clock;

/// One for a manager.
#[derive(Debug)]
pub(crate) struct Coordinator {
    config: TierConfig,
    pub(super) clock: Arc<dyn Clock>,
    streams: Mutex<Vec<Weak<StreamTiers>>>,
    bell: Notify,
    /// Whether readers hold what should leave; nobody rings when they let go.
    is_held_back: AtomicBool,
}

/// How soon segments that readers held are looked at again.
const HELD_PAUSE: Duration = Duration::from_millis(100);

impl Coordinator {
    pub(crate) fn new(config: TierConfig, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        config.validate()?;
        let streams = Mutex::default();
        let is_held_back = AtomicBool::new(false);
        Ok(Arc::new(Self { config, clock, streams, bell: Notify::new(), is_held_back }))
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

    fn live(&self) -> Vec<Arc<StreamTiers>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Completes when there may be something to do.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Bytes in the hot tiers of all streams.
    pub(super) fn used(&self) -> u64 {
        self.sum(|tiers| &tiers.used)
    }

    pub(super) fn evictable(&self) -> u64 {
        self.sum(|tiers| &tiers.evictable)
    }

    fn sum(&self, part: impl Fn(&StreamTiers) -> &AtomicU64) -> u64 {
        let load = |tiers: Arc<StreamTiers>| part(&tiers).load(Ordering::Acquire);
        self.streams.lock().iter().filter_map(Weak::upgrade).map(load).sum()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    /// What should be done now.
    pub(crate) fn plan(&self) -> Vec<Job> {
        let streams: Vec<_> =
            self.live().into_iter().filter_map(|t| Some((t.stream()?, t))).collect();
        let now_ms = self.now_ms();
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
            let pinned = tiers.pinned.lock();
            let stays = |id: &SegmentId| pinned.contains(id) || asked.contains(id);
            for entry in stream.table.snapshot() {
                let Some(info) = entry.sealed_info() else { continue };
                let segment_id = entry.meta.segment_id;
                let may_go = entry.is_hot() && entry.damage.is_none() && !stays(&segment_id);
                if may_go && entry.is_held() {
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
                let away = stream.sealed_entry(segment_id).ok().filter(|entry| !entry.is_hot());
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
        evictions.chain(hydrations).collect()
    }

    /// How long nothing will be due, if nobody rings; `None`: for ever.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let now_ms = self.now_ms();
        let due = self.live().iter().filter_map(|t| t.backoff.lock().next_due_ms()).min();
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(now_ms).max(1)));
        match self.is_held_back.load(Ordering::Relaxed) {
            true => Some(due.map_or(HELD_PAUSE, |due| due.min(HELD_PAUSE))),
            false => due,
        }
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
