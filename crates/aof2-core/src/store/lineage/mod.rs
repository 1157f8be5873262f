//! What a fork shares with the logs that it was forked from.
//!
//! A fork has segments of its own, and before them those of its ancestors up to a cut. Its
//! `lineage` file says which (`file`), `origins` finds the directories of the ancestors,
//! `inherited` makes entries of their segments when somebody reads them, and `holds` are the
//! files by which an ancestor knows what it must keep.

mod file;
mod holds;
mod inherited;
mod origins;
mod shrink;

pub(crate) use file::{load_lineage, recorded_lineage, remove_other_lineages, write_lineage};
pub(crate) use holds::{Holds, HoldsLock, ListedHolds};
pub(crate) use inherited::{Inherited, before_own};
pub(crate) use origins::{
    ORIGINS_DIR, dropped_dir, find_log, holds_log, locate, normal, relative_path, walk_logs,
};
