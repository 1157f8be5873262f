//! When the next segment is scrubbed, and what a scrub means for the tiers.

use std::sync::Arc;

use super::activation::Priority;
use super::archive::upload_now;
use super::coordinator::Coordinator;
use super::jobs::Job;
use super::stream::StreamTiers;
use crate::check::{ScrubCounters, ScrubHost, ScrubState, scrub_next};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::write::Stream;

/// The next segment of a scrub; it holds the stream for as long as it runs.
#[derive(Debug)]
pub(crate) struct ScrubJob {
    stream: Arc<Stream>,
    tiers: Arc<StreamTiers>,
}

impl ScrubJob {
    pub(crate) fn run(self) {
        let bytes_per_second = self.tiers.coordinator.config().scrub_bytes_per_second;
        scrub_next(&self.stream, &*self.tiers, bytes_per_second);
    }
}

impl Coordinator {
    /// A step of a scrub that is due at this time, the one that waits longest first.
    pub(super) fn plan_scrub(&self, now_ms: u64) -> Option<ScrubJob> {
        let interval_ms = self.config().scrub_interval_ms;
        if interval_ms == 0 {
            return None;
        }
        let due = self.open_streams().into_iter().filter_map(|(stream, tiers)| {
            let due_ms = tiers.scrub.due_ms(now_ms, interval_ms);
            (due_ms <= now_ms).then_some((due_ms, ScrubJob { stream, tiers }))
        });
        due.min_by_key(|(due_ms, _)| *due_ms).map(|(_, job)| job)
    }

    /// When the next scrub is due after this time, if no stream is opened; `None`: never.
    pub(super) fn next_scrub_ms(&self, now_ms: u64) -> Option<u64> {
        let interval_ms = self.config().scrub_interval_ms;
        let streams = self.open_streams();
        streams.iter().map(|(_, tiers)| tiers.scrub.due_ms(now_ms, interval_ms)).min()
    }
}

impl ScrubHost for StreamTiers {
    fn state(&self) -> &ScrubState {
        &self.scrub
    }

    fn counters(&self) -> &ScrubCounters {
        &self.counters.scrub
    }

    fn compress(&self, segment_id: SegmentId) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        Job::compress_now(&stream, self, segment_id).map(drop)
    }

    fn upload(&self, segment_id: SegmentId) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        upload_now(&stream, self, segment_id).map(drop)
    }

    fn prefetch(&self, segment_id: SegmentId) {
        // A refusal leaves it where it is.
        let _ = self.ask(segment_id, Priority::Prefetch);
    }

    fn healed(&self, segment_id: SegmentId) {
        self.forget_failures(segment_id);
    }

    fn changed(&self) {
        if let Some(stream) = self.stream() {
            self.moved(&stream);
        }
    }
}
