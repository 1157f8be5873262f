//! What one copy of a segment says about itself at its two ends, without judging.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compressed::{Compressed, segment_bytes_for};
use super::walk::Hints;
use crate::error::{AofError, Result};
use crate::format::{
    ArtifactIndex, FormatError, RecordCodec, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat,
    SegmentHeader, StreamId, WarmFileName,
};
use crate::io::{File, OpenMode, SharedMap, Storage};
use crate::segment::SegmentMeta;
use crate::store::{Residency, kept_index};

const FOOTER_LEN: u64 = SEGMENT_FOOTER_LEN as u64;
const HEADER_LEN: u64 = SEGMENT_HEADER_LEN as u64;

/// Where a segment's bytes are.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// In a segment file.
    File,
    /// Compressed in `warm/`.
    Warm(Arc<Compressed>),
    /// In the object store, which is not asked; the kept index, or why it is none.
    Cold(Result<Arc<ArtifactIndex>, FormatError>),
}

/// What a segment says about itself at its two ends.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// What the file is called; of a compressed one, what its name says.
    pub(super) given: SegmentFileName,
    /// What it should be called, as far as its header or index tells.
    pub(super) name: SegmentFileName,
    pub(super) path: PathBuf,
    pub(super) body: Body,
    /// Length of the segment file; of a compressed one, of the file that it was.
    pub(super) file_len: u64,
    /// The length that the file has or had before somebody cut it.
    pub(super) segment_bytes: u32,
    pub(super) format: SegmentFormat,
    pub(super) header: Result<Option<SegmentHeader>, FormatError>,
    pub(super) footer: Result<Option<SegmentFooter>, FormatError>,
}

/// Whether a file may be this long.
pub(super) fn is_segment_len(len: u64) -> bool {
    len.is_power_of_two() && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&len)
}

impl Ends {
    pub(super) fn load(
        storage: &dyn Storage,
        given: SegmentFileName,
        path: &Path,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let file =
            storage.open(path, OpenMode::Read).map_err(AofError::io("open segment", path))?;
        let file_len = file.len().map_err(AofError::io("read segment", path))?;
        let header = match block_at(&*file, path, file_len, 0)? {
            Some(block) => SegmentHeader::decode(&block),
            None => Ok(None),
        };
        let mut ends = Self {
            given,
            name: given,
            path: path.to_owned(),
            body: Body::File,
            file_len,
            segment_bytes: 0,
            format: default_format,
            header,
            footer: Ok(None),
        };
        if let Ok(Some(header)) = &ends.header {
            ends.format = header.format;
            ends.name = name_by_header(header, &given);
        }
        ends.find_footer(&*file)?;
        Ok(ends)
    }

    /// A compressed segment.
    pub(super) fn load_warm(
        storage: &dyn Storage,
        file_name: WarmFileName,
        path: &Path,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let compressed = Compressed::load(storage, path, file_name, default_format)?;
        Ok(Self::of_compressed(compressed, path.to_owned(), default_format))
    }

    /// A compressed segment, wherever its bytes are.
    pub(super) fn of_compressed(
        compressed: Compressed,
        path: PathBuf,
        default_format: SegmentFormat,
    ) -> Self {
        let segment_bytes = compressed.segment_bytes();
        let by_index = compressed.index.as_ref().map(|index| {
            let meta = index_meta(index);
            meta.header(index.summary.first_timestamp_ms)
        });
        Self {
            given: given_name(&compressed),
            name: compressed.segment_name(),
            path,
            file_len: u64::from(segment_bytes),
            segment_bytes,
            format: compressed.format(default_format),
            header: Ok(compressed.header.or(by_index)),
            footer: Ok(compressed.footer),
            body: Body::Warm(Arc::new(compressed)),
        }
    }

    /// A segment of which the end of its artifact is kept here.
    pub(super) fn load_cold(
        storage: &dyn Storage,
        file_name: WarmFileName,
        path: &Path,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let index = kept_index::load(storage, path)?;
        let meta = index.as_ref().ok().map(index_meta);
        let given = SegmentFileName {
            segment_id: file_name.segment_id,
            base_offset: file_name.base_offset,
            created_at_ns: meta.map_or(0, |meta| meta.created_at_ns),
        };
        let segment_bytes = meta.map_or(segment_bytes_for(0), |meta| meta.segment_bytes);
        let first_timestamp_ms = index.as_ref().map_or(0, |i| i.summary.first_timestamp_ms);
        Ok(Self {
            given,
            name: meta.map_or(given, |meta| meta.file_name()),
            path: path.to_owned(),
            file_len: u64::from(segment_bytes),
            segment_bytes,
            format: meta.map_or(default_format, |meta| meta.format),
            header: Ok(meta.map(|meta| meta.header(first_timestamp_ms))),
            footer: Ok(index.as_ref().ok().map(|index| index.summary.footer())),
            body: Body::Cold(index.map(Arc::new)),
        })
    }

