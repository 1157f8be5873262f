//! Carrying out a change: the one place that does, in the one order.
//!
//! ```text
//! right      one change of a segment's files at a time, one of its objects at a time
//! look       with the right in hand: is there anything to do?
//! objections the last copy, readers, pins, holds of forks and snapshots
//! decide     for what others see, too
//! intent     recorded, if the work could be seen half done
//! work       a new copy is durable and verified; nothing names it yet
//! switch     the table names the new copy, or no longer the old one, whose file then goes
//! record     in the manifest, under the same lock as the switch
//! ```

use std::cell::RefCell;
use std::sync::Arc;

use super::busy::{Right, Slot};
use super::change::{Applied, Change, Objections, Suspect};
use super::copy::{Copies, Residency};
use super::entry::SegmentEntry;
use super::info::SealedInfo;
use super::lineage::Holds;
use super::state::Store;
use super::steps;
use crate::error::{AofError, Result};
use crate::format::manifest::ManifestEvent;
use crate::format::{Inheritance, SegmentId};
use crate::manifest::Manifest;
use crate::planted::{self, ForkBug, StoreBug};
use crate::segment::SegmentMeta;

/// How one kind of change is made. [`Store::apply`] calls these in the order they stand
/// here.
pub(super) trait Step {
    /// What is recorded before the work begins.
    fn intent(&self) -> Option<ManifestEvent<'_>> {
        None
    }

    /// Makes a new copy. Nothing may name it yet.
    fn work(&mut self, _store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        Ok(())
    }

    /// Whether the work is done in the bucket: local copies may come and go meanwhile.
    fn is_of_objects(&self) -> bool {
        false
    }

    /// The segment was dropped during such work.
    fn abandon(&mut self, _store: &Store) -> Result<()> {
        Ok(())
    }

    /// What is recorded if the work fails.
    fn failure(&self, _error: &AofError) -> Option<ManifestEvent<'_>> {
        None
    }

    /// Changes the table, and removes the file of a copy that it no longer names. May fail
    /// half way; then the next opening records what the files show.
    fn switch(&mut self, _store: &Store, _entry: &Arc<SegmentEntry>) -> Result<()> {
        Ok(())
    }

    /// Records the change.
    fn record(&self, _manifest: &Manifest, _entry: &SegmentEntry) -> Result<()> {
        Ok(())
    }

    /// What was done.
    fn applied(self: Box<Self>) -> Applied;
}

impl Store {
    /// Makes a change. Returns what was done; a change that was made before is none.
    pub(crate) fn apply(&self, change: &Change) -> Result<Applied> {
        self.apply_if(change, &|_| Ok(true))
    }

    /// The same, unless `confirm`, asked once nobody else can change the segment, says that
    /// it is not needed.
    pub(crate) fn apply_if(
        &self,
        change: &Change,
        confirm: &dyn Fn(&SegmentEntry) -> Result<bool>,
    ) -> Result<Applied> {
        let confirmed = self.confirm_left(change)?;
        let _right = self.begin(change);
        self.apply_held(change, confirmed, confirm)
    }

    /// For an eviction: makes sure of the copy that will be left, before the right is taken.
    /// That may take a request or reading a file, and others shall not wait for it.
    fn confirm_left(&self, change: &Change) -> Result<Option<Copies>> {
        let Change::Evict(segment_id, tier) = change else { return Ok(None) };
        let entry = self.sealed_entry(*segment_id)?;
        let copies = entry.copies();
        if copies.is_in(*tier) {
            self.check_left(&entry, &copies, *tier)?;
        }
        Ok(Some(copies))
    }

    /// Compresses a segment and evicts its segment file, both in one turn, so that the
    /// compressed file that was just verified need not be read again. Returns what was done
    /// for each.
    pub(crate) fn compress_and_evict(&self, segment_id: SegmentId) -> Result<(Applied, Applied)> {
        let _right = self.busy.begin(Slot::Files(segment_id));
        let always = |_: &SegmentEntry| Ok(true);
        let compressed = self.apply_held(&Change::Compress(segment_id), None, &always)?;
        let entry = self.sealed_entry(segment_id)?;
        // It was verified when it was made, and nobody else could change it since.
        let confirmed = compressed.is_done.then(|| entry.copies());
        let evict = Change::Evict(segment_id, Residency::Hot);
        let evicted = self.apply_held(&evict, confirmed, &always)?;
        Ok((compressed, evicted))
    }

