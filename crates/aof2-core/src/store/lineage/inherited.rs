//! The segments that a fork has from its ancestors, as entries that readers open.
//!
//! They are looked up when somebody first reads an inherited record, not when the fork is
//! opened: opening costs the same however many there are. They belong to their origins, and
//! nothing here changes them. One that moved to another tier since is found by looking again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::error::{AofError, Damage, Result};
use crate::format::{Inheritance, Lineage, SegmentFormat, SegmentId, crc64};
use crate::io::{OpenMode, Storage};
use crate::planted::{self, ForkBug};
use crate::segment::SegmentMeta;
use crate::store::cold::ColdStore;
use crate::store::copy::Copies;
use crate::store::entry::SegmentEntry;
use crate::store::found::Found;
use crate::store::info::SealedInfo;
use crate::store::layout::Layout;
use crate::store::lineage::origins::locate;
use crate::store::listing::Listing;
use crate::store::placing::sealed_entries;
use crate::store::survey::Look;

/// What was found, oldest first.
#[derive(Debug)]
pub(crate) struct Entries {
    entries: Vec<Arc<SegmentEntry>>,
    /// Whether something could not be found.
    is_lost: bool,
}

impl std::ops::Deref for Entries {
    type Target = [Arc<SegmentEntry>];

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

/// What a fork inherits.
#[derive(Debug)]
pub(crate) struct Inherited {
    storage: Arc<dyn Storage>,
    /// The fork's directory.
    dir: PathBuf,
    lineage: Lineage,
    /// The entries, oldest first, once somebody needed them.
    entries: RwLock<Option<Arc<Entries>>>,
    /// What was known before somebody looked for changes.
    known: Mutex<Option<Arc<Entries>>>,
}

/// The segment before a fork's own ones, and the offset behind it. `None` if the own ones
/// begin with the first there can be, or if retention removed some of them, of which `first`
/// is left: that it does only where nothing is inherited.
pub(crate) fn before_own(lineage: &Lineage, first: Option<&Found>) -> Option<(u32, u64)> {
    let start = lineage.start;
    let is_first = first.is_none_or(|found| found.name.segment_id == start.segment);
    let index = start.segment.as_u32().checked_sub(1);
    index.filter(|_| is_first || !lineage.origins.is_empty()).map(|index| (index, start.offset))
}

impl Inherited {
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: &Path, lineage: Lineage) -> Self {
        let dir = dir.to_owned();
        Self { storage, dir, lineage, entries: RwLock::default(), known: Mutex::default() }
    }

    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Whether anything is inherited.
    pub(crate) fn is_empty(&self) -> bool {
        self.lineage.origins.is_empty()
    }

    /// Whether a segment is inherited.
    pub(crate) fn has(&self, segment_index: u32) -> bool {
        !self.is_empty() && segment_index < self.lineage.start.segment.as_u32()
    }

    /// Whether a logical offset is.
    pub(crate) fn has_offset(&self, offset: u64) -> bool {
        !self.is_empty() && offset < self.lineage.start.offset
    }

    /// The entries, oldest first; `None` if an origin is not to be found because the fork no
    /// longer inherits from it: then whoever reads the fork has to look at it again.
    pub(crate) fn current_entries(&self) -> Result<Option<Arc<Entries>>> {
        let entries = self.entries()?;
        match entries.is_lost && self.is_outdated()? {
            true => Ok(None),
            false => Ok(Some(entries)),
        }
    }

    /// Whether the fork was detached meanwhile, or gave up what it inherited.
    fn is_outdated(&self) -> Result<bool> {
        let identity = Layout::new(&self.dir).load_identity(&*self.storage)?;
        Ok(identity.is_some_and(|identity| identity.lineage != Some(self.lineage.checksum())))
    }

    /// The entries, oldest first. What cannot be found is damaged.
    pub(crate) fn entries(&self) -> Result<Arc<Entries>> {
        if let Some(entries) = &*self.entries.read() {
            return Ok(Arc::clone(entries));
        }
        let mut known = self.known.lock();
        // Somebody else may have been quicker.
        if let Some(entries) = &*self.entries.read() {
            return Ok(Arc::clone(entries));
        }
        let before = known.as_ref().map_or(&[][..], |known| known);
        let entries = self.load(before)?;
        let is_lost = entries.iter().any(|entry| entry.damage.is_some());
        let entries = Arc::new(Entries { entries, is_lost });
        *known = None;
        *self.entries.write() = Some(Arc::clone(&entries));
        Ok(entries)
    }

