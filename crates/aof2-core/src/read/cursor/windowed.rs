//! Reading segments by windows, because they are compressed, in an object store, or cannot
//! be mapped: waiting for a window or not, having the segment brought back to the hot tier
//! or not, and asking for the next one in time.

use std::sync::Arc;

use super::super::source::Comeback;
use super::{Cursor, Spot, Want};
use crate::error::{AofError, BackpressureKind, Result};
use crate::format::IndexPoint;
use crate::read::scan::Hydrate;
use crate::read::segments::Segments;
use crate::segment::{Artifact, Segment};
use crate::store::{FRAMES_MAX, ReadAhead};
use crate::store::{Opened, SegmentEntry};

/// How a cursor reads segments that have no file to map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether it waits for a window that is not in memory.
    pub(super) waits: bool,
    /// Whether segments are brought back for it.
    pub(super) hydrate: Hydrate,
    /// Frames to get with the first read of the segment that follows.
    pub(super) frames: usize,
}

impl Default for Manner {
    fn default() -> Self {
        Self { waits: true, hydrate: Hydrate::Never, frames: 1 }
    }
}

/// Bytes of the following segment that its source fetches ahead. They are let go of if
/// nobody comes for them.
#[derive(Debug)]
pub(super) struct Announced(Option<Arc<Artifact>>);

impl Announced {
    /// They were come for.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if let Some(artifact) = &self.0 {
            artifact.source().forget();
        }
    }
}

impl Cursor {
    /// Has a segment in another tier brought back, if that is how the cursor reads.
    pub(super) fn bring_back(
        &mut self,
        entry: Arc<SegmentEntry>,
        opened: Opened,
    ) -> Result<(Arc<SegmentEntry>, Opened)> {
        if self.manner.hydrate != Hydrate::Always {
            return Ok((entry, opened));
        }
        let is_windowed = matches!(opened, Opened::ByWindows(_));
        if is_windowed && self.is_own(&entry) {
            // What this cursor holds must not be in the way.
            self.let_go();
            match self.source.bring_back(entry.meta.segment_id) {
                Comeback::There => {
                    self.want_next(&entry);
                    return self.open_copy(entry);
                }
                Comeback::Refused => {}
                // There is no space, and there will be none for the others either.
                Comeback::Late => self.manner.hydrate = Hydrate::Never,
            }
        }
        self.want_next(&entry);
        Ok((entry, opened))
    }

    /// Whether the log itself has the segment, and not one that it was forked from.
    fn is_own(&self, entry: &SegmentEntry) -> bool {
        self.source.table().find(entry.meta.segment_id.as_u32()).is_some()
    }

    /// Asks for the segment behind this one.
    fn want_next(&self, entry: &SegmentEntry) {
        if self.manner.hydrate != Hydrate::Always {
            return;
        }
        let next = self.source.table().after(entry.meta.segment_id.as_u32());
        if let Some(next) = next.filter(|next| !next.is_hot() && next.damage.is_none()) {
            self.source.prefetch(next.meta.segment_id, false);
        }
    }

    /// Keeps the place and lets go of the map.
    fn let_go(&mut self) {
        let Some(here) = &mut self.here else { return };
        let end = here.segment.window_range().end;
        // Nothing is read here any more: the cursor stands behind it.
        if here.position < end && here.segment.closed_end().is_none_or(|end| here.position < end) {
            return;
        }
        let first =
            IndexPoint { position: here.position, offset: self.offset, timestamp_before_ms: 0 };
        let (meta, path) = (*here.segment.meta(), here.segment.path().to_owned());
        let nothing = Segment::window(meta, path, Vec::new(), here.position, first);
        here.segment = Arc::new(nothing);
    }

    /// The window of a segment in which something is looked for.
    pub(super) fn open_windowed(
        &mut self,
        entry: Arc<SegmentEntry>,
        artifact: Arc<Artifact>,
        want: Want,
    ) -> Result<Spot> {
        if matches!(want, Want::Start) && self.manner.waits && self.manner.frames > 1 {
            return self.run_into(entry, artifact);
        }
        let index = artifact.index();
        let frame = match want {
            Want::Start => Some(0),
            Want::Position(position) => index.frame_at(position),
            Want::Offset(offset) => index.frame_of_offset(offset),
            Want::Timestamp(ms) => index.frame_of_timestamp(ms),
        };
        let frame = frame.unwrap_or(index.frames.len().saturating_sub(1));
        // What its origin has behind a cut is not part of the log.
        let frame = match entry.cut_end().and_then(|end| index.frame_at(end.saturating_sub(1))) {
            Some(last) => frame.min(last),
            None => frame,
        };
        let window = self.window(&artifact, frame);
        let (segment, passed) = match window.inspect_err(|error| self.note(error)) {
            Err(AofError::Corrupt(_)) if self.passes(&want) => {
                let offsets = index.offsets_of(frame);
                let from = match want {
                    Want::Offset(offset) => offset.max(offsets.start),
                    _ => offsets.start,
                };
                let behind = ReadAhead::nothing_behind(&artifact, frame);
                (Arc::new(behind), Some(from..offsets.end))
            }
            window => (window?, None),
        };
        let ahead = Some(ReadAhead::behind(artifact, frame));
        Ok(Spot { entry, segment, ahead, passed })
    }

