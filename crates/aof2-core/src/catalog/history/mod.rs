//! What the tables were, for those who know no types: rows as plain values, the state after
//! an earlier batch, what differs between two, and whether the operation log is one history.
//! Reads only.

mod at;
mod chain;
mod columns;
mod diff;
mod rows;

pub use at::view_at;
pub use chain::OperationLogReport;
pub use columns::{Column, ColumnKind};
pub use diff::RowChange;
