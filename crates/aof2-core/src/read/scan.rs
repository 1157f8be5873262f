//! Scans over a range, and following the tail.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::{Cursor, Start};
use super::record::{Batch, Place, Record};
use super::skipped::SkippedRange;
use super::source::{Source, Visibility, Waited};
use crate::error::{AofError, Result};
use crate::format::{RecordId, SegmentId};

/// Where a scan ends; the end itself is not included. Wherever that is, a scan ends behind
/// the last record that is visible when it starts: it comes to an end although its consumer
/// writes to the same log. A [`Follow`] goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Nowhere else. A follower has no end.
    #[default]
    Visible,
    /// Behind the last record that is visible when the scan or the follower starts.
    Now,
    /// Before this logical offset.
    Offset(u64),
    /// Before this record.
    Id(RecordId),
    /// Before the first record whose timestamp is at or after this one.
    Timestamp(u64),
}

/// What a scan does when a record does not validate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorruption {
    /// Ends with the error.
    #[default]
    Fail,
    /// Goes on with the next intact record and counts what it passed over.
    Skip,
}

/// Whether a scan has segments in lower tiers brought back to the hot one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hydrate {
    /// They are read where they are. One that was read as a whole for the second time
    /// since the log was opened is asked to come back, if nothing has to leave for it.
    #[default]
    Auto,
    /// They are read where they are.
    Never,
    /// Each comes back before it is read, within the budget, and the next one is asked
    /// for meanwhile. One that cannot come back is read where it is, and so are all once
    /// there is no space. A handle that moves nothing reads like `Never`.
    Always,
}

/// What to scan and how.
///
/// ```
/// use aof2_core::{End, ScanOptions, Start};
/// # let dir = tempfile::tempdir()?;
/// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
/// log.append_batch(&["a", "b", "c"], &Default::default())?;
/// log.flush()?;
/// let middle = ScanOptions { start: Start::Offset(1), end: End::Offset(2), ..Default::default() };
/// assert_eq!(log.scan(middle)?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions {
    /// First record.
    pub start: Start,
    /// Where to stop.
    pub end: End,
    /// Which records are visible.
    pub visibility: Visibility,
    /// What to do about damage.
    pub on_corruption: OnCorruption,
    /// Whether checksums are verified; on by default.
    pub verify_checksums: bool,
    /// Payload bytes after which a batch is full. 1 MiB by default: large enough to
    /// amortise what happens per batch, small enough to stay in cache.
    pub batch_bytes: usize,
    /// Records after which a batch is full.
    pub batch_records: usize,
    /// Whether segments in lower tiers are brought back.
    pub hydrate: Hydrate,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            start: Start::Earliest,
            end: End::Visible,
            visibility: Visibility::Durable,
            on_corruption: OnCorruption::Fail,
            verify_checksums: true,
            batch_bytes: 1 << 20,
            batch_records: 64 << 10,
            hydrate: Hydrate::Auto,
        }
    }
}

/// Consecutive logical offsets in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRun {
    /// The segment.
    pub segment_id: SegmentId,
    /// The offsets.
    pub offsets: Range<u64>,
}

/// A forward scan: an iterator of records, or of batches with
/// [`Scan::next_batch`].
#[derive(Debug)]
pub struct Scan {
    cursor: Cursor,
    options: ScanOptions,
    /// Nothing from this logical offset on is read, wherever else it may end.
    end_offset: u64,
    done: bool,
    /// Logical offset of the record that lay past the end.
    ended_at: Option<u64>,
}

impl Scan {
    pub(crate) fn new(source: Arc<dyn Source>, options: ScanOptions) -> Result<Self> {
        let mut scan = Self::endless(source, options)?;
        scan.end_before(scan.cursor.end_offset());
        Ok(scan)
    }

