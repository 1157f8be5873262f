//! What a log's directory holds, found without changing anything: the common first
//! step of opening for writing, opening for reading, and verifying.
//!
//! Costs one open and two small reads per segment. Footers are trusted; only a
//! segment that should have one and does not is scanned.

use std::path::{Path, PathBuf};

use super::away::{AwayCopies, AwayNames, list_away};
use super::cold::ColdStore;
use super::identity::{directory_name, recorded_id, unidentified};
use super::layout::{Layout, SegmentListing};
use super::table::{SealedInfo, SegmentEntry};
use crate::error::{AofError, Damage, Result};
use crate::format::{
    FormatError, RECORD_ALIGN, RecordCodec, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat,
    SegmentHeader, SegmentId, StreamId, StreamIdentity,
};
use crate::io::{File, OpenMode, Storage};
use crate::segment::{Segment, SegmentMeta, TailScan, resync};

/// A segment file as found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: SegmentFileName,
    pub(crate) path: PathBuf,
    pub(crate) file_len: u64,
    pub(crate) format: SegmentFormat,
    /// `Ok(None)`: never written.
    pub(crate) header: Result<Option<SegmentHeader>, FormatError>,
    /// `Ok(None)`: never sealed.
    pub(crate) footer: Result<Option<SegmentFooter>, FormatError>,
    /// Logical offset in the first record's header (version 2).
    first_record_offset: Option<u64>,
    /// Whether a valid record follows a damaged header (version 1).
    has_first_record: bool,
    /// Copies in other tiers.
    pub(crate) away: AwayCopies,
    /// Whether only other tiers hold the segment; `path` is where its file would be.
    pub(crate) is_away: bool,
}

/// A segment that some tier holds, by name.
#[derive(Debug)]
pub(crate) struct Present {
    name: Option<SegmentFileName>,
    path: Option<PathBuf>,
    away: Option<AwayNames>,
}

impl Present {
    /// All of them, oldest first.
    pub(crate) fn list(storage: &dyn Storage, layout: &Layout) -> Result<Vec<Self>> {
        // Files before copies: a segment that moves away while we look is found twice,
        // not never.
        let listing = layout.list(storage)?;
        Ok(Self::merge(&listing, list_away(storage, layout)?, layout))
    }

    fn merge(listing: &SegmentListing, away: Vec<AwayNames>, layout: &Layout) -> Vec<Self> {
        let mut all: Vec<Self> = listing
            .segments
            .iter()
            .map(|name| Self {
                name: Some(*name),
                path: Some(layout.segment_path(name)),
                away: None,
            })
            .collect();
        for copy in away {
            let at = all.partition_point(|p| p.segment_id() < copy.segment_id);
            match all.get_mut(at).filter(|p| p.segment_id() == copy.segment_id) {
                Some(file) => file.away = Some(copy),
                None => all.insert(at, Self { name: None, path: None, away: Some(copy) }),
            }
        }
        all
    }

    pub(crate) fn segment_id(&self) -> SegmentId {
        match (&self.name, &self.away) {
            (Some(name), _) => name.segment_id,
            (None, Some(away)) => away.segment_id,
            (None, None) => SegmentId::from_u64(0),
        }
    }

    /// The files that hold it, or say where it is, nearest first.
    pub(crate) fn paths(&self, layout: &Layout) -> Vec<PathBuf> {
        let away = self.away.iter().flat_map(|away| away.paths(layout));
        self.path.iter().cloned().chain(away).collect()
    }

    /// Whether an entry of the segment table is this, and final.
    pub(crate) fn is_as_known(&self, entry: &SegmentEntry) -> bool {
        let copies = entry.away_copies();
        entry.meta.segment_id == self.segment_id()
            && entry.sealed_info().is_some()
            && entry.is_hot() == self.path.is_some()
            && self.path.as_ref().is_none_or(|path| *path == entry.path)
            && self.away.as_ref().map_or(copies.is_empty(), |away| away.agrees(&copies))
    }

