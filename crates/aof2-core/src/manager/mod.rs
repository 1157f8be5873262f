//! One runtime and one set of background workers for many streams.

mod aof;
mod workers;

pub use aof::{Aof, Level, Sealing};

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::error::{AofError, Result};
use crate::io::threads::OwnRuntime;
use crate::io::{Clock, OsStorage, Storage, SystemClock};
use crate::manifest::ManifestMode;
use crate::object::ObjectStore;
use crate::prometheus::PrometheusText;
use crate::store::ColdStore;
use crate::tier::{Coordinator, StreamTiers, TierConfig};
use crate::write::{AofConfig, NoTiers, Stream};

/// With a cold tier: how long after its last record a chunk of the manifest is sealed
/// and uploaded. A few segments then share one request.
const MANIFEST_ROTATION_MS: u64 = 10_000;

/// How a manager runs its background work.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// Threads of the runtime that wait for work; 2 by default: one may be busy
    /// waking tasks while the other starts a flush.
    pub worker_threads: usize,
    /// Threads for blocking work (sync, allocation, sealing), started on demand
    /// and gone after ten idle seconds. 16 by default: about five busy streams at
    /// a time; more wait their turn.
    pub blocking_threads_max: usize,
    /// How the streams share their tiers; each then keeps a manifest. `None` by default:
    /// every segment stays a file in `segments/`.
    pub tiers: Option<TierConfig>,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self { worker_threads: 2, blocking_threads_max: 16, tiers: None }
    }
}

impl ManagerConfig {
    /// The least that serves one stream: flush, rollover and preparation at once.
    pub fn for_one_stream() -> Self {
        Self { worker_threads: 1, blocking_threads_max: 4, tiers: None }
    }

    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        let invalid =
            |field, reason: &str| Err(AofError::InvalidConfig { field, reason: reason.to_owned() });
        if !(1..=1024).contains(&self.worker_threads) {
            return invalid("worker_threads", "must be from 1 to 1024");
        }
        // A stream may flush, finalize and prepare at the same time, and finalizing
        // waits for a flush: with fewer threads that could be a deadlock.
        if !(4..=1024).contains(&self.blocking_threads_max) {
            return invalid("blocking_threads_max", "must be from 4 to 1024");
        }
        self.tiers.as_ref().map_or(Ok(()), TierConfig::validate)
    }
}

/// Opens streams and runs their background work on one Tokio runtime, its own or
/// the caller's.
///
/// ```
/// use aof2_core::{AofConfig, AofManager};
///
/// # let dir = tempfile::tempdir()?;
/// let manager = AofManager::new(Default::default())?;
/// let orders = manager.open(AofConfig::new(dir.path().join("orders")))?;
/// let clicks = manager.open(AofConfig::new(dir.path().join("clicks")))?;
/// orders.append(b"one")?;
/// clicks.append(b"two")?;
/// manager.shutdown()?;
/// assert!(orders.is_closed() && clicks.is_closed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AofManager {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    runtime: RuntimeChoice,
    streams: Mutex<Vec<WeakStream>>,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    /// Keeps the streams within their budgets, and the task that does it.
    tiers: Option<(Arc<Coordinator>, workers::CoordinatorWorkers)>,
}

/// A stream, and its tiers if it has any.
type OpenStream = (Arc<Stream>, Option<Arc<StreamTiers>>);
type WeakStream = (Weak<Stream>, Option<Weak<StreamTiers>>);

#[derive(Debug)]
enum RuntimeChoice {
    Own(OwnRuntime),
    Callers(Handle),
}

impl AofManager {
    /// A manager with a runtime of its own.
    pub fn new(config: ManagerConfig) -> Result<Self> {
        Self::on(config, Arc::new(OsStorage), Arc::new(SystemClock))
    }

    /// A manager on other storage and another clock than the machine's.
    pub fn on(
        config: ManagerConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        Self::assemble(config, storage, clock, None)
    }

    /// A manager whose cold tier is this object store, whatever the configuration's URL
    /// says besides bucket and prefix.
    pub fn on_store(
        config: ManagerConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        store: Arc<dyn ObjectStore>,
    ) -> Result<Self> {
        Self::assemble(config, storage, clock, Some(store))
    }

    fn assemble(
        config: ManagerConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        store: Option<Arc<dyn ObjectStore>>,
    ) -> Result<Self> {
        config.validate()?;
        // Moving segments must not take the threads that flushing needs.
        let jobs_max = config.tiers.as_ref().map_or(0, |tiers| {
            let uploads = tiers.cold.as_ref().map_or(0, |_| tiers.uploads_max);
            tiers.jobs_max + uploads + usize::from(tiers.scrub_interval_ms > 0)
        });
        let runtime = OwnRuntime::start("aof2", |runtime| {
            let blocking_max = config.blocking_threads_max + jobs_max;
            let runtime = runtime.worker_threads(config.worker_threads);
            runtime.max_blocking_threads(blocking_max).enable_time()
        });
        let runtime =
            runtime.map_err(AofError::io("start background threads", std::path::Path::new("")))?;
        let tiers = match config.tiers {
            Some(tiers) => {
                let clock = Arc::clone(&clock);
                let coordinator = match store {
                    Some(store) => Coordinator::on_store(tiers, clock, store)?,
                    None => Coordinator::new(tiers, clock)?,
                };
                let handle = runtime.handle().ok_or(AofError::Forked)?;
                let worker = workers::coordinate(handle, &coordinator);
                Some((coordinator, worker))
            }
            None => None,
        };
        Ok(Self::with(RuntimeChoice::Own(runtime), storage, clock, tiers))
    }

