//! A log opened for reading, by this or any other process, while a writer may run.
//!
//! Takes no lock and writes nothing. The writer's watermark file says how far the
//! log is durable; without it (or after a writer died in the middle of updating
//! it) the reader proves what it can from the segments themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::reader::StoredLog;
use super::source::{Limit, Source, Visibility, WaitFuture, Waited, Watermarks};
use crate::error::{AofError, Result};
use crate::format::{SEGMENT_HEADER_LEN, StreamIdentity, WatermarkBody};
use crate::io::{ForkStamp, OpenMode, Storage};
use crate::segment::Segment;
use crate::store::ColdStore;
use crate::store::Layout;
use crate::store::{
    Found, Inherited, Listing, Look, Survey, before_own, load_lineage, sealed_entries,
};
use crate::store::{SegmentEntry, SegmentTable};
use crate::store::{WatermarkView, durable_position, is_closed};
use crate::sync::Position;

/// How long a wait for appended (not yet durable) records may oversleep: nobody
/// announces those across processes.
const APPENDED_POLL: Duration = Duration::from_millis(1);
const ASYNC_POLL: Duration = Duration::from_millis(2);
/// The same while nobody writes: how long a task may miss that a new writer came.
const ASYNC_POLL_CLOSED: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct ReadOnly {
    storage: Arc<dyn Storage>,
    store: Arc<ColdStore>,
    layout: Layout,
    identity: StreamIdentity,
    /// What the log has from others, if it is a fork.
    inherited: ArcSwapOption<Inherited>,
    table: SegmentTable,
    remembers: bool,
    watermark: Mutex<Option<Arc<WatermarkView>>>,
    /// How far the unsealed end was walked, for `Appended`.
    walked: Mutex<Option<Walked>>,
    /// The durable limit only grows, whatever a damaged watermark file says later.
    reached: Mutex<Limit>,
    /// Serialises listing the directory.
    refreshing: Mutex<()>,
    fork: ForkStamp,
}

/// What lies behind a position, at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    Records,
    Nothing,
    /// Nothing, and the last writer has closed the log.
    NothingAndClosed,
}

/// A verified prefix of the newest segment.
#[derive(Clone, Copy, Debug)]
struct Walked {
    segment_index: u32,
    position: u32,
    next_offset: u64,
}

