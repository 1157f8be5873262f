//! Measures aof2 against what the machine can do, and prints one table.
//!
//! Rows, bounds, clocks and reports are here, and so is aof2 itself. Another log joins by
//! implementing [`Engine`] and [`Log`]. Those of `benches/` do; they are a workspace of
//! their own, because an ordinary build must never compile other storage engines.
//! How it measures: benches/README.md.

mod arguments;
mod bounds;
mod engine;
mod machine;
mod measure;
mod ours;
mod payload;
mod report;
mod row;
mod run;
mod scratch;
mod work;

pub use engine::{Engine, Kind, Log, Plan, Result, Support, Tally, drive, drive_callers};
pub use measure::{Histogram, Latency};
pub use payload::Payloads;
pub use run::{Peers, run};
pub use scratch::{Scratch, remove};
