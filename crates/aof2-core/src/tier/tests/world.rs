//! A machine, a bucket and a log on both, driven step by step from one thread, and what
//! they promised so far.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use crate::error::AofError;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::{ManifestConfig, ManifestMode};
use crate::object::sim::{BucketFault, SimBucket};
use crate::object::{ColdConfig, ObjectErrorKind};
use crate::read::Source;
use crate::read::{Scan, ScanOptions};
use crate::store::{Change, Residency};
use crate::tier::config::TierConfig;
use crate::tier::coordinator::Coordinator;
use crate::tier::stream::StreamTiers;
use crate::write::{AofConfig, Stream};
use crate::write::{AppendOptions, FlushConfig, RetentionPolicy};

pub(super) const ROOT: &str = "/data/events";
pub(super) const SEGMENT: u64 = 64 << 10;

pub(super) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

pub(super) fn cold() -> ColdConfig {
    ColdConfig {
        retries_max: 1,
        backoff_ms: 1,
        backoff_ms_max: 1,
        breaker_failures: 1_000,
        probe_ms: 1,
        ..ColdConfig::new("s3://bucket/logs")
    }
}

/// What the world must hold.
#[derive(Clone, Default)]
pub(super) struct Promise {
    pub(super) payloads: Vec<Vec<u8>>,
    /// Records that were reported durable.
    pub(super) durable: u64,
    /// Records that were reported archived.
    pub(super) archived: u64,
    /// Records that may be gone.
    pub(super) trimmed: u64,
}

pub(super) struct World {
    pub(super) sim: SimStorage,
    pub(super) bucket: SimBucket,
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) tiers: Arc<StreamTiers>,
    pub(super) stream: Arc<Stream>,
}

/// Nothing is compressed, sealed or deleted later than it could be.
pub(super) fn tier_config(hot_bytes: u64, warm_bytes: Option<u64>) -> TierConfig {
    TierConfig {
        hot_bytes,
        warm_bytes,
        compression_level: 1,
        frame_bytes: 8 << 10,
        cold: Some(cold()),
        cold_delete_after_ms: 0,
        archive_after_ms: 0,
        retry_ms: 1,
        retry_ms_max: 1,
        ..TierConfig::default()
    }
}

/// Opens a log whose directory may have been lost.
pub(super) fn open(
    sim: &SimStorage,
    bucket: &SimBucket,
    config: TierConfig,
) -> Result<World, AofError> {
    open_as(sim, bucket, config, |config| config.recover = true)
}

/// A log of the same name that never saw a bucket.
pub(super) fn write_locally(sim: &SimStorage, payload: &[u8]) -> Result<(), AofError> {
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let config = AofConfig::new(ROOT).segment_bytes(SEGMENT);
    let stream = Stream::open(config, storage, Arc::new(sim.clock().clone()))?;
    stream.append_now(payload, &AppendOptions::default())?;
    stream.close()
}

pub(super) fn open_as(
    sim: &SimStorage,
    bucket: &SimBucket,
    config: TierConfig,
    change: impl FnOnce(&mut AofConfig),
) -> Result<World, AofError> {
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let clock = Arc::new(sim.clock().clone());
    let store = Arc::new(bucket.clone());
    let coordinator = Coordinator::on_store(config, Arc::clone(&clock) as _, store)?;
    let mut config = AofConfig::new(ROOT).segment_bytes(SEGMENT);
    change(&mut config);
    config.preallocate_segments = 0;
    config.flush = FlushConfig { flush_bytes: 32 << 10, ..FlushConfig::default() };
    config.manifest_mode = ManifestMode::Enabled;
    config.manifest = ManifestConfig {
        chunk_bytes: 16 << 10,
        upload_prefix: "logs".into(),
        rotation_ms: 5,
        ..ManifestConfig::default()
    };
    let (stream, tiers) = StreamTiers::open(&coordinator, config, storage, clock)?;
    Ok(World { sim: sim.clone(), bucket: bucket.clone(), coordinator, tiers, stream })
}