impl ReadOnly {
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        store: Arc<ColdStore>,
        root: &Path,
        open_max: usize,
        remembers: bool,
    ) -> Result<Self> {
        let layout = Layout::new(root);
        let survey = Survey::take(&*storage, &layout, &store)?;
        let Some(identity) = survey.identity_or_derived(&*storage, &layout)? else {
            return Err(AofError::NotALog {
                path: root.to_owned(),
                reason: "it has neither a stream file nor a segment".into(),
            });
        };
        let inherited = survey
            .lineage
            .map(|lineage| Arc::new(Inherited::new(Arc::clone(&storage), layout.root(), lineage)));
        let log = Self {
            storage,
            store,
            layout,
            identity,
            inherited: ArcSwapOption::new(inherited),
            table: SegmentTable::new(open_max),
            remembers,
            watermark: Mutex::default(),
            walked: Mutex::default(),
            reached: Mutex::new(Limit { position: Position::default(), next_offset: 0 }),
            refreshing: Mutex::default(),
            fork: ForkStamp::now(),
        };
        // Where a fork begins that has neither inherited records nor its own.
        log.table.set_floor(log.own_start().next_offset);
        log.rebuild(Vec::new(), survey.found)?;
        Ok(log)
    }

    /// The writer's view, mapped as soon as it exists.
    fn view(&self) -> Option<Arc<WatermarkView>> {
        let mut slot = self.watermark.lock();
        if slot.is_none() {
            let path = self.layout.watermark_file();
            *slot =
                WatermarkView::open(&*self.storage, &path, self.identity.stream_id).map(Arc::new);
        }
        slot.clone()
    }

    fn published(&self) -> Option<WatermarkBody> {
        self.view()?.load()
    }

    /// Puts entries for `found` behind those that are known.
    fn rebuild(&self, known: Vec<Arc<SegmentEntry>>, mut found: Vec<Found>) -> Result<()> {
        // Blank at the end: not written yet. Blank before others: torn by a crash.
        while found.last().is_some_and(Found::is_blank) {
            found.pop();
        }
        let unsealed = found.iter().rev().take(2).take_while(|f| f.is_unsealed()).count();
        let sealed_count = found.len() - unsealed;
        let stream_id = self.identity.stream_id;
        let after = known.last().and_then(|e| Some((e.meta.segment_id.as_u32(), e.end_offset()?)));
        let after = after.or_else(|| {
            let inherited = self.inherited.load_full()?;
            before_own(inherited.lineage(), found.first())
        });
        let (mut entries, mut next_offset) =
            sealed_entries(&*self.storage, stream_id, &found, sealed_count, after)?;
        for (i, f) in found[sealed_count..].iter().enumerate() {
            if i > 0 {
                // Its predecessor has no footer to count by, so its own word counts. If
                // that is torn, nothing in it can be told yet.
                match f.verified_first_offset(&*self.storage, stream_id)? {
                    Some(offset) => next_offset = offset.max(next_offset),
                    None => continue,
                }
            }
            if f.has_segment_size() {
                entries
                    .push(SegmentEntry::unmapped(f.meta(stream_id, next_offset), f.path.clone()));
            }
        }
        self.table.replace(known, entries);
        Ok(())
    }

    fn last_unsealed(&self) -> Option<Arc<SegmentEntry>> {
        self.table.last().filter(is_open_ended)
    }

    /// The end of all that has a footer, or was trimmed.
    fn sealed_limit(&self) -> Limit {
        let entries = self.table.snapshot();
        let last = entries.iter().rev().find(|e| e.sealed_info().is_some());
        match (last, entries.first()) {
            (Some(last), _) => Limit {
                position: Position::new(last.meta.segment_id.next(), 0),
                next_offset: last.end_offset().unwrap_or(last.meta.first_offset),
            },
            (None, Some(first)) => Limit {
                position: Position::new(first.meta.segment_id, 0),
                next_offset: first.meta.first_offset,
            },
            (None, None) => self.own_start(),
        }
    }

    /// Where the log's own segments begin.
    fn own_start(&self) -> Limit {
        match &*self.inherited.load() {
            Some(inherited) => {
                let start = inherited.lineage().start;
                Limit { position: Position::new(start.segment, 0), next_offset: start.offset }
            }
            None => Limit { position: Position::default(), next_offset: 0 },
        }
    }

    /// Looks whether the log inherits what it did. A fork may have been detached.
    fn refresh_lineage(&self) -> Result<()> {
        let known = self.inherited.load_full();
        let Some(known) = known else { return Ok(()) };
        let Some(identity) = self.layout.load_identity(&*self.storage)? else { return Ok(()) };
        let lineage = load_lineage(&*self.storage, &self.layout, &identity)?;
        match lineage {
            Some(lineage) if lineage == *known.lineage() => known.forget(),
            lineage => {
                let inherited = lineage.map(|lineage| {
                    Inherited::new(Arc::clone(&self.storage), self.layout.root(), lineage)
                });
                self.inherited.store(inherited.map(Arc::new));
            }
        }
        Ok(())
    }

    fn durable_limit(&self) -> Result<Limit> {
        let Some(body) = self.published() else { return self.proven_limit() };
        let position = durable_position(&body);
        let newest = self.table.last().map(|e| e.meta.segment_id.as_u32());
        // The newest segment with records below the position: one at its start has none.
        let needed = match position.end() {
            0 => position.segment_index().checked_sub(1),
            _ => Some(position.segment_index()),
        };
        // A fork that nobody wrote to ends in a segment that is not its own.
        let is_own = |index: &u32| match &*self.inherited.load() {
            Some(inherited) => *index >= inherited.lineage().start.segment.as_u32(),
            None => true,
        };
        let needed = needed.filter(is_own);
        if needed.is_some_and(|needed| newest.is_none_or(|newest| newest < needed)) {
            self.refresh()?;
        }
        // A writer that died before publishing may have sealed more than it said.
        let sealed = self.sealed_limit();
        if sealed.position > position {
            return Ok(sealed);
        }
        Ok(Limit { position, next_offset: body.durable_count })
    }

    /// Without a watermark file: what footers and surviving records prove.
    fn proven_limit(&self) -> Result<Limit> {
        self.refresh()?;
        let sealed = self.sealed_limit();
        let mut proven = 0;
        for entry in self.table.snapshot().iter().filter(|e| is_open_ended(e)) {
            let file = self
                .storage
                .open(&entry.path, OpenMode::Read)
                .map_err(AofError::io("open segment", &entry.path))?;
            let scan = self.open_whole(entry)?.scan_tail(&*file, u64::MAX);
            proven = proven.max(scan.map_err(AofError::io("scan", &entry.path))?.proven);
        }
        if proven <= sealed.next_offset {
            return Ok(sealed);
        }
        let Some(entry) = self.table.find_offset(proven).filter(is_open_ended) else {
            return Ok(sealed);
        };
        let segment = self.open_whole(&entry)?;
        let point = match segment.find_offset(proven, segment.map().len() as u32, false) {
            Ok(point) | Err((point, _)) => point,
        };
        Ok(Limit {
            position: Position::new(entry.meta.segment_id, point.position),
            next_offset: point.offset,
        })
    }

    /// Maps a segment and declares all of it final: only where nobody writes.
    fn open_whole(&self, entry: &Arc<SegmentEntry>) -> Result<Arc<Segment>> {
        let segment = self.table.open_whole(&*self.storage, entry)?;
        let len = segment.map().len();
        segment.map().observe(len).map_err(|e| AofError::io("scan", &entry.path)(e.into()))?;
        Ok(segment)
    }

    /// Walks the records behind what is known to be there. A first word that is not
    /// zero means that the record was published; one that does not validate is a
    /// torn end.
    fn appended_limit(&self) -> Result<Limit> {
        let mut looked = false;
        loop {
            let Some(entry) = self.last_unsealed() else {
                if looked {
                    return Ok(self.sealed_limit());
                }
                self.refresh()?;
                looked = true;
                continue;
            };
            let index = entry.meta.segment_id.as_u32();
            let segment = self.table.open_whole(&*self.storage, &entry)?;
            let start = (*self.walked.lock()).filter(|w| w.segment_index == index);
            let start = start.unwrap_or(Walked {
                segment_index: index,
                position: SEGMENT_HEADER_LEN as u32,
                next_offset: entry.meta.first_offset,
            });
            let walked = walk(&segment, start);
            *self.walked.lock() = Some(walked);
            if walked.position == start.position && !looked {
                // Nothing new here; perhaps there is a newer segment.
                self.refresh()?;
                looked = true;
                if self.table.last().is_some_and(|e| e.meta.segment_id.as_u32() != index) {
                    continue;
                }
            }
            return Ok(Limit {
                position: Position::new(entry.meta.segment_id, walked.position),
                next_offset: walked.next_offset,
            });
        }
    }

    /// How far the object store holds the stream without a gap, as far as the directory
    /// tells.
    fn archived(&self) -> u64 {
        let entries = self.table.snapshot();
        let cold = entries.iter().take_while(|e| e.copies().cold.is_some());
        cold.last().and_then(|e| e.end_offset()).unwrap_or(0)
    }

    fn look_beyond(&self, visibility: Visibility, seen: Position) -> Result<Beyond> {
        // Whether it is closed first: what was appended before that is seen below.
        let is_closed = self.published().is_some_and(|body| is_closed(&body));
        if self.limit(visibility)?.position > seen {
            return Ok(Beyond::Records);
        }
        Ok(if is_closed { Beyond::NothingAndClosed } else { Beyond::Nothing })
    }
}

