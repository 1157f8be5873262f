//! Checkpoints: all tables in one file, so that the operation log need not be kept from its
//! beginning, and readers need not apply it from there.
//!
//! A checkpoint is written under a temporary name, synced, read back as a whole, renamed, and
//! its directory synced. A crash leaves a temporary file, which the next checkpoint or writer
//! removes. Which of them are kept is decided in [`kept`](super::kept).

use std::path::Path;

use super::database::{Applied, Tables};
use super::layout::{CatalogLayout, checkpoint_generation};
use super::migrate::TABLES_VERSION;
use super::state::ReadTables;
use super::tables::Table;
use super::view::View;
use crate::error::{AofError, Damage, Result};
use crate::format::{
    CHECKPOINT_BLOCK_LEN, CHECKPOINT_END_LEN, CHECKPOINT_HEADER_LEN, CheckpointBlock,
    CheckpointHeader, CheckpointRow, FormatError, StreamId,
};
use crate::io::{EntryKind, File, OpenMode, Storage};
use crate::planted::{self, CatalogBug};

/// Rows that are compressed together.
const BLOCK_RAW_LEN: usize = 1 << 20;
const LEVEL: i32 = 3;

/// Writes the checkpoint of a view and reads it back. Its length.
pub(super) fn write(storage: &dyn Storage, layout: &CatalogLayout, view: &View) -> Result<u64> {
    let applied = view.applied();
    let generation = view.generation();
    let directory = layout.checkpoints();
    make_directory(storage, layout, &directory)?;
    let temporary = layout.unfinished_checkpoint(generation);
    remove_if_there(storage, &temporary)?;
    let io = |op| AofError::io(op, &temporary);
    let file = storage.create_new(&temporary).map_err(io("create a checkpoint"))?;
    let header = CheckpointHeader {
        tables_version: TABLES_VERSION,
        stream_id: StreamId::from_u64(applied.stream_id),
        generation,
        batch_crc64: applied.batch_crc64,
    };
    let len = Writer::write_all(&*file, &temporary, &header, view)?;
    file.sync().map_err(io("sync a checkpoint"))?;
    if !planted::in_catalog(CatalogBug::CheckpointUnverified) {
        read(storage, &temporary, &mut |_, _, _| Ok(()))?;
    }
    let path = layout.checkpoint(generation);
    storage.rename(&temporary, &path).map_err(io("name a checkpoint"))?;
    storage.sync_dir(&directory).map_err(AofError::io("sync the checkpoints", &directory))?;
    Ok(len)
}

/// Makes a directory of the catalog and its name durable.
pub(super) fn make_directory(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    directory: &Path,
) -> Result<()> {
    storage.create_dir_all(directory).map_err(AofError::io("create a directory", directory))?;
    let parent = layout.directory();
    storage.sync_dir(&parent).map_err(AofError::io("sync the directory of the catalog", &parent))
}

