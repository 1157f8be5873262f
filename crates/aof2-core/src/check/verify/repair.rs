//! Repairing a log: what is intact stays where it is, what is damaged becomes a gap
//! that says which records are gone, and every original goes to quarantine first.
//!
//! Each step replaces one file and is durable before the next begins. The plan comes
//! from checking the log, so running again after a crash finds what is still to do.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::Progress;
use super::chain::{CheckedLog, fitting_base};
use super::check::{Checked, Checker};
use super::ends::{Body, is_segment_len};
use super::facts::Facts;
use super::report::{LostRange, RepairAction, RepairReport};
use super::rewrite::{rebuild, substitute, substitute_len};
use crate::error::{AofError, Result};
use crate::format::{
    SEGMENT_BYTES_MIN, SEGMENT_HEADER_LEN, SegmentFormat, SegmentId, WarmFileName,
};
use crate::io::{Clock, LockError, Storage};
use crate::segment::SegmentMeta;
use crate::store::Layout;
use crate::store::Quarantine;
use crate::sync::Position;

/// Missing segments in a row that are replaced. More than that is not a log with
/// missing files but a file with a wrong name.
const MISSING_MAX: u32 = 1 << 16;

pub(super) struct Repair<'a> {
    storage: &'a dyn Storage,
    clock: &'a dyn Clock,
    layout: &'a Layout,
    lost: Vec<LostRange>,
    actions: Vec<RepairAction>,
    quarantined: Vec<PathBuf>,
    /// Stream bytes up to the end of the segment that was dealt with last, and whether
    /// that is the end of a substitute.
    base: Option<u64>,
}

impl<'a> Repair<'a> {
    pub(super) fn run(
        storage: &'a dyn Storage,
        clock: &'a dyn Clock,
        layout: &'a Layout,
        progress: Progress<'_>,
    ) -> Result<RepairReport> {
        let checker = Checker { storage, layout, exclusive: true };
        // Before the lock, which would make a file in any directory.
        layout.check_is_log(storage)?;
        let _lock = storage.lock(&layout.lock_file()).map_err(|e| match e {
            LockError::Held { pid } => AofError::Locked { path: layout.root().to_owned(), pid },
            LockError::Io(e) => AofError::io("lock", &layout.lock_file())(e),
        })?;
        let log = checker.run(progress)?;
        let mut repair = Self {
            storage,
            clock,
            layout,
            lost: Vec::new(),
            actions: Vec::new(),
            quarantined: Vec::new(),
            base: None,
        };
        repair.repair_identity(&log)?;
        repair.move_foreign(&log)?;
        repair.repair_segments(&log)?;
        repair.repair_end(&log)?;
        let after = checker.run(&mut |_| ControlFlow::Continue(()))?;
        Ok(RepairReport {
            lost: repair.lost,
            actions: repair.actions,
            quarantined: repair.quarantined,
            verify: after.into_report(layout),
        })
    }

