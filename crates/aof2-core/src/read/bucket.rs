//! A log that is read from an object store alone, with nothing of it on this machine.
//!
//! What is there is known from one listing and the end of each object. Nobody announces
//! a new object, so the listing is asked for again: when somebody asks about the whole
//! log or looks behind its end, and by a follower every few seconds. Objects never
//! change, so another look fetches the ends of new ones only.
//!
//! Everything archived was durable long before: the three watermarks are one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::reader::StoredLog;
use super::source::{Limit, Source, Visibility, WaitFuture, Waited, Watermarks};
use crate::error::{AofError, Result};
use crate::format::{SegmentId, StreamIdentity};
use crate::io::{ForkStamp, OsStorage, Storage};
use crate::segment::{Artifact, Segment};
use crate::store::AwayCopies;
use crate::store::{Archive, ArchivedObject};
use crate::store::{Found, settle};
use crate::store::{SegmentEntry, SegmentTable};
use crate::sync::Position;

/// Nobody has it listed more often than this.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a follower looks. Segments are archived whole, so there is nothing to gain
/// from hurry, and a listing is paid for.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Remote {
    archive: Arc<dyn Archive>,
    identity: StreamIdentity,
    table: SegmentTable,
    /// The end only grows, whatever a later listing leaves out.
    reached: Mutex<Limit>,
    /// When it was listed last; held while somebody does.
    looked: Mutex<Instant>,
    fork: ForkStamp,
}

impl Remote {
    /// Opens what was listed. Of `identity`, what the segments tell themselves may be a
    /// guess.
    pub(crate) fn open(
        archive: Arc<dyn Archive>,
        identity: StreamIdentity,
        listed: &[ArchivedObject],
    ) -> Result<Self> {
        let mut log = Self {
            archive,
            identity,
            // Nothing is mapped.
            table: SegmentTable::new(0),
            reached: Mutex::new(Limit { position: Position::default(), next_offset: 0 }),
            looked: Mutex::new(Instant::now()),
            fork: ForkStamp::now(),
        };
        log.take(listed)?;
        if let Some(last) = log.table.snapshot().iter().rev().find(|e| e.damage.is_none()) {
            log.identity.format = last.meta.format;
        }
        Ok(log)
    }

    /// Lists again, unless that was done less than `interval` ago. Whether it did.
    fn look(&self, interval: Duration) -> Result<bool> {
        let mut looked = self.looked.lock();
        if looked.elapsed() < interval {
            return Ok(false);
        }
        // Also if it fails: a store in trouble is not asked more often.
        *looked = Instant::now();
        self.take(&self.archive.list()?)?;
        Ok(true)
    }

    /// Makes the table say what was listed.
    fn take(&self, listed: &[ArchivedObject]) -> Result<()> {
        let entries = self.table.snapshot();
        let first_id = listed.first().map(|object| object.segment_id);
        let is_left = |e: &&Arc<SegmentEntry>| first_id.is_some_and(|id| e.meta.segment_id >= id);
        let left: Vec<_> = entries.iter().filter(is_left).collect();
        let same = left.iter().zip(listed).take_while(|(entry, object)| is_known(entry, object));
        let same_count = same.count();
        let kept: Vec<_> = left.iter().take(same_count).map(|e| Arc::clone(e)).collect();
        let after = kept.last().and_then(|e| Some((e.meta.segment_id.as_u32(), e.end_offset()?)));
        let found = self.load(listed.get(same_count..).unwrap_or_default())?;
        let (new, _) = settle(&OsStorage, self.identity.stream_id, &found, found.len(), after)?;
        let replaced = left.iter().skip(same_count).map(|e| e.meta.segment_id.as_u32());
        let replaced: Vec<u32> = replaced.collect();
        self.table.replace(kept, new);
        replaced.into_iter().for_each(|index| self.table.forget_windows(index));
        self.advance();
        Ok(())
    }

