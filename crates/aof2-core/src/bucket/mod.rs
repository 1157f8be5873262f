//! One log in a bucket: its objects, its name, who may write it, and what a listing means.
//!
//! [`ColdTier`] is one bucket and prefix, shared by the streams of a manager or opened
//! by a reader that follows a log's `cold/location`. An object is the artifact of the
//! warm tier, byte for byte, under a key that is never used twice; beside the objects of
//! a stream stands its identity, so that a bucket alone is enough to find out what is in
//! it.
//!
//! `names` says which log has a name, `claim` makes one writer the only one, `view` is
//! what a listing tells anybody of a stream, `remote` finds one by its address. Nothing
//! here knows the directory of a log.

mod chunks;
mod claim;
mod names;
mod object;
mod remote;
mod source;
mod tier;
mod view;

pub(crate) use chunks::ColdChunks;
pub(crate) use claim::{Claim, Claimant};
pub(crate) use names::{ANOTHER_PREFIX, RECOVER};
pub(crate) use object::ArchivedObject;
pub(crate) use remote::{Archive, FoundStream, split_url};
pub(crate) use tier::{ColdTier, StoredObject};
