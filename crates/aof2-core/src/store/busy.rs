//! Who is changing what. One change of a segment's files at a time and one of its objects,
//! one of each kind of work for the whole log; a log that is being closed waits for all.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex};

use crate::format::SegmentId;
use crate::planted::{self, StoreBug};

/// Something that one at a time may work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// The local copies of a segment, and its entry in the table.
    Files(SegmentId),
    /// The objects of a segment.
    Object(SegmentId),
    /// A small file of the log: how far a scrub has got.
    Notes,
}

#[derive(Debug, Default)]
pub(crate) struct Busy {
    slots: Mutex<BTreeSet<Slot>>,
    changed: Condvar,
    #[cfg(test)]
    waiting: std::sync::atomic::AtomicUsize,
}

/// The right to work on a slot, for as long as it is kept.
pub(crate) struct Right<'a> {
    busy: &'a Busy,
    slot: Slot,
}

impl Busy {
    /// Waits until nobody else has the slot.
    pub(crate) fn begin(&self, slot: Slot) -> Right<'_> {
        let mut slots = self.slots.lock();
        while !slots.insert(slot) && !planted::in_store(StoreBug::BusyIgnored) {
            #[cfg(test)]
            self.waiting.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            self.changed.wait(&mut slots);
            #[cfg(test)]
            self.waiting.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
        Right { busy: self, slot }
    }

    /// How many wait for a slot.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Segments whose files are being changed.
    pub(crate) fn segments(&self) -> BTreeSet<SegmentId> {
        let slots = self.slots.lock();
        let segment_id = |slot: &Slot| match slot {
            Slot::Files(id) => Some(*id),
            Slot::Object(_) | Slot::Notes => None,
        };
        slots.iter().filter_map(segment_id).collect()
    }

    /// Waits until nobody works on files. Requests that are under way end by themselves:
    /// what they find when they are done is a closed log.
    pub(crate) fn drain(&self) {
        let mut slots = self.slots.lock();
        while slots.iter().any(|slot| !matches!(slot, Slot::Object(_))) {
            self.changed.wait(&mut slots);
        }
    }
}

impl Drop for Right<'_> {
    fn drop(&mut self) {
        self.busy.slots.lock().remove(&self.slot);
        self.busy.changed.notify_all();
    }
}
