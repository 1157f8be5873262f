//! Chunk files: the records of a manifest as they stand on disk.
//!
//! `layout` says where they are, `active` and `writer` write them, `committed` decides what
//! of a chunk counts, `reader` and `cursor` walk them, here or in another process. Nothing
//! here knows what records mean.

mod active;
mod committed;
mod cursor;
mod damage;
mod layout;
mod position;
mod reader;
mod writer;

pub use active::ChunkInfo;
pub(super) use active::install;
pub(super) use committed::{CHUNK_LEN_MAX, NUMBER_MAX};
pub use cursor::ManifestCursor;
pub use layout::{ManifestLayout, ManifestListing};
pub use position::ManifestPosition;
pub use reader::{Chunk, ManifestReader, PlacedRecord, Records};
pub(super) use writer::is_news;
pub use writer::{ManifestWriter, Reconciled};
