//! One thing to do for one stream. A plan only names tasks; a [`Job`] is a task that
//! somebody has taken, and is not planned again until it is dropped.

use std::fmt;
use std::sync::Arc;

use super::stream::StreamTiers;
use crate::format::SegmentId;
use crate::write::Stream;

/// What is to be done. Of failures an operator is told the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// A segment leaves the hot tier, compressed first if no other tier holds it.
    Evict(SegmentId),
    /// A segment comes back into the hot tier.
    Hydrate(SegmentId),
    /// A segment gets a compressed copy, for the object store.
    Compress(SegmentId),
    /// Ends the segment that is being written, so that it can be archived.
    Seal,
    /// Before the first upload: who writes, what was left unfinished, what is missing.
    Reconcile,
    /// Uploads the manifest's sealed chunks.
    UploadManifest,
    /// Puts a sealed segment into the object store.
    Upload(SegmentId),
    /// Verifies the compressed file that is uploaded next, while another is on its way.
    VerifyAhead(SegmentId),
    /// Removes the compressed file of a segment that the object store holds.
    DropWarm(SegmentId),
    /// Publishes where the log begins, before anything older is deleted.
    PublishStart(SegmentId),
    /// Deletes an object that was let go, by segment and epoch.
    Delete(SegmentId, u32),
    /// Asks a store that does not answer whether it is back, for all streams.
    Probe,
    /// Checks the copies of the next segment.
    Scrub,
}

/// A kind of background work of a manager. Lanes do not wait for each other: a slow network
/// must not keep the local tiers waiting, nor a scrub an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Segments between the local tiers.
    Moves,
    /// What concerns the object store.
    Cold,
    /// Checks of every copy.
    Scrub,
}

impl Task {
    pub(super) fn lane(self) -> Lane {
        match self {
            Self::Evict(_) | Self::Hydrate(_) | Self::Compress(_) | Self::Seal => Lane::Moves,
            Self::Reconcile
            | Self::UploadManifest
            | Self::Upload(_)
            | Self::VerifyAhead(_)
            | Self::DropWarm(_)
            | Self::PublishStart(_)
            | Self::Delete(..)
            | Self::Probe => Lane::Cold,
            Self::Scrub => Lane::Scrub,
        }
    }

    /// Whether it cannot be done without an answer of the object store.
    pub(super) fn needs_store(self) -> bool {
        self.lane() == Lane::Cold && !matches!(self, Self::VerifyAhead(_) | Self::Probe)
    }
}

/// A task of one stream; it holds the stream for as long as it exists.
pub(crate) struct Job {
    pub(super) task: Task,
    pub(super) stream: Arc<Stream>,
    pub(super) tiers: Arc<StreamTiers>,
}

impl Job {
    /// Takes a task; `None` if somebody has it already.
    pub(super) fn take(task: Task, stream: &Arc<Stream>, tiers: &Arc<StreamTiers>) -> Option<Self> {
        let is_free = tiers.running.lock().insert(task);
        is_free.then(|| Self { task, stream: Arc::clone(stream), tiers: Arc::clone(tiers) })
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.stream.store().name();
        f.debug_struct("Job").field("stream", &stream).field("task", &self.task).finish()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.tiers.running.lock().remove(&self.task);
    }
}
