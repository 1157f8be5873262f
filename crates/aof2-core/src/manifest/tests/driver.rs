//! Runs random operations against a simulated manifest and the model side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use super::model::{Happening, Model, encode};
use crate::error::AofError;
use crate::format::manifest::{
    CHUNK_HEADER_LEN, ManifestEvent, ManifestRecord, ReasonCode, StoredChunkName,
};
use crate::format::{SegmentId, StreamId};
use crate::io::sim::SimStorage;
use crate::io::{Clock, Storage};
use crate::manifest::{
    ChunkMeta, ChunkUploader, DirectoryUploader, Manifest, ManifestConfig, ManifestReader,
    StoredChunk, UploadError,
};

pub(super) const ROOT: &str = "/data/log";
pub(super) const STREAM: StreamId = StreamId::from_u64(0xABCD);

/// A store on another machine that fails now and then, before or after having done what
/// it was asked to.
#[derive(Debug)]
pub(super) struct FlakyStore {
    pub(super) store: DirectoryUploader,
    /// One call in so many fails; 0 for none.
    pub(super) fails_one_in: AtomicU64,
    calls: AtomicU64,
}

/// Calls of a commit before it writes: opening its chunk, and looking which file that is.
pub(super) const OPENING_CALLS: u64 = 2;

impl FlakyStore {
    pub(super) fn new(fails_one_in: u64) -> Arc<Self> {
        let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
        Arc::new(Self {
            store: DirectoryUploader::new(storage, "/store"),
            fails_one_in: AtomicU64::new(fails_one_in),
            calls: AtomicU64::new(0),
        })
    }

    /// Whether this call fails, and whether only after it was done.
    fn fate(&self) -> Option<bool> {
        let one_in = self.fails_one_in.load(Ordering::Relaxed);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let chosen = Rng::with_seed(call).u64(..);
        (one_in > 0 && chosen.is_multiple_of(one_in)).then_some(chosen & (1 << 40) != 0)
    }

    fn flaky<T>(&self, call: impl FnOnce() -> Result<T, UploadError>) -> Result<T, UploadError> {
        let failed =
            || UploadError { reason: ReasonCode::UNAVAILABLE, detail: "no answer".to_owned() };
        match self.fate() {
            None => call(),
            Some(false) => Err(failed()),
            Some(true) => call().and_then(|_| Err(failed())),
        }
    }
}

impl ChunkUploader for FlakyStore {
    fn upload(
        &self,
        chunk_index: u64,
        key: &str,
        bytes: &[u8],
        meta: &ChunkMeta,
    ) -> Result<String, UploadError> {
        self.flaky(|| self.store.upload(chunk_index, key, bytes, meta))
    }

