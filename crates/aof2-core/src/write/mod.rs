//! Writing a log: appending, durability, rollover, recovery, retention. One file per role;
//! `stream` holds the shared state of an open log and says in which order its locks are
//! taken.

mod append;
mod backpressure;
mod config;
mod flush;
mod metrics;
mod open;
mod owner;
mod recovery;
mod retention;
mod rollover;
mod source;
mod stream;
mod tail;
mod tiers;
mod time;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use append::{AppendOptions, Appended, AppendedBatch};
pub use config::{AofConfig, FlushConfig};
pub use metrics::{HistogramSnapshot, MetricsSnapshot};
pub use retention::{KeptReason, KeptSegment, RetentionAction, RetentionPolicy, RetentionReport};
pub(crate) use stream::Stream;
pub(crate) use tiers::{NoTiers, Tiers};
pub use time::timestamp_refusal;
