//! Forks on simulated disks.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod crash;
#[cfg(feature = "planted-bugs")]
mod planted;
mod world;
