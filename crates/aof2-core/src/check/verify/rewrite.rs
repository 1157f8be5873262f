//! Files that repair writes: copies for the quarantine, rebuilt segments, and
//! segments that stand for missing ones.
//!
//! Nothing is changed in place. Every file is complete and durable under a temporary
//! name before it gets its own, so a crash leaves the old file or the new one, and a
//! temporary that the next writer removes.

use std::ops::Range;
use std::path::PathBuf;

use super::compressed::Compressed;
use super::ends::{Ends, map_file};
use super::facts::Facts;
use super::walk::{Region, gap_len_min};
use crate::error::{AofError, Result};
use crate::format::{
    Crc64, FOOTER_PARTIAL, FOOTER_SEALED, RecordCodec, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN,
    SegmentFooter, SegmentFormat, SegmentHeader, StreamId,
};
use crate::io::{File, SharedMap, Storage};
use crate::segment::SegmentMeta;
use crate::store::{Layout, create_anew, temporary_of};

const COPY_LEN: usize = 1 << 20;
/// Longer gaps are written as several, so that memory stays bounded. The first one
/// counts what was lost, the others stand for nothing.
const GAP_LEN_MAX: u32 = 4 << 20;

/// The bytes that a segment is rebuilt from.
enum Original<'a> {
    File(Option<SharedMap>),
    Compressed(&'a Compressed),
}

impl<'a> Original<'a> {
    fn open(storage: &dyn Storage, ends: &'a Ends) -> Result<Self> {
        Ok(match ends.compressed() {
            Some(compressed) => Self::Compressed(compressed),
            None => Self::File(map_file(storage, &ends.path, ends.file_len)?),
        })
    }

    fn mapped(map: &Option<SharedMap>) -> &[u8] {
        map.as_ref().and_then(|m| m.bytes(0, m.len())).unwrap_or_default()
    }

    /// Gives bytes of the segment to `sink`, in pieces.
    fn copy(&self, range: Range<u32>, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Self::File(map) => {
                let range = range.start as usize..range.end as usize;
                sink(Self::mapped(map).get(range).unwrap_or_default())
            }
            Self::Compressed(compressed) => compressed.copy(range, sink),
        }
    }
}

/// A segment file in the making: header, records and gaps in order, then the footer.
pub(super) struct Rewrite<'a> {
    storage: &'a dyn Storage,
    meta: SegmentMeta,
    codec: RecordCodec,
    temporary: PathBuf,
    path: PathBuf,
    file: std::sync::Arc<dyn File>,
    at: u32,
    crc: Crc64,
    last_position: u32,
    next_offset: u64,
}

impl<'a> Rewrite<'a> {
    pub(super) fn start(
        storage: &'a dyn Storage,
        layout: &Layout,
        meta: SegmentMeta,
        base_timestamp_ms: u64,
    ) -> Result<Self> {
        let path = layout.segment_path(&meta.file_name());
        let temporary = temporary_of(&path);
        let file = create_anew(storage, &temporary)?;
        let mut rewrite = Self {
            storage,
            codec: meta.codec(),
            temporary,
            path,
            file,
            at: 0,
            crc: Crc64::new(),
            last_position: 0,
            next_offset: meta.first_offset,
            meta,
        };
        rewrite.put(&meta.header(base_timestamp_ms).encode())?;
        Ok(rewrite)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(COPY_LEN) {
            self.crc.update(chunk);
            self.file
                .write_all_at(chunk, u64::from(self.at))
                .map_err(AofError::io("write segment", &self.temporary))?;
            self.at += chunk.len() as u32;
        }
        Ok(())
    }

    /// Records `[self.at, end)` of the original, unchanged.
    fn copy_until(&mut self, original: &Original<'_>, end: u32) -> Result<()> {
        original.copy(self.at..end, &mut |bytes| self.put(bytes))
    }

    /// A gap up to `end`, or the shortest there is if `end` is nearer.
    fn put_gap(&mut self, lost_count: u64, end: u32) -> Result<()> {
        let gap_min = gap_len_min(&self.codec);
        let end = end.max(self.at + gap_min).min(self.meta.space_end());
        let mut lost_count = lost_count;
        while self.at < end {
            let left = end - self.at;
            let too_short_a_rest = (1..gap_min).contains(&left.saturating_sub(GAP_LEN_MAX));
            let len = match left {
                _ if left <= GAP_LEN_MAX => left,
                _ if too_short_a_rest => GAP_LEN_MAX - gap_min,
                _ => GAP_LEN_MAX,
            };
            let gap = self.codec.encode_gap(self.next_offset, lost_count, len as usize);
            let Some(gap) = gap else { return Ok(()) };
            self.last_position = self.at;
            self.next_offset += lost_count;
            lost_count = 0;
            self.put(&gap)?;
        }
        Ok(())
    }

    /// A record with zeros for padding.
    fn put_padded(&mut self, original: &Original<'_>, region: &Region) -> Result<()> {
        let mut record = Vec::new();
        original.copy(region.bytes.clone(), &mut |bytes| {
            record.extend_from_slice(bytes);
            Ok(())
        })?;
        if let Ok(Some(head)) = self.codec.peek(&record) {
            let used = self.codec.header_len() + head.payload_len as usize;
            record.iter_mut().skip(used).for_each(|byte| *byte = 0);
        }
        self.last_position = self.at;
        self.put(&record)
    }