fn is_open_ended(entry: &Arc<SegmentEntry>) -> bool {
    entry.sealed_info().is_none() && entry.damage.is_none()
}

fn walk(segment: &Segment, mut at: Walked) -> Walked {
    let space = segment.map().len();
    while let Ok(word) = segment.map().load_word(at.position as usize) {
        let payload_len = word as u32 as usize;
        let end = at.position as usize + segment.codec().record_len(payload_len);
        if word == 0 || payload_len == 0 || end > space {
            break;
        }
        let Ok(()) = segment.map().observe(end) else { break };
        match segment.record_at(at.position, end as u32, true) {
            Ok(Some(record)) => {
                at.next_offset = record.head.logical_offset.unwrap_or(at.next_offset)
                    + record.gap().map_or(1, |g| g.lost_count);
                at.position = end as u32;
            }
            _ => break,
        }
    }
    at
}

impl Source for ReadOnly {
    fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    fn table(&self) -> &SegmentTable {
        &self.table
    }

    fn inherited(&self) -> Option<Arc<Inherited>> {
        // Asked for every lookup, and most logs are no forks.
        match self.identity.lineage {
            Some(_) => self.inherited.load_full(),
            None => None,
        }
    }

    fn remembers(&self) -> bool {
        self.remembers
    }

    fn check(&self) -> Result<()> {
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        Ok(())
    }

    fn limit(&self, visibility: Visibility) -> Result<Limit> {
        let mut durable = self.durable_limit()?;
        {
            let mut reached = self.reached.lock();
            if durable.position < reached.position {
                durable = *reached;
            }
            *reached = durable;
        }
        match visibility {
            Visibility::Durable => Ok(durable),
            Visibility::Appended => {
                let appended = self.appended_limit()?;
                Ok(if appended.position > durable.position { appended } else { durable })
            }
        }
    }

