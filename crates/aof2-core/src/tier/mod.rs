//! Where sealed segments live once they are not the newest: hot as mapped segment files,
//! warm as seekable zstd on the local disk, cold in an object store.
//!
//! A [`Coordinator`] belongs to a manager and keeps the streams that were opened with
//! tiers within their budgets. It decides; the steps themselves, and what a crash
//! between them leaves, are in `log::moves`. A stream sees of it only its
//! [`StreamTiers`], through `log`'s `SegmentStore`.

mod activation;
mod archive;
mod backoff;
mod cold;
mod cold_plan;
mod config;
mod coordinator;
mod handle;
mod jobs;
mod lanes;
mod outage;
mod pins;
mod plan;
mod reader;
mod reconcile;
mod scrub;
mod status;
mod stream;
mod verify;
mod writer;

pub use config::{AdmissionPolicy, TierConfig};
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub(crate) use cold::ReachStore;
pub use cold::{
    MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, cold_location, restore,
    restore_on,
};
pub(crate) use coordinator::Coordinator;
pub(crate) use lanes::Lane;
pub use reader::{archived_streams, archived_streams_on};
pub use scrub::{
    SCRUB_SCHEMA_ID, ScrubFinding, ScrubOptions, ScrubOutcome, ScrubProgress, ScrubReport,
    ScrubUnreached, scrub_bucket_on, scrub_url,
};
pub use status::{ColdStatus, TierMetrics, TierStatus};
pub(crate) use stream::StreamTiers;
pub use verify::{verify_bucket_on, verify_url};
