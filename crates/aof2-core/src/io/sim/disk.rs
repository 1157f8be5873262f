//! How much disk there is.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::page::PAGE_LEN;

/// Blocks in use, shared by all files of a machine.
#[derive(Debug)]
pub(super) struct Disk {
    capacity_len: AtomicU64,
    used_len: AtomicU64,
}

impl Disk {
    /// `u64::MAX` means that the disk never fills up.
    pub(super) fn new(capacity_len: u64) -> Self {
        Self { capacity_len: AtomicU64::new(capacity_len), used_len: AtomicU64::new(0) }
    }

    pub(super) fn capacity_len(&self) -> u64 {
        self.capacity_len.load(Ordering::Relaxed)
    }

    pub(super) fn set_capacity_len(&self, capacity_len: u64) {
        self.capacity_len.store(capacity_len, Ordering::Relaxed);
    }

    pub(super) fn used_len(&self) -> u64 {
        self.used_len.load(Ordering::Relaxed)
    }

    /// Takes blocks, all or none.
    pub(super) fn take(&self, page_count: usize) -> io::Result<()> {
        let wanted = (page_count * PAGE_LEN) as u64;
        if wanted == 0 {
            return Ok(());
        }
        self.used_len
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(wanted).filter(|&total| total <= self.capacity_len())
            })
            .map(drop)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOSPC))
    }

    /// Takes blocks that a file had before this machine was powered on: they fit
    /// then, so they are not refused now.
    pub(super) fn adopt(&self, page_count: usize) {
        self.used_len.fetch_add((page_count * PAGE_LEN) as u64, Ordering::Relaxed);
    }

    pub(super) fn give(&self, page_count: usize) {
        self.used_len.fetch_sub((page_count * PAGE_LEN) as u64, Ordering::Relaxed);
    }
}
