//! Opening and closing a catalog for writing.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::checkpoint;
use super::config::CatalogConfig;
use super::core::{Core, OpenTables, Published};
use super::engine::Engine;
use super::kept;
use super::layout::CatalogLayout;
use super::metrics::{CatalogMetrics, Counters};
use super::migrate::{self, STEPS};
use super::recover::{Recovery, recover};
use super::state::ReadRows;
use super::tables::Counter;
use super::view::View;
use super::writer::{self, Message};
use crate::error::{AofError, Result};
use crate::format::SEGMENT_BYTES_MAX;
use crate::io::{Clock, ForkStamp, OsStorage, Storage, SystemClock, host_name};
use crate::manager::{AofManager, ManagerConfig};
use crate::write::{AofConfig, FlushConfig};

/// A catalog open for writing, by one process at a time. Cheap to clone; the last clone to
/// go closes it.
///
/// ```
/// use aof2_core::catalog::DbKind;
/// use aof2_core::{Catalog, CatalogConfig};
///
/// # let dir = tempfile::tempdir()?;
/// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
/// let app = catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
/// let view = catalog.view()?;
/// assert_eq!(view.database_named("app")?.map(|(id, _)| id), Some(app.value));
/// assert!(view.generation() >= app.generation);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Catalog {
    pub(super) shared: Arc<Shared>,
    /// Who decides.
    pub(super) actor: Arc<str>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) sender: SyncSender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// One close at a time.
    closing: Mutex<()>,
    pub(super) stamp: ForkStamp,
    recovery: Recovery,
}

impl Catalog {
    /// Opens the catalog of a directory, creating it if there is none.
    pub fn open(config: CatalogConfig) -> Result<Self> {
        Self::open_on(config, Arc::new(OsStorage), Arc::new(SystemClock))
    }

    /// Opens a catalog on other storage and with another clock than the machine's.
    pub fn open_on(
        config: CatalogConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let actor = config.actor.clone().unwrap_or_else(process_name).into();
        let (engine, recovery) = open_engine(config, storage, clock)?;
        let core = Arc::clone(&engine.core);
        let (sender, thread) = writer::start(engine)?;
        let thread = Mutex::new(Some(thread));
        let stamp = ForkStamp::now();
        let shared =
            Arc::new(Shared { core, sender, thread, closing: Mutex::new(()), stamp, recovery });
        Ok(Self { shared, actor })
    }

    /// The same catalog for somebody else, who is named in the audit.
    #[must_use]
    pub fn acting_as(&self, actor: impl Into<String>) -> Self {
        Self { shared: Arc::clone(&self.shared), actor: actor.into().into() }
    }

    /// The state after the last batch. Reads do not wait for writers.
    pub fn view(&self) -> Result<View> {
        self.check()?;
        self.shared.core.tables.view()
    }

    /// Directory of the logs and page stores.
    pub fn root_dir(&self) -> &Path {
        &self.shared.core.layout.root
    }

    /// What opening it found.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// Waits until views show a generation; `false` when the time is up. An error if they
    /// never will, because the catalog was closed or failed.
    pub fn wait_generation(&self, generation: u64, timeout: Option<Duration>) -> Result<bool> {
        self.check()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.shared.core.published.wait(generation, deadline)
    }

    /// Writes a checkpoint now and lets the operation log go behind it. Returns its
    /// generation.
    pub fn checkpoint(&self) -> Result<u64> {
        self.check()?;
        let (sender, answer) = std::sync::mpsc::channel();
        self.shared.sender.send(Message::Checkpoint(sender)).map_err(|_| AofError::Closed)?;
        answer.recv().unwrap_or(Err(AofError::Closed))
    }

    /// Figures of the catalog; `to_prometheus` renders them.
    pub fn metrics(&self) -> Result<CatalogMetrics> {
        CatalogMetrics::of(&self.shared.core, &self.view()?)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.core.log.is_closed()
    }

