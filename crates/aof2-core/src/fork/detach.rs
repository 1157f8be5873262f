//! Detaching a fork: copying what it inherits into segments of its own.
//!
//! The copies have the numbers and positions of the originals, so that ids stay what they
//! are, and the fork's own id. As long as the lineage says that these segments are
//! inherited, nobody looks at them; the stream file without a lineage makes them count.
//!
//! ```text
//! segments written and synced, one by one    files that nobody looks at, replaced next time
//! directory synced, stream file replaced     the fork has all its records itself
//! holds taken away                           some are left; the sweep takes them away
//! ```

use std::path::Path;
use std::sync::Arc;

use super::dropping::{is_dropped, lock_writer, origin_dirs, release};
use super::shared::Parent;
use super::sweep::clean_dropped;
use crate::error::{AofError, Result};
use crate::format::{
    Crc64, FOOTER_PARTIAL, FOOTER_SEALED, Hold, HolderKind, RecordMeta, SEGMENT_HEADER_LEN,
    SegmentFooter, SegmentFormat, StreamIdentity,
};
use crate::io::{Clock, File, Storage};
use crate::read::{Cursor, Segments, Start, Visibility};
use crate::segment::{Segment, SegmentMeta};
use crate::store::{Layout, create_anew, remove_other_lineages, temporary_of};

const BUFFER_LEN: usize = 1 << 20;

/// Copies what the fork inherits. Returns how many records that were.
pub(super) fn detach(fork: &Parent<'_>, root: &Path, clock: &dyn Clock) -> Result<u64> {
    let (storage, dir) = (fork.storage, fork.dir);
    let _writer = lock_writer(storage, dir)?;
    let inherited = fork.source.inherited().filter(|inherited| !inherited.is_empty());
    // One that inherits nothing has a lineage, too: it says with which offset it begins.
    let Some(inherited) = inherited else { return Ok(0) };
    let lineage = inherited.lineage().clone();
    let layout = Layout::new(dir);
    let origins = origin_dirs(storage, dir, Some(&lineage))?;
    let copied = copy_all(fork, &layout, lineage.start.offset, clock.now_ns())?;
    let segments = layout.segments_dir();
    storage.sync_dir(&segments).map_err(AofError::io("sync directory", &segments))?;
    let identity = StreamIdentity { lineage: None, ..fork.identity.clone() };
    layout.store_identity(storage, &identity)?;
    remove_other_lineages(storage, &layout, None)?;
    let hold = Hold::file_name_of(HolderKind::Fork, identity.stream_id, "");
    release(storage, &origins, &[hold])?;
    for origin in origins.iter().filter(|origin| is_dropped(root, origin)) {
        clean_dropped(storage, origin, clock.now_ns() / 1_000_000)?;
    }
    Ok(copied)
}

fn copy_all(fork: &Parent<'_>, layout: &Layout, until: u64, now_ns: u64) -> Result<u64> {
    let source = fork.source;
    let earliest = Segments::of(&**source).earliest();
    if earliest >= until {
        return Ok(0);
    }
    let start = Start::Offset(earliest);
    let mut cursor = Cursor::new(Arc::clone(source), Visibility::Durable, true, start)?;
    let mut writing: Option<Copy<'_>> = None;
    let mut count = 0;
    while cursor.offset() < until {
        let Some((segment, place)) = cursor.next_place()? else { break };
        if place.offset >= until {
            break;
        }
        let id = segment.meta().segment_id;
        if writing.as_ref().is_some_and(|copy| copy.meta.segment_id != id)
            && let Some(copy) = writing.take()
        {
            copy.finish(segment.meta().first_offset, now_ns)?;
        }
        let copy = match &mut writing {
            Some(copy) => copy,
            none => none.insert(Copy::begin(fork, layout, &segment, place.timestamp_ms)?),
        };
        let head = segment.codec().header_len() as u32;
        let payload =
            segment.bytes(place.position + head, place.position + head + place.payload_len);
        let meta = RecordMeta {
            logical_offset: place.offset,
            timestamp_ms: place.timestamp_ms,
            flags: place.flags,
            durable_lag: 0,
        };
        copy.put(place.position, &meta, payload.unwrap_or_default())?;
        count += 1;
    }
    if let Some(copy) = writing {
        copy.finish(until, now_ns)?;
    }
    Ok(count)
}

/// A segment in the making.
struct Copy<'a> {
    storage: &'a dyn Storage,
    layout: &'a Layout,
    meta: SegmentMeta,
    file: Arc<dyn File>,
    crc: Crc64,
    buffer: Vec<u8>,
    /// Position behind the last record.
    at: u32,
    last_position: u32,
    last_timestamp_ms: u64,
    next_offset: u64,
    has_gaps: bool,
}

