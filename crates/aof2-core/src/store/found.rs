//! One segment as opening finds it: two small reads of its file, or the index of a
//! compressed copy. Footers are trusted here; only a segment that should have one and does
//! not is scanned, by whoever makes an entry of it.

use std::path::PathBuf;

use super::copy::Copies;
use super::info::SealedInfo;
use crate::error::{AofError, Damage, Result};
use crate::format::{
    FormatError, RecordCodec, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_FOOTER_LEN,
    SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat, SegmentHeader, SegmentId,
    StreamId,
};
use crate::io::{File, OpenMode, Storage};
use crate::segment::{Segment, SegmentMeta, TailScan};

/// A segment as found: what its file says at its two ends or, where only other tiers hold
/// it, what the index of its artifact says.
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
    /// Its copies. Where there is no segment file, `path` is where it would be.
    pub(crate) copies: Copies,
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
            copies: Copies::hot(),
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

    /// A segment that only other tiers hold. `path_of` says where its file would be.
    pub(crate) fn of_compressed(
        path_of: impl FnOnce(&SegmentFileName) -> PathBuf,
        copies: Copies,
    ) -> Option<Self> {
        let artifact = copies.compressed()?;
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
            copies,
        })
    }

    /// A segment whose only copy is damaged beyond recognition.
    pub(crate) fn of_damaged(segment_id: SegmentId, path: PathBuf, error: &AofError) -> Self {
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
            copies: Copies::default(),
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
            && self.copies.is_hot
    }

    /// Whether it may be one of the newest two, which need not have a footer yet.
    pub(crate) fn is_unsealed(&self) -> bool {
        self.sealed().is_none() && self.copies.is_hot
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
        if self.format == SegmentFormat::Compact || !self.copies.is_hot {
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
    pub(super) fn check_belongs(
        &self,
        storage: &dyn Storage,
        stream_id: Option<StreamId>,
    ) -> Result<()> {
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
