//! Opening a log for writing after any kind of end.
//!
//! Everything but the last two segments is trusted by footer. The unsealed end is
//! scanned; what a crash tore off behind the last intact record is removed. A
//! surviving record's `durable_lag`, or the watermark file, may prove that what is
//! missing had been durable: then it is damage, nothing is touched, and opening
//! fails with the place.
//!
//! Every step may be cut by another crash. Nothing that recovery removes had been
//! durable, and it removes before it lets anything new be written, so running
//! again from any intermediate state finds the same prefix.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{AofError, Damage, Result};
use crate::format::{
    OwnStart, SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat, SegmentId,
    StreamIdentity, WatermarkBody, WatermarkState,
};
use crate::io::{File, OpenMode, Storage};
use crate::planted::{self, Bug, ForkBug};
use crate::segment::{ScanStop, SealRequest, SegmentAppender, SegmentFlush, SegmentMeta, TailScan};
use crate::store::Layout;
use crate::store::durable_position;
use crate::store::{Copies, SealedInfo, SegmentEntry};
use crate::store::{Found, Survey, before_own, missing_entry, sealed_entries};
use crate::sync::Position;

/// The state to continue from.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) entries: Vec<SegmentEntry>,
    pub(crate) tail: Option<RecoveredTail>,
    pub(crate) next_segment: SegmentId,
    pub(crate) next_offset: u64,
    /// Stream bytes.
    pub(crate) bytes: u64,
    pub(crate) last_timestamp_ms: u64,
    pub(crate) last_created_ns: u64,
    pub(crate) truncated_bytes: u64,
    /// Spares that were never written: worth nothing, and slow to remove.
    pub(crate) unused: Vec<PathBuf>,
    /// Ordinal for the next spare, behind those that are still there.
    pub(crate) next_spare: u64,
}

/// The unsealed segment that goes on.
#[derive(Debug)]
pub(crate) struct RecoveredTail {
    pub(crate) flush: Arc<SegmentFlush>,
    pub(crate) appender: SegmentAppender,
    pub(crate) last_timestamp_ms: u64,
}

impl Recovered {
    /// Of a fork: what it inherits is before its own segments.
    fn continue_lineage(&mut self, start: OwnStart, has_no_segments: bool) {
        if has_no_segments {
            self.next_segment = start.segment;
            self.bytes = start.bytes;
        }
        self.last_timestamp_ms = self.last_timestamp_ms.max(start.timestamp_ms);
    }
}

/// An unsealed segment and what its scan found.
struct Scanned {
    meta: SegmentMeta,
    path: PathBuf,
    scan: TailScan,
    /// The file still has a spare's name.
    temporary: Option<PathBuf>,
}

impl Scanned {
    fn end_offset(&self) -> u64 {
        self.meta.first_offset + self.scan.record_count
    }

    fn is_empty(&self) -> bool {
        self.scan.record_count == 0
    }

    fn file_path(&self) -> &PathBuf {
        self.temporary.as_ref().unwrap_or(&self.path)
    }
}

pub(crate) struct Recovery<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) layout: &'a Layout,
    pub(crate) identity: &'a StreamIdentity,
    /// What the last writer claimed, if its watermark file survived.
    pub(crate) claim: Option<WatermarkBody>,
    /// First logical offset behind what forks and snapshots hold, which had been durable.
    pub(crate) held_until: u64,
    pub(crate) target_bytes: u32,
    /// For footers that the crash kept from being written.
    pub(crate) ext_id: u64,
    pub(crate) now_ns: u64,
}