    fn watermarks(&self) -> Result<Watermarks> {
        // Durable first: it never overtakes appended.
        let durable = self.limit(Visibility::Durable)?.next_offset;
        let appended = self.limit(Visibility::Appended)?.next_offset;
        Ok(Watermarks { appended, durable, archived: self.archived() })
    }

    /// The writer went on to a later segment, so this one is complete: it ends at
    /// its footer or, while that is being written, at the first zero word.
    fn final_end(&self, entry: &SegmentEntry, segment: &Segment) -> Result<u32> {
        if let Some(info) = entry.sealed_info() {
            return Ok(info.durable_bytes);
        }
        if let Some(end) = segment.closed_end() {
            return Ok(end);
        }
        let start = Walked {
            segment_index: entry.meta.segment_id.as_u32(),
            position: SEGMENT_HEADER_LEN as u32,
            next_offset: entry.meta.first_offset,
        };
        let walked = walk(segment, start);
        let next = self.table.after(start.segment_index);
        if next.is_some_and(|next| walked.next_offset < next.meta.first_offset) {
            // Records that its successor counts on do not validate: let the reader run
            // into the damage.
            return Ok(entry.meta.space_end());
        }
        segment.close_at(walked.position);
        Ok(walked.position)
    }

    fn refresh(&self) -> Result<()> {
        let _one_at_a_time = self.refreshing.lock();
        self.refresh_lineage()?;
        let mut listing = Listing::take(&*self.storage, &self.layout)?;
        listing.refuse_foreign()?;
        if let Some(inherited) = &*self.inherited.load() {
            let own = inherited.lineage().start.segment;
            listing.segments.retain(|names| names.segment_id >= own);
        }
        let known: Vec<_> = self.table.snapshot();
        let mut kept = Vec::new();
        let mut names = listing.segments.iter().peekable();
        let first_id = listing.segments.first().map_or(u64::MAX, |n| n.segment_id.as_u64());
        for entry in known {
            if entry.meta.segment_id.as_u64() < first_id {
                continue;
            }
            match names.peek() {
                Some(name) if name.is_as_known(&self.layout, &entry) => {
                    names.next();
                    kept.push(entry);
                }
                // Unsealed, new, moved to another tier, or a hole that may have been a
                // listing in the middle of a rename: looked at again.
                _ => break,
            }
        }
        let look = Look {
            storage: &*self.storage,
            layout: &self.layout,
            cold: &self.store,
            format: self.identity.format,
        };
        let found = look.segments(names, &mut Vec::new())?;
        self.rebuild(kept, found)
    }

    fn wait_beyond(
        &self,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
        deadline: Option<Instant>,
    ) -> Result<Waited> {
        loop {
            self.check()?;
            let view = self.view();
            // The word first: a publication after this is a changed word.
            let word = view.as_ref().map(|v| v.wake_word());
            let beyond = self.look_beyond(visibility, seen)?;
            match beyond {
                Beyond::Records => return Ok(Waited::Moved),
                Beyond::NothingAndClosed if until_closed => return Ok(Waited::Stopped),
                _ => {}
            }
            // A writer publishes what becomes durable, and that it opened the log.
            let is_announced =
                visibility == Visibility::Durable || beyond == Beyond::NothingAndClosed;
            let left = match deadline {
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => return Ok(Waited::TimedOut),
                },
                None => Duration::from_secs(3600),
            };
            match (&view, word) {
                (Some(view), Some(word)) if is_announced => view.sleep(word, left),
                _ => std::thread::sleep(left.min(APPENDED_POLL)),
            }
        }
    }

    fn wait_beyond_async(
        self: Arc<Self>,
        visibility: Visibility,
        seen: Position,
        until_closed: bool,
    ) -> WaitFuture<'static> {
        Box::pin(async move {
            loop {
                self.check()?;
                let pause = match self.look_beyond(visibility, seen)? {
                    Beyond::Records => return Ok(Waited::Moved),
                    Beyond::NothingAndClosed if until_closed => return Ok(Waited::Stopped),
                    Beyond::NothingAndClosed => ASYNC_POLL_CLOSED,
                    Beyond::Nothing => ASYNC_POLL,
                };
                tokio::time::sleep(pause).await;
            }
        })
    }

    fn note_corrupt(&self) {}
}

impl StoredLog for ReadOnly {
    fn root(&self) -> &Path {
        self.layout.root()
    }

    fn identity(&self) -> &StreamIdentity {
        &self.identity
    }

    fn writer_pid(&self) -> Option<u32> {
        self.view()?.writer_pid()
    }

    fn closed_cleanly(&self) -> Option<bool> {
        self.published().map(|body| is_closed(&body))
    }
}
