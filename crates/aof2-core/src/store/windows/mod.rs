//! Reading a segment by windows: pieces of a segment file that could not be mapped, frames
//! of a compressed copy, fetched one at a time, several ahead, or in the background.

pub(super) mod cache;
pub(crate) mod fetch;
pub(crate) mod pieces;
pub(crate) mod read_ahead;

pub(crate) use read_ahead::{FRAMES_MAX, ReadAhead};
