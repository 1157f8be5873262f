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
//! * [`verify`] checks every byte, [`repair`] quarantines damage; [`verify_url`] and
//!   [`scrub_url`] check a log that is in an object store.
//! * [`io::sim`] is a machine that loses power, for testing what is built on this.
mod error;
pub mod format;
pub mod io;
mod log;
mod manager;
pub mod manifest;
pub mod planted;
mod prometheus;
pub mod segment;
mod sync;
mod tier;

pub use error::{AofError, BackpressureKind, Damage, DivergedLog, Result};
pub use format::{RecordFlags, RecordId, SegmentFormat, SegmentId, StreamId, TIMESTAMP_MS_MAX};
pub use log::{
    Aof, AofConfig, AofReader, AppendOptions, Appended, AppendedBatch, Batch, End, FlushConfig,
    Follow, HistogramSnapshot, Hydrate, KeptReason, KeptSegment, Layout, Level, MetricsSnapshot,
    OffsetRun, OnCorruption, Payload, Position, Record, RecordRef, Residency, RetentionAction,
    RetentionPolicy, RetentionReport, Scan, ScanOptions, SealedInfo, Sealing, SegmentInfo,
    SegmentListing, SkipReason, SkippedRange, Start, Visibility, Watermarks, timestamp_refusal,
};
pub use log::{Disagreement, compare_manifest};
pub use log::{
    LostRange, Problem, ProblemKind, Progress, RepairAction, RepairReport, SegmentCheck, Severity,
    VerifyProgress, VerifyReport, repair, repair_with, verify, verify_with,
};
pub use log::{is_address, refuse_address};
pub use manager::{AofManager, ManagerConfig};
pub use tier::{
    AdmissionPolicy, ColdStatus, SCRUB_SCHEMA_ID, ScrubFinding, ScrubOptions, ScrubOutcome,
    ScrubProgress, ScrubReport, ScrubUnreached, TierConfig, TierMetrics, TierStatus, cold_location,
};
pub use tier::{
    MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, restore, restore_on,
};
pub use tier::{archived_streams, archived_streams_on};
pub use tier::{scrub_bucket_on, scrub_url, verify_bucket_on, verify_url};
