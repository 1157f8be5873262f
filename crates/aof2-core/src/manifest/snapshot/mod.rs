//! The index written down, and brought back: snapshot files, and replay from the newest
//! one that counts.

mod file;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fixture;
mod replay;

pub use file::{
    PrunedSnapshots, RejectedSnapshot, SnapshotInfo, list_snapshots, load_newest_snapshot,
    load_snapshot, next_snapshot_id, prune_snapshots, write_snapshot,
};
pub use replay::{ReplayReport, replay};
