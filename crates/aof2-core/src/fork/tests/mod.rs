//! Forks on simulated disks.

mod crash;
mod world;
