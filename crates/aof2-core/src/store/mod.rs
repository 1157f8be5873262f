//! Which segments a log has, where each copy of them is, and the only code that changes
//! that.
//!
//! A segment has up to three copies: *hot*, a segment file that is mapped; *warm*, a
//! compressed file; *cold*, an object in a bucket. The segment table says which there are,
//! and whoever reads finds them through it.

mod address;
mod away;
pub(crate) mod cold;
mod cold_moves;
mod files;
mod heal;
pub(crate) mod identity;
mod layout;
mod moves;
mod publish;
mod quarantine;
mod remove;
mod store;
pub(crate) mod stored_index;
mod survey;
mod table;
mod transitions;
mod warm;
mod windows;

pub use address::{is_address, refuse_address};
pub use away::Residency;
pub(crate) use away::{ArchivedObject, AwayCopies};
pub(crate) use cold::{ColdStore, ColdTier, FoundStream, Uploaded, split_url};
pub use cold::{
    MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, cold_location, restore,
    restore_on,
};
pub(crate) use files::{create_anew, temporary_of};
pub(crate) use heal::Aside;
pub(crate) use identity::{draw_id, recorded_id};
pub use layout::{Layout, SegmentListing};
pub(crate) use publish::{
    WatermarkPublisher, WatermarkView, durable_position, is_closed, load_claim, mark_doubtful,
};
pub(crate) use quarantine::Quarantine;
pub(crate) use remove::Removal;
pub(crate) use store::{Owner, Store, StoreParts, Unsealed};
pub(crate) use survey::{Found, Present, Survey, missing_entry, settle};
pub(crate) use table::{Opened, SegmentEntry, SegmentTable};
pub use table::{SealedInfo, SegmentInfo};
pub(crate) use windows::{FRAMES_MAX, ReadAhead};
