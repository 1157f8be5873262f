//! Forks on simulated disks.
