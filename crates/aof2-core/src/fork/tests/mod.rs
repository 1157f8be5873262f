//! Forks on simulated disks.

mod cases;
mod crash;
#[cfg(feature = "planted-bugs")]
mod planted;
mod world;
