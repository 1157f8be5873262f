//! Pins: segments that stay in the hot tier, also when the log is opened again.
//!
//! What a crash leaves: the pins before the change, or those after it.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::state::Store;
use crate::error::{AofError, Result};
use crate::format::{PINS_LEN_MAX, SegmentId, decode_pins, encode_pins};
use crate::io::OpenMode;

#[derive(Debug, Default)]
pub(crate) struct Pins {
    segments: Mutex<BTreeSet<SegmentId>>,
    /// Held while they are written to their file.
    storing: Mutex<()>,
}

impl Store {
    pub(crate) fn is_pinned(&self, segment_id: SegmentId) -> bool {
        self.pins.segments.lock().contains(&segment_id)
    }

    pub(crate) fn pinned_count(&self) -> usize {
        self.pins.segments.lock().len()
    }

    /// Reads the stored pins, except those of segments that are gone. Returns them.
    pub(crate) fn load_pins(&self) -> BTreeSet<SegmentId> {
        let mut pins = self.stored_pins().unwrap_or_else(|error| {
            tracing::warn!(%error, "the pins cannot be read: there are none");
            BTreeSet::new()
        });
        pins.retain(|id| self.sealed_entry(*id).is_ok());
        self.pins.segments.lock().extend(pins.iter().copied());
        pins
    }

    /// The pins that were stored. A damaged file is no reason not to open the log.
    fn stored_pins(&self) -> Result<BTreeSet<SegmentId>> {
        let path = self.layout().pins_file();
        let file = match self.storage().open(&path, OpenMode::Read) {
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

    /// Pins a segment until the log is closed; [`Store::store_pins`] makes that last. Whether
    /// it was not pinned before.
    pub(crate) fn pin(&self, segment_id: SegmentId) -> bool {
        self.pins.segments.lock().insert(segment_id)
    }

    /// Whether it was pinned.
    pub(crate) fn unpin(&self, segment_id: SegmentId) -> bool {
        self.pins.segments.lock().remove(&segment_id)
    }

    pub(crate) fn store_pins(&self) -> Result<()> {
        let _one_at_a_time = self.pins.storing.lock();
        let pins = self.pins.segments.lock().clone();
        let path = self.layout().pins_file();
        self.layout().replace_file(self.storage(), &path, &encode_pins(&pins))
    }
}