    /// Reads what is needed to know it. Where there is a file and copies, the file is
    /// read and the copies are remembered, unless the file is nothing to go by.
    pub(crate) fn load(
        &self,
        storage: &dyn Storage,
        layout: &Layout,
        cold: &ColdStore,
        format: SegmentFormat,
    ) -> Result<Found> {
        let copies = self.away.as_ref().map(|away| away.open(storage, layout, cold));
        let file_path = |name: &SegmentFileName| layout.segment_path(name);
        let Some((name, path)) = self.name.zip(self.path.clone()) else {
            return match (copies, &self.away) {
                (Some(Ok(copies)), Some(_)) => Found::of_away(file_path, copies)
                    .ok_or_else(|| AofError::io("open", &layout.warm_dir())(vanished())),
                (Some(Err(error)), Some(away)) if is_damage(&error) => {
                    Ok(Found::of_damaged_away(away.segment_id, away.path(layout), &error))
                }
                (Some(Err(error)), _) => Err(error),
                _ => Err(AofError::io("open", &layout.warm_dir())(vanished())),
            };
        };
        let mut found = match (Found::load(storage, name, path.clone(), format), &copies) {
            // Evicted since it was listed.
            (Err(e), Some(Ok(copies))) if is_not_found(&e) => {
                let away = Found::of_away(file_path, copies.clone());
                return away.ok_or(e);
            }
            (found, _) => found?,
        };
        match copies {
            Some(Ok(copies)) if found.sealed().is_some() => found.away = copies,
            // Sealed once, or it could not have been compressed.
            Some(Ok(copies)) => {
                if let Some(whole) = Found::of_away(file_path, copies) {
                    found = Found { path, ..whole };
                }
            }
            Some(Err(error)) => {
                tracing::warn!(%error, segment = %name.segment_id, "a copy is left aside");
                found.away.has_stray = true;
            }
            None => {}
        }
        Ok(found)
    }
}

fn is_not_found(error: &AofError) -> bool {
    error.io_source().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

fn vanished() -> std::io::Error {
    std::io::ErrorKind::NotFound.into()
}

/// The stream's identity and its segment files, oldest first.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) identity: Option<StreamIdentity>,
    pub(crate) found: Vec<Found>,
    /// Blank files that share their id with a real segment.
    pub(crate) blank_twins: Vec<PathBuf>,
    pub(crate) listing: SegmentListing,
}

/// A header, the first record's header, and what they need.
const HEAD_LEN: usize = SEGMENT_HEADER_LEN + 32;

impl Found {
    pub(crate) fn load(
        storage: &dyn Storage,
        name: SegmentFileName,
        path: PathBuf,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let file =
            storage.open(&path, OpenMode::Read).map_err(AofError::io("open segment", &path))?;
        let file_len = file.len().map_err(AofError::io("read segment", &path))?;
        let mut found = Self {
            name,
            path,
            file_len,
            format: default_format,
            header: Ok(None),
            footer: Ok(None),
            first_record_offset: None,
            has_first_record: false,
            away: AwayCopies::default(),
            is_away: false,
        };
        if file_len < (HEAD_LEN + SEGMENT_FOOTER_LEN) as u64 {
            return Ok(found);
        }
        let mut head = [0; HEAD_LEN];
        file.read_exact_at(&mut head, 0).map_err(AofError::io("read segment", &found.path))?;
        found.header = SegmentHeader::decode(&head[..SEGMENT_HEADER_LEN]);
        if let Ok(Some(header)) = &found.header {
            found.format = header.format;
        }
        let codec_head = &head[SEGMENT_HEADER_LEN..];
        if found.format == SegmentFormat::Full && codec_head[..8] != [0; 8] {
            found.first_record_offset =
                codec_head.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        }
        if found.format == SegmentFormat::Compact && found.header.is_err() {
            found.has_first_record = found.loads_first_record(&*file)?;
        }
        found.footer = Segment::load_footer(&*file, &found.path, found.format, file_len)?;
        Ok(found)
    }

    /// A segment that only other tiers hold, as the index of its artifact tells it.
    /// `path_of` says where its file would be.
    pub(crate) fn of_away(
        path_of: impl FnOnce(&SegmentFileName) -> PathBuf,
        away: AwayCopies,
    ) -> Option<Self> {
        let artifact = away.nearest()?;
        let meta = artifact.meta();
        let name = meta.file_name();
        Some(Self {
            name,
            path: path_of(&name),
            file_len: u64::from(meta.segment_bytes),
            format: meta.format,
            header: Ok(Some(meta.header(artifact.index().summary.first_timestamp_ms))),
            footer: Ok(Some(artifact.footer())),
            first_record_offset: Some(meta.first_offset),
            has_first_record: true,
            away,
            is_away: true,
        })
    }