    pub(super) fn residency(&self) -> Residency {
        match &self.body {
            Body::File => Residency::Hot,
            Body::Warm(_) => Residency::Warm,
            Body::Cold(_) => Residency::Cold,
        }
    }

    pub(super) fn compressed(&self) -> Option<&Compressed> {
        match &self.body {
            Body::Warm(compressed) => Some(compressed),
            _ => None,
        }
    }

    /// Its place among the copies of one segment: readers take the first.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let sealed_at_ns = self.compressed().map_or(0, |c| c.file_name.sealed_at_ns);
        (self.residency(), Reverse(sealed_at_ns))
    }

    /// The stream it belongs to by what it says.
    pub(super) fn stream_id(&self) -> Option<StreamId> {
        let index = match &self.body {
            Body::File => None,
            Body::Warm(compressed) => compressed.index.as_ref(),
            Body::Cold(index) => index.as_ref().ok().map(|index| &**index),
        };
        let by_index = index.map(|index| index.summary.stream_id);
        by_index.or_else(|| self.valid_header()?.stream_id)
    }

    /// Loads it again.
    pub(super) fn reload(&self, storage: &dyn Storage, format: SegmentFormat) -> Result<Self> {
        match &self.body {
            Body::File => Self::load(storage, self.given, &self.path, format),
            Body::Warm(compressed) => {
                Self::load_warm(storage, compressed.file_name, &self.path, format)
            }
            // Its name is all that is looked at, and that has not changed.
            Body::Cold(_) => Ok(self.clone()),
        }
    }

    /// A file of the right length ends in its footer. One that was cut or has grown
    /// had its footer where its length was a power of two.
    fn find_footer(&mut self, file: &dyn File) -> Result<()> {
        let in_header = self.header.as_ref().ok().and_then(|h| h.as_ref()?.max_size).map(u64::from);
        let own = is_segment_len(self.file_len).then_some(self.file_len);
        let halves = (SEGMENT_BYTES_MIN.ilog2()..=SEGMENT_BYTES_MAX.ilog2()).map(|bits| 1 << bits);
        let mut lens: Vec<u64> = own.into_iter().chain(in_header).collect();
        if own.is_none() {
            lens.extend(halves.filter(|&len| len <= self.file_len));
        }
        let default = in_header.filter(|&len| is_segment_len(len)).or(own);
        let default = default.unwrap_or_else(|| {
            self.file_len.next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
        });
        self.segment_bytes = default as u32;
        for len in lens.into_iter().filter(|&len| is_segment_len(len)) {
            let at = len - FOOTER_LEN;
            let Some(block) = block_at(file, &self.path, self.file_len, at)? else { continue };
            let footer = SegmentFooter::decode(self.format, &block);
            let fits = |f: &SegmentFooter| f.durable_bytes <= at;
            if matches!(&footer, Ok(Some(f)) if fits(f)) {
                self.segment_bytes = len as u32;
                self.footer = footer;
                return Ok(());
            }
            if Some(len) == own {
                self.footer = match footer {
                    Ok(Some(_)) => Err(FormatError::BadField {
                        field: "durable_bytes",
                        reason: "longer than the file",
                    }),
                    other => other,
                };
            }
        }
        Ok(())
    }

    pub(super) fn index(&self) -> u32 {
        self.name.segment_id.as_u32()
    }

    pub(super) fn sealed(&self) -> Option<&SegmentFooter> {
        self.footer.as_ref().ok()?.as_ref()
    }

    pub(super) fn valid_header(&self) -> Option<&SegmentHeader> {
        self.header.as_ref().ok()?.as_ref()
    }

    /// Byte where the footer's slot begins.
    pub(super) fn slot(&self) -> u32 {
        self.segment_bytes - SEGMENT_FOOTER_LEN as u32
    }

    /// Where its records end at most.
    fn end_max(&self) -> u64 {
        match self.compressed().is_some_and(|c| c.index.is_none()) {
            true => SEGMENT_BYTES_MAX - FOOTER_LEN,
            false => u64::from(self.slot()),
        }
    }

    /// Stream bytes behind this segment, by its footer.
    pub(super) fn end_base(&self) -> Option<u64> {
        Some(self.name.base_offset + self.sealed()?.durable_bytes)
    }

    pub(super) fn codec(&self, stream_id: StreamId) -> RecordCodec {
        RecordCodec::new(self.format, stream_id, self.name.segment_id)
    }

    /// Where the segment stands; `first_offset` is for the caller to know.
    pub(super) fn meta(&self, stream_id: StreamId, first_offset: u64) -> SegmentMeta {
        SegmentMeta {
            stream_id,
            segment_id: self.name.segment_id,
            format: self.format,
            base_offset: self.name.base_offset,
            first_offset,
            created_at_ns: self.name.created_at_ns,
            segment_bytes: self.segment_bytes,
        }
    }

    /// Logical offset of the first record, if something checksummed says it.
    pub(super) fn first_offset(&self, storage: &dyn Storage, stream_id: StreamId) -> Option<u64> {
        match &self.body {
            Body::File => {}
            Body::Warm(compressed) => return compressed.first_offset(&self.codec(stream_id)),
            Body::Cold(index) => return index.as_ref().ok().map(|i| i.summary.first_offset),
        }
        if self.format == SegmentFormat::Compact {
            return self.valid_header()?.base_record_count;
        }
        let map = map_file(storage, &self.path, self.file_len).ok()??;
        let space = map.bytes(SEGMENT_HEADER_LEN, (self.slot() as usize).min(map.len()))?;
        self.codec(stream_id).decode(space).ok()??.head.logical_offset
    }

    /// What the footer and the next segment say about this one's records.
    pub(super) fn hints(
        &self,
        storage: &dyn Storage,
        stream_id: StreamId,
        next: Option<&Ends>,
    ) -> Hints {
        let next = next.filter(|next| next.index() == self.index() + 1);
        let by_footer = self.sealed().map(|f| f.durable_bytes);
        let by_next = next.and_then(|next| {
            let end = next.name.base_offset.checked_sub(self.name.base_offset)?;
            let possible = (HEADER_LEN..=self.end_max()).contains(&end);
            (possible && end.is_multiple_of(8)).then_some(end)
        });
        Hints {
            header_first: self.valid_header().and_then(|h| h.base_record_count),
            footer_count: self.sealed().map(|f| f.record_count),
            required_end: by_footer.or(by_next).map(|end| end as u32),
            next_first: next.and_then(|next| next.first_offset(storage, stream_id)),
            ..Hints::default()
        }
    }
}