    /// Ends the catalog for all clones of the handle. Closing twice is fine; whoever comes
    /// second returns when it is closed.
    pub fn close(&self) -> Result<()> {
        self.check_not_forked()?;
        let _one_at_a_time = self.shared.closing.lock();
        self.shared.stop();
        self.shared.core.tables.close();
        self.shared.core.log.close()
    }

    fn check(&self) -> Result<()> {
        self.check_not_forked()?;
        match self.shared.core.log.is_closed() {
            true => Err(AofError::Closed),
            false => Ok(()),
        }
    }

    pub(super) fn check_not_forked(&self) -> Result<()> {
        match self.shared.stamp.is_forked() {
            true => Err(AofError::Forked),
            false => Ok(()),
        }
    }
}

impl Shared {
    fn stop(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        let _ = self.sender.send(Message::Stop);
        if thread.join().is_err() {
            tracing::error!("the writer of the catalog panicked");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.stamp.is_forked() {
            // The parent's thread is not here to be joined.
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        self.stop();
    }
}

fn process_name() -> String {
    format!("{}:{}", host_name(), std::process::id())
}

/// Everything but the threads of the catalog itself.
pub(super) fn open_engine(
    config: CatalogConfig,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
) -> Result<(Engine, Recovery)> {
    open_engine_with(config, storage, clock, STEPS)
}

pub(super) fn open_engine_with(
    config: CatalogConfig,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    steps: &[migrate::Step],
) -> Result<(Engine, Recovery)> {
    config.validate()?;
    crate::store::refuse_address(&config.root_dir)?;
    let layout = CatalogLayout::new(&config.root_dir);
    check_log_is_there(&*storage, &layout)?;
    // Makes the directory of the catalog, too, and makes it durable.
    let manager =
        AofManager::on(ManagerConfig::for_one_stream(), Arc::clone(&storage), Arc::clone(&clock))?;
    let log = manager.open(log_config(&config, &layout))?;
    let known = steps.last().map_or(0, |(version, _)| *version);
    // From here on this process is the only writer.
    kept::sweep(&*storage, &layout)?;
    let (tables, applied, recovery) = recover(&storage, &layout, &log, known)?;
    kept::set_aside_unfit(&*storage, &layout, &log)?;
    let view = tables.view()?;
    let first_job = view.next(Counter::Job)?;
    let missing = migrate::missing(&view, steps)?;
    drop(view);
    let node_id =
        storage.random_u64().map_err(AofError::io("draw a random number", &layout.root))?;
    let core = Arc::new(Core {
        config,
        layout,
        storage,
        clock,
        tables: OpenTables::new(tables),
        log,
        published: Published::default(),
        counters: Counters::default(),
        node_id,
    });
    let mut engine = Engine::new(core, applied, first_job);
    engine.operations_since_checkpoint = recovery.batches_applied;
    for step in missing {
        engine.commit_own(vec![step])?;
    }
    Ok((engine, recovery))
}

fn log_config(catalog: &CatalogConfig, layout: &CatalogLayout) -> AofConfig {
    let mut config = AofConfig::new(layout.log());
    config.segment_bytes_min = catalog.segment_bytes;
    config.segment_bytes_max =
        catalog.segment_bytes.saturating_mul(16).clamp(catalog.segment_bytes, SEGMENT_BYTES_MAX);
    // The engine flushes every batch itself.
    config.flush = FlushConfig { flush_interval_ms: 0, ..Default::default() };
    config
}

/// Whether an operation log is there, or nothing that was made of one. An empty log beside
/// checkpoints would be a catalog that forgot everything.
fn check_log_is_there(storage: &dyn Storage, layout: &CatalogLayout) -> Result<()> {
    let log = layout.log();
    let exists = |path: &Path| storage.exists(path).map_err(AofError::io("look for", path));
    if exists(&log.join("stream"))? {
        return Ok(());
    }
    let is_left = exists(&layout.tables())? || !checkpoint::list(storage, layout)?.is_empty();
    match is_left {
        false => Ok(()),
        true => Err(AofError::NotALog {
            path: log,
            reason: "the operation log of the catalog is gone, and its tables or checkpoints are \
                     still there; bring it back, or start again with `rebuild`"
                .into(),
        }),
    }
}
