//! What readers need of a log, whether this process writes it or another one does.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::segment::Segment;
use crate::store::{Inherited, SegmentEntry, SegmentTable};
use crate::sync::Position;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Only records that no crash can take back.
    #[default]
    Durable,
    /// Everything appended, including what a crash may still lose.
    Appended,
}

/// How far a stream has got: next logical offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Records below this are appended: in the page cache, safe from the death of
    /// this process.
    pub appended: u64,
    /// Records below this are durable: safe from a power cut.
    pub durable: u64,
    /// Records below this are in the object store: safe from the loss of the machine. 0
    /// as long as none is.
    pub archived: u64,
}

/// The end of what a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) position: Position,
    /// First logical offset behind it.
    pub(crate) next_offset: u64,
}

/// How a request to bring a segment back to the hot tier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comeback {
    /// It is a file again.
    There,
    /// It cannot come back.
    Refused,
    /// It did not come back in time.
    Late,
}

/// How a wait for more records ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Moved,
    TimedOut,
    /// No more records will come through this handle.
    Stopped,
}

pub(crate) type WaitFuture<'a> = Pin<Box<dyn Future<Output = Result<Waited>> + Send + 'a>>;

pub(crate) trait Source: Send + Sync + Debug {
    fn storage(&self) -> &dyn Storage;
    fn table(&self) -> &SegmentTable;
    /// What the log has from others, if it is a fork.
    fn inherited(&self) -> Option<Arc<Inherited>> {
        None
    }
    /// Whether lookups may keep what they learn in memory.
    fn remembers(&self) -> bool;
    /// Refuses reads through a handle that is closed or was forked.
    fn check(&self) -> Result<()>;
    fn limit(&self, visibility: Visibility) -> Result<Limit>;
    /// How far the log has got.
    fn watermarks(&self) -> Result<Watermarks>;
    /// Which records are visible to reads of single ones that do not say.
    fn read_visibility(&self) -> Visibility {
        Visibility::Durable
    }
    /// End of the records in a segment that lies wholly before the limit.
    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32>;
    /// Looks for segments that appeared or vanished.
    fn refresh(&self) -> Result<()>;
    /// Looks for what nobody announces, unless everything below the offset `wanted` is
    /// known. Whether it did: not if that was a moment ago, or if everything is announced.
    fn look_again(&self, _wanted: Option<u64>) -> Result<bool> {
        Ok(false)
    }
    /// Waits for records behind `seen`. A writer elsewhere that closes the log stops the
    /// wait only with `until_closed`: another one may open it. This handle's own writer
    /// always does.
    fn wait_beyond(
        &self,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
        deadline: Option<Instant>,
    ) -> Result<Waited>;
    fn wait_beyond_async(
        self: Arc<Self>,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
    ) -> WaitFuture<'static>;
    fn note_corrupt(&self);
    /// A read that does not wait was refused.
    fn note_blocked(&self) {}
    /// Brings a segment back to the hot tier, if this handle can.
    fn bring_back(&self, _segment_id: SegmentId) -> Comeback {
        Comeback::Refused
    }
    /// Asks for that without waiting; with `if_space` only if nothing has to leave for it.
    fn prefetch(&self, _segment_id: SegmentId, _if_space: bool) {}
}
