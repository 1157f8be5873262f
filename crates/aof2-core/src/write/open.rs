//! Opening and closing a stream for writing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::config::AofConfig;
use super::metrics::{Metrics, count};
use super::recovery::{Recovered, Recovery};
use super::rollover::Rollover;
use super::stream::Stream;
use super::tail::{Active, Tail};
#[cfg(test)]
use super::tiers::NoTiers;
use super::tiers::Tiers;
use super::time::TimeSource;
use crate::error::{AofError, Result};
use crate::format::{
    Lineage, SEGMENT_HEADER_LEN, SegmentId, StreamIdentity, WatermarkBody, WatermarkHeader,
    WatermarkState,
};
use crate::io::{Clock, ForkStamp, LockError, Storage};
use crate::segment::{FIRST_PAGES_LEN, SpareSync};
use crate::store::{
    ColdStore, Holds, Layout, Listing, Owner, SegmentEntry, SegmentNames, SegmentTable, Store,
    StoreParts, Survey, WatermarkPublisher, draw_id, durable_position, identity, load_claim,
    mark_doubtful, refuse_address, remove_other_lineages,
};
use crate::sync::{Position, Watermark};

impl Stream {
    /// [`Stream::open_with`] for a log without tiers.
    #[cfg(test)]
    pub(crate) fn open(
        config: AofConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        Self::open_with(config, storage, clock, Arc::default(), Arc::new(NoTiers))
    }