    /// Makes a change with the right in hand.
    fn apply_held(
        &self,
        change: &Change,
        confirmed: Option<Copies>,
        confirm: &dyn Fn(&SegmentEntry) -> Result<bool>,
    ) -> Result<Applied> {
        // With the right in hand: it may have gone while we waited.
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let entry = self.entry_for(change)?;
        let Some(mut step) = self.step_for(change, &entry, confirmed)? else {
            return Ok(self.unchanged(change, &entry));
        };
        if !confirm(&entry)? {
            return Ok(Applied::nothing());
        }
        // Until the segment is gone: whoever forks the log waits, and then sees that it is.
        let _holds = match change {
            Change::Drop(..) => Some(Holds::of(self.storage(), self.layout()).lock()?),
            _ => None,
        };
        // Readers keep what they have mapped, and pins bind the policy, not its user.
        let objections = self.objections(change, &entry);
        if objections.is_last_copy && !planted::in_store(StoreBug::LastCopyDropped) {
            return Err(AofError::LastCopy(change.segment_id()));
        }
        if matches!(change, Change::Drop(..)) {
            self.check_not_held(change.segment_id())?;
        }
        if change.is_shared() {
            self.decide(change)?;
        }
        self.run(&mut *step, &entry)?;
        if change.is_shared() {
            self.note_archived();
        }
        Ok(step.applied())
    }

    /// Intent, work, table, manifest.
    fn run(&self, step: &mut dyn Step, entry: &Arc<SegmentEntry>) -> Result<()> {
        if let Some(intent) = step.intent() {
            self.record_one(entry, intent)?;
        }
        if let Err(error) = step.work(self, entry) {
            return match step.failure(&error) {
                Some(event) => self.record_one(entry, event).and(Err(error)),
                None => Err(error),
            };
        }
        let _files = match step.is_of_objects() {
            true => Some(self.enter_files(step, entry.meta.segment_id)?),
            false => None,
        };
        if planted::in_store(StoreBug::RecordBeforeSwitch) {
            self.while_moving(|| Ok(()), |manifest, ()| step.record(manifest, entry))?;
            return self.while_moving(|| step.switch(self, entry), |_, ()| Ok(()));
        }
        let step = RefCell::new(step);
        self.while_moving(
            || step.borrow_mut().switch(self, entry),
            |manifest, ()| step.borrow().record(manifest, entry),
        )
    }