impl Recovery<'_> {
    pub(crate) fn run(&self, mut survey: Survey) -> Result<Recovered> {
        // A killed writer may have renamed without syncing the directory.
        if self.claim.is_none_or(|c| c.state != WatermarkState::Closed) {
            self.sync_segments_dir()?;
            self.sync_copies()?;
        }
        let unused = self.adopt_spare(&mut survey)?;
        let found = &survey.found;
        let unsealed = self.unsealed_count(found);
        let start = survey.lineage.as_ref().map(|lineage| lineage.start);
        let lineage = survey.lineage.as_ref();
        let after = lineage.and_then(|lineage| before_own(lineage, found.first()));
        let (entries, next_offset) = sealed_entries(
            self.storage,
            self.identity.stream_id,
            found,
            found.len() - unsealed,
            after,
        )?;
        let mut recovered = self.continue_after(entries, next_offset, found);
        if let Some(start) = start {
            recovered.continue_lineage(start, found.is_empty());
        }
        let open_end = &found[found.len() - unsealed..];
        if let Some(first) = open_end.first() {
            self.bridge_missing(&mut recovered, first)?;
        }
        match open_end {
            [] => self.check_claim(&recovered)?,
            [last] => {
                let last = self.scan(last, recovered.next_offset, recovered.bytes)?;
                self.finish(&mut recovered, last)?;
            }
            [previous, last, ..] => self.reconcile_two(&mut recovered, previous, last)?,
        }
        recovered.unused = unused;
        recovered.next_spare = survey.listing.spares.last().map_or(0, |s| s.ordinal + 1);
        self.remove_leftovers(&survey, &recovered)?;
        Ok(recovered)
    }

    fn unsealed_count(&self, found: &[Found]) -> usize {
        found.iter().rev().take(2).take_while(|f| f.is_unsealed()).count()
    }

    fn continue_after(
        &self,
        entries: Vec<SegmentEntry>,
        next_offset: u64,
        found: &[Found],
    ) -> Recovered {
        let last = entries.last();
        let bytes = last.and_then(|e| {
            let used = e.sealed_info().map(|s| u64::from(s.durable_bytes))?;
            Some(e.meta.base_offset + used)
        });
        let first_base = found.first().map_or(0, |f| f.name.base_offset);
        Recovered {
            next_segment: last.map_or_else(
                || found.first().map_or(SegmentId::from_u64(0), |f| f.name.segment_id),
                |e| e.meta.segment_id.next(),
            ),
            last_timestamp_ms: entries
                .iter()
                .rev()
                .find_map(|e| e.sealed_info().filter(|s| s.from_footer))
                .map_or(0, |s| s.last_timestamp_ms),
            last_created_ns: found.iter().map(|f| f.name.created_at_ns).max().unwrap_or(0),
            bytes: bytes.unwrap_or(first_base),
            entries,
            tail: None,
            next_offset,
            truncated_bytes: 0,
            unused: Vec::new(),
            next_spare: 0,
        }
    }

    /// A process killed right after a rollover leaves records in a file that still
    /// has its temporary name. They were appended, so a mere kill must not lose
    /// them: such a file takes part as the newest segment. Returns the spares that were
    /// never written.
    fn adopt_spare(&self, survey: &mut Survey) -> Result<Vec<PathBuf>> {
        let start = survey.lineage.as_ref().map_or(0, |lineage| lineage.start.segment.as_u32());
        let next = survey.found.last().map_or(start, |f| f.index() + 1);
        // A blank newest segment may have been too small for its first record, and
        // the spare took its place.
        let replaced = survey.found.last().filter(|f| f.is_blank()).map(Found::index);
        let mut unused = Vec::new();
        let mut adopted = None;
        for spare in &survey.listing.spares {
            let path = self.layout.segments_dir().join(spare.to_string());
            let name = SegmentFileName {
                segment_id: SegmentId::from_u64(u64::from(next)),
                base_offset: 0,
                created_at_ns: 0,
            };
            let mut found = Found::load(self.storage, name, path, self.identity.format)?;
            let Ok(Some(header)) = found.header else {
                if found.header.is_ok() {
                    unused.push(found.path);
                }
                continue;
            };
            let index = header.segment_id.as_u32();
            let ours = header.stream_id.is_none_or(|id| id == self.identity.stream_id)
                && (index == next || Some(index) == replaced)
                && found.has_segment_size();
            if ours && adopted.is_none() {
                found.name.segment_id = header.segment_id;
                found.name.created_at_ns = header.created_at_ns;
                adopted = Some(found);
            }
        }
        if let Some(found) = adopted {
            if Some(found.index()) == replaced {
                survey.blank_twins.extend(survey.found.pop().map(|blank| blank.path));
            }
            survey.found.push(found);
        }
        Ok(unused)
    }

    /// Segments missing right before the unsealed end: what the next one says about
    /// itself tells how many records are gone.
    fn bridge_missing(&self, recovered: &mut Recovered, next: &Found) -> Result<()> {
        let known = !recovered.entries.is_empty();
        if !known || next.index() <= recovered.next_segment.as_u32() || is_temporary(next) {
            return Ok(());
        }
        let stream_id = self.identity.stream_id;
        let first = next.verified_first_offset(self.storage, stream_id)?;
        let until = first.unwrap_or(0).max(recovered.next_offset);
        let records = recovered.next_offset..until;
        let missing = recovered.next_segment.as_u32();
        recovered.entries.push(missing_entry(next, stream_id, missing, records));
        recovered.next_offset = until;
        recovered.bytes = next.name.base_offset;
        Ok(())
    }

    fn scan(&self, found: &Found, first_offset: u64, base_offset: u64) -> Result<Scanned> {
        let mut meta = found.meta(self.identity.stream_id, first_offset);
        if !found.has_segment_size() {
            return self.scan_misfit(found, meta);
        }
        let temporary = is_temporary(found);
        let mut path = found.path.clone();
        if temporary {
            meta.base_offset = base_offset;
            path = self.layout.segment_path(&meta.file_name());
        }
        let claimed = self.claimed();
        let scan = found.scan(self.storage, meta, claimed)?;
        Ok(Scanned { meta, path, scan, temporary: temporary.then(|| found.path.clone()) })
    }

    /// A file whose length never became durable, or was cut by someone: nothing in
    /// it was durable if it is empty, and it cannot be told if it is not.
    fn scan_misfit(&self, found: &Found, meta: SegmentMeta) -> Result<Scanned> {
        if !found.is_blank() {
            let why =
                format!("the file has {} bytes, which is not a segment's size", found.file_len);
            let damage = found.damage(found.file_len, meta.first_offset..u64::MAX, why);
            return Err(AofError::Corrupt(Box::new(damage)));
        }
        let scan = TailScan::empty();
        Ok(Scanned { meta, path: found.path.clone(), scan, temporary: None })
    }

    /// Two unsealed segments: the older one is complete exactly when the newer one
    /// continues it.
    fn reconcile_two(
        &self,
        recovered: &mut Recovered,
        previous: &Found,
        last: &Found,
    ) -> Result<()> {
        let previous = self.scan(previous, recovered.next_offset, recovered.bytes)?;
        let bytes = previous.meta.base_offset + u64::from(previous.scan.end);
        let last_claim = last.claimed_first_offset();
        let last = self.scan(last, previous.end_offset(), bytes)?;
        let continues = !previous.is_empty()
            && !last.is_empty()
            && (last.meta.format == SegmentFormat::Full
                || last_claim == Some(previous.end_offset()));
        if continues {
            self.seal_complete(recovered, previous)?;
            return self.finish(recovered, last);
        }
        let proven = previous.scan.proven.max(last.scan.proven);
        self.check_proof(&previous, proven)?;
        if !planted::is(Bug::KeepAfterHole) {
            // What lies behind a hole was never durable. Gone before the hole is
            // closed, or a later crash could join the two wrongly.
            recovered.truncated_bytes += u64::from(last.scan.end) - SEGMENT_HEADER_LEN as u64;
            self.remove(last.file_path())?;
            self.sync_segments_dir()?;
        }
        self.finish(recovered, previous)
    }

    /// Makes the scanned segment the tail: removes what was torn, makes durable
    /// what is kept.
    fn finish(&self, recovered: &mut Recovered, mut last: Scanned) -> Result<()> {
        self.check_proof(&last, last.scan.proven)?;
        recovered.next_offset = last.end_offset();
        if last.is_empty() {
            // Created and never written, or nothing of it survived.
            self.remove(last.file_path())?;
            self.sync_segments_dir()?;
            return Ok(());
        }
        let path = self.ensure_name(&mut last)?;
        let file = self.open_for_repair(&path)?;
        let mut changed = self.rewrite_unproven(&*file, &last)?;
        if !self.closed_at(&last) && !planted::is(Bug::KeepTornTail) {
            self.remove_torn(recovered, &*file, &last)?;
            changed = true;
        }
        if changed {
            file.sync().map_err(AofError::io("sync recovered segment", &path))?;
        }
        let (flush, appender) =
            SegmentFlush::resume(self.storage, path, last.meta, last.scan.end, self.target_bytes)?;
        recovered.bytes = last.meta.base_offset + u64::from(last.scan.end);
        recovered.next_segment = last.meta.segment_id.next();
        recovered.last_timestamp_ms = recovered.last_timestamp_ms.max(last.scan.last_timestamp_ms);
        recovered.last_created_ns = recovered.last_created_ns.max(last.meta.created_at_ns);
        recovered.entries.push(SegmentEntry::unsealed(Arc::clone(flush.segment())));
        recovered.tail =
            Some(RecoveredTail { flush, appender, last_timestamp_ms: last.scan.last_timestamp_ms });
        Ok(())
    }

    /// Whether the last writer closed the log cleanly right here.
    fn closed_at(&self, last: &Scanned) -> bool {
        let end = Position::new(last.meta.segment_id, last.scan.end);
        last.scan.is_clean()
            && self
                .claim
                .is_some_and(|c| c.state == WatermarkState::Closed && durable_position(&c) == end)
    }

    /// Zeroes everything behind the last record, also where it reads as zeros: after
    /// a failed sync that may be true of the page cache only.
    fn remove_torn(
        &self,
        recovered: &mut Recovered,
        file: &dyn File,
        last: &Scanned,
    ) -> Result<()> {
        let path = &last.path;
        let rest = u64::from(last.meta.segment_bytes - last.scan.end);
        file.zero_range(u64::from(last.scan.end), rest)
            .map_err(AofError::io("truncate torn tail", path))?;
        if !last.scan.is_clean() {
            tracing::info!(
                path = %path.display(), at = last.scan.end, stop = ?last.scan.stop,
                "torn tail removed"
            );
            recovered.truncated_bytes += rest;
        }
        Ok(())
    }

    /// Gives a complete segment the footer that the crash kept from it.
    fn seal_complete(&self, recovered: &mut Recovered, mut complete: Scanned) -> Result<()> {
        let path = self.ensure_name(&mut complete)?;
        let file = self.open_for_repair(&path)?;
        if self.rewrite_unproven(&*file, &complete)? {
            file.sync().map_err(AofError::io("sync recovered segment", &path))?;
        }
        let (flush, _) = SegmentFlush::resume(
            self.storage,
            path.clone(),
            complete.meta,
            complete.scan.end,
            u32::MAX,
        )?;
        let request = SealRequest {
            record_count: complete.scan.record_count,
            last_timestamp_ms: complete.scan.last_timestamp_ms,
            ext_id: self.ext_id,
            flags: 0,
            sealed_at_ns: self.now_ns,
            build_index: false,
        };
        let footer: SegmentFooter = flush.seal(&*file, complete.scan.end, &request)?;
        recovered.next_offset = complete.end_offset();
        recovered.bytes = complete.meta.base_offset + u64::from(complete.scan.end);
        recovered.last_timestamp_ms =
            recovered.last_timestamp_ms.max(complete.scan.last_timestamp_ms);
        recovered.entries.push(SegmentEntry::sealed(
            complete.meta,
            path,
            SealedInfo::from(&footer),
            Copies::hot(),
        ));
        Ok(())
    }

    /// First logical offset behind what is known to have been durable.
    fn claimed(&self) -> u64 {
        let held = match planted::in_forks(ForkBug::TailCutBelowHold) {
            true => 0,
            false => self.held_until,
        };
        self.claim.map_or(0, |claim| claim.durable_count).max(held)
    }

    /// Damage, if something proves that records behind the scan's end had been
    /// durable.
    fn check_proof(&self, scanned: &Scanned, proven: u64) -> Result<()> {
        let claimed = self.claimed();
        let end = scanned.end_offset();
        if proven.max(claimed) <= end || planted::is(Bug::TruncateDamage) {
            return Ok(());
        }
        let reason = match &scanned.scan.stop {
            ScanStop::End => "records that had been durable are missing".to_owned(),
            ScanStop::Fault(fault) => fault.to_string(),
            ScanStop::OutOfSequence { expected, found } => {
                format!("record {found} stands where record {expected} should be")
            }
        };
        let readable_again = scanned.scan.beyond.and_then(|(_, offset)| offset);
        let lost_until = readable_again.unwrap_or(0).max(end + 1).min(proven.max(claimed));
        Err(AofError::Corrupt(Box::new(Damage {
            path: scanned.file_path().clone(),
            offset: u64::from(scanned.scan.end),
            records: end..lost_until,
            reason,
        })))
    }

    /// With every segment sealed, a claim beyond them means a segment is gone.
    fn check_claim(&self, recovered: &Recovered) -> Result<()> {
        let claimed = self.claimed();
        if claimed <= recovered.next_offset {
            return Ok(());
        }
        Err(AofError::Corrupt(Box::new(Damage {
            path: self.layout.segments_dir(),
            offset: 0,
            records: recovered.next_offset..claimed,
            reason: "the newest segment is missing".into(),
        })))
    }

    /// Writes the kept records again that nothing proves durable. After a failed
    /// sync the page cache may show bytes that never reached the disk and never
    /// will, unless they are written anew. Returns whether there were any.
    fn rewrite_unproven(&self, file: &dyn File, scanned: &Scanned) -> Result<bool> {
        let end = scanned.scan.end;
        let from = self.proven_end(scanned);
        if from >= end || planted::is(Bug::TrustPageCache) {
            return Ok(false);
        }
        let from = if from <= SEGMENT_HEADER_LEN as u32 { 0 } else { from };
        let path = scanned.file_path();
        let mut chunk = vec![0; 1 << 20];
        let mut at = u64::from(from);
        while at < u64::from(end) {
            let n = (u64::from(end) - at).min(chunk.len() as u64) as usize;
            file.read_exact_at(&mut chunk[..n], at).map_err(AofError::io("read segment", path))?;
            file.write_all_at(&chunk[..n], at).map_err(AofError::io("rewrite segment", path))?;
            at += n as u64;
        }
        Ok(true)
    }

    fn proven_end(&self, scanned: &Scanned) -> u32 {
        let claimed = self.claim.as_ref().map_or(0, |claim| {
            let position = durable_position(claim);
            match position.segment_index().cmp(&scanned.meta.segment_id.as_u32()) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => position.end(),
                std::cmp::Ordering::Greater => u32::MAX,
            }
        });
        scanned.scan.proven_end.max(claimed).min(scanned.scan.end)
    }

    /// Gives a segment a name that is durable. After a failed directory sync a name
    /// may be visible and still not survive, whatever later syncs say: then the
    /// segment gets a new one.
    fn ensure_name(&self, scanned: &mut Scanned) -> Result<PathBuf> {
        let in_doubt = self.claim.is_some_and(|c| c.state == WatermarkState::Poisoned);
        if in_doubt && scanned.temporary.is_none() {
            scanned.temporary = Some(scanned.path.clone());
            scanned.meta.created_at_ns += 1;
            scanned.path = self.layout.segment_path(&scanned.meta.file_name());
        }
        if let Some(temporary) = scanned.temporary.take() {
            self.storage
                .rename(&temporary, &scanned.path)
                .map_err(AofError::io("name segment", &scanned.path))?;
            self.sync_segments_dir()?;
        }
        Ok(scanned.path.clone())
    }

    fn open_for_repair(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.storage.open(path, OpenMode::ReadWrite).map_err(AofError::io("open segment", path))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.storage.remove(path).map_err(AofError::io("remove segment", path))
    }

    fn sync_segments_dir(&self) -> Result<()> {
        let dir = self.layout.segments_dir();
        self.storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))
    }

    /// Copies in other tiers count from now on, so their names must be durable.
    fn sync_copies(&self) -> Result<()> {
        for dir in [self.layout.warm_dir(), self.layout.cold_dir()] {
            if self.storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
                self.storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))?;
            }
        }
        Ok(())
    }

    /// Removes spares, temporaries and blank files that nobody will look at again.
    fn remove_leftovers(&self, survey: &Survey, recovered: &Recovered) -> Result<()> {
        let dir = self.layout.segments_dir();
        let spares = survey.listing.spares.iter().map(|s| dir.join(s.to_string()));
        let spares = spares.filter(|path| !recovered.unused.contains(path));
        let temporaries =
            survey.listing.temporaries.iter().filter(|t| t.starts_with(&dir)).cloned();
        let blanks = survey.blank_twins.iter().cloned();
        for path in spares.chain(temporaries).chain(blanks) {
            match self.storage.remove(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(AofError::io("remove leftover", &path)(e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the file still has a spare's name.
fn is_temporary(found: &Found) -> bool {
    found.path.extension().is_some_and(|e| e == "tmp")
}
