//! Which segments a log has, where each copy of them is, and the only code that changes
//! that.
//!
//! A segment has up to three copies: *hot*, a segment file that is mapped; *warm*, a
//! compressed file; *cold*, an object in a bucket. The segment table says which there are,
//! and whoever reads finds them through it.

mod address;
mod apply;
mod busy;
mod change;
pub(crate) mod cold;
mod copy;
mod entry;
mod found;
pub(crate) mod identity;
mod info;
pub(crate) mod kept_index;
mod layout;
mod lineage;
mod listing;
mod local;
mod pins;
mod placing;
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
pub(crate) use change::{Applied, Change, Removal, Suspect};
pub use cold::cold_location;
pub(crate) use cold::{ColdStore, bring, store_location};
pub use copy::Residency;
pub(crate) use copy::{ColdCopy, Copies};
pub(crate) use entry::{Opened, SegmentEntry};
pub(crate) use found::Found;
pub(crate) use identity::{directory_name, draw_id, recorded_id};
pub use info::{SealedInfo, SegmentInfo};
pub use layout::{Layout, SegmentListing};
pub(crate) use layout::{create_anew, temporary_of};
pub(crate) use lineage::{
    Holds, HoldsLock, Inherited, ListedHolds, ORIGINS_DIR, before_own, dropped_dir, find_log,
    holds_log, load_lineage, locate, normal, recorded_lineage, relative_path,
    remove_other_lineages, walk_logs, write_lineage,
};
pub(crate) use listing::{Listing, SegmentNames};
pub(crate) use placing::{missing_entry, sealed_entries};
pub(crate) use publish::{
    WatermarkPublisher, WatermarkView, durable_position, is_closed, load_claim, mark_doubtful,
};
pub(crate) use quarantine::Quarantine;
pub(crate) use state::{Owner, Store, StoreParts, Unsealed};
pub(crate) use survey::{Look, Survey};
pub(crate) use table::SegmentTable;
pub(crate) use warm::WarmFiles;
pub(crate) use windows::{FRAMES_MAX, ReadAhead};