impl<'a> Copy<'a> {
    fn begin(
        fork: &Parent<'a>,
        layout: &'a Layout,
        of: &Segment,
        first_timestamp_ms: u64,
    ) -> Result<Self> {
        let meta = SegmentMeta { stream_id: fork.identity.stream_id, ..*of.meta() };
        let temporary = temporary_of(&layout.segment_path(&meta.file_name()));
        let file = create_anew(fork.storage, &temporary)?;
        let mut copy = Self {
            storage: fork.storage,
            layout,
            file,
            crc: Crc64::new(),
            buffer: Vec::with_capacity(BUFFER_LEN),
            at: SEGMENT_HEADER_LEN as u32,
            last_position: 0,
            last_timestamp_ms: 0,
            next_offset: meta.first_offset,
            has_gaps: false,
            meta,
        };
        copy.buffer.extend_from_slice(&meta.header(first_timestamp_ms).encode());
        Ok(copy)
    }

    /// Adds a record where it was. What was lost before it is a gap here, too.
    fn put(&mut self, position: u32, record: &RecordMeta, payload: &[u8]) -> Result<()> {
        if position > self.at {
            self.put_gap(record.logical_offset, position)?;
        }
        let codec = self.meta.codec();
        let header = codec.encode_header(record, payload);
        self.buffer.extend_from_slice(header.as_bytes());
        self.buffer.extend_from_slice(payload);
        let end = self.at + codec.record_len(payload.len()) as u32;
        let padding = (end - self.at) as usize - header.as_bytes().len() - payload.len();
        self.buffer.resize(self.buffer.len() + padding, 0);
        self.last_position = self.at;
        self.last_timestamp_ms = self.last_timestamp_ms.max(record.timestamp_ms);
        self.at = end;
        self.next_offset = record.logical_offset + 1;
        match self.buffer.len() >= BUFFER_LEN {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn put_gap(&mut self, next_offset: u64, until: u32) -> Result<()> {
        let lost = next_offset - self.next_offset;
        let len = (until - self.at) as usize;
        let gap = self.meta.codec().encode_gap(self.next_offset, lost, len);
        let gap = gap.ok_or_else(|| AofError::InvalidConfig {
            field: "log",
            reason: format!(
                "segment {} has a gap of {len} bytes that cannot be copied; repair the log that \
                 it belongs to first",
                self.meta.segment_id
            ),
        })?;
        self.buffer.extend_from_slice(&gap);
        self.last_position = self.at;
        self.at = until;
        self.next_offset = next_offset;
        self.has_gaps = true;
        self.write_out()
    }

    fn write_out(&mut self) -> Result<()> {
        let written = u64::from(self.at) - self.buffer.len() as u64;
        let path = self.layout.segments_dir();
        self.file.write_all_at(&self.buffer, written).map_err(AofError::io("write", &path))?;
        self.crc.update(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// Writes the footer, syncs the file and names it. What is missing up to `until` was
    /// lost.
    fn finish(mut self, until: u64, now_ns: u64) -> Result<()> {
        if until > self.next_offset {
            let codec = self.meta.codec();
            let len = codec.record_len(8) as u32;
            self.put_gap(until, self.at + len)?;
        }
        self.write_out()?;
        let is_compact = self.meta.format == SegmentFormat::Compact;
        let partial = if self.has_gaps { FOOTER_PARTIAL } else { 0 };
        let footer = SegmentFooter {
            format: self.meta.format,
            record_count: until - self.meta.first_offset,
            durable_bytes: u64::from(self.at),
            segment_crc64: self.crc.finish(),
            ext_id: 0,
            flags: FOOTER_SEALED | partial,
            last_timestamp_ms: self.last_timestamp_ms,
            segment_id: is_compact.then_some(self.meta.segment_id),
            last_record_id: is_compact.then(|| self.meta.record_id(self.last_position)),
            sealed_at_ns: Some(now_ns),
        };
        let path = self.layout.segment_path(&self.meta.file_name());
        let slot = u64::from(self.meta.space_end());
        self.file
            .write_all_at(&footer.encode(), slot)
            .map_err(AofError::io("write segment", &path))?;
        self.file.sync().map_err(AofError::io("sync segment", &path))?;
        let temporary = temporary_of(&path);
        self.storage.rename(&temporary, &path).map_err(AofError::io("name segment", &path))
    }
}
