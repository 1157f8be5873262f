//! Scrubbing at an interval: one segment at a time, the oldest first, within the budget,
//! for as long as the log is open.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::host::ScrubHost;
use super::options::ScrubOptions;
use super::pace::Pace;
use super::progress::Telling;
use super::run::Scrub;
use super::saved::{Saved, told};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::store::Residency;
use crate::write::Stream;

/// How often it is written down how far a scrub has got.
const SAVE_MS: u64 = 60_000;

/// What a stream remembers of its scrubs.
#[derive(Debug, Default)]
pub(crate) struct ScrubState {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    saved: Saved,
    is_running: bool,
    /// When that was written down.
    saved_at_ms: u64,
    /// Copies that are damaged and could not be healed.
    ill: BTreeSet<(SegmentId, Residency)>,
}

impl ScrubState {
    /// Takes up what an earlier process left. A log that is scrubbed for the first time
    /// says since when, so that the time adds up over restarts.
    pub(crate) fn resume(&self, stream: &Stream, now_ms: u64, interval_ms: u64) {
        let mut saved = Saved::load(stream);
        let is_new = saved.since_ms.is_none();
        saved.since_ms.get_or_insert(now_ms);
        if is_new && interval_ms > 0 {
            told(saved.store(stream));
        }
        let mut state = self.state.lock();
        state.saved = saved;
        state.is_running = saved.reached.is_some();
    }

    /// Everything was checked.
    pub(super) fn complete(&self, stream: &Stream, now_ms: u64) {
        let saved = {
            let mut state = self.state.lock();
            state.is_running = false;
            state.saved.completed_ms = Some(now_ms);
            state.saved.reached = None;
            state.saved
        };
        told(saved.store(stream));
    }

    /// One more segment was checked.
    fn reach(&self, stream: &Stream, segment_id: SegmentId, now_ms: u64) {
        let saved = {
            let mut state = self.state.lock();
            state.saved.reached = Some(segment_id);
            if now_ms < state.saved_at_ms.saturating_add(SAVE_MS) {
                return;
            }
            state.saved_at_ms = now_ms;
            state.saved
        };
        told(saved.store(stream));
    }

    /// A copy is damaged. Whether that is news.
    pub(super) fn is_ill(&self, segment_id: SegmentId, tier: Residency) -> bool {
        self.state.lock().ill.insert((segment_id, tier))
    }

    /// A copy is good, or not there any more.
    pub(super) fn is_well(&self, segment_id: SegmentId, tier: Residency) {
        self.state.lock().ill.remove(&(segment_id, tier));
    }

    /// Segments with a copy that is damaged and could not be healed, of those that are
    /// still there.
    pub(crate) fn needs_repair(&self, stream: &Stream) -> u64 {
        let mut state = self.state.lock();
        let is_there = |id: SegmentId| stream.store().table().find(id.as_u32()).is_some();
        state.ill.retain(|(id, _)| is_there(*id));
        let segments: BTreeSet<SegmentId> = state.ill.iter().map(|(id, _)| *id).collect();
        segments.len() as u64
    }

    /// When the last scrub of everything ended.
    pub(crate) fn completed_ms(&self) -> Option<u64> {
        self.state.lock().saved.completed_ms
    }

    /// When the next step is due.
    pub(crate) fn due_ms(&self, now_ms: u64, interval_ms: u64) -> u64 {
        let state = self.state.lock();
        if state.is_running {
            return now_ms;
        }
        let Saved { since_ms, completed_ms, .. } = state.saved;
        completed_ms.or(since_ms).unwrap_or(now_ms).saturating_add(interval_ms)
    }
}

/// Checks the next segment of a scrub at an interval, or ends the scrub when there is none.
pub(crate) fn scrub_next(stream: &Arc<Stream>, host: &dyn ScrubHost, bytes_per_second: u64) {
    let store = stream.store();
    let next = {
        let mut state = host.state().state.lock();
        state.is_running = true;
        let next = match state.saved.reached {
            Some(reached) => store.table().after(reached.as_u32()),
            None => store.table().first(),
        };
        next.filter(|entry| entry.sealed_info().is_some()).map(|entry| entry.meta.segment_id)
    };
    let Some(segment_id) = next else {
        host.state().complete(stream, store.now_ms());
        tracing::info!(stream = %store.name(), "every copy was checked");
        return;
    };
    let options =
        ScrubOptions { bytes_per_second: Some(bytes_per_second), ..ScrubOptions::default() };
    let pace = Pace::new(Arc::clone(stream), options.bytes_per_second);
    let mut silent = |_: &_| ControlFlow::Continue(());
    let telling = Telling::new(Arc::clone(&pace), 1, &mut silent);
    let mut scrub = Scrub::new(stream, host, &options, pace, telling);
    match scrub.all(&[segment_id]) {
        Ok(()) => {}
        // The next process continues here.
        Err(AofError::Closed | AofError::Forked) => return,
        Err(error) => {
            tracing::warn!(%error, segment = segment_id.as_u64(), "a scrub passed it over");
        }
    }
    scrub.finish();
    host.state().reach(stream, segment_id, store.now_ms());
}
