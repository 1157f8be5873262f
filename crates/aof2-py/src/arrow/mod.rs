//! Arrow data in and out, by the Arrow PyCapsule interface.
//!
//! In: [`chunks`] takes the C structures out of capsules, [`plan`] finds the columns,
//! [`rows`] checks every row, reading the structures through [`window`], and [`append`]
//! appends them. Out: [`scan`] is what Python holds, [`batches`] reads the log, and
//! [`build`] makes arrays of [`columns`] in memory from a [`shelf`].

mod append;
mod batches;
mod build;
mod chunks;
mod columns;
mod plan;
mod rows;
mod scan;
mod shelf;
mod window;

pub use self::append::{AppendedArrow, append_arrow};
pub use self::plan::ColumnNames;
pub use self::scan::ArrowScan;
