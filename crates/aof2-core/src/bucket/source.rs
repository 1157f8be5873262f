//! The bytes of one object, by ranged requests.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::tier::ColdTier;
use crate::error::{AofError, Result};
use crate::object::Coming;
use crate::segment::ArtifactSource;

/// Announced ranges that are fetched ahead for one segment. A reader announces what it
/// reads next, a few megabytes at a time.
const AHEAD_MAX: usize = 2;
/// What is fetched ahead for one segment at most.
const AHEAD_BYTES_MAX: u64 = 16 << 20;

/// An artifact in the object store.
#[derive(Debug)]
pub(super) struct ColdSource {
    tier: Arc<ColdTier>,
    key: String,
    name: PathBuf,
    len: u64,
    ahead: Mutex<VecDeque<(Range<u64>, Coming<Bytes>)>>,
}

impl ColdSource {
    pub(super) fn new(tier: Arc<ColdTier>, key: String, len: u64) -> Self {
        let name = tier.name(&key);
        Self { tier, key, name, len, ahead: Mutex::default() }
    }

    /// What was fetched ahead and holds this range. What lies before it was passed over.
    fn take_ahead(&self, range: &Range<u64>) -> Option<(Range<u64>, Coming<Bytes>)> {
        let mut ahead = self.ahead.lock();
        let at =
            ahead.iter().position(|(held, _)| held.start <= range.start && range.end <= held.end);
        match at {
            Some(at) => {
                ahead.drain(..at);
                ahead.pop_front()
            }
            None => {
                ahead.retain(|(held, _)| held.start >= range.end);
                None
            }
        }
    }
}

impl ArtifactSource for ColdSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            let short = std::io::ErrorKind::UnexpectedEof.into();
            return Err(AofError::io("read compressed segment", &self.name)(short));
        };
        let range = offset..end;
        if let Some((held, coming)) = self.take_ahead(&range)
            && let Ok(bytes) = coming.wait()
        {
            let from = (range.start - held.start) as usize;
            if from.checked_add(len).is_some_and(|end| end <= bytes.len()) {
                return Ok(bytes.slice(from..from + len));
            }
        }
        Ok(self.tier.store.get_range(&self.key, range)?)
    }

    fn name(&self) -> &Path {
        &self.name
    }

    fn forget(&self) {
        self.ahead.lock().clear();
    }

    fn stored_crc64(&self) -> Result<Option<u64>> {
        Ok(self.tier.store.head(&self.key)?.and_then(|head| head.crc64nvme))
    }

    fn announce(&self, range: Range<u64>) {
        let mut ahead = self.ahead.lock();
        let is_known =
            ahead.iter().any(|(held, _)| held.start <= range.start && range.end <= held.end);
        let held: u64 = ahead.iter().map(|(held, _)| held.end - held.start).sum();
        let len = range.end.saturating_sub(range.start);
        let has_room = ahead.len() < AHEAD_MAX && held.saturating_add(len) <= AHEAD_BYTES_MAX;
        if is_known || !has_room || range.is_empty() || range.end > self.len {
            return;
        }
        let coming = self.tier.store.fetch_range(&self.key, range.clone());
        ahead.push_back((range, coming));
    }
}