    /// Locks, recovers and opens. When it returns, everything it found is durable
    /// and the first append will not wait.
    pub(crate) fn open_with(
        config: AofConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        cold: Arc<ColdStore>,
        tiers: Arc<dyn Tiers>,
    ) -> Result<Arc<Self>> {
        config.validate()?;
        let start = Instant::now();
        let span = tracing::info_span!("recovery", root = %config.root_dir.display());
        let _entered = span.enter();
        refuse_address(&config.root_dir)?;
        let layout = Layout::new(&config.root_dir);
        let admit = || -> Result<_> {
            let local = identity::look_for(&*storage, &layout, &cold)?;
            if let Some(identity) = &local {
                check_same_stream(&config, identity)?;
                refuse_cold_fork(&layout, &cold, identity)?;
            }
            let admission = cold.admit(local.clone(), config.stream_name(), config.recover)?;
            Ok((local, admission))
        };
        let (local, mut admission) = admit()?;
        layout.ensure(&*storage)?;
        let lock = storage.lock(&layout.lock_file()).map_err(|e| match e {
            LockError::Held { pid } => AofError::Locked { path: config.root_dir.clone(), pid },
            LockError::Io(e) => AofError::io("lock", &layout.lock_file())(e),
        })?;
        if identity::look_for(&*storage, &layout, &cold)? != local {
            // Somebody was quicker with the lock.
            admission = admit()?.1;
        }
        cold.claim_admitted(&storage, &*clock, &layout, &admission)?;
        let mut survey = Survey::take(&*storage, &layout, &cold)?;
        let identity = match survey.identity_or_derived(&*storage, &layout)? {
            Some(identity) => {
                if survey.identity.is_none() {
                    layout.store_identity(&*storage, &identity)?;
                }
                identity
            }
            None => {
                let identity = draw_identity(&*storage, &*clock, &config)?;
                layout.store_identity(&*storage, &identity)?;
                // After the identity is stored: a name that is taken belongs to a log. If
                // that took long, another machine may have brought the log back already.
                cold.claim(&storage, &*clock, &layout, &identity)?;
                survey = Survey::take(&*storage, &layout, &cold)?;
                identity
            }
        };
        check_same_stream(&config, &identity)?;
        let claim = load_claim(&*storage, &layout.watermark_file(), identity.stream_id);
        let lineage = survey.lineage.clone();
        refuse_cold_fork(&layout, &cold, &identity)?;
        tidy_fork(&*storage, &layout, &identity, lineage.as_ref())?;
        let recovery = Recovery {
            storage: &*storage,
            layout: &layout,
            identity: &identity,
            claim,
            held_until: Holds::of(&*storage, &layout).list()?.durable_end(),
            target_bytes: config
                .segment_target_bytes
                .map_or(u32::MAX, |b| u32::try_from(b).unwrap_or(u32::MAX)),
            ext_id: config.ext_id,
            now_ns: clock.now_ns(),
        };
        let recovered = recovery.run(survey).inspect_err(|error| {
            if error.io_source().is_some() {
                let header = writer_header(&identity, &*clock);
                mark_doubtful(&*storage, &layout.watermark_file(), header, claim);
            }
        })?;
        let outside = Outside { storage, clock, cold, tiers };
        let stream = Self::assemble(config, layout, identity, lineage, outside, recovered)?;
        *stream.lock.lock() = Some(lock);
        let doubtful = doubtful_segments(claim, &stream.store.table().snapshot());
        stream.store.start_transitions(stream.config.manifest_mode, doubtful)?;
        stream.metrics.recovery_ns.store(
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        stream.start_first_segment()?;
        tracing::info!(
            next_offset = stream.appended.count(),
            segments = stream.store.table().len(),
            elapsed = ?start.elapsed(),
            "open"
        );
        Ok(stream)
    }

    fn assemble(
        config: AofConfig,
        layout: Layout,
        identity: StreamIdentity,
        lineage: Option<Lineage>,
        outside: Outside,
        recovered: Recovered,
    ) -> Result<Arc<Self>> {
        let Outside { storage, clock, cold, tiers } = outside;
        let table = SegmentTable::new(config.open_segments_max);
        table.set_floor(recovered.next_offset);
        let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let last_size = recovered.entries.last().map_or(0, |e| e.meta.segment_bytes);
        let rollover = Rollover::new(
            size(config.segment_bytes_min),
            size(config.segment_bytes_max),
            last_size,
            recovered.unused,
            recovered.next_spare,
        );
        table.replace(Vec::new(), recovered.entries);
        let now_ns = clock.now_ns();
        let not_before_ms = not_before(recovered.last_timestamp_ms, now_ns / 1_000_000);
        let active = recovered.tail.map(|tail| {
            let until_half = tail.appender.segment().meta().segment_bytes / 2;
            Active {
                spare_at: match config.preallocate_segments {
                    0 => u64::MAX,
                    _ => {
                        recovered.bytes
                            + u64::from(until_half.saturating_sub(tail.appender.position()))
                    }
                },
                last_timestamp_ms: tail.last_timestamp_ms,
                activated_at_ns: now_ns,
                fault_in_at: recovered.bytes + u64::from(FIRST_PAGES_LEN / 2),
                appender: tail.appender,
                flush: tail.flush,
            }
        });
        let tail = Tail {
            active,
            closing: None,
            next_segment: recovered.next_segment,
            last_created_ns: recovered.last_created_ns,
            next_offset: recovered.next_offset,
            bytes: recovered.bytes,
            attention_at: 0,
            flush_at: recovered.bytes + config.flush.flush_bytes,
            flush_armed: false,
            refusal: None,
            ext_id: config.ext_id,
            time: TimeSource::new(Arc::clone(&clock), not_before_ms),
        };
        let position = tail.position();
        let header = writer_header(&identity, &*clock);
        let body = opening_body(position, recovered.next_offset);
        let publisher =
            WatermarkPublisher::open(&*storage, &layout.watermark_file(), header, &body)?;
        let metrics = Metrics::default();
        count(&metrics.recovery_truncated_bytes, recovered.truncated_bytes);
        let manifest = config.manifest.clone();
        let parts = StoreParts { identity, layout, storage, clock, table, cold, manifest, lineage };
        let store = Store::new(parts);
        let stream = Self {
            tail: Mutex::new(tail),
            appended: Watermark::default(),
            durable: Watermark::default(),
            durable_bytes: AtomicU64::new(recovered.bytes),
            gate: crate::write::flush::FlushGate::default(),
            rollover,
            publisher,
            metrics,
            wakeups: crate::write::stream::Wakeups::default(),
            fork: ForkStamp::now(),
            closed: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            lock: Mutex::new(None),
            closing: Mutex::new(()),
            config,
            store,
            tiers,
        };
        stream.appended.advance(position, recovered.next_offset);
        stream.durable.advance(position, recovered.next_offset);
        let stream = Arc::new(stream);
        let owner: Weak<dyn Owner> = Arc::<Self>::downgrade(&stream);
        stream.store.set_owner(owner);
        Ok(stream)
    }

    /// The first append of a new log should not have to wait either.
    fn start_first_segment(&self) -> Result<()> {
        if self.tail.lock().active.is_some() {
            return Ok(());
        }
        self.prepare_spare(SpareSync::Nothing)?;
        {
            let mut tail = self.tail.lock();
            self.make_space(&mut tail, 0)?;
            let position = tail.position();
            self.appended.store(position, tail.next_offset);
            self.durable.store(position, tail.next_offset);
            self.durable_bytes.store(tail.bytes - SEGMENT_HEADER_LEN as u64, Ordering::Release);
        }
        Ok(())
    }

    /// Makes everything durable, gives unused disk space back and lets the next
    /// writer in. Later calls do nothing.
    pub(crate) fn close(&self) -> Result<()> {
        // In a forked child nothing here is ours: touching it would hurt the parent.
        if self.fork.is_forked() {
            return Ok(());
        }
        let _one_at_a_time = self.closing.lock();
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.tail.lock().refuse(AofError::Closed);
        let flushed = self.flush_before_close();
        self.closed.store(true, Ordering::Release);
        self.wake_everyone();
        let tidied = self.tidy();
        let mut result = flushed.and(tidied);
        if result.is_ok() && !self.poisoned.load(Ordering::Acquire) {
            result = self.leave_proof();
        }
        // Retention that still runs would remove files of the next writer's log.
        drop(self.rollover.retaining.lock());
        self.store.close();
        self.tiers.closed();
        *self.lock.lock() = None;
        result
    }

    /// Makes the watermark file durable: from now on it proves what had been.
    fn leave_proof(&self) -> Result<()> {
        self.publisher.publish(&self.watermark_body(WatermarkState::Closed));
        let path = self.store.layout().watermark_file();
        self.publisher.sync().map_err(AofError::io("sync watermark file", &path))?;
        let root = self.store.layout().root();
        self.store.storage().sync_dir(root).map_err(AofError::io("sync directory", root))
    }

    fn flush_before_close(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(self.poison_error());
        }
        let position = self.tail.lock().position();
        if self.fenced.load(Ordering::Acquire) {
            // Nobody is promised anything, but what was appended here is not thrown away.
            return self.flush_refused(position);
        }
        self.flush_until(position, None)?;
        while self.finalize_step()? {}
        Ok(())
    }

