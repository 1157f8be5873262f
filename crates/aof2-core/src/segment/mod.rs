//! One segment file: prepare it, append to it, make it durable, seal it, scan it,
//! read it.
//!
//! A segment lives through four shapes. A [`Spare`] is an allocated, faulted-in
//! file with a temporary name. Activated, it becomes a [`Segment`] that readers
//! share, a [`SegmentAppender`] that the log's append lock guards, and a
//! [`SegmentFlush`] that whoever syncs it uses. Sealed, only the file remains and
//! is opened again as a read-only [`Segment`]; compressed, it is an [`Artifact`] and
//! read as windows. Nothing here knows about streams of segments, watermarks or
//! threads.

mod append;
mod artifact;
mod flush;
mod index;
mod read;
mod scan;
mod spare;

pub use append::{SegmentAppendResult, SegmentAppender, SegmentFull};
pub use artifact::{
    Artifact, ArtifactOptions, ArtifactSource, FileSource, Written, hydrate, write_artifact,
};
pub(crate) use artifact::{Stretch, frame_at, stretches};
pub use flush::{SealRequest, SegmentFlush};
pub use read::{Segment, SegmentMeta};
pub use scan::{ScanStop, TailScan, resync};
pub(crate) use spare::FIRST_PAGES_LEN;
pub use spare::{Spare, SpareSync};