    /// What each object is, from what is known of it or else its end.
    fn load(&self, objects: &[ArchivedObject]) -> Result<Vec<Found>> {
        let artifact_of = |object: &ArchivedObject| {
            let entry = self.table.find(object.segment_id.as_u32())?;
            is_known(&entry, object).then(|| entry.away_copies().cold).flatten()
        };
        let mut found: BTreeMap<SegmentId, Found> = BTreeMap::new();
        let mut wanted = Vec::new();
        let mut keep = |object: &ArchivedObject, artifact: Arc<Artifact>| {
            let path = self.archive.name(object);
            let (cold, cold_epoch) = (Some(artifact), object.epoch);
            let copies = AwayCopies { cold, cold_epoch, ..AwayCopies::default() };
            found.extend(Found::of_away(|_| path, copies).map(|f| (object.segment_id, f)));
        };
        for object in objects {
            match artifact_of(object) {
                Some(artifact) => keep(object, artifact),
                None => wanted.push(object.clone()),
            }
        }
        let mut damaged = Vec::new();
        self.archive.open(&wanted, &mut |object, opened| {
            match opened {
                Ok(artifact) => keep(object, Arc::new(artifact)),
                Err(error @ (AofError::Foreign { .. } | AofError::Corrupt(_))) => {
                    damaged.push((object.clone(), error));
                }
                // Retention deleted it since it was listed.
                Err(error) if error.is_object_gone() => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        for (object, error) in damaged {
            let path = self.archive.name(&object);
            found
                .insert(object.segment_id, Found::of_damaged_away(object.segment_id, path, &error));
        }
        Ok(found.into_values().collect())
    }

    fn advance(&self) {
        let Some(last) = self.table.last() else { return };
        let position = Position::new(last.meta.segment_id.next(), 0);
        let next_offset = last.end_offset().unwrap_or(last.meta.first_offset);
        let mut reached = self.reached.lock();
        if position > reached.position {
            *reached = Limit { position, next_offset };
            self.table.set_floor(next_offset);
        }
    }

    fn reached(&self) -> Limit {
        *self.reached.lock()
    }
}

/// Whether an entry of the table is this object, in order.
fn is_known(entry: &SegmentEntry, object: &ArchivedObject) -> bool {
    let copies = entry.away_copies();
    entry.meta.segment_id == object.segment_id
        && entry.damage.is_none()
        && copies.cold_epoch == object.epoch
        && copies.cold.is_some_and(|cold| cold.index().artifact_len() == object.len)
}

impl Source for Remote {
    fn storage(&self) -> &dyn Storage {
        // Nothing of this log is in files.
        &OsStorage
    }

    fn table(&self) -> &SegmentTable {
        &self.table
    }

    fn remembers(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        Ok(())
    }

    fn limit(&self, _visibility: Visibility) -> Result<Limit> {
        Ok(self.reached())
    }

    fn watermarks(&self) -> Result<Watermarks> {
        self.look_again(None)?;
        let end = self.reached().next_offset;
        Ok(Watermarks { appended: end, durable: end, archived: end })
    }

    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
        let info = entry.sealed_info().map(|info| info.durable_bytes);
        Ok(info.or(segment.closed_end()).unwrap_or_default())
    }

    fn refresh(&self) -> Result<()> {
        self.check()?;
        self.look(LOOK_INTERVAL).map(drop)
    }

    fn look_again(&self, wanted: Option<u64>) -> Result<bool> {
        self.check()?;
        if wanted.is_some_and(|wanted| wanted <= self.reached().next_offset) {
            return Ok(false);
        }
        self.look(LOOK_INTERVAL)
    }

    fn wait_beyond(
        &self,
        _visibility: Visibility,
        seen: Position,
        _until_closed: bool,
        deadline: Option<Instant>,
    ) -> Result<Waited> {
        loop {
            self.check()?;
            if self.reached().position > seen {
                return Ok(Waited::Moved);
            }
            let left = match deadline {
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => FOLLOW_INTERVAL,
            };
            if self.look(FOLLOW_INTERVAL)? {
                continue;
            }
            if left.is_zero() {
                return Ok(Waited::TimedOut);
            }
            let until_next = FOLLOW_INTERVAL.saturating_sub(self.looked.lock().elapsed());
            std::thread::sleep(until_next.min(left));
        }
    }

    fn wait_beyond_async(
        self: Arc<Self>,
        _visibility: Visibility,
        seen: Position,
        _until_closed: bool,
    ) -> WaitFuture<'static> {
        Box::pin(async move {
            loop {
                self.check()?;
                if self.reached().position > seen {
                    return Ok(Waited::Moved);
                }
                // A listing takes its time, which is not the runtime's.
                let log = Arc::clone(&self);
                let looked = tokio::task::spawn_blocking(move || log.look(FOLLOW_INTERVAL)).await;
                if !looked.map_err(|_| AofError::Cancelled)?? {
                    let until_next = FOLLOW_INTERVAL.saturating_sub(self.looked.lock().elapsed());
                    tokio::time::sleep(until_next).await;
                }
            }
        })
    }

    fn note_corrupt(&self) {}
}

impl StoredLog for Remote {
    fn root(&self) -> &Path {
        self.archive.url()
    }

    fn identity(&self) -> &StreamIdentity {
        &self.identity
    }

    fn writer_pid(&self) -> Option<u32> {
        None
    }

    fn closed_cleanly(&self) -> Option<bool> {
        None
    }
}
