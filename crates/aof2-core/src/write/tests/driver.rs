//! Runs random operations against a simulated log and the model side by side.

use std::sync::Arc;

use fastrand::Rng;

use super::model::Model;
use crate::error::AofError;
use crate::format::SegmentFormat;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::{ManifestConfig, ManifestMode};
use crate::read::Source;
use crate::read::Visibility;
use crate::read::{Scan, ScanOptions};
use crate::segment::ArtifactOptions;
use crate::store::{Change, Residency};
use crate::write::config::{AofConfig, FlushConfig};
use crate::write::retention::RetentionPolicy;
use crate::write::{AppendOptions, Stream};

pub(super) const ROOT: &str = "/data/log";

pub(super) fn config(format: SegmentFormat) -> AofConfig {
    let mut config = AofConfig::new(ROOT).segment_bytes(64 << 10).format(format);
    config.flush =
        FlushConfig { flush_interval_ms: 5, flush_bytes: 32 << 10, max_unflushed_bytes: 96 << 10 };
    config
}

pub(super) fn open(sim: &SimStorage, format: SegmentFormat) -> Result<Arc<Stream>, AofError> {
    open_with(sim, format, ManifestMode::Disabled)
}

pub(super) fn open_with(
    sim: &SimStorage,
    format: SegmentFormat,
    manifest_mode: ManifestMode,
) -> Result<Arc<Stream>, AofError> {
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    // Sizes that grow: a record may be too large for the segment it finds.
    let manifest = ManifestConfig { chunk_bytes: 16 << 10, ..ManifestConfig::local() };
    let config =
        AofConfig { segment_bytes_max: 256 << 10, manifest_mode, manifest, ..config(format) };
    Stream::open(config, storage, Arc::new(sim.clock().clone()))
}

/// Whatever happened, a manifest that is written agrees with the files.
fn check_manifest(stream: &Stream) -> Result<(), String> {
    if stream.store().manifest_mode() == ManifestMode::Disabled
        || stream.store().manifest_failures() > 0
    {
        return Ok(());
    }
    let found = stream.store().compare_manifest().map_err(|e| e.to_string())?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("the manifest disagrees with the files: {found:?}")),
    }
}

pub(super) struct Driver {
    pub(super) sim: SimStorage,
    pub(super) stream: Option<Arc<Stream>>,
    pub(super) model: Model,
    pub(super) format: SegmentFormat,
    rng: Rng,
}

impl Driver {
    pub(super) fn new(seed: u64, format: SegmentFormat) -> Self {
        let sim = SimStorage::new();
        sim.clock().set_step_ns(1_000);
        Self { sim, stream: None, model: Model::default(), format, rng: Rng::with_seed(seed) }
    }

    /// Continues on a machine that came up after a crash.
    pub(super) fn resume(sim: SimStorage, model: Model, seed: u64, format: SegmentFormat) -> Self {
        Self { sim, stream: None, model, format, rng: Rng::with_seed(seed) }
    }

    /// Opens the log and compares everything in it with the model.
    pub(super) fn open_and_check(&mut self) -> Result<(), String> {
        let mode = self.manifest_mode();
        let stream = open_with(&self.sim, self.format, mode).map_err(|e| format!("open: {e}"))?;
        check_manifest(&stream)?;
        let count = stream.appended.count();
        let (acked, appended) = (self.model.acked, self.model.records.len() as u64);
        if count < acked {
            return Err(format!("{acked} records were durable, {count} are left"));
        }
        if count > appended {
            return Err(format!("{appended} records were appended, {count} came back"));
        }
        if stream.durable.count() != count {
            return Err("an opened log has records that are not durable".into());
        }
        let earliest = stream.store().table().earliest();
        if earliest > self.model.trimmed {
            return Err(format!(
                "records up to {earliest} are gone, {} trimmed",
                self.model.trimmed
            ));
        }
        let scan = Scan::new(Arc::clone(&stream) as Arc<dyn Source>, ScanOptions::default())
            .map_err(|e| e.to_string())?;
        self.model.check_scan(scan, earliest, count)?;
        self.model.keep(count);
        self.stream = Some(stream);
        Ok(())
    }

    /// On most of the time, so that it also meets what happened without it.
    fn manifest_mode(&mut self) -> ManifestMode {
        match self.rng.u64(..4) {
            0 => ManifestMode::Disabled,
            1 => ManifestMode::Shadow,
            _ => ManifestMode::Enabled,
        }
    }