    /// The next look finds what changed since.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock();
        if let Some(entries) = self.entries.write().take() {
            *known = Some(entries);
        }
    }

    fn load(&self, known: &[Arc<SegmentEntry>]) -> Result<Vec<Arc<SegmentEntry>>> {
        let mut all = Vec::new();
        for origin in &self.lineage.origins {
            let is_of = |entry: &&Arc<SegmentEntry>| {
                let id = entry.meta.segment_id;
                (origin.first_segment..=origin.last_segment).contains(&id)
            };
            let known: Vec<_> = known.iter().filter(is_of).cloned().collect();
            match locate(&*self.storage, &self.dir, &self.lineage, origin)? {
                Some(dir) => all.extend(self.load_origin(origin, &dir, known)?),
                None => {
                    let reason = format!(
                        "these records are those of log {:?} (id {}), from which this one was \
                         forked, and that log is not to be found",
                        origin.name, origin.origin
                    );
                    let first = (origin.first_segment, origin.first_offset);
                    all.push(Arc::new(self.lost(origin, first, origin.end_offset, reason)));
                }
            }
        }
        Ok(all)
    }

    fn load_origin(
        &self,
        origin: &Inheritance,
        dir: &Path,
        known: Vec<Arc<SegmentEntry>>,
    ) -> Result<Vec<Arc<SegmentEntry>>> {
        let (storage, layout) = (&*self.storage, Layout::new(dir));
        let cold = ColdStore::named_by_log(Arc::clone(&self.storage), dir);
        let listing = Listing::take(storage, &layout)?;
        let range = origin.first_segment..=origin.last_segment;
        let named = listing.segments.iter().filter(|names| range.contains(&names.segment_id));
        let mut named = named.peekable();
        let mut entries = Vec::new();
        for entry in known {
            match named.peek() {
                Some(names) if names.is_as_known(&layout, &entry) && entry.damage.is_none() => {
                    named.next();
                    entries.push(entry);
                }
                _ => break,
            }
        }
        let format = SegmentFormat::Full;
        let look = Look { storage, layout: &layout, cold: &cold, format };
        let mut found = look.segments(named, &mut Vec::new())?;
        let last = match found.last().is_some_and(|f| f.name.segment_id == origin.last_segment) {
            true => found.pop(),
            false => None,
        };
        let before =
            entries.last().and_then(|e| Some((e.meta.segment_id.as_u32(), e.end_offset()?)));
        let first = origin.first_segment.as_u32();
        let after = before.or(first.checked_sub(1).map(|index| (index, origin.first_offset)));
        let is_whole = entries.last().is_some_and(|e| e.meta.segment_id == origin.last_segment);
        if is_whole {
            return Ok(entries);
        }
        let (new, next_offset) = match found.is_empty() {
            true => (Vec::new(), after.map_or(0, |(_, offset)| offset)),
            false => sealed_entries(storage, origin.origin, &found, found.len(), after)?,
        };
        entries.extend(new.into_iter().map(Arc::new));
        entries.push(Arc::new(self.cut_entry(origin, last, entries.last(), next_offset)?));
        Ok(entries)
    }

    /// The last segment of an origin, of which the part before the cut is inherited. It may
    /// have been sealed or moved since, and it may still be written.
    fn cut_entry(
        &self,
        origin: &Inheritance,
        found: Option<Found>,
        previous: Option<&Arc<SegmentEntry>>,
        next_offset: u64,
    ) -> Result<SegmentEntry> {
        let follows = previous.map_or(origin.first_segment, |e| e.meta.segment_id.next());
        let lost = |reason: &str| {
            let first = (follows, next_offset);
            Ok(self.lost(origin, first, origin.end_offset, reason.to_owned()))
        };
        let Some(found) = found.filter(|_| follows == origin.last_segment) else {
            return lost("segments that a fork reads are missing in the log they belong to");
        };
        let ends_before = found.sealed().is_some_and(|info| info.durable_bytes < origin.cut);
        let is_damaged = found.copies.is_hot && !found.has_segment_size();
        if ends_before || is_damaged || next_offset >= origin.end_offset {
            return lost("the log that it belongs to has fewer records than when it was forked");
        }
        let meta = found.meta(origin.origin, next_offset);
        if found.copies.is_hot && !self.is_last_record(origin, &found.path)? {
            return lost("the log that it belongs to has other records than when it was forked");
        }
        let end = match planted::in_forks(ForkBug::ReadsPastCut) {
            true => found.sealed().map_or(meta.space_end(), |info| info.durable_bytes),
            false => origin.cut,
        };
        let info = SealedInfo {
            record_count: origin.end_offset - next_offset,
            durable_bytes: end,
            segment_crc64: 0,
            ext_id: 0,
            flags: 0,
            // Not known for the part before the cut, so that nobody passes it over.
            last_timestamp_ms: u64::MAX,
            from_footer: false,
        };
        Ok(SegmentEntry::sealed(meta, found.path, info, found.copies).cut())
    }

    /// Whether the last inherited record is what it was.
    fn is_last_record(&self, origin: &Inheritance, path: &Path) -> Result<bool> {
        let file = self.storage.open(path, OpenMode::Read).map_err(AofError::io("open", path))?;
        let mut bytes = vec![0; (origin.cut - origin.last_position) as usize];
        match file.read_exact_at(&mut bytes, u64::from(origin.last_position)) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            read => {
                read.map_err(AofError::io("read segment", path))?;
                Ok(crc64(&bytes) == origin.last_crc64)
            }
        }
    }

    /// What stands for records that are not to be found.
    fn lost(
        &self,
        origin: &Inheritance,
        (segment_id, first_offset): (SegmentId, u64),
        end_offset: u64,
        reason: String,
    ) -> SegmentEntry {
        let records = first_offset..end_offset.max(first_offset);
        let info = SealedInfo {
            record_count: records.end - records.start,
            durable_bytes: crate::format::SEGMENT_HEADER_LEN as u32,
            segment_crc64: 0,
            ext_id: 0,
            flags: 0,
            last_timestamp_ms: u64::MAX,
            from_footer: false,
        };
        let meta = SegmentMeta {
            stream_id: origin.origin,
            segment_id,
            format: SegmentFormat::Full,
            base_offset: 0,
            first_offset,
            created_at_ns: 0,
            segment_bytes: 0,
        };
        let path = self.dir.join(&origin.path);
        let damage = Damage { path: path.clone(), offset: 0, records, reason };
        let entry = SegmentEntry::damaged(meta, path, info, damage);
        entry.set_copies(|copies| *copies = Copies::default());
        entry
    }
}
