//! What a bucket holds of one stream, as one listing tells it: which objects are part of
//! the log, who writes it, and what is left over. Pure: it asks for nothing.
//!
//! An object counts only if no later writer has said that it continues before it
//! (`.from`), and if the log has not been cut behind it (`.start`). So an object that a
//! fenced writer put too late is void for everybody who lists it. Of several objects of a
//! segment the latest counts.
//!
//! Between a claim and its `.from` an object that an earlier writer puts just then may
//! still count for a reader. It was never reported as archived.

use std::collections::BTreeSet;

use super::object::ArchivedObject;
use super::tier::latest;
use crate::format::{ColdKey, SegmentId, WriterFrom, WriterKey, writer_epoch};
use crate::object::ObjectEntry;

/// One listing of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamView {
    /// Every segment's object, in order.
    objects: Vec<ArchivedObject>,
    claims: BTreeSet<u32>,
    from: Option<WriterFrom>,
    starts: Vec<(u32, SegmentId)>,
    /// Everything below `writer/`, with the writer it is of.
    control: Vec<(u32, String)>,
}

impl StreamView {
    /// What was listed below the prefix of the stream, in order.
    pub(super) fn of(prefix: &str, entries: &[ObjectEntry]) -> Self {
        let mut view = Self::default();
        for entry in entries {
            if let Some(key) = ColdKey::parse(&entry.key) {
                let (segment_id, epoch) = (key.segment_id(), key.epoch());
                if segment_id <= SegmentId::MAX {
                    view.objects.push(ArchivedObject { segment_id, epoch, len: entry.len });
                }
                continue;
            }
            let Some(key) = entry.key.strip_prefix(prefix).and_then(WriterKey::parse) else {
                continue;
            };
            view.control.push((key.epoch(), entry.key.clone()));
            match key {
                WriterKey::Claim { epoch } => drop(view.claims.insert(epoch)),
                WriterKey::Start { epoch, start } => view.starts.push((epoch, start)),
                WriterKey::From(from) => {
                    let order = |from: &WriterFrom| (from.epoch, from.first);
                    if view.from.as_ref().is_none_or(|known| order(known) < order(&from)) {
                        view.from = Some(from);
                    }
                }
            }
        }
        view
    }

    /// The writer that claimed the log last.
    pub(crate) fn last_claim(&self) -> Option<u32> {
        self.claims.last().copied()
    }

    /// The first segment of the log: what lies before may be gone.
    pub(crate) fn start(&self) -> SegmentId {
        let zero = SegmentId::from_u64(0);
        let (epoch, agreed) = self.from.map_or((0, zero), |from| (from.epoch, from.start));
        // What an earlier writer said after the latest one had listed counts for nothing.
        let said = self.starts.iter().filter(|(by, _)| *by >= epoch).map(|(_, start)| *start);
        said.chain([agreed]).max().unwrap_or(zero)
    }

    fn is_void(&self, object: &ArchivedObject) -> bool {
        let is_late = self.from.is_some_and(|from| {
            writer_epoch(object.epoch) < from.epoch && object.segment_id >= from.first
        });
        is_late || object.segment_id < self.start()
    }

    /// The objects that are the log: the latest of each segment.
    pub(crate) fn standing(&self) -> Vec<ArchivedObject> {
        latest(self.objects.iter().filter(|object| !self.is_void(object)))
    }

    /// Whether an object is there, whatever it counts for.
    pub(crate) fn holds(&self, segment_id: SegmentId, epoch: u32) -> bool {
        let place = |object: &ArchivedObject| (object.segment_id, object.epoch);
        self.objects.binary_search_by_key(&(segment_id, epoch), place).is_ok()
    }

    /// Every other object of the stream, which nobody reads.
    pub(crate) fn leftovers(&self) -> Vec<ArchivedObject> {
        let standing = self.standing();
        let is_standing = |object: &&ArchivedObject| !standing.contains(object);
        self.objects.iter().filter(is_standing).cloned().collect()
    }

    /// Where a writer that claims the log now continues.
    pub(crate) fn continuation(&self, epoch: u32) -> WriterFrom {
        let start = self.start();
        let first = self.standing().last().map_or(start, |last| last.segment_id.next());
        WriterFrom { epoch, first: first.max(start), start }
    }

    /// Keys of what earlier writers left below `writer/`.
    pub(crate) fn control_before(&self, epoch: u32) -> impl Iterator<Item = &str> {
        self.control.iter().filter(move |(of, _)| *of < epoch).map(|(_, key)| key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "logs/00000000000000aa/";

    fn view(keys: &[&str]) -> StreamView {
        let entry =
            |key: &&str| ObjectEntry { key: format!("{PREFIX}{key}"), len: 1, etag: String::new() };
        let mut entries: Vec<_> = keys.iter().map(entry).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        StreamView::of(PREFIX, &entries)
    }

    fn object(segment: u64, epoch: u32) -> String {
        format!("{segment:020}-{epoch:08x}.zst")
    }

    fn ids(objects: &[ArchivedObject]) -> Vec<(u64, u32)> {
        objects.iter().map(|o| (o.segment_id.as_u64(), o.epoch)).collect()
    }

    #[test]
    fn objects_of_before_there_were_claims_count() {
        let found = view(&[&object(0, 0), &object(1, 0), &object(1, 2), "stream", "junk"]);
        assert_eq!(ids(&found.standing()), [(0, 0), (1, 2)]);
        assert_eq!(ids(&found.leftovers()), [(1, 0)]);
        assert_eq!((found.last_claim(), found.start().as_u64()), (None, 0));
        assert_eq!(found.continuation(1).first.as_u64(), 2);
    }

    #[test]
    fn an_object_that_a_fenced_writer_put_too_late_is_void() {
        let late = object(2, 0x100);
        let from = "writer/00000002.from-00000000000000000002-00000000000000000000";
        let keys = [&object(0, 0x100), &object(1, 0x100), &late, "writer/00000002", from];
        let found = view(&keys);
        assert_eq!(ids(&found.standing()), [(0, 0x100), (1, 0x100)]);
        assert_eq!(ids(&found.leftovers()), [(2, 0x100)]);
        assert_eq!(found.continuation(3).first.as_u64(), 2);
        // The writer that continues there puts its own.
        let own = object(2, 0x200);
        let found = view(&[&keys[..], &[own.as_str()]].concat());
        assert_eq!(ids(&found.standing()), [(0, 0x100), (1, 0x100), (2, 0x200)]);
    }

    #[test]
    fn a_start_counts_unless_it_came_too_late() {
        let start_of_1 = "writer/00000001.start-00000000000000000001";
        let objects = [object(0, 0x100), object(1, 0x100), object(2, 0x100)];
        let mut keys: Vec<&str> = objects.iter().map(String::as_str).collect();
        keys.push(start_of_1);
        assert_eq!(ids(&view(&keys).standing()), [(1, 0x100), (2, 0x100)]);
        // The next writer had not seen it.
        keys.push("writer/00000002.from-00000000000000000003-00000000000000000000");
        assert_eq!(view(&keys).standing().len(), 3);
        keys.push("writer/00000002.start-00000000000000000002");
        assert_eq!(ids(&view(&keys).standing()), [(2, 0x100)]);
    }

    #[test]
    fn a_cut_log_without_objects_goes_on_where_it_was_cut() {
        let found = view(&["writer/00000001.start-00000000000000000007"]);
        assert_eq!(found.continuation(2).first.as_u64(), 7);
    }
}
