//! Figures of an open catalog.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::core::Core;
use super::records::ComponentKind;
use super::view::View;
use crate::error::Result;
use crate::prometheus::PrometheusText;

/// What is counted while a catalog is open.
#[derive(Debug, Default)]
pub(super) struct Counters {
    batches: AtomicU64,
    operations: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_failures: AtomicU64,
    checkpoint_generation: AtomicU64,
    checkpoint_bytes: AtomicU64,
    pub(super) queued: AtomicU64,
}

impl Counters {
    pub(super) fn batch(&self, operations: usize, bytes: usize) {
        self.batches.fetch_add(1, Relaxed);
        self.operations.fetch_add(operations as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn checkpoint(&self, generation: u64, bytes: u64) {
        self.checkpoints.fetch_add(1, Relaxed);
        self.checkpoint_generation.store(generation, Relaxed);
        self.checkpoint_bytes.store(bytes, Relaxed);
    }

    pub(super) fn checkpoint_failed(&self) {
        self.checkpoint_failures.fetch_add(1, Relaxed);
    }
}

/// Figures of an open catalog at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogMetrics {
    /// The last batch that views show.
    pub generation: u64,
    /// First batch that the operation log still has.
    pub earliest_generation: u64,
    /// Batches that this process decided.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Groups of operations that were refused.
    pub refused: u64,
    /// Calls that wait for the writer.
    pub queued: u64,
    /// Checkpoints that this process wrote.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub checkpoint_failures: u64,
    /// The last of them.
    pub checkpoint_generation: u64,
    /// Its length.
    pub checkpoint_bytes: u64,
    /// Jobs that are not finished.
    pub jobs_unfinished: u64,
    /// Jobs that were given up.
    pub jobs_failed: u64,
    /// Intents without an outcome.
    pub open_intents: u64,
    /// Logs and page stores in use.
    pub databases: u64,
    /// How many batches the slowest reader of the feed has not acknowledged, as of the last
    /// checkpoint.
    pub cursor_lag_max: u64,
    /// Batches that are kept for a reader of the feed at most.
    pub cursor_batches_limit: u64,
    /// Readers of the feed that fell too far behind.
    pub cursors_expired: u64,
}

impl CatalogMetrics {
    pub(super) fn of(core: &Core, view: &View) -> Result<Self> {
        let counters = &core.counters;
        let (jobs, components) = (view.jobs()?, view.components()?);
        let next = view.generation() + 1;
        let cursors = components.iter().filter(|(_, row)| row.kind == ComponentKind::Cursor);
        let is_failed =
            |state: &super::records::JobState| matches!(state, super::records::JobState::Failed);
        Ok(Self {
            generation: view.generation(),
            earliest_generation: core.log.earliest_offset(),
            batches: counters.batches.load(Relaxed),
            operations: counters.operations.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            queued: counters.queued.load(Relaxed),
            checkpoints: counters.checkpoints.load(Relaxed),
            checkpoint_failures: counters.checkpoint_failures.load(Relaxed),
            checkpoint_generation: counters.checkpoint_generation.load(Relaxed),
            checkpoint_bytes: counters.checkpoint_bytes.load(Relaxed),
            jobs_unfinished: jobs.iter().filter(|(_, job)| !job.is_finished()).count() as u64,
            jobs_failed: jobs.iter().filter(|(_, job)| is_failed(&job.state)).count() as u64,
            open_intents: view.open_intents()?.len() as u64,
            databases: view.live_databases()?.len() as u64,
            cursor_lag_max: cursors
                .map(|(_, row)| next.saturating_sub(row.generation))
                .max()
                .unwrap_or(0),
            cursor_batches_limit: core.config.cursor_batches_max,
            cursors_expired: components
                .iter()
                .filter(|(_, row)| row.kind == ComponentKind::ExpiredCursor)
                .count() as u64,
        })
    }

    /// The figures as Prometheus text, labelled with the catalog's root.
    pub fn to_prometheus(&self, root: &str) -> String {
        let mut text = PrometheusText::default();
        text.set_labels(&[("root", root)]);
        for (name, help, value) in [
            ("catalog_batches", "Batches that this process decided.", self.batches),
            ("catalog_operations", "Operations in these batches.", self.operations),
            ("catalog_operation_bytes", "Bytes of these batches.", self.bytes),
            ("catalog_refused", "Groups of operations that were refused.", self.refused),
            ("catalog_checkpoints", "Checkpoints that this process wrote.", self.checkpoints),
            ("catalog_checkpoint_failures", "Checkpoints that failed.", self.checkpoint_failures),
        ] {
            text.counter(name, help, value);
        }
        for (name, help, value) in [
            ("catalog_generation", "The last batch that views show.", self.generation),
            (
                "catalog_earliest_generation",
                "First batch that the operation log still has.",
                self.earliest_generation,
            ),
            ("catalog_queued", "Calls that wait for the writer.", self.queued),
            (
                "catalog_checkpoint_generation",
                "The last batch of the newest checkpoint of this process.",
                self.checkpoint_generation,
            ),
            ("catalog_checkpoint_bytes", "Length of that checkpoint.", self.checkpoint_bytes),
            ("catalog_jobs_unfinished", "Jobs that are not finished.", self.jobs_unfinished),
            ("catalog_jobs_failed", "Jobs that were given up.", self.jobs_failed),
            ("catalog_open_intents", "Intents without an outcome.", self.open_intents),
            ("catalog_databases", "Logs and page stores in use.", self.databases),
            (
                "catalog_cursor_lag_max",
                "Batches that the slowest reader of the feed has not acknowledged.",
                self.cursor_lag_max,
            ),
            (
                "catalog_cursor_batches_limit",
                "Batches that are kept for a reader of the feed at most.",
                self.cursor_batches_limit,
            ),
            (
                "catalog_cursors_expired",
                "Readers of the feed that fell too far behind.",
                self.cursors_expired,
            ),
        ] {
            text.gauge(name, help, value);
        }
        text.finish()
    }
}