impl World {
    pub(super) fn is_dead(&self) -> bool {
        self.sim.is_crashed() || self.bucket.is_crashed()
    }

    pub(super) fn step(&self, rng: &mut Rng, promise: &mut Promise) -> Result<(), AofError> {
        let stream = &self.stream;
        match rng.u64(..20) {
            0..7 => self.append(rng, promise)?,
            7 => stream.flush_in_background()?,
            8 => drop(stream.finalize_step()?),
            9 => drop(stream.start_seal(false)?),
            10 => drop(stream.store().maintain_manifest()),
            11 => self.sim.clock().advance_ms(20),
            12 if rng.u64(..4) == 0 => {
                let before_offset = rng.u64(..=promise.durable);
                promise.trimmed = promise.trimmed.max(before_offset);
                let before_offset = Some(before_offset);
                stream.apply_retention(&RetentionPolicy { before_offset, ..Default::default() })?;
            }
            13 => self.ask(rng),
            14..17 => {
                let jobs = self.coordinator.plan();
                jobs.into_iter().take(1 + rng.usize(..3)).for_each(|job| job.run());
            }
            _ => {
                let jobs = self.coordinator.plan_cold();
                jobs.into_iter().take(1 + rng.usize(..3)).for_each(|job| job.run());
            }
        }
        Ok(())
    }

    /// Somebody asks for a copy that nobody planned, or wants one gone.
    pub(super) fn ask(&self, rng: &mut Rng) {
        match rng.u64(..5) {
            0..3 => self.ask_back(rng),
            3 => self.try_one(rng, |id| Change::Evict(id, Residency::Hot)),
            _ => self.try_one(rng, |id| Change::Evict(id, Residency::Warm)),
        }
    }

    /// Somebody asks for a copy that nobody planned.
    pub(super) fn ask_back(&self, rng: &mut Rng) {
        match rng.u64(..3) {
            0 => self.try_one(rng, Change::Fetch),
            _ => self.try_one(rng, Change::Hydrate),
        }
    }

    /// A change of some segment. It may be the last copy that would go, or a bad one that
    /// another would be made of, and the bucket out of reach for a moment.
    fn try_one(&self, rng: &mut Rng, change: impl Fn(SegmentId) -> Change) {
        let entries = self.stream.store().table().snapshot();
        let sealed = entries.iter().filter(|e| e.sealed_info().is_some());
        if let Some(entry) = rng.choice(sealed.collect::<Vec<_>>()) {
            let _ = self.stream.store().apply(&change(entry.meta.segment_id));
        }
    }

