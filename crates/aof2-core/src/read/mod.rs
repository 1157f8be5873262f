//! Reading a log: one way to read over a log that is being written, a directory, or a
//! bucket. [`Source`] is what these have in common, [`ReadableLog`] what people call.

mod bucket;
mod cursor;
mod directory;
mod readable;
mod reader;
mod record;
mod scan;
mod segments;
mod skipped;
mod source;
mod url;

pub(crate) use cursor::Cursor;
pub use cursor::Start;
pub use readable::ReadableLog;
pub(crate) use readable::{Handle, Reads, own_methods, readable_log, segment_infos};
pub use reader::AofReader;
pub use record::{Batch, Payload, Record, RecordRef};
pub use scan::{End, Follow, Hydrate, OffsetRun, OnCorruption, Scan, ScanOptions};
pub(crate) use segments::Segments;
pub use skipped::{SkipReason, SkippedRange};
pub(crate) use source::{Comeback, Limit, Source, WaitFuture, Waited};
pub use source::{Visibility, Watermarks};
pub use url::{archived_streams, archived_streams_on};
