//! Walking records across chunks, between two positions, and on as the log grows.

use super::damage::Spot;
use super::layout::ManifestListing;
use super::position::ManifestPosition;
use super::reader::{Chunk, ManifestReader, PlacedRecord};
use crate::error::{AofError, Result};
use crate::format::manifest::CHUNK_HEADER_LEN;

/// How often a directory that changes is looked at again.
const LOOKS: usize = 64;

/// A walk over records, one chunk in memory at a time.
///
/// At the end of what is committed [`ManifestCursor::next_record`] gives `None`; asking
/// again later gives what was committed since.
#[derive(Debug)]
pub struct ManifestCursor {
    reader: ManifestReader,
    /// Where the next record is expected.
    next: ManifestPosition,
    /// Its ordinal, once a chunk told.
    ordinal: Option<u64>,
    end: Option<ManifestPosition>,
    chunk: Option<Chunk>,
    has_failed: bool,
}

impl ManifestCursor {
    pub(super) fn new(
        reader: ManifestReader,
        start: ManifestPosition,
        end: Option<ManifestPosition>,
    ) -> Self {
        Self { reader, next: start, ordinal: None, end, chunk: None, has_failed: false }
    }

    /// Where the next record stands or will stand.
    pub fn position(&self) -> ManifestPosition {
        self.next
    }

    /// Ordinal of the next record, once a chunk was read.
    pub fn next_ordinal(&self) -> Option<u64> {
        self.ordinal
    }

