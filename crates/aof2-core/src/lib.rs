//! aof2: an embedded, append-only log.
mod error;
pub mod format;
pub mod io;
mod log;
mod manager;
pub mod planted;
pub mod segment;
mod sync;

pub use error::{AofError, BackpressureKind, Damage, Result};
pub use format::{RecordFlags, RecordId, SegmentFormat, SegmentId, StreamId};
pub use log::{
    Aof, AofConfig, AofReader, AppendOptions, Appended, AppendedBatch, Batch, End, FlushConfig,
    Follow, HistogramSnapshot, Layout, Level, MetricsSnapshot, OnCorruption, Payload, Position,
    Record, RecordRef, RetentionAction, RetentionPolicy, RetentionReport, Scan, ScanOptions,
    SealedInfo, SegmentInfo, SegmentListing, Start, Visibility, Watermarks,
};
pub use manager::{AofManager, ManagerConfig};
pub use log::{
    LostRange, Problem, ProblemKind, RepairAction, RepairReport, SegmentCheck, Severity,
    VerifyProgress, VerifyReport, repair, repair_with, verify, verify_with,
};
