//! The catalog of a directory of logs and page stores: what was decided about things that
//! they share, such as names, snapshots, forks, jobs, objects in buckets.
//!
//! The operation log is the truth, the tables are what it adds up to. One process at a time
//! writes; any number read, without a lock. A batch of operations is decided by the engine,
//! becomes durable as one record of the operation log, is applied to the tables by the same
//! function that replays the log, and only then are its callers told. So the tables may be
//! deleted at any time, a crash leaves nothing half done, and every process that applies the
//! log gets the same tables.
//!
//! `docs/catalog.md` has the files, the tables, and what is left by a crash.

mod api;
mod apply;
mod backend;
mod checkpoint;
mod config;
mod core;
mod cursors;
mod database;
mod engine;
mod feed;
mod guard;
mod history;
mod intents;
mod kept;
mod layout;
mod metrics;
mod migrate;
mod open;
mod reader;
mod rebuild;
mod records;
mod recover;
mod replay;
mod retain;
mod state;
mod tables;
mod trim;
mod verify;
mod view;
mod writer;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use api::{CheckpointSpec, ForkSpec, JobSpec, ObjectSpec, SnapshotSpec};
pub use config::CatalogConfig;
pub use engine::Request;
pub use feed::{Audit, Feed};
pub use guard::{Committed, Guard};
pub use history::{Column, ColumnKind, OperationLogReport, RowChange, view_at};
pub use intents::{IntentHost, RolledForward};
pub use metrics::CatalogMetrics;
pub use open::Catalog;
pub use reader::CatalogReader;
pub use rebuild::{Adopted, LOST_WITH_THE_LOG, Rebuilt};
pub use records::{
    ChunkRecord, ComponentKind, ComponentRecord, DbRecord, DeltaRecord, ForkOrigin, IntentRecord,
    IntentSegment, JobRecord, JobState, METRIC_BOUNDS, MetricRecord, MigrationRecord,
    NamespaceRecord, RefcountRecord, SnapshotRecord, WalChunkPointer, WalState,
};
pub use recover::{Recovery, TablesFrom};
pub use retain::DroppedSnapshot;
pub use tables::Table;
pub use verify::CatalogProblem;
pub use view::View;

// What operations are made of.
pub use crate::format::operation::{
    ChunkCompression, ChunkFields, ChunkMutation, ChunkResidency, DbKind, DbStatus, DeltaFields,
    JobKind, JobOutcome, ObjectName, Operation, OperationBatch, OperationBody, OperationId, Phase,
    Policy, RemoteObject, SegmentRef, Value, Variant,
};