    /// Goes on reading in the following segment as fast as in the one before.
    fn run_into(&mut self, entry: Arc<SegmentEntry>, artifact: Arc<Artifact>) -> Result<Spot> {
        let mut ahead = ReadAhead::starting(Arc::clone(&artifact), self.manner.frames);
        let first = ahead.next();
        if let Some(announced) = self.announced.take() {
            announced.keep();
        }
        let (segment, passed) = match first.inspect_err(|error| self.note(error)) {
            Ok(Some(window)) => (window, None),
            Ok(None) => return Err(AofError::NoSuchRecord(artifact.meta().record_id(0))),
            Err(AofError::Corrupt(_)) if self.passes_damage => {
                let offsets = artifact.index().offsets_of(0);
                ahead.skip();
                let behind = ReadAhead::nothing_behind(&artifact, 0);
                (Arc::new(behind), Some(offsets))
            }
            Err(error) => return Err(error),
        };
        Ok(Spot { entry, segment, ahead: Some(ahead), passed })
    }

    /// One window. A cursor that does not wait asks for it, and is refused.
    fn window(&self, artifact: &Arc<Artifact>, frame: usize) -> Result<Arc<Segment>> {
        let table = self.source.table();
        if self.manner.waits {
            return table.window(artifact, frame);
        }
        if let Some(window) = table.kept_window(artifact, frame) {
            return Ok(window);
        }
        table.fetch_window(artifact, frame)?;
        self.source.note_blocked();
        Err(AofError::WouldBlock(BackpressureKind::Hydration))
    }

    /// The window behind this one, in the same segment.
    pub(super) fn next_window(&mut self) -> Result<Option<Arc<Segment>>> {
        let Some(here) = &mut self.here else { return Ok(None) };
        let Some(ahead) = &mut here.ahead else { return Ok(None) };
        if self.manner.waits {
            let window = ahead.next()?;
            let (frames, is_ending) = (ahead.frames(), ahead.is_ending());
            match window.is_some() {
                true if is_ending => self.announce_next(frames),
                true => {}
                false => self.note_scanned(),
            }
            return Ok(window);
        }
        let Some((artifact, frame)) = ahead.next_frame() else { return Ok(None) };
        let window = self.window(&artifact, frame)?;
        if let Some(ahead) = self.here.as_mut().and_then(|here| here.ahead.as_mut()) {
            ahead.skip();
        }
        Ok(Some(window))
    }

    /// [`Cursor::announce_next`] for a segment that came with one read.
    pub(super) fn announce_if_short(&mut self) {
        let ahead = self.here.as_ref().and_then(|here| here.ahead.as_ref());
        if let Some(ahead) = ahead.filter(|ahead| self.manner.frames > 1 && ahead.is_ending()) {
            self.announce_next(ahead.frames());
        }
    }

    /// The last windows of this segment are in memory: the source of the next one may
    /// fetch its first.
    fn announce_next(&mut self, frames: usize) {
        let Some(here) = self.here.as_mut().filter(|here| !here.has_announced) else { return };
        here.has_announced = true;
        self.manner.frames = frames.min(FRAMES_MAX);
        let index = here.entry.meta.segment_id.as_u32();
        let next = Segments::of(&*self.source).after(index).ok().flatten().filter(|next| {
            let is_visible = next.meta.segment_id.as_u32() <= self.limit.position.segment_index();
            is_visible && !next.is_hot() && next.damage.is_none()
        });
        let Some(artifact) = next.and_then(|next| next.copies().compressed().cloned()) else {
            return;
        };
        artifact.announce(ReadAhead::first_frames(&artifact, self.manner.frames));
        self.announced = Some(Announced(Some(artifact)));
    }

    /// The scan ends here, perhaps at the very end of a segment that is read by windows.
    pub(crate) fn note_ended(&mut self) {
        let is_all = self.here.as_ref().is_some_and(|here| {
            here.ahead.as_ref().is_some_and(|ahead| !ahead.has_next())
                && here.entry.end_offset().is_some_and(|end| self.offset >= end)
        });
        if is_all {
            self.note_scanned();
        }
    }

    /// All of a segment was read by windows. The second time it is asked to come back, if
    /// there is space.
    fn note_scanned(&mut self) {
        let Some(here) = &mut self.here else { return };
        if !std::mem::take(&mut here.is_from_start) {
            return;
        }
        let count = here.entry.note_scanned();
        if self.manner.hydrate == Hydrate::Auto && count >= 2 {
            let id = here.entry.meta.segment_id;
            if self.source.table().find(id.as_u32()).is_some() {
                self.source.prefetch(id, true);
            }
        }
    }
}
