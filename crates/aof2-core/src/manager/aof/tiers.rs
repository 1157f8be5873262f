//! Moving segments between tiers by hand, and what the tiers hold.

use std::time::{Duration, Instant};

use super::Aof;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::tier::{Priority, StreamTiers, Task, TierStatus};

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

impl Aof {
    pub(crate) fn stream_tiers(&self) -> Result<&StreamTiers> {
        self.stream().check_not_forked()?;
        if self.is_closed() {
            return Err(AofError::Closed);
        }
        self.shared.tiers.as_deref().ok_or_else(|| AofError::InvalidConfig {
            field: "tiers",
            reason: "this log was opened without tiers".into(),
        })
    }

    /// What the tiers hold. An error if the log was opened without them.
    ///
    /// ```
    /// use aof2_core::{AofConfig, AofManager, ManagerConfig, TierConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let tiers = Some(TierConfig { hot_bytes: 4 << 20, ..TierConfig::default() });
    /// let manager = AofManager::new(ManagerConfig { tiers, ..Default::default() })?;
    /// let log = manager.open(AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.seal()?;
    /// log.evict(0)?; // compressed, and its file removed
    /// assert_eq!(log.tiers()?.warm_segments, 1);
    /// assert_eq!(&*log.read_offset(0)?.payload, b"hello"); // read all the same
    /// log.hydrate(0, None)?;
    /// assert_eq!(log.tiers()?.evicted_segments, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiers(&self) -> Result<TierStatus> {
        Ok(self.stream_tiers()?.status())
    }

    /// Moves a sealed segment out of the hot tier now, compressing it first if no other
    /// tier holds it. Returns the bytes of records whose file is gone; 0 if there was
    /// none.
    pub fn evict(&self, segment_id: u64) -> Result<u64> {
        let task = Task::Evict(SegmentId::from_u64(segment_id));
        self.stream_tiers()?.run_now(self.stream(), task)
    }

    /// Brings a segment back to the hot tier and returns its bytes once it is there; 0
    /// if it was there. `Timeout` if that takes longer; it comes back all the same.
    pub fn hydrate(&self, segment_id: u64, timeout: Option<Duration>) -> Result<u64> {
        let activation =
            self.stream_tiers()?.ask(SegmentId::from_u64(segment_id), Priority::Wanted)?;
        activation.wait(deadline(timeout))
    }

    /// Asks for a segment to come back to the hot tier, and does not wait for it.
    pub fn prefetch(&self, segment_id: u64) -> Result<()> {
        let segment_id = SegmentId::from_u64(segment_id);
        self.stream_tiers()?.ask(segment_id, Priority::Prefetch).map(drop)
    }

    /// Puts a sealed segment into the object store now, and those before it that are not
    /// there, so that there is never a hole; compressing them first if need be. Returns
    /// the bytes of the objects; 0 if all were there.
    pub fn upload(&self, segment_id: u64) -> Result<u64> {
        let tiers = self.stream_tiers()?;
        self.stream().store().cold().require_tier()?;
        tiers.upload_through(self.stream(), SegmentId::from_u64(segment_id))
    }

    /// Keeps a segment in the hot tier, bringing it back if need be, until it is
    /// unpinned; also when the log is opened again.
    pub fn pin(&self, segment_id: u64, timeout: Option<Duration>) -> Result<()> {
        self.stream_tiers()?.pin(SegmentId::from_u64(segment_id), deadline(timeout))
    }

    /// Lets a pinned segment leave the hot tier again. Returns whether it was pinned.
    pub fn unpin(&self, segment_id: u64) -> Result<bool> {
        self.stream_tiers()?.unpin(SegmentId::from_u64(segment_id))
    }
}