    fn head(&self, key: &str) -> Result<Option<StoredChunk>, UploadError> {
        self.flaky(|| self.store.head(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, UploadError> {
        self.store.list(prefix)
    }

    fn fetch(&self, key: &str, len_max: u64) -> Result<Option<Vec<u8>>, UploadError> {
        self.store.fetch(key, len_max)
    }
}

/// Small chunks and short intervals, so that a short history has everything in it.
pub(super) fn config(seed: u64) -> ManifestConfig {
    let base =
        if seed.is_multiple_of(2) { ManifestConfig::local() } else { ManifestConfig::default() };
    ManifestConfig {
        chunk_bytes: 16 << 10,
        commit_bytes: 4 << 10,
        staged_bytes_max: 96 << 10,
        snapshot_every_chunks: seed % 4,
        snapshots_kept: 1 + (seed % 2) as usize,
        upload_prefix: "cell".into(),
        ..base
    }
}

pub(super) fn open_with(sim: &SimStorage, config: ManifestConfig) -> Result<Manifest, AofError> {
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    Manifest::open(storage, Arc::new(sim.clock().clone()), ROOT, STREAM, config)
}

pub(super) fn reader(sim: &SimStorage) -> ManifestReader {
    ManifestReader::new(Arc::new(sim.clone()), ROOT, STREAM)
}

pub(super) struct Driver {
    pub(super) sim: SimStorage,
    pub(super) manifest: Option<Manifest>,
    pub(super) model: Model,
    pub(super) config: ManifestConfig,
    pub(super) store: Arc<FlakyStore>,
    /// After a failed sync of the directory a power cut may bring a removed chunk back
    /// behind a hole; without one it must not.
    pub(super) may_have_strays: bool,
    rng: Rng,
}

impl Driver {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sim: SimStorage::new(),
            manifest: None,
            model: Model::default(),
            config: config(seed),
            store: FlakyStore::new(if seed.is_multiple_of(4) { 0 } else { 5 }),
            may_have_strays: false,
            rng: Rng::with_seed(seed),
        }
    }

    /// Continues on a machine that came up after a crash.
    pub(super) fn resume(&self, sim: SimStorage, model: Model, seed: u64) -> Self {
        Self {
            sim,
            manifest: None,
            model,
            config: self.config.clone(),
            store: Arc::clone(&self.store),
            may_have_strays: self.may_have_strays,
            rng: Rng::with_seed(seed),
        }
    }

    /// Opens the manifest and compares everything in it with the model.
    pub(super) fn open_and_check(&mut self) -> Result<(), String> {
        let manifest = self.open()?;
        let count = manifest.committed();
        let (acked, recorded) = (self.model.acked, self.model.records.len() as u64);
        if count < acked {
            return Err(format!("{acked} records were committed, {count} are left"));
        }
        if count > recorded {
            return Err(format!("{recorded} records were made, {count} came back"));
        }
        if manifest.next_record() != count {
            return Err("an opened manifest has records that are not committed".into());
        }
        self.model.keep(count);
        self.check_records(count)?;
        self.check_index(&manifest)?;
        self.manifest = Some(manifest);
        Ok(())
    }

    fn open(&self) -> Result<Manifest, String> {
        let manifest =
            open_with(&self.sim, self.config.clone()).map_err(|e| format!("open: {e}"))?;
        if self.config.upload_required {
            manifest.set_uploader(Arc::clone(&self.store) as Arc<dyn ChunkUploader>);
        }
        Ok(manifest)
    }

    /// Reads every record there is; each must be in the model, in order, up to `count`.
    /// What is not here must be in the store, where chunks may only go once they are.
    fn check_records(&mut self, count: u64) -> Result<(), String> {
        let reader = reader(&self.sim);
        let listing = reader.list().map_err(|e| e.to_string())?;
        if !self.may_have_strays && !listing.strays().is_empty() {
            return Err(format!("chunks with a hole: {:?}", listing.chunks));
        }
        let run = listing.run().to_vec();
        let mut cursor = reader.cursor().map_err(|e| e.to_string())?;
        let mut expected = None;
        while let Some(placed) = cursor.next_record().map_err(|e| format!("reading: {e}"))? {
            if expected.is_some_and(|expected| expected != placed.ordinal) {
                return Err(format!("record {} where {expected:?} should be", placed.ordinal));
            }
            expected = Some(placed.ordinal + 1);
            self.model.check(&placed)?;
        }
        let end = expected.unwrap_or(if run.is_empty() { 0 } else { count });
        if end != count {
            return Err(format!("reading ended at {end}, not {count}"));
        }
        match run.first() {
            Some(&first) if self.config.upload_required => self.check_store(first),
            _ => Ok(()),
        }
    }

    fn check_store(&mut self, first_here: u64) -> Result<(), String> {
        for chunk_index in 0..first_here {
            let key = StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index }
                .key(&self.config.upload_prefix);
            let bytes = self.store.fetch(&key, u64::MAX).map_err(|e| e.to_string())?;
            let bytes = bytes.ok_or_else(|| format!("chunk {chunk_index} is nowhere"))?;
            let header = crate::format::manifest::ChunkHeader::decode(&bytes).unwrap();
            let mut rest = &bytes[CHUNK_HEADER_LEN..];
            let mut ordinal = header.base_record;
            while !rest.is_empty() {
                let (record, len) = ManifestRecord::decode(rest).map_err(|e| e.to_string())?;
                let stored = Some(encode(&record));
                if *self.model.records.get(ordinal as usize).unwrap_or(&None) != stored {
                    return Err(format!("the store has another record {ordinal}"));
                }
                ordinal += 1;
                rest = &rest[len..];
            }
        }
        Ok(())
    }

    fn check_index(&self, manifest: &Manifest) -> Result<(), String> {
        match self.model.index() {
            Some(index) if manifest.with_index(|found| *found == index) => Ok(()),
            Some(_) => Err("the index is not what the records add up to".into()),
            None => Err("a record that was never read is in a chunk that is gone".into()),
        }
    }