    /// A segment whose only copy is damaged beyond recognition.
    pub(crate) fn of_damaged_away(segment_id: SegmentId, path: PathBuf, error: &AofError) -> Self {
        tracing::error!(%error, segment = %segment_id, "a compressed segment is damaged");
        Self {
            name: SegmentFileName { segment_id, base_offset: 0, created_at_ns: 0 },
            path,
            file_len: 0,
            format: SegmentFormat::Full,
            header: Ok(None),
            footer: Ok(None),
            first_record_offset: None,
            has_first_record: false,
            away: AwayCopies::default(),
            is_away: true,
        }
    }

    /// Nothing in a version 1 record names its stream, so its checksum has to do.
    fn loads_first_record(&self, file: &dyn File) -> Result<bool> {
        let codec = RecordCodec::new(self.format, StreamId::from_u64(0), self.name.segment_id);
        let start = SEGMENT_HEADER_LEN as u64;
        let read = |bytes: &mut [u8]| {
            file.read_exact_at(bytes, start).map_err(AofError::io("read segment", &self.path))
        };
        let mut len = [0; 4];
        read(&mut len)?;
        let record_len = codec.record_len(u32::from_le_bytes(len) as usize) as u64;
        if start + record_len > self.file_len {
            return Ok(false);
        }
        let mut record = vec![0; record_len as usize];
        read(&mut record)?;
        Ok(matches!(codec.decode(&record), Ok(Some(_))))
    }

    pub(crate) fn index(&self) -> u32 {
        self.name.segment_id.as_u32()
    }

    /// Whether nothing was ever written: no header, no footer.
    pub(crate) fn is_blank(&self) -> bool {
        matches!((&self.header, &self.footer), (Ok(None), Ok(None)))
            && self.first_record_offset.is_none()
            && !self.is_away
    }

    /// Whether it may be one of the newest two, which need not have a footer yet.
    pub(crate) fn is_unsealed(&self) -> bool {
        self.sealed().is_none() && !self.is_away
    }

