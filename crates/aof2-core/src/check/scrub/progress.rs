//! Telling a caller how far a scrub has got.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::pace::Pace;
use super::report::ScrubProgress;

/// Bytes between two words to the caller.
const TELL_BYTES: u64 = 1 << 20;

/// Who is told.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>;

/// What was told, and to whom.
pub(super) struct Telling<'a> {
    pub(super) so_far: ScrubProgress,
    pace: Arc<Pace>,
    tell: Tell<'a>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(pace: Arc<Pace>, segments_total: u64, tell: Tell<'a>) -> Self {
        let so_far = ScrubProgress { segments_total, ..ScrubProgress::default() };
        Self { so_far, pace, tell }
    }

    /// Says where it is. A caller that has enough stops the next read.
    pub(super) fn tell(&mut self) {
        self.so_far.bytes = self.pace.bytes();
        if (self.tell)(&self.so_far).is_break() {
            self.pace.cancel();
        }
    }

    /// The same, if there is something new to say.
    pub(super) fn tell_bytes(&mut self) {
        if self.pace.bytes() >= self.so_far.bytes.saturating_add(TELL_BYTES) {
            self.tell();
        }
    }
}
