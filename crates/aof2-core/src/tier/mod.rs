//! Where sealed segments live once they are not the newest: hot as mapped segment files,
//! warm as seekable zstd on the local disk, cold in an object store.
//!
//! This layer decides, and remembers how it went. It starts no thread: whoever asks what
//! is due runs it, the manager's workers on blocking threads, a simulation one by one.
//!
//! ```text
//! budgets, state ──plan──► tasks with the time they are due      local_plan, cold_plan, scrub
//!       ▲                       │ Coordinator::due(lane)
//!       │                      jobs: a task of one stream, taken  task
//!       │                       │ Job::run, or a user's call      run
//!       │                 Store::apply(Change)
//!       └──── backoff, counters ┘                                 outcome
//! ```
//!
//! A plan is made from what the store shows, so a crash loses none: the next one finds the
//! same things to do. What a crash within a change leaves is told by `store::change`. A
//! stream sees only its [`StreamTiers`], through the trait `write::Tiers`.

mod activation;
mod budget;
mod cold_plan;
mod config;
mod coordinator;
mod counters;
mod local_plan;
mod outcome;
mod plan;
mod requests;
mod run;
mod scrub;
mod status;
mod stream;
mod task;

pub use config::{AdmissionPolicy, TierConfig};
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub(crate) use activation::Priority;
pub(crate) use coordinator::Coordinator;
pub use counters::TierMetrics;
pub use status::{ColdStatus, TierStatus};
pub(crate) use stream::StreamTiers;
pub(crate) use task::{Lane, Task};