    pub(crate) fn has_segment_size(&self) -> bool {
        self.file_len.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.file_len)
    }

    pub(crate) fn sealed(&self) -> Option<SealedInfo> {
        let footer = self.footer.as_ref().ok()?.as_ref()?;
        let fits = footer.durable_bytes + SEGMENT_FOOTER_LEN as u64 <= self.file_len;
        fits.then(|| SealedInfo::from(footer))
    }

    /// The logical offset that the file itself claims for its first record.
    pub(crate) fn claimed_first_offset(&self) -> Option<u64> {
        let in_header = self.header.as_ref().ok().and_then(|h| h.as_ref()?.base_record_count);
        in_header.or(self.first_record_offset)
    }

    /// [`Found::claimed_first_offset`] from bytes that a checksum covers.
    pub(crate) fn verified_first_offset(
        &self,
        storage: &dyn Storage,
        stream_id: StreamId,
    ) -> Result<Option<u64>> {
        let Some(claimed) = self.claimed_first_offset().filter(|_| self.has_segment_size()) else {
            return Ok(None);
        };
        if self.format == SegmentFormat::Compact || self.is_away {
            return Ok(Some(claimed));
        }
        let segment = Segment::open_unsealed(storage, &self.path, self.meta(stream_id, claimed))?;
        let start = SEGMENT_HEADER_LEN;
        let payload_len = segment.map().load_word(start).unwrap_or(0) as u32 as usize;
        let end = start + segment.codec().record_len(payload_len);
        let readable = payload_len > 0 && segment.map().observe(end).is_ok();
        let valid =
            readable && matches!(segment.record_at(start as u32, end as u32, true), Ok(Some(_)));
        Ok(valid.then_some(claimed))
    }

    pub(crate) fn meta(&self, stream_id: StreamId, first_offset: u64) -> SegmentMeta {
        SegmentMeta {
            stream_id,
            segment_id: self.name.segment_id,
            format: self.format,
            base_offset: self.name.base_offset,
            first_offset,
            created_at_ns: self.name.created_at_ns,
            segment_bytes: u32::try_from(self.file_len).unwrap_or(0),
        }
    }

    /// Refuses a file that was never part of this stream.
    fn check_belongs(&self, storage: &dyn Storage, stream_id: Option<StreamId>) -> Result<()> {
        let foreign = |reason: String| Err(AofError::Foreign { path: self.path.clone(), reason });
        match &self.header {
            Ok(Some(header)) => {
                if let (Some(found), Some(ours)) = (header.stream_id, stream_id)
                    && found != ours
                {
                    return foreign(format!("it belongs to stream {found}, this is {ours}"));
                }
                if header.segment_id.as_u32() != self.index() {
                    return foreign(format!(
                        "its header says segment {}, its name {}",
                        header.segment_id, self.name.segment_id
                    ));
                }
                Ok(())
            }
            // A torn header has lost words; a damaged one is damage if anything else in
            // the file is ours.
            Err(
                error @ (FormatError::BadMagic { found: 1.. }
                | FormatError::UnsupportedVersion { found: 1.. }),
            ) => {
                let id = stream_id.unwrap_or(StreamId::from_u64(0));
                let ours = matches!(self.footer, Ok(Some(_)))
                    || self.has_first_record
                    || self.verified_first_offset(storage, id)?.is_some();
                match ours {
                    true => Ok(()),
                    false => foreign(format!("its header is not a segment header ({error})")),
                }
            }
            _ => Ok(()),
        }
    }

    /// Maps and scans the records. Nobody may be writing the file.
    pub(crate) fn scan(
        &self,
        storage: &dyn Storage,
        meta: SegmentMeta,
        claimed: u64,
    ) -> Result<TailScan> {
        let segment = Segment::open_unsealed(storage, &self.path, meta)?;
        let len = segment.map().len();
        segment.map().observe(len).map_err(|e| AofError::io("scan", &self.path)(e.into()))?;
        let file = storage
            .open(&self.path, OpenMode::Read)
            .map_err(AofError::io("open segment", &self.path))?;
        segment.scan_tail(&*file, claimed).map_err(AofError::io("scan", &self.path))
    }

    pub(crate) fn damage(
        &self,
        offset: u64,
        records: std::ops::Range<u64>,
        reason: impl Into<String>,
    ) -> Damage {
        Damage { path: self.path.clone(), offset, records, reason: reason.into() }
    }
}

