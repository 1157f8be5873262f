//! The kinds of change, one file each. `store::apply` says in which order they are made,
//! `store::change` what a crash leaves.

mod compress;
mod delete;
mod drop;
mod evict;
mod fetch;
mod forget;
mod hydrate;
mod set_aside;
mod upload;

pub(super) use compress::Compress;
pub(super) use delete::Delete;
pub(super) use drop::DropSegment;
pub(super) use evict::{EvictHot, EvictWarm};
pub(super) use fetch::Fetch;
pub(super) use forget::Forget;
pub(super) use hydrate::Hydrate;
pub(super) use set_aside::SetAside;
pub(super) use upload::Upload;
