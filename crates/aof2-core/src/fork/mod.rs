//! Snapshots and forks of logs.
//!
//! A *fork* is a log that begins with another log's records up to a place and then goes its
//! own way. A *snapshot* is a place with a name. Neither copies a record, and both cost the
//! same however long the log is.
//!
//! Making a fork, in this order, and what a crash leaves:
//!
//! ```text
//! every log whose segments it reads is locked against removals
//! holds put there and synced         holds without a fork; the next sweep takes them away
//! the first segment is still there   the same (otherwise Trimmed)
//! directory prepared and synced      also a directory with a temporary name, swept as well
//! directory renamed, parent synced   the fork. This is the moment from which it exists
//! holds marked as held               holds that are still pending: the sweep finds the fork
//! ```
//!
//! Dropping a log, in this order:
//!
//! ```text
//! its directory moved to .origins/, both synced   it is gone from the root
//! its own holds on others taken away              some are left; the sweep takes them away
//! what nobody holds removed                       the sweep goes on
//! ```

mod cut;
mod detach;
mod dropping;
mod make;
mod root;
mod shared;
mod snapshot;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;

pub use cut::ForkAt;
pub use root::{ForkedLog, LogRoot};
pub use snapshot::SnapshotInfo;
pub use sweep::Swept;
pub use tree::{LogNode, LogTree};