    /// Writes the footer, syncs and puts the file in its place.
    fn finish(self, mut footer: SegmentFooter) -> Result<PathBuf> {
        let compact = self.meta.format == SegmentFormat::Compact;
        footer.durable_bytes = u64::from(self.at);
        footer.segment_crc64 = self.crc.finish();
        footer.segment_id = compact.then_some(self.meta.segment_id);
        footer.last_record_id = compact.then(|| self.meta.record_id(self.last_position));
        let write = AofError::io("write segment", &self.temporary);
        self.file
            .write_all_at(&footer.encode(), u64::from(self.meta.space_end()))
            .map_err(write)?;
        self.file.sync().map_err(AofError::io("sync segment", &self.temporary))?;
        self.storage
            .rename(&self.temporary, &self.path)
            .map_err(AofError::io("name segment", &self.path))?;
        let dir = self.path.parent().unwrap_or(&self.path);
        self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))?;
        Ok(self.path)
    }
}

/// Writes a segment anew: intact records where they are, a gap over each damaged
/// region, header and footer that fit.
pub(super) fn rebuild(
    storage: &dyn Storage,
    layout: &Layout,
    facts: &Facts,
    meta: SegmentMeta,
    now_ns: u64,
) -> Result<PathBuf> {
    let (ends, walk) = (&facts.ends, &facts.walk);
    let original = &Original::open(storage, ends)?;
    let mut rewrite = Rewrite::start(storage, layout, meta, base_timestamp_ms(facts))?;
    for region in &walk.regions {
        rewrite.copy_until(original, region.bytes.start)?;
        rewrite.next_offset = region.records.start;
        match region.is_padding {
            true => rewrite.put_padded(original, region)?,
            false => {
                rewrite.put_gap(region.records.end - region.records.start, region.bytes.end)?
            }
        }
    }
    rewrite.copy_until(original, walk.end)?;
    rewrite.last_position = rewrite.last_position.max(walk.last_position);
    let known = ends.sealed().copied().or_else(|| mend_footer(facts, original));
    let is_whole = known.is_some() && walk.regions.iter().all(|r| r.is_padding);
    let partial = if is_whole { 0 } else { FOOTER_PARTIAL };
    let count = walk.end_offset - walk.first_offset;
    rewrite.finish(SegmentFooter {
        format: meta.format,
        record_count: count,
        durable_bytes: 0,
        segment_crc64: 0,
        ext_id: known.map_or(0, |f| f.ext_id),
        flags: known.map_or(0, |f| f.flags) | FOOTER_SEALED | partial,
        last_timestamp_ms: walk.last_timestamp_ms.unwrap_or(0),
        segment_id: None,
        last_record_id: None,
        sealed_at_ns: known.and_then(|f| f.sealed_at_ns).or(Some(now_ns)),
    })
}

/// A sealed segment that holds one gap.
pub(super) fn substitute(
    storage: &dyn Storage,
    layout: &Layout,
    meta: SegmentMeta,
    lost_count: u64,
    now_ns: u64,
) -> Result<PathBuf> {
    let mut rewrite = Rewrite::start(storage, layout, meta, 0)?;
    rewrite.put_gap(lost_count, 0)?;
    rewrite.finish(SegmentFooter {
        format: meta.format,
        record_count: lost_count,
        durable_bytes: 0,
        segment_crc64: 0,
        ext_id: 0,
        flags: FOOTER_SEALED | FOOTER_PARTIAL,
        last_timestamp_ms: 0,
        segment_id: None,
        last_record_id: None,
        sealed_at_ns: Some(now_ns),
    })
}

/// Bytes of a segment that [`substitute`] makes, up to its end.
pub(super) fn substitute_len(format: SegmentFormat, stream_id: StreamId) -> u32 {
    let codec = RecordCodec::new(format, stream_id, crate::format::SegmentId::from_u64(0));
    SEGMENT_HEADER_LEN as u32 + gap_len_min(&codec)
}

/// What the header says, or the first record if that is intact.
fn base_timestamp_ms(facts: &Facts) -> u64 {
    let in_header = facts.ends.valid_header().and_then(|h: &SegmentHeader| h.base_timestamp_ms);
    let walk = &facts.walk;
    let first = walk.first_offset;
    let starts_intact =
        walk.regions.first().is_none_or(|r| r.records.start > first || r.is_padding)
            && walk.gaps.first().is_none_or(|gap| gap.start > first);
    in_header.unwrap_or(walk.first_timestamp_ms.filter(|_| starts_intact).unwrap_or(0))
}

/// The footer as it was before one of its bits flipped: only that bit makes its
/// checksum fit. Saves what only a footer knows.
fn mend_footer(facts: &Facts, original: &Original<'_>) -> Option<SegmentFooter> {
    let Original::File(map) = original else { return None };
    let original = Original::mapped(map);
    let slot = facts.ends.slot() as usize;
    let mut block: [u8; SEGMENT_FOOTER_LEN] =
        original.get(slot..slot + SEGMENT_FOOTER_LEN)?.try_into().ok()?;
    for at in 0..block.len() {
        for bit in 0..8 {
            block[at] ^= 1 << bit;
            if let Ok(Some(footer)) = SegmentFooter::decode(facts.ends.format, &block) {
                return Some(footer);
            }
            block[at] ^= 1 << bit;
        }
    }
    None
}
