//! The append path: what is due, then a copy into the map, under one short lock.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::stream::Stream;
use super::tail::Tail;
use super::time::timestamp_refusal;
use crate::error::{AofError, BackpressureKind, Result};
use crate::format::{
    RecordFlags, RecordId, RecordMeta, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFormat,
};
use crate::planted;
use crate::planted::Bug;
use crate::segment::SegmentFull;
use crate::sync::Position;

/// One append in this many is timed and traced.
const SAMPLE_EVERY: u64 = 1024;

/// What an append may say about its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendOptions {
    /// Timestamp in milliseconds since the epoch; by default now. May be out of
    /// order, up to [`TIMESTAMP_MS_MAX`](crate::TIMESTAMP_MS_MAX), in the compact format
    /// up to the year 2554.
    pub timestamp_ms: Option<u64>,
    /// Flags: snapshot boundary, control frame. `Full` format only.
    pub flags: RecordFlags,
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its id: segment and byte.
    pub id: RecordId,
    /// Its logical offset.
    pub offset: u64,
}

/// Where the records of a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    /// Ids in the order of the payloads.
    pub ids: Vec<RecordId>,
    /// Logical offset of the first.
    pub first_offset: u64,
}

impl Stream {
    /// Appends without waiting. A refused record was not written.
    #[inline]
    pub(crate) fn append_now(&self, payload: &[u8], options: &AppendOptions) -> Result<Appended> {
        self.check_record(payload.len(), options)?;
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        let mut tail = self.tail.lock();
        let record_len = record_len(self.format(), payload.len());
        let sample = tail.next_offset.is_multiple_of(SAMPLE_EVERY).then(Instant::now);
        if tail.bytes + record_len as u64 > tail.attention_at {
            self.attend(&mut tail, record_len)?;
        }
        let result = self.write_record(&mut tail, payload, options)?;
        self.publish_appended(&mut tail);
        let wanted = self.appended.has_sleepers();
        drop(tail);
        if wanted {
            self.appended.nudge();
        }
        if let Some(start) = sample {
            self.metrics.append_ns.record_ns(start.elapsed());
            tracing::trace!(offset = result.offset, id = %result.id, bytes = payload.len(), "append");
        }
        Ok(result)
    }

    /// Appends many records with one reservation: all of them or none.
    pub(crate) fn append_batch_now<P: AsRef<[u8]>>(
        &self,
        payloads: &[P],
        options: &AppendOptions,
    ) -> Result<AppendedBatch> {
        let format = self.format();
        let mut total = 0usize;
        for payload in payloads {
            self.check_record(payload.as_ref().len(), options)?;
            total = total.saturating_add(record_len(format, payload.as_ref().len()));
        }
        self.check_batch(total)?;
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        let mut tail = self.tail.lock();
        let first_offset = tail.next_offset;
        if payloads.is_empty() {
            return Ok(AppendedBatch { ids: Vec::new(), first_offset });
        }
        if tail.bytes + total as u64 > tail.attention_at {
            self.attend(&mut tail, total)?;
        }
        let mut ids = Vec::with_capacity(payloads.len());
        for payload in payloads {
            ids.push(self.write_record(&mut tail, payload.as_ref(), options)?.id);
        }
        self.publish_appended(&mut tail);
        let wanted = self.appended.has_sleepers();
        drop(tail);
        if wanted {
            self.appended.nudge();
        }
        Ok(AppendedBatch { ids, first_offset })
    }

    #[inline]
    fn check_record(&self, payload_len: usize, options: &AppendOptions) -> Result<()> {
        let is_too_late =
            options.timestamp_ms.is_some_and(|ms| ms > self.format().timestamp_ms_max());
        if payload_len == 0
            || payload_len > self.payload_len_max()
            || options.flags != RecordFlags::NONE
            || is_too_late
        {
            self.explain_record(payload_len, options)?;
        }
        Ok(())
    }

    #[cold]
    fn explain_record(&self, payload_len: usize, options: &AppendOptions) -> Result<()> {
        let invalid = |reason: String| Err(AofError::InvalidRecord { reason });
        let max = self.payload_len_max();
        let flags = options.flags;
        if let Some(reason) =
            options.timestamp_ms.and_then(|ms| timestamp_refusal(self.format(), ms))
        {
            return invalid(reason);
        }
        if payload_len == 0 {
            return invalid("the payload is empty".into());
        }
        if payload_len > max {
            return invalid(format!(
                "the payload has {payload_len} bytes, this log takes at most {max} \
                 (segment_bytes_max less headers)"
            ));
        }
        let allowed = RecordFlags::SNAPSHOT_BOUNDARY.union(RecordFlags::CONTROL);
        if !allowed.contains(flags) {
            return invalid(format!("flags {:#x} are reserved", flags.bits()));
        }
        if flags != RecordFlags::NONE && self.format() == SegmentFormat::Compact {
            return invalid("the compact format has no flags".into());
        }
        Ok(())
    }