/// Where a segment stands by the index of its artifact.
fn index_meta(index: &ArtifactIndex) -> SegmentMeta {
    let summary = &index.summary;
    SegmentMeta {
        stream_id: summary.stream_id,
        segment_id: summary.segment_id,
        format: summary.format,
        base_offset: summary.base_offset,
        first_offset: summary.first_offset,
        created_at_ns: summary.created_at_ns,
        segment_bytes: summary.segment_bytes,
    }
}

/// What a compressed segment's name says. It does not know when the segment was made,
/// but when it was sealed: a wrong time there makes the name a wrong one.
fn given_name(compressed: &Compressed) -> SegmentFileName {
    let own = &compressed.file_name;
    let is_sealed_then =
        compressed.index.as_ref().is_none_or(|i| i.summary.sealed_at_ns == own.sealed_at_ns);
    let created_at_ns = compressed.segment_name().created_at_ns;
    SegmentFileName {
        segment_id: own.segment_id,
        base_offset: own.base_offset,
        created_at_ns: if is_sealed_then { created_at_ns } else { own.sealed_at_ns },
    }
}

/// The name that fits the header. The header of the full format does not know the
/// base offset, and knows the time of creation to the millisecond.
fn name_by_header(header: &SegmentHeader, given: &SegmentFileName) -> SegmentFileName {
    const NS_PER_MS: u64 = 1_000_000;
    let same_ms = header.created_at_ns / NS_PER_MS == given.created_at_ns / NS_PER_MS;
    let keeps = header.format == SegmentFormat::Full && same_ms;
    SegmentFileName {
        segment_id: header.segment_id,
        base_offset: header.base_offset.unwrap_or(given.base_offset),
        created_at_ns: if keeps { given.created_at_ns } else { header.created_at_ns },
    }
}

fn block_at(
    file: &dyn File,
    path: &Path,
    file_len: u64,
    at: u64,
) -> Result<Option<[u8; SEGMENT_HEADER_LEN]>> {
    let mut block = [0; SEGMENT_HEADER_LEN];
    if file_len < at + block.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut block, at).map_err(AofError::io("read segment", path))?;
    Ok(Some(block))
}

/// The file's bytes; `None` when it has none.
pub(super) fn map_file(
    storage: &dyn Storage,
    path: &Path,
    file_len: u64,
) -> Result<Option<SharedMap>> {
    let len = file_len.min(SEGMENT_BYTES_MAX) as usize;
    if len == 0 {
        return Ok(None);
    }
    let file = storage.open(path, OpenMode::Read).map_err(AofError::io("open segment", path))?;
    let map = file.map(len, false).map_err(AofError::io("map segment", path))?;
    map.observe(len).map_err(|e| AofError::io("map segment", path)(e.into()))?;
    Ok(Some(map))
}