    /// One that goes on with what becomes visible, up to its end if it was given one.
    fn endless(source: Arc<dyn Source>, options: ScanOptions) -> Result<Self> {
        let cursor = Cursor::for_scan(source, &options)?;
        let end_offset = match options.end {
            End::Offset(end) => end,
            End::Now => cursor.end_offset(),
            End::Visible | End::Id(_) | End::Timestamp(_) => u64::MAX,
        };
        let mut scan = Self { cursor, options, end_offset, done: false, ended_at: None };
        scan.end_before(end_offset);
        Ok(scan)
    }

    fn end_before(&mut self, offset: u64) {
        self.end_offset = self.end_offset.min(offset);
        self.cursor.want_until(self.end_offset);
    }

    /// Logical offset of the record that comes next.
    pub fn next_offset(&self) -> u64 {
        self.ended_at.unwrap_or(self.cursor.offset())
    }

    /// Records passed over: those that a repair left a gap for and, with
    /// [`OnCorruption::Skip`], damaged ones.
    pub fn skipped(&self) -> u64 {
        self.cursor.skipped().count()
    }

    /// Of the records passed over, those that a repair left a gap for.
    pub fn lost(&self) -> u64 {
        self.cursor.skipped().lost()
    }

    /// Which records were passed over, in order, and why. Of more than a thousand ranges,
    /// the first ones and the last.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let mut scan = log.scan(Default::default())?;
    /// while let Some(record) = scan.next_record()? {
    ///     println!("{:?}", record.payload);
    /// }
    /// for range in scan.skipped_ranges() {
    ///     println!("{:?} are missing: {:?}", range.offsets, range.reason);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped_ranges(&self) -> &[SkippedRange] {
        self.cursor.skipped().ranges()
    }

    /// The next record, or `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.guarded(|scan| {
            if scan.stands_at_end() {
                return Ok(None);
            }
            let Some((segment, place)) = scan.cursor.next_place()? else { return Ok(None) };
            if scan.is_past_end(&place, segment.meta().record_id(place.position)) {
                scan.end_at(&place);
                return Ok(None);
            }
            Ok(Some(place.to_record(&segment)))
        })
    }

    /// The next records of one segment, verified, with consecutive offsets, up to the
    /// batch limits; `None` at the end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append_batch(&["a", "bc"], &Default::default())?;
    /// log.flush()?;
    /// let mut scan = log.scan(Default::default())?;
    /// while let Some(batch) = scan.next_batch()? {
    ///     let bytes: usize = batch.iter().map(|record| record.payload.len()).sum();
    ///     assert_eq!(bytes, batch.payload_bytes());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        self.guarded(Self::fill_batch)
    }

    /// Which logical offsets come next: those of the rest of a segment, or of a batch,
    /// up to the end of the scan. For readers that want nothing else of the records:
    /// where a footer tells, neither headers nor payloads are read, whatever
    /// [`ScanOptions::verify_checksums`] says. `None` at the end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append_batch(&["a", "b", "c"], &Default::default())?;
    /// log.seal()?;
    /// let run = log.scan(Default::default())?.next_run()?;
    /// assert_eq!(run.map(|run| (run.segment_id.as_u64(), run.offsets)), Some((0, 0..3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_run(&mut self) -> Result<Option<OffsetRun>> {
        self.guarded(Self::find_run)
    }

    fn find_run(&mut self) -> Result<Option<OffsetRun>> {
        if self.stands_at_end() || self.cursor.readable_here()?.is_none() {
            return Ok(None);
        }
        let Some(segment) = self.cursor.segment() else { return Ok(None) };
        let segment_id = segment.meta().segment_id;
        // Ids and timestamps are known only where the records are.
        let by_offset = !matches!(self.options.end, End::Id(_) | End::Timestamp(_));
        if by_offset && let Some(mut offsets) = self.cursor.take_vouched() {
            if self.end_offset < offsets.end {
                offsets.end = self.end_offset;
                self.done = true;
                self.ended_at = Some(self.end_offset);
            }
            return Ok(Some(OffsetRun { segment_id, offsets }));
        }
        let Some(batch) = self.fill_batch()? else { return Ok(None) };
        Ok(Some(OffsetRun { segment_id: batch.segment_id(), offsets: batch.offsets() }))
    }

    fn fill_batch(&mut self) -> Result<Option<Batch>> {
        loop {
            if self.stands_at_end() {
                return Ok(None);
            }
            let Some(end) = self.cursor.readable_here()? else { return Ok(None) };
            let Some(segment) = self.cursor.segment().cloned() else { return Ok(None) };
            let mut places: Vec<Place> = Vec::new();
            let mut payload_bytes = 0;
            while payload_bytes < self.options.batch_bytes.max(1)
                && places.len() < self.options.batch_records.max(1)
                && self.cursor.is_before(end)
                && !self.stands_at_end()
            {
                let place = match self.cursor.take_place(end) {
                    Ok(Some(place)) => place,
                    // A gap: the offsets of a batch are consecutive.
                    Ok(None) if !places.is_empty() => break,
                    Ok(None) => continue,
                    // What is intact before the damage comes first.
                    Err(_) if !places.is_empty() => break,
                    Err(error) => return Err(error),
                };
                if self.is_past_end(&place, segment.meta().record_id(place.position)) {
                    self.end_at(&place);
                    break;
                }
                payload_bytes += place.payload_len as usize;
                places.push(place);
            }
            if !places.is_empty() {
                return Ok(Some(Batch::new(segment, places, payload_bytes)));
            }
            if self.done {
                return Ok(None);
            }
        }
    }

    /// Whether the next record, readable or not, is the first one that was not asked
    /// for: what lies there may be damaged, or not written yet.
    fn stands_at_end(&mut self) -> bool {
        let is_at_id = match self.options.end {
            End::Id(end) => self.cursor.next_id().is_some_and(|id| id >= end),
            _ => false,
        };
        let reached = is_at_id || self.cursor.offset() >= self.end_offset;
        if reached {
            self.done = true;
            self.cursor.note_ended();
        }
        reached
    }

    fn end_at(&mut self, place: &Place) {
        self.done = true;
        self.ended_at = Some(place.offset);
    }

    fn is_past_end(&self, place: &Place, id: RecordId) -> bool {
        let is_past = match self.options.end {
            End::Id(end) => id >= end,
            End::Timestamp(ms) => place.timestamp_ms >= ms,
            End::Visible | End::Now | End::Offset(_) => false,
        };
        is_past || place.offset >= self.end_offset
    }

    /// Runs a step; on damage, ends the scan or skips it.
    fn guarded<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            // One that ended the batch before.
            self.cursor.note_gap();
            if self.done {
                return Ok(None);
            }
            let stepped = step(self);
            if !matches!(stepped, Ok(Some(_))) {
                self.cursor.note_gap();
            }
            match stepped {
                Err(AofError::Corrupt(_)) if self.options.on_corruption == OnCorruption::Skip => {
                    match self.cursor.next_segment_is_damaged() {
                        true => self.cursor.skip_segment()?,
                        false => self.cursor.skip_damage()?,
                    }
                }
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
                ok => return ok,
            }
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// Reads what exists and then waits for more, across rollovers and from one writer to the
/// next: that a writer closes the log ends it only with [`Follow::until_closed`], or if it
/// was made by that writer's own handle.
#[derive(Debug)]
pub struct Follow {
    scan: Scan,
    until_closed: bool,
    /// Whether the writer has stopped and everything it left was read.
    is_stopped: bool,
}