    /// Runs `steps` random operations, or until the power is cut.
    pub(super) fn run(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            if self.sim.is_crashed() {
                break;
            }
            let result = self.step();
            self.note_promises();
            match result {
                Ok(()) => {}
                Err(_) if self.sim.is_crashed() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The durable watermark is a promise from the moment it can be read.
    fn note_promises(&mut self) {
        if let Some(stream) = &self.stream {
            self.model.acked = self.model.acked.max(stream.durable.count());
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(stream) = self.stream.clone() else { return self.open_and_check() };
        match self.rng.u64(..100) {
            0..40 => self.append(&stream),
            40..45 => self.move_segment(&stream),
            45..55 => self.append_batch(&stream),
            55..63 => self.flush(&stream),
            63..70 => stream.flush_in_background().map_err(|e| e.to_string()),
            70..78 => stream.prepare_step().map(|_| ()).map_err(|e| e.to_string()),
            78..88 => stream.finalize_step().map(|_| ()).map_err(|e| e.to_string()),
            88..90 => stream.start_seal(false).map(|_| ()).map_err(|e| e.to_string()),
            90..93 => self.sim.writeback(self.rng.u64(..)).map_err(|e| e.to_string()),
            93 => self.trim(&stream),
            94 => {
                self.sim.clock().advance_ms(70_000);
                Ok(())
            }
            95 => match self.rng.u64(..4) {
                0 => self.close(),
                1 => {
                    let mode = self.manifest_mode();
                    stream.store().set_manifest_mode(mode).map_err(|e| e.to_string())
                }
                2 => {
                    stream.store().maintain_manifest();
                    Ok(())
                }
                _ => check_manifest(&stream),
            },
            96..97 => self.kill(),
            _ => self.read_back(&stream),
        }
    }

    fn len(&mut self) -> usize {
        match self.rng.u64(..10) {
            0 => 1 + self.rng.usize(..30),
            1 => 20_000 + self.large(),
            2..5 => 3_000 + self.rng.usize(..5_000),
            _ => 40 + self.rng.usize(..900),
        }
    }

    fn large(&mut self) -> usize {
        let most = if self.rng.u64(..4) == 0 { 120_000 } else { 20_000 };
        self.rng.usize(..most)
    }

    fn append(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let len = self.len();
        self.append_len(stream, len)
    }

    pub(super) fn append_len(&mut self, stream: &Arc<Stream>, len: usize) -> Result<(), String> {
        let payload = self.model.payload(len);
        let before = stream.appended.count();
        match stream.append_now(&payload, &AppendOptions::default()) {
            Ok(appended) if appended.offset == self.model.records.len() as u64 => {
                self.model.records.push(payload);
                Ok(())
            }
            Ok(appended) => Err(format!(
                "appended as {}, model has {}",
                appended.offset,
                self.model.records.len()
            )),
            Err(AofError::WouldBlock(_)) if stream.appended.count() == before => {
                self.unblock(stream)
            }
            Err(AofError::WouldBlock(_)) => Err("a refused record was written".into()),
            Err(e) => Err(format!("append: {e}")),
        }
    }

    fn append_batch(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let count = 1 + self.rng.usize(..12);
        let first = self.model.records.len();
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        for _ in 0..count {
            let len = self.len().min(3_000);
            payloads.push(self.model.payload(len));
            // So that the next payload of the batch has a tag of its own.
            self.model.records.push(payloads[payloads.len() - 1].clone());
        }
        match stream.append_batch_now(&payloads, &AppendOptions::default()) {
            Ok(batch) if batch.first_offset == first as u64 && batch.ids.len() == count => Ok(()),
            Ok(batch) => Err(format!("batch at {}, model has {first}", batch.first_offset)),
            Err(AofError::WouldBlock(_)) => {
                self.model.records.truncate(first);
                self.unblock(stream)
            }
            Err(e) => {
                self.model.records.truncate(first);
                Err(format!("append batch: {e}"))
            }
        }
    }

    /// What the background workers would do about a refused append.
    fn unblock(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let work = match self.rng.u64(..3) {
            0 => stream.prepare_step().map(|_| ()),
            1 => stream.finalize_step().map(|_| ()),
            _ => stream.flush_in_background(),
        };
        work.map_err(|e| e.to_string())
    }

    fn flush(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let target = stream.appended.position();
        let count = stream.appended.count();
        stream.flush_until(target, None).map_err(|e| e.to_string())?;
        self.model.acked = self.model.acked.max(count);
        Ok(())
    }

    fn trim(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let before_offset = self.rng.u64(..=self.model.acked);
        self.model.trimmed = self.model.trimmed.max(before_offset);
        let policy =
            RetentionPolicy { before_offset: Some(before_offset), ..RetentionPolicy::default() };
        stream.apply_retention(&policy).map(|_| ()).map_err(|e| e.to_string())
    }

    /// Moves some sealed segment between tiers.
    fn move_segment(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let sealed =
            stream.store().table().snapshot().into_iter().filter(|e| e.sealed_info().is_some());
        let ids: Vec<_> = sealed.map(|entry| entry.meta.segment_id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[self.rng.usize(..ids.len())];
        stream.store().set_compression(ArtifactOptions { level: 1, frame_bytes: 4 << 10 });
        let moved = match self.rng.u64(..4) {
            0 => stream.store().apply(&Change::Compress(id)),
            1 => stream.store().apply(&Change::Hydrate(id)),
            _ => stream
                .store()
                .apply(&Change::Compress(id))
                .and_then(|_| stream.store().apply(&Change::Evict(id, Residency::Hot))),
        };
        moved.map(drop).map_err(|e| format!("move of segment {id}: {e}"))
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(stream) = self.stream.take() else { return Ok(()) };
        let count = stream.appended.count();
        stream.close().map_err(|e| format!("close: {e}"))?;
        self.model.acked = count;
        Ok(())
    }

    /// The process dies, the machine stays: nothing appended is lost.
    fn kill(&mut self) -> Result<(), String> {
        self.stream = None;
        self.sim = self.sim.image().after_kill();
        let appended = self.model.records.len() as u64;
        self.open_and_check()?;
        if self.model.records.len() as u64 != appended {
            return Err(format!(
                "{appended} records were appended, a killed process left {}",
                self.model.records.len()
            ));
        }
        Ok(())
    }

    fn read_back(&mut self, stream: &Arc<Stream>) -> Result<(), String> {
        let visibility = match self.rng.bool() {
            true => Visibility::Durable,
            false => Visibility::Appended,
        };
        let end = match visibility {
            Visibility::Durable => stream.durable.count(),
            Visibility::Appended => stream.appended.count(),
        };
        let options = ScanOptions { visibility, ..Default::default() };
        let scan =
            Scan::new(Arc::clone(stream) as Arc<dyn Source>, options).map_err(|e| e.to_string())?;
        self.model.check_scan(scan, stream.store().table().earliest(), end)
    }
}