    fn quarantine(&self) -> Quarantine<'a> {
        Quarantine { storage: self.storage, layout: self.layout }
    }

    fn preserve(&mut self, path: &Path) -> Result<()> {
        let copy = self.quarantine().preserve(path)?;
        self.quarantined.push(copy);
        Ok(())
    }

    fn repair_identity(&mut self, log: &CheckedLog) -> Result<()> {
        if log.inventory.identity_is_stored {
            return Ok(());
        }
        let path = self.layout.stream_file();
        if self.storage.exists(&path).map_err(AofError::io("look for", &path))? {
            self.preserve(&path)?;
        }
        self.layout.store_identity(self.storage, &log.inventory.identity)?;
        self.actions.push(RepairAction::RewroteIdentity { path });
        Ok(())
    }

    fn move_foreign(&mut self, log: &CheckedLog) -> Result<()> {
        for from in &log.inventory.foreign {
            self.take(from)?;
        }
        Ok(())
    }

    fn take(&mut self, from: &Path) -> Result<()> {
        let to = self.quarantine().take(from)?;
        self.quarantined.push(to.clone());
        self.actions.push(RepairAction::MovedForeign { from: from.to_owned(), to });
        Ok(())
    }

    /// Moves another file of a segment out of the way.
    fn take_copy(&mut self, from: &Path) -> Result<PathBuf> {
        let to = self.quarantine().take(from)?;
        self.quarantined.push(to.clone());
        Ok(to)
    }

    fn take_copies(&mut self, copies: &[PathBuf]) -> Result<()> {
        for from in copies {
            let to = self.take_copy(from)?;
            self.actions.push(RepairAction::MovedCopy { from: from.clone(), to });
        }
        Ok(())
    }

    fn repair_segments(&mut self, log: &CheckedLog) -> Result<()> {
        // A segment before a sealed one must be sealed as well.
        let last_sealed =
            log.segments.iter().rposition(|s| s.facts.ends.sealed().is_some() || s.is_damaged);
        let fills_end = log.missing_records().is_some();
        let mut torn = false;
        for (i, here) in log.segments.iter().enumerate() {
            if torn {
                // Behind a torn segment that is sealed now; never durable.
                self.take(&here.facts.ends.path)?;
                continue;
            }
            let previous = i.checked_sub(1).map(|i| &log.segments[i].facts);
            if let Some(previous) = previous {
                self.fill(
                    log,
                    previous.ends.index() + 1..here.facts.ends.index(),
                    missing(previous, here),
                )?;
            }
            // Before anything is written: what is left is worth at least as much.
            self.take_copies(&here.worse)?;
            let base = self.base_of(previous, &here.facts);
            if matches!(here.facts.ends.body, Body::Cold(_)) {
                // Not ours to write anew, nor to give up.
                self.base = here.facts.ends.end_base();
                continue;
            }
            let unsealed = here.facts.ends.sealed().is_none();
            let must_seal = unsealed && (fills_end || last_sealed.is_some_and(|last| i < last));
            let rebuilds = here.is_damaged || must_seal;
            if !rebuilds && here.facts.is_blank() {
                // Never used; whoever opens the log removes it.
                continue;
            }
            let ends = &here.facts.ends;
            let is_misnamed = ends.given != ends.name || base != ends.given.base_offset;
            if rebuilds || self.needs_new_header(&here.facts, base) {
                self.rebuild(log, here, base)?;
                torn = here.is_torn;
            } else if is_misnamed {
                self.rename(log, &here.facts, base)?;
            }
            if is_misnamed || rebuilds {
                // Copies of what it was before.
                self.take_copies(&here.copies)?;
            }
            if here.is_torn && !torn {
                // Nothing from here on had been durable: recovery's business, not ours.
                return Ok(());
            }
            self.base = Some(base + u64::from(here.facts.walk.end));
        }
        Ok(())
    }

    /// Stream bytes before this segment.
    fn base_of(&self, previous: Option<&Facts>, here: &Facts) -> u64 {
        let given = here.ends.name.base_offset;
        match (previous, self.base) {
            (Some(previous), Some(end)) if previous.ends.index() + 1 == here.ends.index() => {
                let jump = fitting_base(previous, here) == given && previous.walk.is_only_gaps();
                if jump && given >= end { given } else { end }
            }
            // Behind a substitute any larger base fits.
            (_, Some(end)) => given.max(end),
            _ => given,
        }
    }

    /// The compact header holds the base offset, and so does the index of a compressed
    /// segment.
    fn needs_new_header(&self, facts: &Facts, base: u64) -> bool {
        if facts.ends.compressed().is_some() {
            return facts.ends.name.base_offset != base;
        }
        let in_header = facts.ends.valid_header().and_then(|h| h.base_offset);
        in_header.is_some_and(|in_header| in_header != base)
    }

    fn rebuild(&mut self, log: &CheckedLog, here: &Checked, base: u64) -> Result<()> {
        let facts = &here.facts;
        let is_compressed = facts.ends.compressed().is_some();
        if !is_compressed {
            self.preserve(&facts.ends.path)?;
        }
        let stream_id = log.inventory.identity.stream_id;
        let mut meta = facts.ends.meta(stream_id, facts.walk.first_offset);
        meta.base_offset = base;
        self.free_name(&mut meta, &facts.ends.path)?;
        let path = rebuild(self.storage, self.layout, facts, meta, self.clock.now_ns())?;
        if is_compressed {
            // Until here the log held it beside the new file; the next run would have
            // taken it for a damaged copy.
            self.take_copy(&facts.ends.path)?;
        } else if path != facts.ends.path {
            // Until here the log held the original beside the new file; the next run
            // would have taken one of them for foreign.
            self.remove(&facts.ends.path)?;
        }
        for region in facts.walk.regions.iter().filter(|r| !r.is_padding) {
            if region.records.is_empty() {
                continue;
            }
            self.lost.push(LostRange {
                records: region.records.clone(),
                segment_id: facts.ends.name.segment_id.as_u64(),
                path: path.clone(),
                bytes: u64::from(region.bytes.start)..u64::from(region.bytes.end),
                is_exact: region.is_exact,
            });
        }
        let changes = changes(here);
        self.actions.push(match is_compressed {
            true => RepairAction::Salvaged { from: facts.ends.path.clone(), path, changes },
            false => RepairAction::Rebuilt { path, changes },
        });
        Ok(())
    }

    fn rename(&mut self, log: &CheckedLog, facts: &Facts, base: u64) -> Result<()> {
        let index = facts.ends.compressed().and_then(|c| c.index.as_ref());
        if let Some(index) = index {
            let to = self.layout.warm_path(&WarmFileName::of(&index.summary));
            return self.rename_to(&facts.ends.path, to, &self.layout.warm_dir());
        }
        let stream_id = log.inventory.identity.stream_id;
        let mut meta = facts.ends.meta(stream_id, facts.walk.first_offset);
        meta.base_offset = base;
        self.free_name(&mut meta, &facts.ends.path)?;
        let to = self.layout.segment_path(&meta.file_name());
        self.rename_to(&facts.ends.path, to, &self.layout.segments_dir())
    }

    fn rename_to(&mut self, from: &Path, to: PathBuf, dir: &Path) -> Result<()> {
        self.storage.rename(from, &to).map_err(AofError::io("name segment", &to))?;
        self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))?;
        self.actions.push(RepairAction::Renamed { from: from.to_owned(), to });
        Ok(())
    }

    /// Another file may have the name that this one should have; then a nanosecond
    /// tells them apart, which the full header does not know.
    fn free_name(&self, meta: &mut SegmentMeta, own: &Path) -> Result<()> {
        loop {
            let path = self.layout.segment_path(&meta.file_name());
            if path == own
                || !self.storage.exists(&path).map_err(AofError::io("look for", &path))?
            {
                return Ok(());
            }
            if meta.format == SegmentFormat::Compact {
                let reason = "it has the name of another segment".to_owned();
                return Err(AofError::Foreign { path, reason });
            }
            meta.created_at_ns += 1;
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.storage.remove(path).map_err(AofError::io("remove", path))?;
        self.sync_segments_dir()
    }

    fn sync_segments_dir(&self) -> Result<()> {
        let dir = self.layout.segments_dir();
        self.storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))
    }

    /// The end of the log: what the watermark file claims and nothing holds.
    fn repair_end(&mut self, log: &CheckedLog) -> Result<()> {
        let Some(records) = log.missing_records() else { return Ok(()) };
        let position = log.inventory.claim.body.map(|b| Position::from_u64(b.durable_position));
        let Some(position) = position else { return Ok(()) };
        let has_records = position.end() > SEGMENT_HEADER_LEN as u32;
        let end = position.segment_index() + u32::from(has_records);
        // With no segment left, only the last id matters: none may be used again.
        let start = log.segments.last().map(|last| last.facts.ends.index() + 1);
        let start = start.unwrap_or(end.saturating_sub(1));
        self.fill(log, start..end.max(start + 1), records)
    }

    /// Makes a small sealed segment for every missing one. The first of them stands
    /// for all the lost records, because nobody knows how they were spread.
    fn fill(&mut self, log: &CheckedLog, ids: Range<u32>, records: Range<u64>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        if ids.len() > MISSING_MAX as usize {
            return Err(AofError::Foreign {
                path: self.layout.segments_dir(),
                reason: format!("{} segments are missing from {} on", ids.len(), ids.start),
            });
        }
        let identity = &log.inventory.identity;
        let len = substitute_len(identity.format, identity.stream_id);
        let mut lost = records.clone();
        for id in ids.clone() {
            let base_offset = self.base.unwrap_or(0);
            let meta = SegmentMeta {
                stream_id: identity.stream_id,
                segment_id: SegmentId::from_u64(u64::from(id)),
                format: identity.format,
                base_offset,
                first_offset: lost.start,
                created_at_ns: self.clock.now_ns(),
                segment_bytes: SEGMENT_BYTES_MIN as u32,
            };
            let lost_count = lost.end - lost.start;
            let path =
                substitute(self.storage, self.layout, meta, lost_count, self.clock.now_ns())?;
            if !lost.is_empty() {
                self.lost.push(LostRange {
                    records: lost.clone(),
                    segment_id: u64::from(id),
                    path: path.clone(),
                    bytes: 0..0,
                    is_exact: true,
                });
            }
            self.actions.push(RepairAction::Substituted { path });
            self.base = Some(base_offset + u64::from(len));
            lost.start = lost.end;
        }
        Ok(())
    }
}

fn missing(previous: &Facts, here: &Checked) -> Range<u64> {
    let start = previous.walk.end_offset;
    start..here.facts.walk.first_offset.max(start)
}

fn changes(here: &Checked) -> Vec<String> {
    let (ends, walk) = (&here.facts.ends, &here.facts.walk);
    let mut changes = Vec::new();
    if ends.compressed().is_some_and(|c| c.index.is_none()) {
        changes.push("frames found without the index".to_owned());
    }
    if ends.valid_header().is_none() {
        changes.push("header rebuilt".to_owned());
    }
    if !is_segment_len(ends.file_len) || ends.file_len != u64::from(ends.segment_bytes) {
        changes.push(format!("length {} made {}", ends.file_len, ends.segment_bytes));
    }
    for region in &walk.regions {
        changes.push(match region.is_padding {
            true => format!("padding of record {} zeroed", region.records.start),
            false => format!("gap at bytes {} to {}", region.bytes.start, region.bytes.end),
        });
    }
    changes.push(match ends.sealed() {
        Some(_) => "footer updated".to_owned(),
        None => "footer written".to_owned(),
    });
    changes
}