impl Survey {
    /// Lists and reads. `NotALog` when there is no `segments/` directory.
    pub(crate) fn take(storage: &dyn Storage, layout: &Layout, cold: &ColdStore) -> Result<Self> {
        let dir = layout.segments_dir();
        if !storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
            let reason = match storage.exists(layout.root()) {
                Ok(true) => "it has no segments/ directory",
                _ => "the directory does not exist",
            };
            return Err(AofError::NotALog {
                path: layout.root().to_owned(),
                reason: reason.into(),
            });
        }
        let identity = layout.load_identity(storage)?;
        let format = identity.as_ref().map_or(SegmentFormat::Full, |i| i.format);
        let listing = layout.list(storage)?;
        let mut found = Vec::with_capacity(listing.segments.len());
        for name in Present::merge(&listing, list_away(storage, layout)?, layout) {
            match name.load(storage, layout, cold, format) {
                Ok(f) => found.push(f),
                // Removed by retention or a closing writer since it was listed.
                Err(e) if is_not_found(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let blank_twins = drop_blank_twins(&mut found)?;
        let stream_id = identity.as_ref().map(|i| i.stream_id).or_else(|| first_stream_id(&found));
        for f in &found {
            f.check_belongs(storage, stream_id)?;
        }
        Ok(Self { identity, found, blank_twins, listing })
    }

    /// The identity, from its file or else from the segments; `None` if there is no log.
    /// An error if there is one and nothing tells which.
    pub(crate) fn identity_or_derived(
        &self,
        storage: &dyn Storage,
        layout: &Layout,
    ) -> Result<Option<StreamIdentity>> {
        if self.identity.is_some() {
            return Ok(self.identity.clone());
        }
        let Some(first) = self.found.iter().find(|f| matches!(f.header, Ok(Some(_)))) else {
            return Ok(None);
        };
        let told = first_stream_id(&self.found).or_else(|| recorded_id(storage, layout));
        Ok(Some(StreamIdentity {
            stream_id: told.ok_or_else(|| unidentified(layout))?,
            name: directory_name(layout.root()),
            format: first.format,
            created_at_ns: first.name.created_at_ns,
        }))
    }
}

/// Whether the bytes are wrong, as opposed to out of reach.
fn is_damage(error: &AofError) -> bool {
    matches!(error, AofError::Corrupt(_) | AofError::Foreign { .. })
}

/// The id that a segment tells: its header, or else the index of its compressed copy.
fn first_stream_id(found: &[Found]) -> Option<StreamId> {
    let in_header = |f: &Found| f.header.as_ref().ok()?.as_ref()?.stream_id;
    let in_copy = |f: &Found| Some(f.away.nearest()?.meta().stream_id);
    found.iter().find_map(in_header).or_else(|| found.iter().find_map(in_copy))
}

/// A segment that was replaced by a larger one before its first record may have
/// survived a crash beside it: the blank one of two with the same id goes.
fn drop_blank_twins(found: &mut Vec<Found>) -> Result<Vec<PathBuf>> {
    let ids: Vec<u32> = found.iter().map(Found::index).collect();
    // Sorted by id, so a twin is a neighbour.
    let is_twin = |i: usize| {
        let here = ids.get(i);
        ids.get(i + 1) == here || i.checked_sub(1).is_some_and(|j| ids.get(j) == here)
    };
    let mut dropped = Vec::new();
    let mut i = 0;
    found.retain(|f| {
        i += 1;
        let drop = is_twin(i - 1) && f.is_blank();
        if drop {
            dropped.push(f.path.clone());
        }
        !drop
    });
    for pair in found.windows(2) {
        if pair[0].index() == pair[1].index() {
            return Err(AofError::Foreign {
                path: pair[1].path.clone(),
                reason: format!("{} has the same segment id", pair[0].name),
            });
        }
    }
    Ok(dropped)
}

/// Turns everything but the unsealed end into table entries. `settled` is how many
/// of the oldest files must have a footer by now; `after` names the segment before
/// them and the logical offset behind it, if there is one.
pub(crate) fn settle(
    storage: &dyn Storage,
    stream_id: StreamId,
    found: &[Found],
    settled: usize,
    after: Option<(u32, u64)>,
) -> Result<(Vec<SegmentEntry>, u64)> {
    let mut entries: Vec<SegmentEntry> = Vec::with_capacity(found.len());
    let mut next_offset = match after {
        Some((_, offset)) => offset,
        None => start_offset(storage, stream_id, found)?,
    };
    let mut previous = after.map(|(index, _)| index);
    for (i, f) in found.iter().take(settled).enumerate() {
        if let Some(missing) = previous.map(|p| p + 1).filter(|&id| id < f.index()) {
            let until = f.claimed_first_offset().unwrap_or(next_offset).max(next_offset);
            entries.push(missing_entry(f, stream_id, missing, next_offset..until));
            next_offset = until;
        }
        previous = Some(f.index());
        let following = found.get(i + 1).and_then(Found::claimed_first_offset);
        let entry = settle_one(storage, stream_id, f, next_offset, following)?;
        next_offset = entry.end_offset().unwrap_or(next_offset);
        entries.push(entry);
    }
    Ok((entries, next_offset))
}

/// Where the oldest segment begins: at 0, or after a trim where its first record
/// says. Nothing before it vouches for that word, so the record must validate, or
/// its successors tell.
fn start_offset(storage: &dyn Storage, stream_id: StreamId, found: &[Found]) -> Result<u64> {
    let Some(first) = found.first() else { return Ok(0) };
    if first.index() == 0 {
        return Ok(0);
    }
    let claimed = first.claimed_first_offset().unwrap_or(0);
    if first.format == SegmentFormat::Compact || !first.has_segment_size() || first.is_blank() {
        return Ok(claimed);
    }
    if let Some(offset) = first.verified_first_offset(storage, stream_id)? {
        return Ok(offset);
    }
    let following = found.get(1).and_then(Found::claimed_first_offset);
    if let (Some(following), Some(info)) = (following, first.sealed()) {
        return Ok(following.saturating_sub(info.record_count));
    }
    let segment = Segment::open_unsealed(storage, &first.path, first.meta(stream_id, claimed))?;
    let len = segment.map().len();
    segment.map().observe(len).map_err(|e| AofError::io("read segment", &first.path)(e.into()))?;
    let space = segment.map().bytes(0, len).unwrap_or_default();
    let next = resync(&segment, space, SEGMENT_HEADER_LEN + 8, 0);
    let Some((at, Some(valid))) = next.map(|(at, head)| (at, head.logical_offset)) else {
        return Ok(claimed);
    };
    // Its damaged first record is believed if so many records fit in front of the first
    // valid one; otherwise one was there at least.
    let room = (at - SEGMENT_HEADER_LEN) / segment.codec().record_len(RECORD_ALIGN);
    let fits = claimed < valid && valid - claimed <= room as u64;
    Ok(if fits { claimed } else { valid.saturating_sub(1) })
}

fn settle_one(
    storage: &dyn Storage,
    stream_id: StreamId,
    f: &Found,
    first_offset: u64,
    following: Option<u64>,
) -> Result<SegmentEntry> {
    let meta = f.meta(stream_id, first_offset);
    if let Some(info) = f.sealed().filter(|_| f.has_segment_size()) {
        return Ok(match f.is_away {
            true => SegmentEntry::away(meta, f.path.clone(), info, f.away.clone()),
            false => {
                let entry = SegmentEntry::sealed(meta, f.path.clone(), info);
                entry.set_away(|away| *away = f.away.clone());
                entry
            }
        });
    }
    if f.is_away {
        let until = following.unwrap_or(first_offset).max(first_offset);
        let damage = f.damage(0, first_offset..until, "the compressed segment is damaged");
        return Ok(damaged_entry(meta, &f.path, damage));
    }
    if !f.has_segment_size() {
        let until = following.unwrap_or(first_offset).max(first_offset);
        let why = format!("the file has {} bytes, which is not a segment's size", f.file_len);
        let damage = f.damage(f.file_len, first_offset..until, why);
        return Ok(damaged_entry(meta, &f.path, damage));
    }
    // No valid footer where one must be: the records themselves still tell.
    tracing::warn!(path = %f.path.display(), "segment footer is missing or damaged; scanning");
    let scan = f.scan(storage, meta, u64::MAX)?;
    let info = SealedInfo {
        record_count: following.unwrap_or(0).saturating_sub(first_offset).max(scan.record_count),
        durable_bytes: if following.is_some_and(|n| n > first_offset + scan.record_count) {
            meta.space_end()
        } else {
            scan.end
        },
        segment_crc64: 0,
        ext_id: 0,
        flags: 0,
        last_timestamp_ms: scan.last_timestamp_ms,
        from_footer: false,
    };
    Ok(SegmentEntry::sealed(meta, f.path.clone(), info))
}

fn damaged_entry(meta: SegmentMeta, path: &Path, damage: Damage) -> SegmentEntry {
    let info = SealedInfo {
        record_count: damage.records.end - damage.records.start,
        durable_bytes: SEGMENT_HEADER_LEN as u32,
        segment_crc64: 0,
        ext_id: 0,
        flags: 0,
        last_timestamp_ms: u64::MAX,
        from_footer: false,
    };
    SegmentEntry::damaged(meta, path.to_owned(), info, damage)
}

pub(crate) fn missing_entry(
    next: &Found,
    stream_id: StreamId,
    segment_index: u32,
    records: std::ops::Range<u64>,
) -> SegmentEntry {
    let meta = SegmentMeta {
        segment_id: SegmentId::from_u64(u64::from(segment_index)),
        first_offset: records.start,
        ..next.meta(stream_id, records.start)
    };
    let dir = next.path.parent().unwrap_or(&next.path);
    let is_object = next.path.extension().is_some_and(|extension| extension == "zst");
    let (ending, what) = if is_object { ("-*.zst", "object") } else { ("_*.seg", "segment file") };
    let path = dir.join(format!("{segment_index:020}{ending}"));
    let reason = match next.index() - segment_index {
        1 => format!("the {what} is missing"),
        n => format!("{n} {what}s from here on are missing"),
    };
    let damage = Damage { path: path.clone(), offset: 0, records, reason };
    damaged_entry(meta, &path, damage)
}