    /// A manager whose work runs on the caller's runtime, which must have its time
    /// driver enabled and outlive the streams.
    ///
    /// ```
    /// use aof2_core::{AofConfig, AofManager};
    /// # let dir = tempfile::tempdir()?;
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let manager = AofManager::on_runtime(runtime.handle().clone());
    /// let log = manager.open(AofConfig::new(dir.path().join("events")))?;
    /// runtime.block_on(log.append_record_async(b"hello", &Default::default()))?;
    /// log.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_runtime(handle: Handle) -> Self {
        let (storage, clock) = (Arc::new(OsStorage), Arc::new(SystemClock));
        Self::with(RuntimeChoice::Callers(handle), storage, clock, None)
    }

    fn with(
        runtime: RuntimeChoice,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        tiers: Option<(Arc<Coordinator>, workers::CoordinatorWorkers)>,
    ) -> Self {
        let streams = Mutex::default();
        Self { shared: Arc::new(Shared { runtime, streams, storage, clock, tiers }) }
    }

    fn handle(&self) -> Result<&Handle> {
        match &self.shared.runtime {
            RuntimeChoice::Own(own) => own.handle().ok_or(AofError::Forked),
            RuntimeChoice::Callers(handle) => Ok(handle),
        }
    }

    /// Opens a log for writing, creating it if there is none, and recovers what an
    /// earlier writer left.
    pub fn open(&self, config: AofConfig) -> Result<Aof> {
        let shared = &self.shared;
        let handle = self.handle()?;
        let (stream, tiers) = self.open_stream(config)?;
        let workers = workers::start(handle, &stream);
        let mut streams = shared.streams.lock();
        streams.retain(|(weak, _)| weak.strong_count() > 0);
        streams.push((Arc::downgrade(&stream), tiers.as_ref().map(Arc::downgrade)));
        drop(streams);
        Ok(Aof::new(stream, tiers, Some(Box::new(workers)), Arc::clone(shared) as _))
    }

    fn open_stream(&self, mut config: AofConfig) -> Result<OpenStream> {
        let Shared { storage, clock, tiers, .. } = &*self.shared;
        let (storage, clock) = (Arc::clone(storage), Arc::clone(clock));
        let Some((coordinator, _)) = tiers else {
            if config.hot_bytes.is_some() {
                let reason = "the manager has no tiers, so there is nothing to limit".into();
                return Err(AofError::InvalidConfig { field: "hot_bytes", reason });
            }
            let cold = ColdStore::named_by_log(Arc::clone(&storage), &config.root_dir);
            let stream = Stream::open_with(config, storage, clock, cold, Arc::new(NoTiers))?;
            return Ok((stream, None));
        };
        // What happens between tiers is written down.
        config.manifest_mode = ManifestMode::Enabled;
        if let Some(cold) = coordinator.cold() {
            config.manifest.upload_required = true;
            config.manifest.upload_prefix.clone_from(&cold.url().prefix);
            config.manifest.rotation_ms = MANIFEST_ROTATION_MS;
        }
        let (stream, tiers) = StreamTiers::open(coordinator, config, storage, clock)?;
        Ok((stream, Some(tiers)))
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams().iter().filter(|(stream, _)| stream.is_sound()).count()
    }

    /// Those that some handle still holds.
    fn streams(&self) -> Vec<OpenStream> {
        let streams = self.shared.streams.lock();
        let upgrade = |(stream, tiers): &WeakStream| {
            Some((stream.upgrade()?, tiers.as_ref().and_then(Weak::upgrade)))
        };
        streams.iter().filter_map(upgrade).collect()
    }

    /// The figures of all open streams, those of their tiers included, as one valid
    /// Prometheus exposition. Every sample has the labels `path`, the stream's directory,
    /// and `stream`, its name.
    ///
    /// ```
    /// # use aof2_core::{AofConfig, AofManager};
    /// # let dir = tempfile::tempdir()?;
    /// let manager = AofManager::new(Default::default())?;
    /// let orders = manager.open(AofConfig::new(dir.path().join("orders")))?;
    /// let clicks = manager.open(AofConfig::new(dir.path().join("clicks")))?;
    /// let text = manager.to_prometheus();
    /// assert_eq!(text.matches("# TYPE aof2_segments gauge").count(), 1);
    /// assert_eq!(text.matches("\naof2_segments{").count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut text = PrometheusText::default();
        let mut streams = self.streams();
        // A poisoned one is not closed, and has something to tell.
        streams.retain(|(stream, _)| !stream.is_closed());
        streams.sort_by(|(a, _), (b, _)| a.root_dir().cmp(b.root_dir()));
        for (stream, tiers) in streams {
            // Names of logs need not be unique in a process, their directories are.
            let path = stream.root_dir().to_string_lossy();
            text.set_labels(&[("path", &path), ("stream", stream.store().name())]);
            stream.metrics_snapshot().add_to(&mut text);
            if let Some(tiers) = tiers {
                tiers.status().add_to(&mut text);
            }
        }
        text.finish()
    }

    /// Closes every stream. Returns the first error, after trying all of them.
    pub fn shutdown(&self) -> Result<()> {
        let mut result = Ok(());
        for (stream, _) in self.streams().into_iter().filter(|(stream, _)| stream.is_sound()) {
            let closed = stream.close();
            result = result.and(closed);
        }
        result
    }
}

impl Aof {
    /// Opens a log with a manager of its own, and so without tiers. Use [`AofManager`]
    /// for those, or to share background threads among many logs.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(config: AofConfig) -> Result<Self> {
        AofManager::new(ManagerConfig::for_one_stream())?.open(config)
    }
}
