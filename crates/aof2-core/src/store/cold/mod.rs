//! The cold tier of a log's directory: what it knows of its bucket, and what it does there.
//!
//! [`ColdStore`] is the bucket as an open log or a reader has it. The log keeps the end of
//! each artifact in `cold/`, so that reading a record costs one ranged request. `writer`
//! admits a directory that opens its log for writing, `recover` and `reconcile` claim the
//! log and compare the two, `upload` puts and deletes objects.

mod place;
mod reconcile;
mod recover;
mod store;
mod upload;
mod writer;

pub use place::cold_location;
pub(crate) use place::store_location;
pub(crate) use recover::bring;
pub(crate) use store::ColdStore;