    /// Runs `steps` random operations, or until the power is cut.
    pub(super) fn run(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            if self.sim.is_crashed() {
                break;
            }
            let result = self.step();
            self.note();
            match result {
                Ok(()) => {}
                Err(_) if self.sim.is_crashed() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Notes what the manifest promises, and what it recorded about itself.
    fn note(&mut self) {
        let Some(manifest) = &self.manifest else { return };
        self.model.acked = self.model.acked.max(manifest.committed());
        let next = manifest.next_record() as usize;
        if self.model.records.len() < next {
            self.model.records.resize(next, None);
        }
    }

    fn step(&mut self) -> Result<(), String> {
        if self.manifest.is_none() {
            return self.open_and_check();
        }
        let outcome = match self.rng.u64(..100) {
            0..50 => return self.record(),
            50..62 => self.with(|m| m.commit()),
            62..78 => {
                let ms = [0, 30, 300, 5_000][self.rng.usize(..4)];
                self.sim.clock().advance_ms(ms);
                self.with(|m| m.maintain().map(drop))
            }
            78..82 => self.with(|m| m.rotate()),
            82..86 => self.with(|m| m.snapshot().map(drop)),
            86..91 => return self.sim.writeback(self.rng.u64(..)).map_err(|e| e.to_string()),
            91..94 => return self.close(),
            94..96 => return self.kill(),
            _ => return self.read_back(),
        };
        self.after(outcome)
    }

    /// Closed it is, also where the last commit failed.
    fn close(&mut self) -> Result<(), String> {
        let outcome = self.with(|m| m.close());
        self.note();
        self.manifest = None;
        outcome.map_err(|e| e.to_string())
    }

    fn with(&self, op: impl FnOnce(&Manifest) -> Result<(), AofError>) -> Result<(), AofError> {
        self.manifest.as_ref().map_or(Ok(()), op)
    }

    /// The manifest's own records can be read as soon as they are committed. One that
    /// failed for good says so to everybody, and is opened again.
    fn after(&mut self, outcome: Result<(), AofError>) -> Result<(), String> {
        self.note();
        if let Some(manifest) = &self.manifest {
            if manifest.poison().is_some() && !self.sim.is_crashed() {
                for again in
                    [manifest.commit(), manifest.snapshot().map(drop), record_one(manifest)]
                {
                    if !matches!(again, Err(AofError::Poisoned { .. })) {
                        return Err(format!("a poisoned manifest answered {again:?}"));
                    }
                }
                self.kill()?;
            } else if outcome.is_ok() && !self.sim.is_crashed() {
                self.learn()?;
            }
        }
        outcome.map_err(|e| e.to_string())
    }

    /// Reads the manifest's own records, while their chunks are here.
    fn learn(&mut self) -> Result<(), String> {
        let committed = self.model.acked as usize;
        if self.model.records[..committed].iter().all(Option::is_some) {
            return Ok(());
        }
        let mut cursor = reader(&self.sim).cursor().map_err(|e| e.to_string())?;
        while let Some(placed) = cursor.next_record().map_err(|e| format!("learning: {e}"))? {
            self.model.check(&placed)?;
        }
        Ok(())
    }

    fn record(&mut self) -> Result<(), String> {
        let (segment_id, happening) =
            Happening::any(&mut self.rng, self.model.records.len() as u64 / 8);
        let logical_offset = self.rng.u64(..1_000);
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let timestamp_ms = self.sim.clock().now_ns() / 1_000_000;
        let before = manifest.next_record();
        let outcome = manifest.record(segment_id, logical_offset, happening.event());
        let event = happening.event();
        let record = ManifestRecord { flags: 0, segment_id, logical_offset, timestamp_ms, event };
        match outcome {
            Ok(ordinal) if ordinal == self.model.records.len() as u64 => {
                self.model.records.push(Some(encode(&record)));
                Ok(())
            }
            Ok(ordinal) => Err(format!("recorded as {ordinal}, not {}", self.model.records.len())),
            Err(_) if manifest.next_record() != before => Err("a refused record was taken".into()),
            Err(error) => self.after(Err(error)),
        }
    }

    /// The process dies, the machine stays: nothing committed is lost.
    fn kill(&mut self) -> Result<(), String> {
        self.manifest = None;
        self.sim = self.sim.image().after_kill();
        self.open_and_check().map_err(|e| format!("after a kill: {e}"))
    }

    fn read_back(&mut self) -> Result<(), String> {
        let committed = self.model.acked;
        self.check_records(committed)?;
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let _ = manifest.metrics();
        Ok(())
    }
}

pub(super) fn record_one(manifest: &Manifest) -> Result<(), AofError> {
    let event = ManifestEvent::LocalEvicted { reclaimed_bytes: 1 };
    manifest.record(SegmentId::from_u64(1), 0, event).map(drop)
}