    /// After work in the bucket: the right to change the local side, if the segment is
    /// still there.
    fn enter_files(&self, step: &mut dyn Step, segment_id: SegmentId) -> Result<Right<'_>> {
        let right = self.busy.begin(Slot::Files(segment_id));
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        match self.sealed_entry(segment_id) {
            Ok(_) => Ok(right),
            Err(error) if planted::in_store(StoreBug::DroppedUploadKept) => Err(error),
            Err(error) => step.abandon(self).and(Err(error)),
        }
    }

    /// Takes up an object that is in the bucket: an upload whose work was done by another.
    pub(super) fn adopt(&self, mut step: Box<dyn Step>, segment_id: SegmentId) -> Result<()> {
        let _right = self.busy.begin(Slot::Files(segment_id));
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        self.run(&mut *step, &self.sealed_entry(segment_id)?)?;
        self.note_archived();
        Ok(())
    }

    /// Seals a segment: `seal` writes its footer and marks its entry.
    pub(crate) fn seal(
        &self,
        meta: &SegmentMeta,
        seal: impl FnOnce() -> Result<SealedInfo>,
    ) -> Result<()> {
        let _right = self.busy.begin(Slot::Files(meta.segment_id));
        self.while_sealing(meta, seal)
    }

    fn no_such_segment(&self, segment_id: SegmentId) -> AofError {
        let inherited = self.inherited();
        let lineage = inherited.as_ref().map(|inherited| inherited.lineage());
        let is_of = |origin: &&Inheritance| {
            (origin.first_segment..=origin.last_segment).contains(&segment_id)
        };
        match lineage.and_then(|lineage| lineage.origins.iter().find(is_of)) {
            Some(origin) => AofError::Shared { segment_id, origin: origin.name.clone() },
            None => AofError::NoSuchSegment(segment_id),
        }
    }

    /// How many changes wait for another.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.busy.waiting()
    }

    fn record_one(&self, entry: &SegmentEntry, event: ManifestEvent<'_>) -> Result<()> {
        let (segment_id, base_offset) = (entry.meta.segment_id, entry.meta.base_offset);
        self.while_moving(|| Ok(()), |m, ()| m.record(segment_id, base_offset, event).map(drop))
    }

    fn begin(&self, change: &Change) -> Right<'_> {
        let id = change.segment_id();
        match change {
            // These take long, and local copies may come and go meanwhile.
            Change::Upload(_) | Change::Delete(..) => self.busy.begin(Slot::Object(id)),
            _ => self.busy.begin(Slot::Files(id)),
        }
    }

    fn entry_for(&self, change: &Change) -> Result<Arc<SegmentEntry>> {
        let id = change.segment_id();
        match change {
            // Of a segment that is gone the object may still be there, and retention also
            // removes what is damaged.
            Change::Delete(..) | Change::Drop(..) => {
                self.table().find(id.as_u32()).map_or_else(|| self.placeholder(change), Ok)
            }
            _ => self.sealed_entry(id),
        }
    }

    /// A deleted object's segment need not exist any more.
    fn placeholder(&self, change: &Change) -> Result<Arc<SegmentEntry>> {
        match change {
            Change::Delete(id, _) => Ok(Arc::new(SegmentEntry::gone(*id, self.stream_id()))),
            change => Err(AofError::NoSuchSegment(change.segment_id())),
        }
    }

    /// How the change is made; `None` if there is nothing to do.
    fn step_for(
        &self,
        change: &Change,
        entry: &Arc<SegmentEntry>,
        confirmed: Option<Copies>,
    ) -> Result<Option<Box<dyn Step>>> {
        let copies = entry.copies();
        let step: Option<Box<dyn Step>> = match change {
            Change::Compress(_) => steps::Compress::of(self, &copies),
            Change::Upload(id) => steps::Upload::of(*id, &copies)?,
            Change::Fetch(_) => steps::Fetch::of(&copies),
            Change::Hydrate(_) => steps::Hydrate::of(entry, &copies),
            Change::Evict(_, Residency::Hot) => steps::EvictHot::of(entry, confirmed),
            Change::Evict(_, Residency::Warm) => steps::EvictWarm::of(&copies, confirmed),
            Change::Evict(_, Residency::Cold) => None,
            Change::SetAside(_, suspect) => steps::SetAside::of(self, entry, suspect)?,
            Change::Forget(_) => steps::Forget::of(self, entry),
            Change::Drop(_, removal) => Some(steps::DropSegment::of(self, entry, *removal)?),
            Change::Delete(id, epoch) => Some(steps::Delete::of(self, *id, *epoch)?),
        };
        Ok(step)
    }

    /// What is told of a copy that was there already.
    fn unchanged(&self, change: &Change, entry: &SegmentEntry) -> Applied {
        let bytes = match change {
            Change::Compress(_) => entry.copies().warm_len(),
            _ => None,
        };
        Applied { bytes: bytes.unwrap_or(0), ..Applied::nothing() }
    }

    /// What speaks against a change now. The only place that is asked: by whoever plans a
    /// change, and again when it is made.
    pub(crate) fn objections(&self, change: &Change, entry: &SegmentEntry) -> Objections {
        let copies = entry.copies();
        let is_last_copy = match change {
            // What is mapped may be damaged: an object must be there, too.
            Change::Evict(_, Residency::Warm) => copies.cold.is_none(),
            Change::Evict(_, tier) => !copies.is_beside(*tier),
            Change::SetAside(_, Suspect::Hot) => !copies.is_beside(Residency::Hot),
            Change::SetAside(_, Suspect::Warm(_)) => !copies.is_beside(Residency::Warm),
            Change::Forget(_) => !copies.is_beside(Residency::Cold),
            _ => false,
        };
        let leaves_tier = matches!(change, Change::Evict(..));
        let removes_file = matches!(change, Change::Evict(_, Residency::Hot) | Change::Drop(..));
        Objections {
            is_last_copy,
            is_pinned: leaves_tier && self.is_pinned(change.segment_id()),
            is_read: removes_file && entry.is_held(),
        }
    }

    /// Whether a change of something shared may be made. A writer alone decides for itself:
    /// its claim is what makes it the only one.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    fn decide(&self, change: &Change) -> Result<()> {
        tracing::trace!(?change, "decided");
        Ok(())
    }

    /// Forks and snapshots that read a segment, as the disk says now.
    pub(crate) fn holders_of(&self, segment_id: SegmentId) -> Result<Vec<String>> {
        let listed = match planted::in_forks(ForkBug::HoldsFromMemory) {
            true => Default::default(),
            false => Holds::of(self.storage(), self.layout()).list()?,
        };
        Ok(listed.holders_of(segment_id, self.now_ms()))
    }

    /// Logical offset of the log's last snapshot, as the disk says now.
    pub(crate) fn last_snapshot(&self) -> Result<Option<u64>> {
        let listed = Holds::of(self.storage(), self.layout()).list()?;
        Ok(listed.last_place_of(self.stream_id(), self.now_ms()))
    }

    fn check_not_held(&self, segment_id: SegmentId) -> Result<()> {
        let holders = self.holders_of(segment_id)?;
        match holders.is_empty() {
            true => Ok(()),
            false => Err(AofError::Held { path: self.layout().root().to_owned(), holders }),
        }
    }

    /// A sealed segment that is not damaged.
    pub(crate) fn sealed_entry(&self, segment_id: SegmentId) -> Result<Arc<SegmentEntry>> {
        let entry = self.table().find(segment_id.as_u32()).filter(|e| e.sealed_info().is_some());
        let entry = entry.ok_or_else(|| self.no_such_segment(segment_id))?;
        match &entry.damage {
            Some(damage) => Err(AofError::Corrupt(Box::new(damage.clone()))),
            None => Ok(entry),
        }
    }
}
