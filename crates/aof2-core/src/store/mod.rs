//! Which segments a log has, where each copy of them is, and the only code that changes
//! that.
//!
//! A segment has up to three copies: *hot*, a segment file that is mapped; *warm*, a
//! compressed file; *cold*, an object in a bucket. The segment table says which there are,
//! and whoever reads finds them through it.

mod address;
mod apply;
mod away;
mod busy;
mod change;
pub(crate) mod cold;
mod files;
pub(crate) mod identity;
mod layout;
mod local;
mod pins;
mod publish;
mod quarantine;
mod state;
mod steps;
pub(crate) mod stored_index;
mod survey;
mod table;
mod transitions;
mod warm;
mod windows;

pub use address::{is_address, refuse_address};
pub use away::Residency;
pub(crate) use away::{ArchivedObject, AwayCopies};
pub(crate) use change::{Applied, Change, Removal, Suspect};
pub use cold::cold_location;
pub(crate) use cold::{
    Archive, ColdStore, ColdTier, FoundStream, bring, split_url, store_location,
};
pub(crate) use files::{create_anew, temporary_of};
pub(crate) use identity::{directory_name, draw_id, recorded_id};
pub use layout::{Layout, SegmentListing};
pub(crate) use publish::{
    WatermarkPublisher, WatermarkView, durable_position, is_closed, load_claim, mark_doubtful,
};
pub(crate) use quarantine::Quarantine;
pub(crate) use state::{Owner, Store, StoreParts, Unsealed};
pub(crate) use survey::{Found, Present, Survey, missing_entry, settle};
pub(crate) use table::{Opened, SegmentEntry, SegmentTable};
pub use table::{SealedInfo, SegmentInfo};
pub(crate) use warm::WarmFiles;
pub(crate) use windows::{FRAMES_MAX, ReadAhead};