    fn poison_error(&self) -> AofError {
        self.tail.lock().refusal.clone().unwrap_or(AofError::Closed)
    }

    /// Removes spares and releases the blocks behind the last record.
    fn tidy(&self) -> Result<()> {
        // A spare being prepared right now is in the list once the lock is free.
        let _none_in_the_making = self.rollover.preparing.lock();
        let active = self.tail.lock().active.take();
        if let Some(active) = active.filter(|_| !self.poisoned.load(Ordering::Acquire)) {
            if active.appender.is_empty() {
                let path = active.flush.current_path();
                self.store
                    .storage()
                    .remove(&path)
                    .map_err(AofError::io("remove empty segment", &path))?;
                self.store.tell_taken_back(active.flush.segment().meta().segment_id);
            } else {
                let segment_bytes = u64::from(active.appender.segment().meta().segment_bytes);
                let end = active.appender.position();
                match active.flush.open_file(self.store.storage()) {
                    Ok(file) => active.flush.release_unused(&*file, end, segment_bytes),
                    Err(error) => {
                        tracing::warn!(%error, "unused part of a segment stays allocated");
                    }
                }
            }
        }
        self.discard_spares()
    }
}

/// The identity of a new log.
fn draw_identity(
    storage: &dyn Storage,
    clock: &dyn Clock,
    config: &AofConfig,
) -> Result<StreamIdentity> {
    Ok(StreamIdentity {
        stream_id: draw_id(storage, &config.root_dir)?,
        name: config.stream_name(),
        format: config.format,
        created_at_ns: clock.now_ns(),
        lineage: None,
    })
}

