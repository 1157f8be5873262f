//! Removing or archiving old segments.

use std::sync::atomic::Ordering::Relaxed;

use super::config::invalid;
use super::metrics::count;
use super::stream::Stream;
use crate::error::{AofError, Result};
use crate::format::Inheritance;
use crate::read::Segments;
use crate::store::{Change, Removal, SegmentEntry, SegmentInfo};

/// What happens to a segment that retention lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetentionAction {
    /// The file is deleted.
    #[default]
    Delete,
    /// The file moves to `archive/`.
    Archive,
}

/// Which sealed segments may go: those that any of the limits lets go. Keeps
/// everything by default.
///
/// The unsealed segment, the newest segment with records, and segments that a
/// reader of this process holds always stay.
///
/// ```
/// use aof2_core::RetentionPolicy;
/// let week_or_10_gb = RetentionPolicy {
///     max_age_ms: Some(7 * 24 * 3_600_000),
///     max_bytes: Some(10_000_000_000),
///     ..Default::default()
/// };
/// assert!(!week_or_10_gb.keeps_everything());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Segments whose newest record is older than this.
    pub max_age_ms: Option<u64>,
    /// Oldest segments while the log uses more than this.
    pub max_bytes: Option<u64>,
    /// Segments that end at or before this logical offset.
    pub before_offset: Option<u64>,
    /// What to do with them.
    pub action: RetentionAction,
}

impl RetentionPolicy {
    /// Whether nothing ever goes.
    pub fn keeps_everything(&self) -> bool {
        self.max_age_ms.is_none() && self.max_bytes.is_none() && self.before_offset.is_none()
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.max_age_ms == Some(0) {
            return invalid("max_age_ms", "must be at least 1".into());
        }
        Ok(())
    }
}

/// Why retention let a segment stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeptReason {
    /// No limit lets it go.
    WithinLimits,
    /// No limit lets it go, and none by age ever will before that moment has come: its
    /// newest timestamp lies in the future.
    FutureTimestamp,
    /// It holds the newest records, which tell where offsets continue.
    Newest,
    /// It has no footer yet.
    Unsealed,
    /// It is damaged.
    Damaged,
    /// It holds the newest archived records, which tell a writer that lost its disk where
    /// offsets continue.
    NewestArchived,
    /// A reader of this process holds it.
    Held,
    /// A fork or a snapshot reads it, or it belongs to the log that this one was forked
    /// from.
    Shared,
}

impl KeptReason {
    /// The word for it that reports use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithinLimits => "within_limits",
            Self::FutureTimestamp => "future_timestamp",
            Self::Newest => "newest",
            Self::Unsealed => "unsealed",
            Self::Damaged => "damaged",
            Self::NewestArchived => "newest_archived",
            Self::Held => "held",
            Self::Shared => "shared",
        }
    }
}

/// The oldest segment that stays: retention stops there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// The segment.
    pub segment_id: u64,
    /// Why it stays.
    pub reason: KeptReason,
    /// Largest timestamp of its records, once sealed.
    pub last_timestamp_ms: Option<u64>,
}

/// What retention did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// Segments that went, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Records in them.
    pub record_count: u64,
    /// Their used bytes.
    pub bytes: u64,
    /// First logical offset that still exists.
    pub earliest_offset: u64,
    /// Whether a segment that could have gone stayed because a reader holds it.
    pub held_back: bool,
    /// The oldest segment that stays, and why; `None` if there is none.
    pub kept: Option<KeptSegment>,
}

fn kept(entry: &SegmentEntry, reason: KeptReason) -> KeptSegment {
    KeptSegment {
        segment_id: entry.meta.segment_id.as_u64(),
        reason,
        last_timestamp_ms: entry.sealed_info().map(|info| info.last_timestamp_ms),
    }
}

