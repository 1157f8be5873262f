//! An in-memory machine that can lose power.
//!
//! [`SimStorage`] keeps two versions of everything: what the running machine sees
//! (page cache and directory cache) and what the disk holds. Only a sync moves
//! the first to the second. A [`CrashImage`] is both at one instant;
//! [`CrashImage::materialize`] picks, from a seed, one of the many states a power
//! cut at that instant could leave, and powers a new machine on with it.
//!
//! * **Contents**: every 512-byte sector that differs between the two versions is
//!   lost, kept, or torn between 8-byte words. Stores through a map are plain
//!   memory stores that nobody reports, so dirtiness is found by comparing.
//! * **Lengths** of files are lost or kept as a whole.
//! * **Names**: each creation, rename and removal since the last `sync_dir` of its
//!   directory is lost or kept, in order. That includes the name of a directory in
//!   its parent.
//! * **Failed syncs lie**: see [`Fault`].
//!
//! Every call of the storage traits is counted and can be made to fail or to be
//! the last one before the power goes ([`SimStorage::fail_at`],
//! [`SimStorage::crash_at`]). Used from one thread, everything is deterministic.

mod clock;
mod crash;
mod disk;
mod fate;
mod faults;
mod file;
mod frozen;
mod inode;
mod machine;
mod page;
mod region;
mod rng;
mod storage;
mod sync;
mod tamper;
mod tree;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use clock::SimClock;
pub use crash::CrashImage;
pub use fate::CrashOptions;
pub use faults::{Call, Fault, Op};
pub use storage::SimStorage;
