//! The object store seam: what the cold tier asks of a bucket.
//!
//! [`ObjectStore`] is the trait: each of its required methods is one request. The
//! implementations are `object::s3` (feature `s3`) and [`SimBucket`](crate::object::sim::SimBucket),
//! a model that fails on demand. [`ResilientStore`] wraps either and is what the
//! rest of the crate uses: retries with backoff and jitter, one probe for a store that
//! does not answer, a deadline for every operation, a bound on requests in flight, multipart uploads,
//! and uploads whose answer was lost recognised as done.
//!
//! Keys are whole keys inside the bucket, with the prefix. An object, once there,
//! is never written again: [`ObjectStore::put_new`] creates or refuses.

mod admission;
mod availability;
mod blocking;
mod body;
mod config;
mod counters;
mod error;
mod multipart;
mod resilient;
#[cfg(feature = "s3")]
pub mod s3;
mod secret;
pub mod sim;
mod store;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use availability::Outage;
pub use blocking::{BlockingStore, Coming};
pub use body::ObjectBody;
pub use config::{ColdConfig, ColdUrl, Sse};
pub use counters::{ObjectMetrics, OpMetrics};
pub use error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
pub use resilient::ResilientStore;
pub use secret::ColdSecrets;
pub use store::{
    CRC_METADATA_KEY, Capabilities, ListPage, ObjectEntry, ObjectFuture, ObjectHead, ObjectMeta,
    ObjectStore, Part, PutOutcome, UnfinishedUpload, read_whole,
};