impl Follow {
    pub(crate) fn new(source: Arc<dyn Source>, options: ScanOptions) -> Result<Self> {
        let scan = Scan::endless(source, options)?;
        Ok(Self { scan, until_closed: false, is_stopped: false })
    }

    /// The same, but it ends when everything was read of a log whose writer closed it.
    ///
    /// ```
    /// # use aof2_core::{Aof, AofConfig, AofReader};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("events");
    /// let log = Aof::open(AofConfig::new(&path))?;
    /// log.append(b"first and last")?;
    /// log.close()?;
    /// let mut follow = AofReader::open(&path)?.follow(Default::default())?.until_closed();
    /// assert!(follow.next_record(None)?.is_some());
    /// assert!(follow.next_record(None)?.is_none() && follow.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.until_closed = true;
        self
    }

    /// Logical offset of the record that comes next.
    pub fn next_offset(&self) -> u64 {
        self.scan.next_offset()
    }

    /// Records passed over: [`Scan::skipped`].
    pub fn skipped(&self) -> u64 {
        self.scan.skipped()
    }

    /// Of the records passed over, those that a repair left a gap for.
    pub fn lost(&self) -> u64 {
        self.scan.lost()
    }

    /// Which records were passed over, and why: [`Scan::skipped_ranges`].
    pub fn skipped_ranges(&self) -> &[SkippedRange] {
        self.scan.skipped_ranges()
    }

    /// Whether nothing more will come: the scan's end was reached, or the writer closed
    /// the log and that ends it. Tells the end from a timeout after `None`.
    ///
    /// ```
    /// use aof2_core::{End, ScanOptions};
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"first and last")?;
    /// log.flush()?;
    /// let mut follow = log.follow(ScanOptions { end: End::Offset(1), ..Default::default() })?;
    /// assert!(follow.next_record(None)?.is_some() && !follow.is_finished());
    /// assert!(follow.next_record(None)?.is_none() && follow.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.scan.done || self.is_stopped
    }

    /// The next record, waiting up to `timeout` for it (`None`: for ever). `None` when
    /// the time is up, or when it [is finished](Follow::is_finished).
    pub fn next_record(&mut self, timeout: Option<Duration>) -> Result<Option<Record>> {
        self.waiting(timeout, Scan::next_record)
    }

    /// The same for a batch.
    pub fn next_batch(&mut self, timeout: Option<Duration>) -> Result<Option<Batch>> {
        self.waiting(timeout, Scan::next_batch)
    }

    fn waiting<T>(
        &mut self,
        timeout: Option<Duration>,
        mut step: impl FnMut(&mut Scan) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            if let Some(item) = step(&mut self.scan)? {
                return Ok(Some(item));
            }
            if self.scan.done {
                return Ok(None);
            }
            let cursor = &self.scan.cursor;
            let source = &cursor.source;
            let seen = cursor.position();
            match source.wait_beyond(cursor.visibility, seen, self.until_closed, deadline)? {
                Waited::Moved => {}
                Waited::TimedOut => return Ok(None),
                Waited::Stopped => {
                    self.is_stopped = true;
                    return Ok(None);
                }
            }
        }
    }

    /// The next record, without blocking a thread. Cancel-safe. `None` when it
    /// [is finished](Follow::is_finished).
    pub async fn next_record_async(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.scan.next_record()? {
                return Ok(Some(record));
            }
            if !self.wait_async().await? {
                return Ok(None);
            }
        }
    }

    /// The next batch, without blocking a thread. Cancel-safe.
    pub async fn next_batch_async(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.scan.next_batch()? {
                return Ok(Some(batch));
            }
            if !self.wait_async().await? {
                return Ok(None);
            }
        }
    }

    async fn wait_async(&mut self) -> Result<bool> {
        if self.scan.done {
            return Ok(false);
        }
        let cursor = &self.scan.cursor;
        let source = Arc::clone(&cursor.source);
        let (visibility, seen) = (cursor.visibility, cursor.position());
        let waited = source.wait_beyond_async(visibility, seen, self.until_closed).await?;
        self.is_stopped = waited == Waited::Stopped;
        Ok(waited == Waited::Moved)
    }
}
