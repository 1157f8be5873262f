//! What the object store needs done, and in which order.
//!
//! Every stream gets its turn, whatever the others have waiting, and room on the local
//! disk comes first: with a bucket that is slower than the writers, uploads never end.

use super::plan::{Plan, State};
use super::stream::StreamTiers;
use super::task::Task;
use crate::bucket::ColdTier;
use crate::format::{ColdKey, SegmentId};
use crate::planted::{self, StoreBug};
use crate::store::{Change, Residency, Store};
use crate::write::Stream;

/// Deletes of one stream in one plan. A plan is made for every few jobs, and retention
/// may let go of a million segments.
const DELETES_MAX: usize = 64;

/// Streams come in the order of their turns.
pub(super) fn plan_cold(state: State<'_>) -> Plan<'_> {
    let mut plan = Plan::new(state);
    let Some(cold) = state.cold else { return plan };
    add_warm_to_drop(&mut plan);
    let urgent = plan.due.len();
    for (at, (stream, tiers)) in state.streams.iter().enumerate() {
        add_stream(&mut plan, at, cold, stream, tiers);
    }
    plan.add_probe();
    let rest = plan.due.split_off(urgent);
    plan.due.extend(one_of_each(&rest));
    plan
}

/// What a stream has for the object store.
fn add_stream(
    plan: &mut Plan<'_>,
    at: usize,
    cold: &ColdTier,
    stream: &Stream,
    tiers: &StreamTiers,
) {
    let store = stream.store();
    if !store.cold().is_reconciled() {
        return plan.add(at, Task::Reconcile, 0);
    }
    if store.has_manifest_to_upload() {
        plan.add(at, Task::UploadManifest, 0);
    }
    let mut uploads = next_uploads(store, tiers, plan.state.now_ms).into_iter();
    if let Some(id) = uploads.next() {
        plan.add(at, Task::Upload(id), 0);
    }
    if let Some(id) = uploads.next().filter(|&id| !store.is_verified_ahead(id)) {
        plan.add(at, Task::VerifyAhead(id), 0);
    }
    let first = store.table().first().map(|entry| entry.meta.segment_id);
    if let Some(first) = first.filter(|first| *first > store.cold().writer().start()) {
        plan.add(at, Task::PublishStart(first), 0);
    }
    for (from_ms, task) in deletes(cold, store, tiers, plan.state.config.cold_delete_after_ms) {
        plan.add(at, task, from_ms);
    }
}

/// Objects that were let go, each with the time when it is due; the soonest.
///
/// Not those of a segment that waits to be uploaded again: their keys must be known to
/// be taken until it has a new one, or a delete could hit the new object. Not those
/// that are read, because another writer kept what this one wanted to let go. Not those
/// before the log's start before the bucket says that it starts later. Not those of a
/// prefix that the log had before: they are out of reach.
fn deletes(cold: &ColdTier, store: &Store, tiers: &StreamTiers, after_ms: u64) -> Vec<(u64, Task)> {
    let first = store.table().first().map_or(SegmentId::from_u64(0), |e| e.meta.segment_id);
    let stays = |id: SegmentId, epoch: u32| match store.table().find(id.as_u32()) {
        _ if store.cold().writer().is_leftover(id, epoch) => false,
        Some(entry) => entry.copies().cold.is_none_or(|cold| cold.epoch == epoch),
        None => id < first && id >= store.cold().writer().start(),
    };
    let queued = store.look_at_manifest(|index| {
        let backoff = tiers.backoff.lock();
        let known = index.pending_deletes().filter_map(|delete| {
            let key = ColdKey::parse(&delete.key)?;
            let (id, epoch) = (key.segment_id(), key.epoch());
            let is_ours = cold.key(store.stream_id(), id, epoch) == delete.key;
            if !is_ours || stays(id, epoch) {
                return None;
            }
            let task = Task::Delete(id, epoch);
            let from_ms = delete.queued_at_ms.saturating_add(after_ms);
            Some((from_ms.max(backoff.due_ms(task)), task))
        });
        let mut known: Vec<(u64, Task)> = known.collect();
        if known.len() > DELETES_MAX {
            known.select_nth_unstable(DELETES_MAX);
            known.truncate(DELETES_MAX);
        }
        known.sort_unstable();
        known
    });
    queued.unwrap_or_default()
}

/// Compressed files over the budget that the object store holds: beside a mapped
/// segment first, then those used longest ago. What must stay for a while is due then.
fn add_warm_to_drop(plan: &mut Plan<'_>) {
    let State { config, streams, now_ms, .. } = plan.state;
    let Some(limit) = config.warm_bytes else { return };
    let mut total = 0;
    let mut candidates = Vec::new();
    for (at, (stream, _)) in streams.iter().enumerate() {
        for entry in stream.store().table().snapshot() {
            let copies = entry.copies();
            let Some(warm) = &copies.warm else { continue };
            let bytes = warm.index().artifact_len();
            total += bytes;
            let stays_ms = entry.warm_since_ms().saturating_add(config.warm_min_ms);
            let id = entry.meta.segment_id;
            let change = Change::Evict(id, Residency::Warm);
            let objections = stream.store().objections(&change, &entry);
            if !objections.is_last_copy && !objections.is_pinned {
                let waits_ms = if stays_ms <= now_ms { 0 } else { stays_ms };
                candidates.push((waits_ms, !entry.is_hot(), entry.last_read(), at, id, bytes));
            }
        }
    }
    candidates.sort_unstable();
    for (waits_ms, _, _, at, id, bytes) in candidates {
        if total <= limit {
            break;
        }
        total -= bytes;
        plan.add(at, Task::DropWarm(id), waits_ms);
    }
}

/// The first task of every stream, then the second of every stream, and so on.
fn one_of_each(by_stream: &[(usize, Task)]) -> Vec<(usize, Task)> {
    let mut ranked = Vec::with_capacity(by_stream.len());
    for of_one in by_stream.chunk_by(|(left, _), (right, _)| left == right) {
        ranked.extend(of_one.iter().enumerate().map(|(rank, &(at, task))| (rank, at, task)));
    }
    ranked.sort_by_key(|&(rank, at, _)| (rank, at));
    ranked.into_iter().map(|(_, at, task)| (at, task)).collect()
}

/// The oldest sealed segment that the object store does not hold, once it is compressed,
/// and the one behind it.
///
/// They are uploaded one at a time and in order, also while one keeps failing: a machine
/// that is lost then leaves a bucket without a hole, whose end is what was archived. Only a
/// segment that can never be uploaded, because it is damaged here, is passed over.
fn next_uploads(store: &Store, tiers: &StreamTiers, now_ms: u64) -> Vec<SegmentId> {
    let mut found = Vec::with_capacity(2);
    for entry in store.table().snapshot() {
        let (id, copies) = (entry.meta.segment_id, entry.copies());
        if entry.sealed_info().is_none() || found.len() == 2 {
            break;
        }
        if entry.damage.is_some() || copies.cold.is_some() || id < store.cold().writer().start() {
            continue;
        }
        let backoff = tiers.backoff.lock();
        let is_hopeless = match copies.warm {
            Some(_) if planted::in_store(StoreBug::UploadsOvertake) => {
                !backoff.is_due(Task::Upload(id), now_ms)
            }
            Some(_) => backoff.is_given_up(Task::Upload(id)),
            None => backoff.is_given_up(Task::Compress(id)),
        };
        match (is_hopeless, copies.warm) {
            (true, _) => {}
            (false, Some(_)) => found.push(id),
            (false, None) => break,
        }
    }
    found
}
