//! The cold tier: sealed segments in an object store.
//!
//! [`ColdTier`] is one bucket and prefix, shared by the streams of a manager or opened
//! by a reader that follows a log's `cold/location`. An object is the artifact of the
//! warm tier, byte for byte, under a key that is never used twice; beside the objects of
//! a stream stands its identity, so that a bucket alone is enough to find out what is in
//! it. The log keeps the end of each artifact in `cold/`, so that reading a record costs
//! one ranged request.
//!
//! `names` says which log has a name, `claim` makes one writer the only one, and `view` is
//! what a listing tells anybody of a stream.

mod bucket;
mod chunks;
mod claim;
mod names;
mod place;
mod reconcile;
mod recover;
mod remote;
mod source;
mod store;
mod upload;
mod view;
mod writer;

pub use place::cold_location;
pub(crate) use place::store_location;

pub(crate) use bucket::ColdTier;
pub(crate) use recover::bring;
pub(crate) use remote::{Archive, FoundStream, split_url};
pub(crate) use store::ColdStore;
