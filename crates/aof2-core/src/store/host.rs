//! What a log asks of whoever keeps its sealed segments.
//!
//! The log writes and reads `segments/` itself. Everything else about where segments
//! live is behind [`SegmentStore`]: the tiers implement it, and [`LocalStore`] is for a
//! log without any, which it costs nothing.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{AofError, Result};
use crate::format::{ArtifactIndex, ColdTailName, SegmentId, StreamId, StreamIdentity};
use crate::io::{Clock, Storage};
use crate::manifest::Manifest;
use crate::segment::ArtifactSource;

use super::layout::Layout;
use crate::write::AofConfig;

/// How a log may be opened for writing.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    /// Nothing but its directory is asked.
    Local,
    /// There is no such log yet, here or elsewhere.
    New,
    /// The log that is here.
    Known(StreamIdentity),
    /// The log that is here; whether others write it cannot be asked now.
    Unreached,
    /// A log that the object store holds comes back to an empty directory.
    Returning(StreamIdentity),
}

/// How a request to bring a segment back ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comeback {
    /// It is a file again.
    There,
    /// It cannot come back.
    Refused,
    /// It did not come back in time.
    Late,
}

/// Keeps sealed segments, and says whether there is room for more. What has a default is
/// that of a store that moves nothing and has no limit.
pub(crate) trait SegmentStore: Send + Sync + Debug {
    /// The bytes of a segment that is in the cold tier, of its upload with this epoch.
    /// Asks for nothing yet.
    fn cold_source(&self, index: &ArtifactIndex, epoch: u32) -> Result<Arc<dyn ArtifactSource>>;

    /// The index of a cold segment, from the object itself: what is kept of it here is
    /// damaged. `None` if it cannot be had.
    fn cold_index(&self, _stream_id: StreamId, _name: &ColdTailName) -> Option<ArtifactIndex> {
        None
    }

    /// Called before anything is created, changed or locked: whether this directory may
    /// become, or go on as, the log that was asked for. `local` is the log that is here.
    fn admit(&self, _local: Option<StreamIdentity>, _config: &AofConfig) -> Result<Admission> {
        Ok(Admission::Local)
    }

    /// Called before anything of the log is read, with the writer's lock held: makes this
    /// writer the only one, and brings back what is only known elsewhere.
    fn claim(
        &self,
        _storage: &Arc<dyn Storage>,
        _clock: &dyn Clock,
        _layout: &Layout,
        _admission: &Admission,
    ) -> Result<()> {
        Ok(())
    }

    /// A new log has its identity, and nothing else yet.
    fn created(
        &self,
        _storage: &Arc<dyn Storage>,
        _clock: &dyn Clock,
        _layout: &Layout,
        _identity: &StreamIdentity,
    ) -> Result<()> {
        Ok(())
    }

    /// The log's manifest was opened.
    fn manifest_opened(&self, _manifest: &Manifest) {}

    /// Whether what retention lets go of may be in an object store too, which then has
    /// to be told.
    fn deletes_cold(&self) -> bool {
        false
    }

    /// Brings a segment back to the hot tier for a reader that waits for it.
    fn bring_back(&self, _segment_id: SegmentId) -> Comeback {
        Comeback::Refused
    }

    /// Asks for a segment to come back, without waiting; with `if_room` only if nothing
    /// has to leave for it.
    fn prefetch(&self, _segment_id: SegmentId, _if_room: bool) {}

    /// Whether the writer may go on to another segment, for which it needs so many
    /// bytes. Called with the append lock held: it only looks. Whoever says no raises
    /// the stream's rollover signal once the answer changes.
    fn admits(&self, _bytes: u64) -> bool {
        true
    }

    /// A segment became active. Called with the append lock held.
    fn activated(&self, _segment_bytes: u64) {}

    /// A segment was sealed and has so many bytes of records. [`ring`](Self::ring) comes
    /// once nobody writes it any more.
    fn sealed(&self, _segment_bytes: u64, _durable_bytes: u64) {}

    /// A writer waits for room, or a segment may leave.
    fn ring(&self) {}

    /// The log is closed.
    fn closed(&self) {}

    /// Itself, for those who know more about it than the log does.
    fn as_any(&self) -> &dyn Any;
}

/// The store of a log without tiers: everything is in its directory.
#[derive(Debug, Default)]
pub(crate) struct LocalStore;

impl SegmentStore for LocalStore {
    fn cold_source(&self, index: &ArtifactIndex, _epoch: u32) -> Result<Arc<dyn ArtifactSource>> {
        Ok(Arc::new(Unreachable(
            format!("segment {} (cold tier)", index.summary.segment_id).into(),
        )))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Cold bytes that nobody was told how to reach.
#[derive(Debug)]
struct Unreachable(std::path::PathBuf);

impl ArtifactSource for Unreachable {
    fn len(&self) -> u64 {
        0
    }

    fn read_at(&self, _offset: u64, _len: usize) -> Result<Bytes> {
        Err(AofError::InvalidConfig {
            field: "tiers",
            reason: format!(
                "{} can be read only by a handle that was opened with the cold tier",
                self.0.display()
            ),
        })
    }

    fn name(&self) -> &std::path::Path {
        &self.0
    }
}