pub(super) fn remove_if_there(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(AofError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

struct Writer<'a> {
    file: &'a dyn File,
    path: &'a Path,
    len: u64,
    crc64: u64,
    raw: Vec<u8>,
    row_count: u64,
}

impl<'a> Writer<'a> {
    fn write_all(
        file: &'a dyn File,
        path: &'a Path,
        header: &CheckpointHeader,
        view: &View,
    ) -> Result<u64> {
        let (bytes, crc64) = header.encode();
        let mut writer = Self { file, path, len: 0, crc64, raw: Vec::new(), row_count: 0 };
        writer.put(&bytes)?;
        for table in Table::ALL {
            view.walk(table, &[], &mut |key, value| {
                CheckpointRow { table: table.number(), key, value }.encode(&mut writer.raw);
                writer.row_count += 1;
                if writer.raw.len() >= BLOCK_RAW_LEN {
                    writer.flush()?;
                }
                Ok(true)
            })?;
        }
        writer.flush()?;
        let end = CheckpointBlock::end(writer.row_count, writer.crc64);
        writer.put(&end)?;
        Ok(writer.len)
    }

    fn flush(&mut self) -> Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let stored = zstd::bulk::compress(&self.raw, LEVEL)
            .map_err(AofError::io("compress a checkpoint", self.path))?;
        let block = CheckpointBlock::of(&stored, self.raw.len() as u32, self.crc64);
        self.crc64 = block.crc64;
        self.put(&block.encode())?;
        self.put(&stored)?;
        self.raw.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, self.len);
        written.map_err(AofError::io("write a checkpoint", self.path))?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Batches of which there are checkpoints, newest first.
pub(super) fn list(storage: &dyn Storage, layout: &CatalogLayout) -> Result<Vec<u64>> {
    let directory = layout.checkpoints();
    let entries = match storage.list(&directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(AofError::io("list the checkpoints", &directory)(e)),
    };
    let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
    let mut found: Vec<u64> =
        files.filter_map(|entry| checkpoint_generation(&entry.name)).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// A visitor of the rows of a checkpoint.
pub(super) type VisitRow<'v> = &'v mut dyn FnMut(Table, &[u8], &[u8]) -> Result<()>;

/// Reads a checkpoint and verifies all of it. What it includes.
pub(super) fn read(storage: &dyn Storage, path: &Path, visit: VisitRow<'_>) -> Result<Applied> {
    let file =
        storage.open(path, OpenMode::Read).map_err(AofError::io("open a checkpoint", path))?;
    let mut reader = Reader { file: &*file, path, at: 0 };
    let (applied, mut crc64) = reader.header()?;
    let mut row_count = 0;
    let mut last: Option<(u16, Vec<u8>)> = None;
    loop {
        let mut head = [0; CHECKPOINT_BLOCK_LEN];
        reader.fill(&mut head)?;
        let block = CheckpointBlock::decode(&head).map_err(|e| reader.error(e))?;
        if block.is_end() {
            reader.end(&block, crc64, row_count)?;
            break;
        }
        let raw = reader.block(&block, crc64)?;
        crc64 = block.crc64;
        let mut rest = &raw[..];
        while !rest.is_empty() {
            let (row, len) = CheckpointRow::decode(rest).map_err(|e| reader.error(e))?;
            let place = (row.table, row.key.to_vec());
            let table = Table::from_number(row.table).ok_or_else(|| reader.bad("unknown table"))?;
            if last.as_ref().is_some_and(|last| *last >= place) {
                return Err(reader.bad("rows out of order"));
            }
            last = Some(place);
            visit(table, row.key, row.value)?;
            row_count += 1;
            rest = &rest[len..];
        }
    }
    Ok(applied)
}

/// What a checkpoint says that it includes. Nothing but its header is looked at.
pub(super) fn read_header(storage: &dyn Storage, path: &Path) -> Result<Applied> {
    let file =
        storage.open(path, OpenMode::Read).map_err(AofError::io("open a checkpoint", path))?;
    Reader { file: &*file, path, at: 0 }.header().map(|(applied, _)| applied)
}

struct Reader<'a> {
    file: &'a dyn File,
    path: &'a Path,
    at: u64,
}

impl Reader<'_> {
    /// What the checkpoint includes, and the checksum that its blocks go on from.
    fn header(&mut self) -> Result<(Applied, u64)> {
        let mut head = [0; CHECKPOINT_HEADER_LEN];
        self.fill(&mut head)?;
        let (header, crc64) = CheckpointHeader::decode(&head).map_err(|e| self.error(e))?;
        if header.tables_version > TABLES_VERSION {
            return Err(AofError::NewerVersion {
                what: format!("the checkpoint {}", self.path.display()),
                found: header.tables_version,
                known: TABLES_VERSION,
            });
        }
        let applied = Applied {
            stream_id: header.stream_id.as_u64(),
            generation: Some(header.generation),
            batch_crc64: header.batch_crc64,
        };
        Ok((applied, crc64))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self.file.read_exact_at(bytes, self.at) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(self.bad("it ends too early"));
            }
            other => other.map_err(AofError::io("read a checkpoint", self.path))?,
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// The rows of a block as bytes.
    fn block(&mut self, block: &CheckpointBlock, previous_crc64: u64) -> Result<Vec<u8>> {
        let left = self.file.len().map_err(AofError::io("measure a checkpoint", self.path))?;
        if u64::from(block.stored_len) > left.saturating_sub(self.at) {
            return Err(self.bad("it ends too early"));
        }
        let mut stored = vec![0; block.stored_len as usize];
        self.fill(&mut stored)?;
        block.verify(&stored, previous_crc64).map_err(|e| self.error(e))?;
        let raw = zstd::bulk::decompress(&stored, block.raw_len as usize);
        let raw = raw.map_err(|_| self.bad("a block cannot be decompressed"))?;
        match raw.len() == block.raw_len as usize {
            true => Ok(raw),
            false => Err(self.bad("a block of another length")),
        }
    }

    fn end(&mut self, block: &CheckpointBlock, previous_crc64: u64, row_count: u64) -> Result<()> {
        let mut count = [0; CHECKPOINT_END_LEN - CHECKPOINT_BLOCK_LEN];
        self.fill(&mut count)?;
        block.verify(&count, previous_crc64).map_err(|e| self.error(e))?;
        let len = self.file.len().map_err(AofError::io("measure a checkpoint", self.path))?;
        match u64::from_le_bytes(count) == row_count && len == self.at {
            true => Ok(()),
            false => Err(self.bad("rows are missing, or something follows")),
        }
    }

    fn error(&self, error: FormatError) -> AofError {
        match error {
            FormatError::UnsupportedVersion { found } => AofError::NewerVersion {
                what: format!("the checkpoint {}", self.path.display()),
                found,
                known: 1,
            },
            other => self.bad(other.to_string()),
        }
    }

    fn bad(&self, reason: impl Into<String>) -> AofError {
        AofError::Corrupt(Box::new(Damage {
            path: self.path.to_owned(),
            offset: self.at,
            records: 0..0,
            reason: reason.into(),
        }))
    }
}

/// Rows that are loaded in one commit.
const LOAD_BYTES: usize = 8 << 20;

/// Loads a checkpoint into empty tables. What they include now; on an error they are not to
/// be used.
pub(super) fn load(storage: &dyn Storage, path: &Path, tables: &Tables) -> Result<Applied> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let applied = read(storage, path, &mut |table, key, value| {
        bytes += key.len() + value.len();
        rows.push((table, key.to_vec(), value.to_vec()));
        if bytes > LOAD_BYTES {
            tables.load(&rows)?;
            rows.clear();
            bytes = 0;
        }
        Ok(())
    })?;
    tables.load(&rows)?;
    tables.note(&applied)?;
    Ok(applied)
}