    pub(super) fn append(&self, rng: &mut Rng, promise: &mut Promise) -> Result<(), AofError> {
        let fill = promise.payloads.len();
        let len = 200 + rng.usize(..14_000);
        let payload: Vec<u8> = (0..len).map(|i| (fill * 31 + i / 40) as u8).collect();
        match self.stream.append_now(&payload, &AppendOptions::default()) {
            Ok(_) => promise.payloads.push(payload),
            Err(AofError::WouldBlock(_)) => {
                self.stream.flush_in_background()?;
                self.stream.prepare_step()?;
                self.stream.finalize_step()?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A watermark is a promise from the moment it can be read.
    pub(super) fn note(&self, promise: &mut Promise) {
        promise.durable = promise.durable.max(self.stream.durable().count());
        promise.archived = promise.archived.max(self.stream.store().archived().count());
    }

    /// Gives the background its turns until everything that is there is archived.
    pub(super) fn archive_all(&self) -> Result<(), String> {
        let (stream, clock) = (&self.stream, self.sim.clock());
        clock.advance_ms(1_000);
        for _ in 0..20 {
            stream.start_seal(false).map_err(|e| e.to_string())?;
            stream.flush_in_background().map_err(|e| e.to_string())?;
            stream.prepare_step().map_err(|e| e.to_string())?;
            stream.finalize_step().map_err(|e| e.to_string())?;
            self.coordinator.run_until_idle();
            clock.advance_ms(20);
            self.coordinator.run_cold_until_idle();
            clock.advance_ms(20);
        }
        let (archived, end) = (stream.store().archived().count(), stream.appended().count());
        match archived < end {
            true => Err(format!("archived {archived} of {end}: {:?}", self.tiers.status())),
            false => Ok(()),
        }
    }

    /// Whether the manifest says what the files show and names no object that is gone, and
    /// the bucket holds one object of every sealed segment and nothing that nobody will ever
    /// ask for.
    pub(super) fn is_tidy(&self) -> Result<(), String> {
        let found = self.stream.store().compare_manifest().map_err(|e| e.to_string())?;
        if !found.is_empty() {
            return Err(format!("the manifest disagrees with the files: {found:?}"));
        }
        let missing = self.missing_objects();
        if !missing.is_empty() {
            return Err(format!("the manifest names objects that are gone: {missing:?}"));
        }
        let segments = self.stream.store().table().snapshot();
        let sealed = segments.iter().filter(|e| e.sealed_info().is_some()).count();
        let objects = self.bucket.objects();
        let stored = objects.keys().filter(|key| key.ends_with(".zst")).count();
        if stored != sealed {
            let keys: Vec<_> = objects.keys().collect();
            return Err(format!("{sealed} sealed segments, {stored} objects: {keys:?}"));
        }
        match self.bucket.uploads().is_empty() {
            true => Ok(()),
            false => Err("an upload in parts was left unfinished".into()),
        }
    }

    /// Objects that the manifest names and the bucket does not hold.
    pub(super) fn missing_objects(&self) -> Vec<String> {
        let objects = self.bucket.objects();
        let missing = self.stream.store().look_at_manifest(|index| {
            let named = index.segments().filter_map(|segment| segment.cold_key.clone());
            named.filter(|key| !objects.contains_key(key)).collect()
        });
        missing.unwrap()
    }

    /// Everything from the first record there is to the last, and no other.
    pub(super) fn check(&self, promise: &mut Promise, at_least: u64) -> Result<(), String> {
        let (earliest, end) =
            (self.stream.store().table().earliest(), self.stream.durable().count());
        if end < at_least || earliest > promise.trimmed {
            return Err(format!(
                "{earliest}..{end} are there, {}..{at_least} must be",
                promise.trimmed
            ));
        }
        if end > promise.payloads.len() as u64 {
            return Err(format!("{end} records, {} were appended", promise.payloads.len()));
        }
        let source = Arc::clone(&self.stream) as Arc<dyn Source>;
        let scan = Scan::new(source, ScanOptions::default()).map_err(|e| e.to_string())?;
        let mut expected = earliest;
        for record in scan {
            let record = record.map_err(|e| format!("after {expected}: {e}"))?;
            let payload = promise.payloads.get(expected as usize);
            if record.offset != expected || payload.is_none_or(|p| *p != *record.payload) {
                return Err(format!("record {expected} is not what was appended"));
            }
            expected += 1;
        }
        if expected != end {
            return Err(format!("the scan ends at {expected} of {end}"));
        }
        promise.payloads.truncate(end as usize);
        promise.durable = promise.durable.min(end);
        promise.archived = promise.archived.min(end);
        Ok(())
    }
}

/// Dead machines ask for nothing.
pub(super) fn tie(sim: &SimStorage, bucket: &SimBucket) {
    let watched = sim.clone();
    bucket.fail_when(move |_| {
        watched.is_crashed().then_some(BucketFault::Before(ObjectErrorKind::Unavailable))
    });
    let (cut, at) = (sim.clone(), sim.clone());
    bucket.on_crash(move || cut.crash_at(at.calls()));
}

/// Removes the files below these directories; all files for the root.
pub(super) fn lose(sim: &SimStorage, dirs: &[&str]) {
    let lost = |path: &PathBuf| dirs.iter().any(|dir| path.starts_with(Path::new(ROOT).join(dir)));
    for path in sim.files().into_iter().filter(lost) {
        sim.remove(&path).unwrap();
    }
}
