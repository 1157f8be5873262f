//! Where sealed segments live once they are not the newest: hot as mapped segment files,
//! warm as seekable zstd on the local disk, cold in an object store.
//!
//! A [`Coordinator`] belongs to a manager and keeps the streams that were opened with
//! tiers within their budgets. It decides; the steps themselves, and what a crash
//! between them leaves, are those of `store::apply`. A stream sees of it only its
//! [`StreamTiers`], through the trait `write::Tiers`.

mod activation;
mod archive;
mod backoff;
mod cold_plan;
mod config;
mod coordinator;
mod jobs;
mod lanes;
mod outage;
mod pins;
mod plan;
mod scrub;
mod status;
mod stream;

pub use config::{AdmissionPolicy, TierConfig};
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub(crate) use activation::Priority;
pub(crate) use archive::upload_through;
pub(crate) use coordinator::Coordinator;
pub(crate) use jobs::Job;
pub(crate) use lanes::Lane;
pub use status::{ColdStatus, TierMetrics, TierStatus};
pub(crate) use stream::StreamTiers;
