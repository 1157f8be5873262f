//! From what was found to entries of the segment table: which logical offsets each segment
//! has, and what stands for one that is damaged or missing.

use std::path::Path;

use super::copy::Copies;
use super::entry::SegmentEntry;
use super::found::Found;
use super::info::SealedInfo;
use crate::error::AofError;
use crate::error::{Damage, Result};
use crate::format::{RECORD_ALIGN, SEGMENT_HEADER_LEN, SegmentFormat, SegmentId, StreamId};
use crate::io::Storage;
use crate::segment::{Segment, SegmentMeta, resync};

/// Makes entries of the oldest `sealed_count` segments, which must have a footer by now.
/// `after` names the segment before them and the logical offset behind it, if there is one.
/// Returns the offset behind them, too.
pub(crate) fn sealed_entries(
    storage: &dyn Storage,
    stream_id: StreamId,
    found: &[Found],
    sealed_count: usize,
    after: Option<(u32, u64)>,
) -> Result<(Vec<SegmentEntry>, u64)> {
    let mut entries: Vec<SegmentEntry> = Vec::with_capacity(found.len());
    let mut next_offset = match after {
        Some((_, offset)) => offset,
        None => start_offset(storage, stream_id, found)?,
    };
    let mut previous = after.map(|(index, _)| index);
    for (i, f) in found.iter().take(sealed_count).enumerate() {
        if let Some(missing) = previous.map(|p| p + 1).filter(|&id| id < f.index()) {
            let until = f.claimed_first_offset().unwrap_or(next_offset).max(next_offset);
            entries.push(missing_entry(f, stream_id, missing, next_offset..until));
            next_offset = until;
        }
        previous = Some(f.index());
        let following = found.get(i + 1).and_then(Found::claimed_first_offset);
        let entry = sealed_entry(storage, stream_id, f, next_offset, following)?;
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
    let fitting = (at - SEGMENT_HEADER_LEN) / segment.codec().record_len(RECORD_ALIGN);
    let fits = claimed < valid && valid - claimed <= fitting as u64;
    Ok(if fits { claimed } else { valid.saturating_sub(1) })
}

fn sealed_entry(
    storage: &dyn Storage,
    stream_id: StreamId,
    f: &Found,
    first_offset: u64,
    following: Option<u64>,
) -> Result<SegmentEntry> {
    let meta = f.meta(stream_id, first_offset);
    if let Some(info) = f.sealed().filter(|_| f.has_segment_size()) {
        return Ok(SegmentEntry::sealed(meta, f.path.clone(), info, f.copies.clone()));
    }
    if !f.copies.is_hot {
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
    Ok(SegmentEntry::sealed(meta, f.path.clone(), info, Copies::hot()))
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
