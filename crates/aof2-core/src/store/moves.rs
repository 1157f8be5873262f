//! Moving sealed segments between tiers.
//!
//! Every step changes the segment table, the files and the manifest in one critical
//! section, in an order that leaves a copy to read at every moment:
//!
//! * a new copy is durable and verified before the table names it;
//! * the table no longer names a copy before its file goes;
//! * the last copy never goes.
//!
//! A crash between any two steps leaves one copy too many, or a temporary that the next
//! try replaces. Opening finds all copies by their names and records what the manifest
//! missed.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::store::Store;
use super::table::SegmentEntry;
use super::transitions::{compressed, evict};
use super::warm::WarmFiles;
use crate::error::{AofError, Damage, Result};
use crate::format::WarmFileName;
use crate::format::manifest::{ManifestEvent, ReasonCode};
use crate::format::{SEGMENT_FOOTER_LEN, SegmentId};
use crate::io::OpenMode;
use crate::segment::{Artifact, ArtifactOptions, hydrate, write_artifact};

/// What a stream keeps in its hot tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotUsage {
    /// Bytes of sealed segments.
    pub(crate) sealed_bytes: u64,
    /// Bytes of segments that are written or wait for their footer.
    pub(crate) active_bytes: u64,
}

/// Keeps those who move segments out of each other's way, and lets a closing log wait
/// for them.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    busy: Mutex<BTreeSet<SegmentId>>,
    changed: Condvar,
}

/// The right to move one segment.
pub(crate) struct Moving<'a> {
    moves: &'a Moves,
    segment_id: SegmentId,
}

impl Moves {
    /// Waits until nobody else moves the segment.
    pub(crate) fn begin(&self, segment_id: SegmentId) -> Moving<'_> {
        let mut busy = self.busy.lock();
        while !busy.insert(segment_id) {
            self.changed.wait(&mut busy);
        }
        Moving { moves: self, segment_id }
    }

    /// Segments that are moving now.
    pub(crate) fn busy(&self) -> BTreeSet<SegmentId> {
        self.busy.lock().clone()
    }

    /// Waits until nobody moves anything.
    pub(crate) fn drain(&self) {
        let mut busy = self.busy.lock();
        while !busy.is_empty() {
            self.changed.wait(&mut busy);
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.moves.busy.lock().remove(&self.segment_id);
        self.moves.changed.notify_all();
    }
}

impl HotUsage {
    pub(crate) fn total(&self) -> u64 {
        self.sealed_bytes + self.active_bytes
    }
}

impl Store {
    pub(crate) fn hot_usage(&self) -> HotUsage {
        let entries = self.table().snapshot();
        let hot = entries.iter().filter(|e| e.damage.is_none() && e.is_hot());
        let mut usage = HotUsage::default();
        for entry in hot {
            match entry.sealed_info() {
                Some(info) => usage.sealed_bytes += u64::from(info.durable_bytes),
                None => usage.active_bytes += u64::from(entry.meta.segment_bytes),
            }
        }
        usage
    }

    /// The right to move a segment. Whoever has it keeps a closing log from letting the
    /// next writer in.
    pub(super) fn begin_move(
        &self,
        segment_id: SegmentId,
    ) -> Result<(Moving<'_>, Arc<SegmentEntry>)> {
        let moving = self.moves.begin(segment_id);
        // Looked at with the right in hand: it may have gone while we waited.
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        Ok((moving, self.sealed_entry(segment_id)?))
    }

    /// A sealed segment that is not damaged.
    pub(crate) fn sealed_entry(&self, segment_id: SegmentId) -> Result<Arc<SegmentEntry>> {
        let entry = self.table().find(segment_id.as_u32()).filter(|e| e.sealed_info().is_some());
        let entry = entry.ok_or(AofError::NoSuchSegment(segment_id))?;
        match &entry.damage {
            Some(damage) => Err(AofError::Corrupt(Box::new(damage.clone()))),
            None => Ok(entry),
        }
    }