    /// The next record. `None` at the end: of the walk if it has one, otherwise of what
    /// is committed so far. `Trimmed` says that retention has removed the chunk. After an
    /// error it gives nothing more.
    pub fn next_record(&mut self) -> Result<Option<PlacedRecord<'_>>> {
        if self.has_failed || self.is_at_end() {
            return Ok(None);
        }
        match self.advance() {
            // It may have gone on to another chunk.
            Ok(true) if !self.is_at_end() => {}
            Ok(_) => return Ok(None),
            Err(error) => {
                self.has_failed = true;
                return Err(error);
            }
        }
        let (Some(chunk), Some(ordinal)) = (&self.chunk, self.ordinal) else { return Ok(None) };
        match chunk.record_at(self.next.chunk_offset as usize, ordinal) {
            Ok(Some(placed)) => {
                self.next.chunk_offset = placed.end_offset;
                self.ordinal = Some(ordinal + 1);
                Ok(Some(placed))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.has_failed = true;
                Err(error)
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Brings the chunk with the next record into memory; `false` if there is none yet.
    fn advance(&mut self) -> Result<bool> {
        loop {
            if !self.load()? {
                return Ok(false);
            }
            let Some(chunk) = &self.chunk else { return Ok(false) };
            if self.next.chunk_offset < chunk.bytes().len() as u64 {
                return Ok(true);
            }
            if !chunk.is_sealed() && !self.refresh()? {
                return Ok(false);
            }
            let Some(chunk) = &self.chunk else { return Ok(false) };
            if self.next.chunk_offset < chunk.bytes().len() as u64 {
                return Ok(true);
            }
            if !chunk.is_sealed() || !self.step()? {
                return Ok(false);
            }
        }
    }

    /// Reads the chunk that the next record is in, unless it is there already.
    fn load(&mut self) -> Result<bool> {
        let wanted = self.next.chunk_index;
        if self.chunk.as_ref().is_some_and(|chunk| chunk.index() == wanted) {
            return Ok(true);
        }
        let buffer = self.chunk.take().map_or_else(Vec::new, Chunk::into_buffer);
        let listing = self.reader.list()?;
        if !self.is_there(&listing, wanted)? {
            return Ok(false);
        }
        let has_successor = listing.chunks.last().is_some_and(|&newest| newest > wanted);
        let (storage, layout) = (&**self.reader.storage(), self.reader.layout());
        match Chunk::load(storage, layout, wanted, has_successor, buffer) {
            // Retention took it away after it was listed: the next call tells.
            Err(error) if error.is_not_found() => Ok(false),
            loaded => self.enter(loaded?).map(|()| true),
        }
    }

    /// Whether a chunk is there; `false` if it has yet to come.
    fn is_there(&self, listing: &ManifestListing, wanted: u64) -> Result<bool> {
        if listing.chunks.binary_search(&wanted).is_ok() {
            return Ok(true);
        }
        match listing.chunks.iter().find(|&&index| index > wanted) {
            None => Ok(false),
            Some(&oldest) if listing.chunks.first() == Some(&oldest) => {
                Err(self.trimmed(wanted, oldest))
            }
            Some(&newer) => Err(self.missing(wanted, newer)),
        }
    }

    /// Checks that the chunk goes on where the last one ended, and that the walk starts
    /// at a record.
    fn enter(&mut self, chunk: Chunk) -> Result<()> {
        if let Some(ordinal) = self.ordinal
            && self.next.chunk_offset == CHUNK_HEADER_LEN as u64
            && chunk.header().base_record != ordinal
        {
            let spot = Spot {
                path: chunk.path(),
                chunk_index: chunk.index(),
                segment_id: None,
                offset: 24,
                records: ordinal..u64::MAX,
            };
            let base = chunk.header().base_record;
            return Err(spot.corrupt(format!("it starts with record {base}, not {ordinal}")));
        }
        if self.ordinal.is_none() {
            self.ordinal = Some(ordinal_at(&chunk, self.next.chunk_offset)?);
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    /// Looks at an unsealed chunk again; whether anything about it changed.
    fn refresh(&mut self) -> Result<bool> {
        let storage = std::sync::Arc::clone(self.reader.storage());
        let Some(chunk) = &mut self.chunk else { return Ok(false) };
        let before = *chunk.header();
        let extended = chunk.extend(&*storage);
        if extended.as_ref().is_err_and(AofError::is_not_found) {
            // Sealed and removed meanwhile: the next call tells.
            self.chunk = None;
            return Ok(false);
        }
        if extended? {
            return Ok(*chunk.header() != before);
        }
        // Another writer replaced the file, or the header was caught in between: start
        // over with this chunk, at the same record.
        let (index, buffer) = (chunk.index(), std::mem::take(&mut self.chunk));
        let buffer = buffer.map_or_else(Vec::new, Chunk::into_buffer);
        let layout = self.reader.layout();
        let fresh = Chunk::load(&*storage, layout, index, false, buffer)?;
        if (fresh.bytes().len() as u64) < self.next.chunk_offset {
            // The commit that this walk has seen was cut off by a crash before its
            // header was safe.
            let offset = self.ordinal.unwrap_or(0);
            let end = ordinal_at(&fresh, fresh.bytes().len() as u64)?;
            return Err(AofError::PastEnd { offset, end, is_appended: false });
        }
        let changed = *fresh.header() != before;
        self.chunk = Some(fresh);
        Ok(changed)
    }

    /// Moves to the next chunk if it exists by now.
    fn step(&mut self) -> Result<bool> {
        let following = self.next.chunk_index + 1;
        if !self.is_there(&self.reader.list()?, following)? {
            return Ok(false);
        }
        self.next = ManifestPosition::start_of(following);
        Ok(true)
    }

    /// Only younger chunks are left: retention has removed this one.
    fn trimmed(&self, wanted: u64, mut oldest: u64) -> AofError {
        // More may go while the oldest one that is left is looked at.
        for _ in 0..LOOKS {
            match self.reader.chunk(oldest) {
                Ok(chunk) => return AofError::Trimmed { earliest: chunk.header().base_record },
                Err(error) if error.is_not_found() => {}
                Err(error) => return error,
            }
            match self.reader.list().map(|listing| listing.chunks.first().copied()) {
                Ok(Some(first)) => oldest = first,
                Ok(None) => break,
                Err(error) => return error,
            }
        }
        self.missing(wanted, oldest)
    }

    fn missing(&self, chunk_index: u64, newer: u64) -> AofError {
        let path = self.reader.layout().chunk_path(chunk_index);
        let first = self.ordinal.unwrap_or(0);
        Spot { path: &path, chunk_index, segment_id: None, offset: 0, records: first..u64::MAX }
            .corrupt(format!("it is missing although chunk {newer} is there"))
    }
}

/// Ordinal of the record that starts at this byte, or will.
fn ordinal_at(chunk: &Chunk, offset: u64) -> Result<u64> {
    let mut ordinal = chunk.header().base_record;
    let mut at = CHUNK_HEADER_LEN as u64;
    for placed in chunk.records() {
        if at >= offset {
            break;
        }
        at = placed?.end_offset;
        ordinal += 1;
    }
    if at == offset {
        return Ok(ordinal);
    }
    let position = ManifestPosition { chunk_index: chunk.index(), chunk_offset: offset };
    Err(AofError::InvalidRecord { reason: format!("no manifest record starts at {position}") })
}