/// What a stream works with.
struct Outside {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    cold: Arc<ColdStore>,
    tiers: Arc<dyn Tiers>,
}

/// A bucket would hold a fork's own records alone.
fn refuse_cold_fork(layout: &Layout, cold: &ColdStore, identity: &StreamIdentity) -> Result<()> {
    if identity.lineage.is_none() || cold.tier().is_none() {
        return Ok(());
    }
    Err(AofError::InvalidConfig {
        field: "cold",
        reason: format!(
            "{} is a fork and shares segments with other logs; detach it before it gets a cold \
             tier",
            layout.root().display()
        ),
    })
}

/// Removes what changes of a fork's lineage left that were cut off.
fn tidy_fork(
    storage: &dyn Storage,
    layout: &Layout,
    identity: &StreamIdentity,
    lineage: Option<&Lineage>,
) -> Result<()> {
    if let Some(lineage) = lineage {
        remove_copies(storage, layout, lineage)?;
    }
    remove_other_lineages(storage, layout, identity.lineage)
}

/// Removes copies of inherited segments that a crash cut off. Without the lineage they would
/// count, and not all of them are there.
fn remove_copies(storage: &dyn Storage, layout: &Layout, lineage: &Lineage) -> Result<()> {
    let listing = Listing::take(storage, layout)?;
    let is_copy = |names: &&SegmentNames| names.segment_id < lineage.start.segment;
    let copies: Vec<_> = listing.segments.iter().filter(is_copy).collect();
    for path in copies.iter().flat_map(|names| names.paths(layout)) {
        storage.remove(&path).map_err(AofError::io("remove leftover", &path))?;
    }
    match copies.is_empty() {
        true => Ok(()),
        false => {
            let dir = layout.segments_dir();
            storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))
        }
    }
}

/// A clock that was set back a little must not make timestamps go backwards, but
/// one record with a timestamp from the far future must not pin all that follow.
fn not_before(last_timestamp_ms: u64, now_ms: u64) -> u64 {
    const TOLERANCE_MS: u64 = 60_000;
    if last_timestamp_ms <= now_ms.saturating_add(TOLERANCE_MS) {
        last_timestamp_ms
    } else {
        now_ms
    }
}

/// Segments in which a flush that failed for the last writer left bytes.
fn doubtful_segments(
    claim: Option<WatermarkBody>,
    entries: &[Arc<SegmentEntry>],
) -> Vec<SegmentId> {
    let Some(claim) = claim.filter(|claim| claim.state == WatermarkState::Poisoned) else {
        return Vec::new();
    };
    let from = durable_position(&claim).segment_index();
    let ids = entries.iter().map(|e| e.meta.segment_id);
    ids.filter(|id| id.as_u32() >= from).collect()
}

fn writer_header(identity: &StreamIdentity, clock: &dyn Clock) -> WatermarkHeader {
    WatermarkHeader {
        writer_pid: std::process::id(),
        stream_id: identity.stream_id,
        writer_epoch_ns: clock.now_ns(),
    }
}

fn opening_body(position: Position, next_offset: u64) -> WatermarkBody {
    WatermarkBody {
        durable_position: position.as_u64(),
        durable_count: next_offset,
        appended_position: position.as_u64(),
        appended_count: next_offset,
        state: WatermarkState::Open,
    }
}

/// A name given on opening must be the log's own.
fn check_same_stream(config: &AofConfig, identity: &StreamIdentity) -> Result<()> {
    match &config.name {
        Some(name) if *name != identity.name => Err(AofError::InvalidConfig {
            field: "name",
            reason: format!("this log is called {:?}, not {name:?}", identity.name),
        }),
        _ => Ok(()),
    }
}
