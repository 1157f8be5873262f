//! What moves between the local tiers: segments that leave, those that somebody waits for,
//! then what the object store shall get.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::budget::{Candidate, Choice, Request, StreamView, choose};
use super::plan::{Open, Plan, State};
use super::task::Task;
use crate::format::SegmentId;
use crate::store::{Change, Residency};
use crate::write::Stream;

/// How soon segments that readers held are looked at again: nobody notifies us when they
/// let go.
const HELD_PAUSE_MS: u64 = 100;

pub(super) fn plan_moves(state: State<'_>) -> Plan<'_> {
    let mut plan = Plan::new(state);
    let Moves { views, candidates, requests, is_held } = Moves::of(&state);
    let Choice { evictions, hydrations, is_short } =
        choose(&views, candidates, requests, state.config.hot_bytes);
    // Room first: what comes back needs it.
    for chosen in &evictions {
        plan.add(chosen.stream, Task::Evict(chosen.segment_id), 0);
    }
    for chosen in &hydrations {
        plan.add(chosen.stream, Task::Hydrate(chosen.segment_id), 0);
    }
    if state.cold.is_some() {
        add_archiving(&mut plan, &evictions);
    }
    if is_held && is_short {
        plan.look_again(state.now_ms.saturating_add(HELD_PAUSE_MS));
    }
    for (_, tiers) in state.streams {
        let next_ms = tiers.backoff.lock().next_move_ms(state.now_ms);
        plan.look_again(next_ms.unwrap_or(u64::MAX));
    }
    plan
}

/// What may leave the hot tiers, and what is asked to come back.
#[derive(Default)]
struct Moves {
    views: Vec<StreamView>,
    candidates: Vec<Candidate>,
    requests: Vec<Request>,
    /// Whether readers hold what could leave.
    is_held: bool,
}

impl Moves {
    fn of(state: &State<'_>) -> Self {
        let mut moves = Self::default();
        for (at, open) in state.streams.iter().enumerate() {
            moves.add(at, open, state.now_ms);
        }
        moves
    }

    fn add(&mut self, at: usize, (stream, tiers): &Open, now_ms: u64) {
        let store = stream.store();
        let wanted = tiers.wanted.load(Ordering::Acquire);
        let used = tiers.used.load(Ordering::Acquire);
        self.views.push(StreamView { used: used + wanted, hot_bytes: tiers.hot_bytes });
        let asked = tiers.activations.lock().in_order();
        let backoff = tiers.backoff.lock();
        for entry in store.table().snapshot() {
            let segment_id = entry.meta.segment_id;
            if entry.sealed_info().is_none() || !entry.is_hot() || entry.damage.is_some() {
                continue;
            }
            let change = Change::Evict(segment_id, Residency::Hot);
            let objections = store.objections(&change, &entry);
            if objections.is_pinned || asked.contains(&segment_id) {
                continue;
            }
            if objections.is_read {
                self.is_held = true;
            } else if backoff.is_due(Task::Evict(segment_id), now_ms) {
                let (bytes, last_read) = (entry.record_bytes(), entry.last_read());
                self.candidates.push(Candidate { stream: at, segment_id, bytes, last_read });
            }
        }
        for segment_id in asked {
            if backoff.is_due(Task::Hydrate(segment_id), now_ms) {
                let away = store.sealed_entry(segment_id).ok().filter(|entry| !entry.is_hot());
                let bytes = away.map_or(0, |entry| entry.record_bytes());
                self.requests.push(Request { stream: at, segment_id, bytes });
            }
        }
    }
}

/// What the object store shall get: segments to seal and to compress, except those that
/// are compressed because they leave.
fn add_archiving(plan: &mut Plan<'_>, leaving: &[Candidate]) {
    let State { config, streams, now_ms, .. } = plan.state;
    let leaving: BTreeSet<_> = leaving.iter().map(|gone| (gone.stream, gone.segment_id)).collect();
    // One segment of every stream, then another: one that is written faster than it is
    // compressed must not keep the others from being archived.
    let mut in_turn = Vec::new();
    for (at, (stream, tiers)) in streams.iter().enumerate() {
        if is_stale(stream, config.archive_after_ms, now_ms) {
            plan.add(at, Task::Seal, 0);
        }
        let last_turn = tiers.compress_turn.load(Ordering::Relaxed);
        let backoff = tiers.backoff.lock();
        let new = uncompressed(stream).into_iter().filter(|&id| {
            !leaving.contains(&(at, id)) && backoff.is_due(Task::Compress(id), now_ms)
        });
        in_turn.extend(new.enumerate().map(|(rank, id)| ((rank, last_turn, at), id)));
    }
    in_turn.sort_by_key(|(turn, _)| *turn);
    for ((_, _, at), id) in in_turn {
        plan.add(at, Task::Compress(id), 0);
    }
    // Nobody notifies us when a segment gets its first record: looked at a few times.
    if config.archive_after_ms > 0 && !streams.is_empty() {
        plan.look_again(now_ms.saturating_add(config.archive_after_ms / 4));
    }
}

/// Sealed segments that are only in the hot tier.
fn uncompressed(stream: &Stream) -> Vec<SegmentId> {
    let mut segments = stream.store().table().snapshot();
    segments.retain(|entry| {
        entry.is_hot()
            && entry.sealed_info().is_some()
            && entry.damage.is_none()
            && entry.copies().compressed().is_none()
    });
    segments.iter().map(|entry| entry.meta.segment_id).collect()
}

/// Whether the segment that is being written waits too long to be archived.
fn is_stale(stream: &Stream, limit_ms: u64, now_ms: u64) -> bool {
    let since_ms = stream.written_since_ms();
    limit_ms > 0 && since_ms.is_some_and(|since| now_ms >= since.saturating_add(limit_ms))
}
