//! What the tiers of a stream hold and did, as it is told.

mod prometheus;

use std::sync::Arc;

use super::counters::TierMetrics;
use super::stream::StreamTiers;
use crate::object::{Capabilities, ObjectMetrics};
use crate::store::SegmentEntry;
use crate::write::Stream;

/// What the object store holds of a stream, and how it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColdStatus {
    /// Where: `s3://bucket/prefix`.
    pub url: String,
    /// Segments it holds.
    pub segments: u64,
    /// Their bytes there.
    pub bytes: u64,
    /// Records below this offset are in it.
    pub archived: u64,
    /// Sealed segments that it does not hold yet.
    pub uploads_pending: u64,
    /// Objects that are to be deleted.
    pub deletes_pending: u64,
    /// What the endpoint can do, once it was asked.
    pub capabilities: Option<Capabilities>,
    /// Requests of all streams of the manager.
    pub requests: ObjectMetrics,
    /// Why something that should be done is not, if so.
    pub error: Option<String>,
}

/// What the tiers of a stream hold now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TierStatus {
    /// Segments in the hot tier, those being written included.
    pub hot_segments: u64,
    /// Their bytes.
    pub hot_bytes: u64,
    /// Limit for the hot tiers of all streams of the manager.
    pub hot_bytes_max: u64,
    /// The stream's own limit.
    pub stream_hot_bytes_max: Option<u64>,
    /// Segments with a compressed copy on the local disk.
    pub warm_segments: u64,
    /// Bytes of the copies.
    pub warm_bytes: u64,
    /// Limit for the copies of all streams of the manager.
    pub warm_bytes_max: Option<u64>,
    /// What the object store holds, if there is one.
    pub cold: Option<ColdStatus>,
    /// Segments that only lower tiers hold.
    pub evicted_segments: u64,
    /// Segments that may not leave the hot tier.
    pub pinned_segments: u64,
    /// Segments that somebody asked to come back.
    pub activations_pending: u64,
    /// Segments with a copy that the last check found damaged and could not heal.
    pub needs_repair_segments: u64,
    /// When the last scrub of everything ended, milliseconds since the epoch; `None` if
    /// none did yet.
    pub last_scrub_ms: Option<u64>,
    /// What moved.
    pub metrics: TierMetrics,
}

impl StreamTiers {
    pub(crate) fn status(&self) -> TierStatus {
        // A stream that was fenced still says so.
        let stream = self.attached().filter(|stream| stream.is_sound());
        stream.map_or_else(TierStatus::default, |stream| TierStatus::of(self, &stream))
    }
}

impl TierStatus {
    fn of(tiers: &StreamTiers, stream: &Stream) -> Self {
        let mut status = Self {
            hot_bytes: stream.store().hot_usage().total(),
            hot_bytes_max: tiers.coordinator.config().hot_bytes,
            stream_hot_bytes_max: tiers.hot_bytes,
            warm_bytes_max: tiers.coordinator.config().warm_bytes,
            cold: Self::cold_of(tiers, stream),
            pinned_segments: stream.store().pinned_count() as u64,
            activations_pending: tiers.activations.lock().len() as u64,
            needs_repair_segments: tiers.scrub.needs_repair(stream),
            last_scrub_ms: tiers.scrub.completed_ms(),
            metrics: TierMetrics {
                cold_missing: stream.store().cold().missing_count(),
                ..tiers.counters.snapshot()
            },
            ..Self::default()
        };
        for entry in stream.store().table().snapshot() {
            match entry.is_hot() {
                true => status.hot_segments += 1,
                false => status.evicted_segments += 1,
            }
            let copies = entry.copies();
            if let Some(warm) = copies.warm {
                status.warm_segments += 1;
                status.warm_bytes += warm.index().artifact_len();
            }
            if let (Some(held), Some(cold)) = (copies.cold, &mut status.cold) {
                cold.segments += 1;
                cold.bytes += held.len();
            }
        }
        status
    }

    fn cold_of(tiers: &StreamTiers, stream: &Stream) -> Option<ColdStatus> {
        let cold = tiers.coordinator.cold()?;
        Some(ColdStatus {
            url: cold.url().to_string(),
            archived: stream.store().archived().count(),
            uploads_pending: uploads_pending(stream),
            deletes_pending: stream
                .store()
                .look_at_manifest(|index| index.pending_deletes().count() as u64)
                .unwrap_or(0),
            capabilities: cold.capabilities(),
            requests: cold.metrics(),
            // Whoever was just told that the log is another's finds the reason here.
            error: stream.fence_error().map(|e| e.to_string()).or_else(|| tiers.cold_error()),
            ..ColdStatus::default()
        })
    }
}

/// How many sealed segments are not in the object store.
fn uploads_pending(stream: &Stream) -> u64 {
    let entries = stream.store().table().snapshot();
    let is_waiting = |entry: &&Arc<SegmentEntry>| {
        entry.sealed_info().is_some() && entry.damage.is_none() && entry.copies().cold.is_none()
    };
    entries.iter().filter(is_waiting).count() as u64
}
