//! What the writer, the handles and the readers of an open catalog share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};

use super::config::CatalogConfig;
use super::database::{Applied, Tables};
use super::layout::CatalogLayout;
use super::metrics::Counters;
use super::state::Changes;
use super::view::View;
use crate::error::{AofError, Result};
use crate::io::{Clock, Storage};
use crate::manager::Aof;
use crate::sync::WaitQueue;

/// An open catalog.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: CatalogConfig,
    pub(super) layout: CatalogLayout,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) clock: Arc<dyn Clock>,
    /// Before the log: its lock is what makes this process the only one with the tables.
    pub(super) tables: OpenTables,
    pub(super) log: Aof,
    pub(super) published: Published,
    pub(super) counters: Counters,
    /// Which writer of the catalog this is.
    pub(super) node_id: u64,
}

impl Core {
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }
}

/// The tables until the catalog is closed. They are closed before the log, whose lock lets the
/// next writer in: nothing may reach their file after that.
#[derive(Debug)]
pub(super) struct OpenTables(RwLock<Option<Tables>>);

impl OpenTables {
    pub(super) fn new(tables: Tables) -> Self {
        Self(RwLock::new(Some(tables)))
    }

    fn with<T>(&self, work: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
        self.0.read().as_ref().map_or(Err(AofError::Closed), work)
    }

    pub(super) fn view(&self) -> Result<View> {
        self.with(Tables::view)
    }

    pub(super) fn write(&self, changes: &Changes, applied: &Applied) -> Result<()> {
        self.with(|tables| tables.write(changes, applied))
    }

    pub(super) fn persist(&self) -> Result<()> {
        self.with(Tables::persist)
    }

    /// Views that are still held get errors from now on.
    pub(super) fn close(&self) {
        self.0.write().take();
    }
}

/// How far the tables have got, for those who wait.
#[derive(Debug, Default)]
pub(super) struct Published {
    next_generation: AtomicU64,
    /// Why nothing more will come.
    end: Mutex<Option<AofError>>,
    queue: WaitQueue,
}

impl Published {
    pub(super) fn set(&self, next_generation: u64) {
        self.next_generation.store(next_generation, Ordering::Release);
        self.queue.notify();
    }

    /// Nothing more comes; the first reason counts.
    pub(super) fn end(&self, error: AofError) {
        self.end.lock().get_or_insert(error);
        self.queue.notify();
    }

    /// Waits until views show a generation, or never will; `false` when the time is up.
    pub(super) fn wait(&self, generation: u64, deadline: Option<Instant>) -> Result<bool> {
        let ready = || match self.includes(generation) {
            true => Some(Ok(true)),
            false => self.end.lock().clone().map(Err),
        };
        self.queue.wait(deadline, ready).unwrap_or(Ok(false))
    }

    fn includes(&self, generation: u64) -> bool {
        self.next_generation() > generation
    }

    pub(super) fn next_generation(&self) -> u64 {
        self.next_generation.load(Ordering::Acquire)
    }
}
