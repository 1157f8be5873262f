//! Pins: segments that stay in the hot tier, also when the log is opened again.
//!
//! What a crash leaves: the pins before the change, or those after it.

use std::collections::BTreeSet;
use std::time::Instant;

use super::activation::Priority;
use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::{PINS_LEN_MAX, SegmentId, decode_pins, encode_pins};
use crate::io::OpenMode;
use crate::write::Stream;

/// The pins that were stored. A damaged file is no reason not to open the log.
fn load(stream: &Stream) -> Result<BTreeSet<SegmentId>> {
    let path = stream.store().layout().pins_file();
    let file = match stream.store().storage().open(&path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        file => file.map_err(AofError::io("open", &path))?,
    };
    let len = file.len().map_err(AofError::io("read", &path))?;
    let mut bytes = vec![0; len.min(PINS_LEN_MAX as u64) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", &path))?;
    Ok(decode_pins(&bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "the pins cannot be read: there are none");
        BTreeSet::new()
    }))
}

fn store(stream: &Stream, pins: &BTreeSet<SegmentId>) -> Result<()> {
    let path = stream.store().layout().pins_file();
    stream.store().layout().replace_file(stream.store().storage(), &path, &encode_pins(pins))
}

impl StreamTiers {
    /// Takes the stored pins over, less those whose segments are gone, and asks for what
    /// is not in the hot tier.
    pub(super) fn load_pins(&self, stream: &Stream) {
        let mut pins = match load(stream) {
            Ok(pins) => pins,
            Err(error) => {
                tracing::warn!(%error, "the pins cannot be read: there are none");
                return;
            }
        };
        pins.retain(|id| stream.store().sealed_entry(*id).is_ok());
        self.pinned.lock().extend(pins.iter().copied());
        for id in pins {
            let _ = self.ask(id, Priority::Prefetch);
        }
    }

    /// Keeps a segment in the hot tier, bringing it back if need be, until it is
    /// unpinned.
    pub(crate) fn pin(&self, segment_id: SegmentId, deadline: Option<Instant>) -> Result<()> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let is_new = self.pinned.lock().insert(segment_id);
        let back = self.ask(segment_id, Priority::Wanted).and_then(|a| a.wait(deadline));
        let kept = back.and_then(|_| self.store_pins(&stream));
        if kept.is_err() && is_new {
            self.pinned.lock().remove(&segment_id);
            self.ring_again();
        }
        kept
    }

    /// Lets a pinned segment leave again. Returns whether it was pinned.
    pub(crate) fn unpin(&self, segment_id: SegmentId) -> Result<bool> {
        let stream = self.stream().ok_or(AofError::Closed)?;
        let was_pinned = self.pinned.lock().remove(&segment_id);
        if was_pinned {
            self.store_pins(&stream)?;
        }
        self.ring_again();
        Ok(was_pinned)
    }

    fn store_pins(&self, stream: &Stream) -> Result<()> {
        let _one_at_a_time = self.storing_pins.lock();
        let pins = self.pinned.lock().clone();
        store(stream, &pins)
    }
}
