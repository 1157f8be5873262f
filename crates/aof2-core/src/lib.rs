//! An embedded, append-only log: write at memory speed, know exactly which records
//! are durable, read them from any process.
//!
//! ```
//! use aof2_core::{Aof, AofConfig, AofReader, ScanOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("events");
//! let log = Aof::open(AofConfig::new(&path))?;
//! let id = log.append(b"hello")?; // in the page cache when it returns
//! log.flush()?; // durable when it returns
//!
//! let reader = AofReader::open(&path)?; // here or in another process
//! assert_eq!(&*reader.read(id)?.payload, b"hello");
//! for record in reader.scan(ScanOptions::default())? {
//!     let record = record?;
//!     println!("{}: {} bytes", record.offset, record.payload.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`Aof`] is a stream open for appending; [`AofManager`] runs many of them on one
//!   runtime; [`AofReader`] reads a log that another process may be writing.
//!   [`ReadableLog`] is what both have in common, for code that reads through either.
//! * [`verify`] checks every byte, [`repair`] quarantines damage; [`verify_url`] and
//!   [`scrub_url`] check a log that is in an object store.
//! * [`io::sim`] is a machine that loses power, for testing what is built on this.
mod bucket;
pub mod catalog;
mod check;
mod error;
mod fork;
pub mod format;
pub mod io;
mod manager;
pub mod manifest;
pub mod object;
pub mod planted;
mod prometheus;
mod read;
pub mod segment;
mod store;
mod sync;
mod tier;
mod write;

pub use catalog::{Catalog, CatalogConfig, CatalogReader};
pub use check::{
    Disagreement, LostRange, MissingSegment, Problem, ProblemKind, Progress, RepairAction,
    RepairReport, RestoreOptions, RestoreProgress, RestoreReport, SCRUB_SCHEMA_ID, ScrubFinding,
    ScrubOptions, ScrubOutcome, ScrubProgress, ScrubReport, ScrubUnreached, SegmentCheck, Severity,
    VerifyProgress, VerifyReport, compare_manifest, repair, repair_with, restore, restore_on,
    scrub_bucket_on, scrub_url, verify, verify_bucket_on, verify_url, verify_with,
};
pub use error::{AofError, BackpressureKind, Damage, DivergedLog, Result};
pub use fork::{ForkAt, ForkedLog, LogNode, LogRoot, LogTree, SnapshotInfo, Swept};
pub use format::{RecordFlags, RecordId, SegmentFormat, SegmentId, StreamId, TIMESTAMP_MS_MAX};
pub use manager::{Aof, AofManager, Level, ManagerConfig, Sealing};
pub use read::{
    AofReader, Batch, End, Follow, Hydrate, OffsetRun, OnCorruption, Payload, ReadableLog, Record,
    RecordRef, Scan, ScanOptions, SkipReason, SkippedRange, Start, Visibility, Watermarks,
    archived_streams, archived_streams_on,
};
pub use store::{
    Layout, Residency, SealedInfo, SegmentInfo, SegmentListing, cold_location, is_address,
    refuse_address,
};
pub use sync::Position;
pub use tier::{AdmissionPolicy, ColdStatus, TierConfig, TierMetrics, TierStatus};
pub use write::{
    AofConfig, AppendOptions, Appended, AppendedBatch, FlushConfig, HistogramSnapshot, KeptReason,
    KeptSegment, MetricsSnapshot, RetentionAction, RetentionPolicy, RetentionReport,
    timestamp_refusal,
};
