//! The storage seam: everything that touches the operating system.
//!
//! The log is written against the traits of `storage`; `os` implements them
//! over real files and [`sim`] over an in-memory machine that can lose power.
//! All `unsafe` of the crate lives here, behind types whose own checks uphold
//! the invariants: [`SharedMap`] hands out slices only below a published
//! frontier and lets a single [`MapWriter`] write only above it, [`WordPage`]
//! allows nothing but atomic words.

mod clock;
mod fork;
mod lock;
mod map;
mod open_limit;
mod os;
mod process_limits;
pub mod sim;
mod storage;
pub(crate) mod threads;
mod wake;

// Where its users found the object store before it was a layer of its own.
#[doc(hidden)]
pub use crate::object;

pub use clock::{Clock, SystemClock};
pub use fork::ForkStamp;
pub use map::{MapBacking, MapWriter, OutOfBounds, SharedMap, WordPage};
pub use open_limit::{Keepable, Keeps, KeptPlace, LetGo, OpenLimit, is_used_up};
pub use os::{OsStorage, host_name, make_map_space};
pub use storage::{
    DirEntry, EntryKind, File, FileIdentity, LockError, LockGuard, OpenMode, Storage,
};
pub use wake::{wait_while_word, wake_word};
