//! A stream of segments: appending, durability, rollover, recovery, reading.
//!
//! [`Aof`] writes and reads, [`AofReader`] only reads. Both give the same reading
//! methods, over what [`source`] abstracts: the segments, and how far they may be
//! read. One file per role; `stream` holds the shared state and says in which
//! order its locks are taken.

mod address;
mod agreement;
mod aof;
mod away;
mod cold_moves;
mod config;
mod cursor;
mod fetch;
mod flush;
mod heal;
mod identity;
mod layout;
mod metrics;
mod moves;
mod open;
mod pieces;
mod position;
mod publish;
mod read_ahead;
mod reader;
mod readonly;
mod record;
mod recovery;
mod remote;
mod retention;
mod rollover;
mod scan;
mod skipped;
mod source;
mod store;
mod stored_index;
mod stream;
mod survey;
mod table;
mod tail;
mod time;
mod transitions;
mod verify;
mod wait;
mod warm_files;

#[cfg(all(test, feature = "model-check"))]
#[allow(clippy::unwrap_used)]
mod model_check;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use address::{is_address, refuse_address};
pub use agreement::{Disagreement, compare_manifest};
pub(crate) use aof::Workers;
pub use aof::{Aof, Level, Sealing, Watermarks};
pub use away::Residency;
pub(crate) use away::{list_cold_tails, store_cold_tail};
pub(crate) use cold_moves::ColdObject;
pub use config::{AofConfig, FlushConfig};
pub use cursor::Start;
pub(crate) use heal::Aside;
pub use layout::{Layout, SegmentListing};
pub use metrics::{HistogramSnapshot, MetricsSnapshot};
pub use position::Position;
pub use reader::AofReader;
#[cfg(test)]
pub(crate) use reader::read_offset;
pub use record::{Batch, Payload, Record, RecordRef};
pub(crate) use remote::{Archive, ArchivedObject};
pub use retention::{KeptReason, KeptSegment, RetentionAction, RetentionPolicy, RetentionReport};
pub use scan::{End, Follow, Hydrate, OffsetRun, OnCorruption, Scan, ScanOptions};
pub use skipped::{SkipReason, SkippedRange};
#[cfg(test)]
pub(crate) use source::Source;
pub use source::Visibility;
pub(crate) use store::{Admission, Comeback, SegmentStore};
pub(crate) use stream::Stream;
pub use stream::{AppendOptions, Appended, AppendedBatch};
pub(crate) use survey::{Found, Present, Survey};
pub(crate) use table::SegmentEntry;
pub use table::{SealedInfo, SegmentInfo};
pub use time::timestamp_refusal;
pub(crate) use verify::verify_archive;
pub use verify::{
    LostRange, Problem, ProblemKind, Progress, RepairAction, RepairReport, SegmentCheck, Severity,
    VerifyProgress, VerifyReport, repair, repair_with, verify, verify_with,
};
pub(crate) use warm_files::WarmFiles;
