//! Where sealed segments live once they are not the newest: hot as mapped segment files,
//! warm as seekable zstd on the local disk.
//!
//! A [`Coordinator`] belongs to a manager and keeps the streams that were opened with
//! tiers within their budgets. It decides; the steps themselves, and what a crash
//! between them leaves, are in `log::moves`. A stream sees of it only its
//! [`StreamTiers`], through `log`'s `SegmentStore`.

mod activation;
mod backoff;
mod config;
mod coordinator;
mod handle;
mod jobs;
mod plan;
mod status;
mod stream;

pub use config::{AdmissionPolicy, TierConfig};
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub(crate) use coordinator::Coordinator;
pub use status::{TierMetrics, TierStatus};
pub(crate) use stream::StreamTiers;