    /// Makes a compressed copy of a segment in `warm/`, if there is none. Returns its
    /// bytes.
    pub(crate) fn compress(
        &self,
        segment_id: SegmentId,
        job_id: u32,
        options: &ArtifactOptions,
    ) -> Result<u64> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        if let Some(warm) = entry.away_copies().warm {
            return Ok(warm.index().artifact_len());
        }
        let base_offset = entry.meta.base_offset;
        let started = ManifestEvent::CompressionStarted { job_id };
        self.while_moving(|| Ok(()), |m, ()| m.record(segment_id, base_offset, started).map(drop))?;
        match self.write_warm(&entry, options) {
            Ok(artifact) => self.while_moving(
                || {
                    let bytes = artifact.index().artifact_len();
                    entry.enter_warm(Arc::new(artifact), self.now_ms());
                    Ok(bytes)
                },
                |m, bytes| m.record(segment_id, base_offset, compressed(*bytes)).map(drop),
            ),
            Err(error) => {
                let reason = match &error {
                    AofError::Corrupt(_) => ReasonCode::CODEC,
                    _ => ReasonCode::TRANSIENT,
                };
                let failed = ManifestEvent::CompressionFailed { reason };
                let record = self.while_moving(
                    || Ok(()),
                    |m, ()| m.record(segment_id, base_offset, failed).map(drop),
                );
                record.and(Err(error))
            }
        }
    }

    /// Writes, syncs, verifies and only then names the compressed copy.
    fn write_warm(&self, entry: &Arc<SegmentEntry>, options: &ArtifactOptions) -> Result<Artifact> {
        let segment = match entry.is_hot() {
            true => self.table().open_whole(self.storage(), entry)?,
            false => return Err(AofError::NoSuchSegment(entry.meta.segment_id)),
        };
        let (footer, sealed_at_ns) = self.read_footer(entry)?;
        let name = WarmFileName {
            segment_id: entry.meta.segment_id,
            base_offset: entry.meta.base_offset,
            sealed_at_ns,
        };
        self.warm_files().make(&name, |out| {
            write_artifact(&segment, &footer, sealed_at_ns, options, out).map(drop)
        })
    }

    /// The compressed file of a segment, from an artifact elsewhere.
    pub(super) fn copy_to_warm(&self, artifact: &Artifact) -> Result<Artifact> {
        self.warm_files().copy(artifact, &mut |_| Ok(()))
    }

    /// Reads a compressed file as a whole, its index included. It is opened by its name:
    /// the file that is open may have been removed.
    pub(crate) fn verify_warm(&self, warm: &Artifact) -> Result<()> {
        let path = warm.source().name();
        let found = self.warm_files().open(path.to_owned())?;
        if found.index() != warm.index() {
            let (first, count) = (warm.meta().first_offset, warm.footer().record_count);
            return Err(AofError::Corrupt(Box::new(Damage {
                path: path.to_owned(),
                offset: 0,
                records: first..first + count,
                reason: "its index is not the one it was written with".into(),
            })));
        }
        found.verify(&mut |_| {})
    }

    fn warm_files(&self) -> WarmFiles<'_> {
        WarmFiles { storage: self.storage(), layout: self.layout() }
    }

    /// The footer's bytes, and when they were written.
    fn read_footer(&self, entry: &SegmentEntry) -> Result<([u8; SEGMENT_FOOTER_LEN], u64)> {
        let path = &entry.path;
        let file = self
            .storage()
            .open(path, OpenMode::Read)
            .map_err(AofError::io("open segment", path))?;
        let mut footer = [0; SEGMENT_FOOTER_LEN];
        let at = u64::from(entry.meta.space_end());
        file.read_exact_at(&mut footer, at).map_err(AofError::io("read segment footer", path))?;
        let sealed_at_ns = file.modified_ns().map_err(AofError::io("read segment", path))?;
        Ok((footer, sealed_at_ns))
    }

    /// Removes the segment file of a segment that another tier holds. Returns the bytes
    /// of records it had; 0 if there was no file. Readers keep what they have mapped.
    pub(crate) fn evict_hot(&self, segment_id: SegmentId) -> Result<u64> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        if !entry.is_hot() {
            return Ok(0);
        }
        let bytes = entry.sealed_info().map_or(0, |info| u64::from(info.durable_bytes));
        self.while_moving(
            || {
                if !entry.leave_hot() {
                    return Err(AofError::LastCopy(segment_id));
                }
                let path = &entry.path;
                match self.storage().remove(path) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        entry.enter_hot();
                        return Err(AofError::io("remove segment", path)(e));
                    }
                    _ => {}
                }
                self.drop_index(&entry.meta);
                self.sync_names(&self.layout().segments_dir())?;
                Ok(bytes)
            },
            |m, bytes| evict(m, segment_id, *bytes),
        )
    }

    /// Brings a segment back as a segment file, from the nearest tier. Returns the bytes
    /// of its records; 0 if it was there.
    pub(crate) fn hydrate(&self, segment_id: SegmentId) -> Result<u64> {
        let (_moving, entry) = self.begin_move(segment_id)?;
        let copies = entry.away_copies();
        let Some(artifact) = copies.nearest().filter(|_| !entry.is_hot()) else { return Ok(0) };
        let base_offset = entry.meta.base_offset;
        let source_tier = if copies.warm.is_some() { 1 } else { 2 };
        let record = |event: ManifestEvent<'_>| {
            self.while_moving(|| Ok(()), |m, ()| m.record(segment_id, base_offset, event).map(drop))
        };
        record(ManifestEvent::HydrationStarted { source_tier })?;
        if let Err(error) = hydrate(self.storage(), artifact, &self.layout().segments_dir()) {
            let reason = match &error {
                AofError::NoSuchSegment(_) => ReasonCode::MISSING,
                _ => ReasonCode::TRANSIENT,
            };
            record(ManifestEvent::HydrationFailed { reason })?;
            return Err(error);
        }
        let resident_bytes = entry.sealed_info().map_or(0, |info| u64::from(info.durable_bytes));
        self.while_moving(
            || {
                entry.enter_hot();
                self.table().forget_windows(segment_id.as_u32());
                Ok(resident_bytes)
            },
            |m, bytes| {
                let done = ManifestEvent::HydrationDone { resident_bytes: *bytes };
                m.record(segment_id, base_offset, done).map(drop)
            },
        )
    }
}
