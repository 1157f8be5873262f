//! Reading the windows of a segment in another tier one after the other.
//!
//! The longer a reader goes on, the more windows it gets with one read: a lookup costs
//! a frame, a scan few and large requests. What follows is announced to the source,
//! which may fetch it while this part is being read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::format::IndexPoint;
use crate::segment::{Artifact, Segment};

/// Decompressed bytes that one read brings at most: what a scan holds in memory.
const READ_BYTES_MAX: u64 = 4 << 20;
/// Frames of one read at most: the shortest frames fill [`READ_BYTES_MAX`] with fewer.
pub(crate) const FRAMES_MAX: usize = 1024;

/// The windows behind the one that is being read.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    artifact: Arc<Artifact>,
    /// Frame of the first window in `ready`, or the next to read.
    next: usize,
    ready: VecDeque<Arc<Segment>>,
    /// Frames to get with the next read.
    frames: usize,
    has_announced: bool,
}

impl ReadAhead {
    pub(crate) fn behind(artifact: Arc<Artifact>, frame: usize) -> Self {
        let mut ahead = Self::starting(artifact, 1);
        ahead.next = frame + 1;
        ahead
    }

    /// Before the first window of a segment, by a reader that comes from the one before.
    pub(crate) fn starting(artifact: Arc<Artifact>, frames: usize) -> Self {
        Self { artifact, next: 0, ready: VecDeque::new(), frames, has_announced: false }
    }

    /// The frames that such a reader gets with its first read.
    pub(crate) fn first_frames(artifact: &Artifact, frames: usize) -> Range<usize> {
        within_bytes(artifact, 0, frames)
    }

    /// Frames to get with the next read.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_ending(&self) -> bool {
        self.next + self.ready.len() >= self.artifact.index().frames.len()
    }

    /// The frame of the next window.
    pub(crate) fn next_frame(&self) -> Option<(Arc<Artifact>, usize)> {
        self.has_next().then(|| (Arc::clone(&self.artifact), self.next))
    }

    /// A window without records behind a frame that cannot be read.
    pub(crate) fn nothing_behind(artifact: &Artifact, frame: usize) -> Segment {
        let index = artifact.index();
        let place = index.frames.get(frame).unwrap_or(&index.footer);
        let first = IndexPoint {
            position: place.position.saturating_add(place.len),
            offset: index.offsets_of(frame).end,
            timestamp_before_ms: place.timestamp_before_ms,
        };
        let name = artifact.source().name().to_owned();
        Segment::window(artifact.meta(), name, Vec::new(), first.position, first)
    }

    pub(crate) fn has_next(&self) -> bool {
        self.next < self.artifact.index().frames.len()
    }

    /// Logical offset at which the next window begins.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        self.artifact.index().frames.get(self.next).map(|frame| frame.first_offset)
    }

    /// Passes over the next window. Returns the offset behind it, if there is another.
    pub(crate) fn skip(&mut self) -> Option<u64> {
        self.ready.pop_front();
        self.next += 1;
        self.next_offset()
    }

    /// The next window; `None` at the end of the segment. After an error the same
    /// window is next.
    pub(crate) fn next(&mut self) -> Result<Option<Arc<Segment>>> {
        if self.ready.is_empty() && self.has_next() {
            self.read()?;
        }
        let window = self.ready.pop_front();
        self.next += usize::from(window.is_some());
        Ok(window)
    }

    fn read(&mut self) -> Result<()> {
        let frames = within_bytes(&self.artifact, self.next, self.frames);
        let faster = (self.frames * 2).min(FRAMES_MAX);
        let following = within_bytes(&self.artifact, frames.end, faster);
        if !following.is_empty() && frames.len() > 1 {
            self.artifact.announce(following);
            self.has_announced = true;
        }
        let windows = match self.artifact.windows(frames.clone()) {
            // One damaged frame must not hide the others.
            Err(_) if frames.len() > 1 => {
                self.frames = 1;
                self.artifact.windows(frames.start..frames.start + 1)?
            }
            windows => {
                self.frames = faster;
                windows?
            }
        };
        self.ready.extend(windows.into_iter().map(Arc::new));
        Ok(())
    }
}

/// What was fetched ahead for a reader that goes no further is let go of.
impl Drop for ReadAhead {
    fn drop(&mut self) {
        if self.has_announced && !self.is_ending() {
            self.artifact.source().forget();
        }
    }
}

/// At most `count` frames from this one on, one at least, within the byte limit.
fn within_bytes(artifact: &Artifact, from: usize, count: usize) -> Range<usize> {
    let frames = artifact.index().frames.get(from..).unwrap_or_default();
    let mut bytes = 0;
    let fitting = frames.iter().take(count).take_while(|frame| {
        bytes += u64::from(frame.len);
        bytes <= READ_BYTES_MAX
    });
    from..from + fitting.count().max(usize::from(!frames.is_empty()))
}