    /// A batch lies in one segment, so it must fit into one.
    fn check_batch(&self, total: usize) -> Result<()> {
        let max = self.config.segment_bytes_max as usize - SEGMENT_HEADER_LEN - SEGMENT_FOOTER_LEN;
        if total > max {
            return Err(AofError::InvalidRecord {
                reason: format!(
                    "the batch needs {total} bytes with headers, one segment holds {max}"
                ),
            });
        }
        Ok(())
    }

    /// Copies one record into the active segment; space was made before.
    #[inline]
    fn write_record(
        &self,
        tail: &mut Tail,
        payload: &[u8],
        options: &AppendOptions,
    ) -> Result<Appended> {
        let timestamp_ms = match options.timestamp_ms {
            Some(given) => given,
            None => tail.time.now_ms(),
        };
        let offset = tail.next_offset;
        let lag = offset.saturating_sub(self.durable.count());
        let meta = RecordMeta {
            logical_offset: offset,
            timestamp_ms,
            flags: options.flags,
            durable_lag: u32::try_from(lag).unwrap_or(u32::MAX),
        };
        let Some(active) = tail.active.as_mut() else {
            return Err(AofError::WouldBlock(BackpressureKind::Admission));
        };
        let before = active.appender.position();
        let written = active
            .appender
            .append_record(&meta, payload)
            .map_err(|SegmentFull| AofError::WouldBlock(BackpressureKind::Rollover))?;
        active.last_timestamp_ms = active.last_timestamp_ms.max(timestamp_ms);
        tail.next_offset = offset + 1;
        tail.bytes += u64::from(written.end - before);
        Ok(Appended { id: written.id, offset })
    }

    /// Orders a waiter for `appended` with the appends: called after it announced
    /// itself and before it looks. Whoever appends after this sees the sleeper inside
    /// the same lock, whoever appended before is seen by the look. So an append needs
    /// no fence of its own.
    pub(crate) fn meet_appends(&self) {
        drop(self.tail.lock());
    }

    #[inline]
    fn publish_appended(&self, tail: &mut Tail) {
        if let Some(active) = tail.active.as_mut() {
            active.appender.publish();
            let position = Position::new(
                active.appender.segment().meta().segment_id,
                active.appender.position(),
            );
            self.appended.store(position, tail.next_offset);
        }
    }

    /// The slow path of an append: everything that is not copying. Ends with
    /// `attention_at` set to the next byte at which something is due.
    #[cold]
    fn attend(&self, tail: &mut Tail, record_len: usize) -> Result<()> {
        if let Some(error) = &tail.refusal {
            return Err(error.clone());
        }
        if planted::is(Bug::WriteThenRefuse) && tail.next_offset % 7 == 3 {
            let _ = self.write_record(tail, &[0xBB; 8], &AppendOptions::default());
            self.publish_appended(tail);
            return Err(AofError::WouldBlock(BackpressureKind::Flush));
        }
        self.make_space(tail, record_len).inspect_err(|e| self.count_block(e))?;
        let after = tail.bytes + record_len as u64;
        let refuse_at = self.check_unflushed(tail, after).inspect_err(|e| self.count_block(e))?;
        if after >= tail.flush_at {
            self.wakeups.flush_now.notify_one();
            tail.flush_at = after + self.config.flush.flush_bytes;
        }
        if !tail.flush_armed {
            tail.flush_armed = true;
            self.wakeups.flush_timer.notify_one();
        }
        let mut segment_due = u64::MAX;
        if let Some(active) = tail.active.as_mut() {
            if after >= active.spare_at {
                active.spare_at = u64::MAX;
                self.wakeups.spare.notify_one();
            }
            if after >= active.fault_in_at {
                active.fault_in_at = u64::MAX;
                self.wakeups.pages.notify_one();
            }
            let due = active.due_at(tail.bytes);
            segment_due = due.min(active.spare_at).min(active.fault_in_at);
        }
        tail.attention_at = refuse_at.min(tail.flush_at).min(segment_due);
        Ok(())
    }

    /// Refuses what would exceed `max_unflushed_bytes`; a record larger than the
    /// limit passes when nothing else waits. Returns the byte to check again at.
    fn check_unflushed(&self, tail: &Tail, after: u64) -> Result<u64> {
        let durable = self.durable_bytes.load(Ordering::Acquire);
        let limit = durable.saturating_add(self.config.flush.max_unflushed_bytes);
        // An empty new segment's header counts as appended but cannot be flushed.
        if after > limit && tail.bytes > durable + SEGMENT_HEADER_LEN as u64 {
            self.wakeups.flush_now.notify_one();
            let failure = self.gate.failure_since(0);
            return Err(failure.unwrap_or(AofError::WouldBlock(BackpressureKind::Flush)));
        }
        Ok(limit)
    }
}

#[inline]
fn record_len(format: SegmentFormat, payload_len: usize) -> usize {
    (format.header_len() + payload_len).next_multiple_of(crate::format::RECORD_ALIGN)
}
