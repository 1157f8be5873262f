//! A sparse index of one segment, in memory, built by whoever first needs it.
//!
//! One point about every [`INDEX_SPACING`] bytes: where a record starts, its logical
//! offset, and the largest timestamp before it. A lookup walks record headers from
//! the nearest point, and what it walks past for the first time becomes points.
//! Sealing walks the whole segment, so that the log can store its points.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Segment;
use crate::format::{INDEX_SPACING, IndexPoint, RecordFault, RecordHead};

#[derive(Debug, Default)]
pub(crate) struct SparseIndex {
    points: Mutex<Vec<IndexPoint>>,
    /// Whether somebody looked for the stored index of the segment.
    asked: AtomicBool,
}

impl SparseIndex {
    /// Whether the stored index should be looked for: nobody did, and no lookup has
    /// left points of its own.
    pub(crate) fn wants_stored(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed) && self.points.lock().is_empty()
    }

    /// Takes over the points of the stored index.
    pub(crate) fn adopt(&self, stored: Vec<IndexPoint>) {
        let mut points = self.points.lock();
        if points.len() < stored.len() {
            *points = stored;
        }
    }

    pub(crate) fn points(&self) -> Vec<IndexPoint> {
        self.points.lock().clone()
    }
}

impl Segment {
    /// Walks from the last point that satisfies `before` to the first record at
    /// which `reached` is true, or to `end`. With `remember`, passed records become
    /// index points. Damage on the way is passed over where version 2 records tell
    /// their own offset.
    fn walk(
        &self,
        end: u32,
        remember: bool,
        before: impl Fn(&IndexPoint) -> bool,
        mut reached: impl FnMut(&IndexPoint, Option<&RecordHead>) -> bool,
    ) -> Result<IndexPoint, (IndexPoint, RecordFault)> {
        let (mut at, mut newest) = {
            let points = self.index().points.lock();
            let usable = points.partition_point(|p| before(p) && p.position <= end);
            let start = usable.checked_sub(1).and_then(|i| points.get(i)).copied();
            (start.unwrap_or(self.first_point()), points.last().map_or(0, |p| p.position))
        };
        let space = self.space(end);
        let mut found = Vec::new();
        let result = loop {
            if reached(&at, None) {
                break Ok(at);
            }
            let bytes = self.behind(space, at.position);
            let head = match self.peek_in_sequence(bytes, &at) {
                Ok(Some(head)) => head,
                Ok(None) => break Ok(at),
                Err(fault) => match self.resync_behind(at.position, end, at.offset) {
                    Some((position, RecordHead { logical_offset: Some(offset), .. })) => {
                        let intact = IndexPoint { position, offset, ..at };
                        let last_lost = IndexPoint {
                            position: intact.position.saturating_sub(8),
                            offset: offset.saturating_sub(1),
                            ..at
                        };
                        if offset > at.offset && reached(&last_lost, None) {
                            // What was looked for may lie in the damage.
                            break Err((at, fault));
                        }
                        at = intact;
                        continue;
                    }
                    _ => break Err((at, fault)),
                },
            };
            if reached(&at, Some(&head)) {
                break Ok(at);
            }
            let covered = self.offsets_covered(bytes, &head);
            at = IndexPoint {
                position: at.position.saturating_add(head.record_len),
                offset: at.offset.saturating_add(covered),
                timestamp_before_ms: at.timestamp_before_ms.max(head.timestamp_ms),
            };
            if remember && at.position >= newest.saturating_add(INDEX_SPACING) {
                newest = at.position;
                found.push(at);
            }
        };
        if !found.is_empty() {
            let mut points = self.index().points.lock();
            let known = points.last().map_or(0, |p| p.position);
            points.extend(found.into_iter().filter(|p| p.position > known));
        }
        result
    }

    /// The part of the window's bytes that starts at this position.
    fn behind<'a>(&self, space: &'a [u8], position: u32) -> &'a [u8] {
        let at = position.saturating_sub(self.window_range().start);
        space.get(at as usize..).unwrap_or_default()
    }

    /// Peeks. A damaged length leads anywhere, also to another record, so a header must
    /// prove itself by its checksum unless it continues the sequence and leads to the
    /// next one in it. Version 1 headers cannot say which they are.
    fn peek_in_sequence(
        &self,
        bytes: &[u8],
        at: &IndexPoint,
    ) -> Result<Option<RecordHead>, RecordFault> {
        let Some(head) = self.codec().peek(bytes)? else { return Ok(None) };
        if head.logical_offset != Some(at.offset) || !self.leads_on(bytes, &head, at.offset) {
            self.codec().verify(bytes, &head)?;
        }
        Ok(Some(head))
    }

    /// Whether the record that follows by this one's length is the next in sequence.
    fn leads_on(&self, bytes: &[u8], head: &RecordHead, offset: u64) -> bool {
        let rest = bytes.get(head.record_len as usize..).unwrap_or_default();
        let next = offset.saturating_add(self.offsets_covered(bytes, head));
        matches!(self.codec().peek(rest), Ok(Some(following)) if following.logical_offset == Some(next))
    }

    /// Place of the record with this logical offset, or of the end if it lies at or
    /// behind `end`. A gap record that covers the offset is the place.
    pub(crate) fn find_offset(
        &self,
        offset: u64,
        end: u32,
        remember: bool,
    ) -> Result<IndexPoint, (IndexPoint, RecordFault)> {
        let mut last = self.first_point();
        let found = self.walk(
            end,
            remember,
            |p| p.offset <= offset,
            |at, _| {
                if at.offset <= offset {
                    last = *at;
                }
                at.offset >= offset
            },
        )?;
        Ok(if found.offset > offset { last } else { found })
    }

    /// Place of the record that starts at or first after this byte.
    pub(crate) fn find_position(
        &self,
        position: u32,
        end: u32,
        remember: bool,
    ) -> Result<IndexPoint, (IndexPoint, RecordFault)> {
        self.walk(end, remember, |p| p.position <= position, |at, _| at.position >= position)
    }

    /// Place of the first record whose timestamp is at or after this one.
    pub(crate) fn find_timestamp(
        &self,
        timestamp_ms: u64,
        end: u32,
        remember: bool,
    ) -> Result<IndexPoint, (IndexPoint, RecordFault)> {
        self.walk(
            end,
            remember,
            |p| p.timestamp_before_ms < timestamp_ms,
            |_, head| head.is_some_and(|h| h.timestamp_ms >= timestamp_ms),
        )
    }

    /// Makes points of all records before `position` that have none yet. Damage on the
    /// way ends it early: an index with fewer points is still right.
    pub(super) fn index_until(&self, position: u32, end: u32) {
        let _ = self.find_position(position, end, true);
    }

    /// Start of the last record before `end`.
    pub(super) fn last_record_before(&self, end: u32) -> Option<u32> {
        let mut last = None;
        let walked = self.walk(
            end,
            false,
            |_| true,
            |at, head| {
                if head.is_some() {
                    last = Some(at.position);
                }
                false
            },
        );
        walked.ok().and(last)
    }
}