impl Stream {
    /// Lets old segments go, oldest first. A crash leaves some prefix of them gone.
    pub(crate) fn apply_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        policy.validate()?;
        // Under the lock: `close` waits for it before it lets the next writer in.
        let _one_at_a_time = self.rollover.retaining.lock();
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let mut report = RetentionReport::default();
        let mut total = self.used_bytes();
        if let Some(kept) = self.retain_inherited(policy, total)? {
            report.kept = Some(kept);
            report.earliest_offset = Segments::of(self).earliest();
            return Ok(report);
        }
        let entries = self.store.table().snapshot();
        for entry in &entries {
            let bytes = match self.may_go(entry, policy, total, entries.len()) {
                Ok(_) if self.is_stopped() => break,
                Ok(_) if entry.is_held() => {
                    report.held_back = true;
                    report.kept = Some(kept(entry, KeptReason::Held));
                    break;
                }
                Ok(_) if !self.store.holders_of(entry.meta.segment_id)?.is_empty() => {
                    report.kept = Some(kept(entry, KeptReason::Shared));
                    break;
                }
                Ok(bytes) => bytes,
                Err(reason) => {
                    report.kept = Some(kept(entry, reason));
                    break;
                }
            };
            if entry.copies().cold.is_some() && !self.store.has_cold_tier() {
                let reason = format!(
                    "segment {} is in the cold tier; open the log with it to let it go",
                    entry.meta.segment_id
                );
                return invalid("tiers", reason);
            }
            match self.remove(entry, policy.action) {
                // Somebody forked the log just now.
                Err(AofError::Held { .. }) => {
                    report.kept = Some(kept(entry, KeptReason::Shared));
                    break;
                }
                removed => removed?,
            }
            let info = SegmentInfo::of(entry, 0, 0);
            report.record_count += info.record_count;
            report.bytes += bytes;
            total = total.saturating_sub(bytes);
            report.segments.push(info);
        }
        report.earliest_offset = Segments::of(self).earliest();
        self.note_future(report.kept);
        if !report.segments.is_empty() {
            tracing::info!(
                segments = report.segments.len(),
                earliest = report.earliest_offset,
                "retention"
            );
            // There may be objects to delete, and there is space.
            self.tiers.notify();
        }
        Ok(report)
    }

    /// Lets go of what the log inherited, which is older than all that it has itself: what
    /// all of an ancestor's records may go of, oldest first. Returns what stays.
    fn retain_inherited(
        &self,
        policy: &RetentionPolicy,
        total: u64,
    ) -> Result<Option<KeptSegment>> {
        let Some(inherited) = self.store.inherited() else { return Ok(None) };
        let lineage = inherited.lineage();
        let now_ms = self.store.clock().now_ns() / 1_000_000;
        let has_own = self.durable.count() > lineage.start.offset;
        let too_many = policy.max_bytes.is_some_and(|max| total > max);
        let oldest_kept = now_ms.saturating_sub(policy.max_age_ms.unwrap_or(now_ms));
        // The time of the newest is known, and the others are not newer.
        let too_old = policy.max_age_ms.is_some() && lineage.start.timestamp_ms < oldest_kept;
        // A snapshot of this log has what was before it, too.
        let snapshot_at = self.store.last_snapshot()?;
        let may_go = |origin: &&Inheritance| {
            if snapshot_at.is_some_and(|at| at > origin.first_offset) {
                return false;
            }
            let passed = policy.before_offset.is_some_and(|before| origin.end_offset <= before);
            let is_last = origin.end_offset == lineage.start.offset;
            (too_many || too_old || passed) && (has_own || !is_last)
        };
        let count = lineage.origins.iter().take_while(may_go).count();
        if count > 0 {
            self.store.give_up_origins(count)?;
        }
        Ok(lineage.origins.get(count).map(|origin| KeptSegment {
            segment_id: origin.first_segment.as_u64(),
            reason: KeptReason::Shared,
            last_timestamp_ms: None,
        }))
    }

    fn used_bytes(&self) -> u64 {
        let sealed: u64 = self
            .store
            .table()
            .snapshot()
            .iter()
            .filter_map(|e| e.sealed_info().map(|s| u64::from(s.durable_bytes)))
            .sum();
        let tail = self.tail.lock();
        let closing = tail.closing.as_ref().map_or(0, |c| u64::from(c.end));
        let active = tail.active.as_ref().map_or(0, |a| u64::from(a.appender.position()));
        sealed + closing + active
    }

    /// Somebody has to know that age lets nothing go any more: once in the log, and in the
    /// figures as long as it is so.
    fn note_future(&self, kept: Option<KeptSegment>) {
        let future = kept.filter(|kept| kept.reason == KeptReason::FutureTimestamp);
        let was = self.metrics.retention_in_future.swap(u64::from(future.is_some()), Relaxed);
        if let Some(kept) = future.filter(|_| was == 0) {
            tracing::warn!(
                segment = kept.segment_id,
                last_timestamp_ms = kept.last_timestamp_ms,
                "retention by age stops at this segment: its newest timestamp lies in the future"
            );
        }
    }

    /// The entry's bytes, if the policy lets it go.
    fn may_go(
        &self,
        entry: &SegmentEntry,
        policy: &RetentionPolicy,
        total: u64,
        count: usize,
    ) -> std::result::Result<u64, KeptReason> {
        let info = entry.sealed_info().ok_or(KeptReason::Unsealed)?;
        let end_offset = entry.end_offset().ok_or(KeptReason::Unsealed)?;
        // The newest records tell the next writer where offsets continue.
        let newest = end_offset >= self.durable.count();
        // And the newest archived ones tell it to a writer that lost its disk.
        let is_anchor = self.store.has_cold_tier() && end_offset >= self.store.archived().count();
        if entry.damage.is_some() {
            return Err(KeptReason::Damaged);
        }
        if newest || count <= 1 {
            return Err(KeptReason::Newest);
        }
        if is_anchor {
            return Err(KeptReason::NewestArchived);
        }
        let now_ms = self.store.clock().now_ns() / 1_000_000;
        let too_old = policy
            .max_age_ms
            .is_some_and(|age| info.last_timestamp_ms < now_ms.saturating_sub(age));
        let too_many = policy.max_bytes.is_some_and(|max| total > max);
        let passed = policy.before_offset.is_some_and(|offset| end_offset <= offset);
        if too_old || too_many || passed {
            return Ok(u64::from(info.durable_bytes));
        }
        match policy.max_age_ms.is_some() && info.last_timestamp_ms > now_ms {
            true => Err(KeptReason::FutureTimestamp),
            false => Err(KeptReason::WithinLimits),
        }
    }

    fn remove(&self, entry: &SegmentEntry, action: RetentionAction) -> Result<()> {
        let (removal, counter) = match action {
            RetentionAction::Delete => (Removal::Delete, &self.metrics.segments_removed),
            RetentionAction::Archive => (Removal::SetAside, &self.metrics.segments_archived),
        };
        self.store.apply(&Change::Drop(entry.meta.segment_id, removal))?;
        count(counter, 1);
        Ok(())
    }
}
