//! Bringing chunks back from the cold tier: a follower that has pieces missing.

use std::ops::Range;
use std::path::PathBuf;

use super::uploader::{ChunkUploader, UploadError, stored_chunks};
use crate::error::{AofError, Result};
use crate::format::crc64;
use crate::format::manifest::{CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader, ManifestRecord};
use crate::io::Storage;
use crate::manifest::chunks::{CHUNK_LEN_MAX, Chunk, ManifestLayout, NUMBER_MAX, install};

/// What restoring did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Chunks that were fetched, in order.
    pub restored: Vec<u64>,
    /// Chunks between the oldest and the newest known one that are nowhere.
    pub missing: Vec<Range<u64>>,
    /// Objects that are no chunk of this stream, with what is wrong with them.
    pub refused: Vec<(u64, String)>,
}

/// Fetches every uploaded chunk of the stream that the local directory does not have, or
/// has damaged. A damaged file is kept beside its replacement as `<name>.damaged`.
///
/// Each chunk is checked before it gets its name, so that a crash leaves whole chunks
/// and perhaps a temporary; running it again goes on. It takes the writer's lock.
pub fn restore_chunks(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    uploader: &dyn ChunkUploader,
    upload_prefix: &str,
) -> Result<RestoreReport> {
    layout.ensure(storage)?;
    let _lock = layout.lock(storage)?;
    let local = layout.list(storage)?.chunks;
    let stored = stored_chunks(uploader, upload_prefix, layout.stream_id())
        .map_err(|e| unreachable(layout, &e))?;
    let mut report = RestoreReport::default();
    for name in stored.iter().filter(|name| name.chunk_index <= NUMBER_MAX) {
        let chunk_index = name.chunk_index;
        let is_here = local.binary_search(&chunk_index).is_ok();
        if is_here && !set_aside_if_damaged(storage, layout, chunk_index)? {
            continue;
        }
        let key = name.key(upload_prefix);
        let fetched = uploader.fetch(&key, CHUNK_LEN_MAX).map_err(|e| unreachable(layout, &e))?;
        match fetched.map(|bytes| check(bytes, chunk_index)) {
            None => {}
            Some(Ok(bytes)) => {
                install(storage, layout, chunk_index, &bytes)?;
                report.restored.push(chunk_index);
            }
            Some(Err(reason)) => report.refused.push((chunk_index, reason)),
        }
    }
    for pair in layout.list(storage)?.chunks.windows(2) {
        if pair[0] + 1 != pair[1] {
            report.missing.push(pair[0] + 1..pair[1]);
        }
    }
    Ok(report)
}

/// Whether the local chunk was damaged, and is out of the way now.
fn set_aside_if_damaged(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    chunk_index: u64,
) -> Result<bool> {
    match Chunk::load(storage, layout, chunk_index, false, Vec::new()) {
        // An object is sealed. A local chunk that is not is older than it.
        Ok(chunk) if chunk.is_sealed() => Ok(false),
        Ok(_) => Ok(true),
        Err(AofError::Corrupt(_)) => {
            let path = layout.chunk_path(chunk_index);
            let mut aside = path.as_os_str().to_owned();
            aside.push(".damaged");
            storage.rename(&path, &PathBuf::from(aside)).map_err(AofError::io("rename", &path))?;
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// An object's bytes as they go into the directory, if they are this chunk.
fn check(mut bytes: Vec<u8>, chunk_index: u64) -> Result<Vec<u8>, String> {
    let header = ChunkHeader::decode(&bytes).map_err(|error| error.to_string())?;
    if header.chunk_index != chunk_index {
        return Err(format!("it is chunk {}", header.chunk_index));
    }
    if !header.flags.contains(ChunkFlags::SEALED) {
        return Err("it is not sealed".into());
    }
    if bytes.len() as u64 != header.committed_len || header.tail_offset != header.committed_len {
        return Err(format!("{} bytes of {}", bytes.len(), header.committed_len));
    }
    let mut rest = bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default();
    if crc64(rest) != header.chunk_crc64 {
        return Err("its checksum does not match".into());
    }
    while !rest.is_empty() {
        let (_, len) = ManifestRecord::decode(rest).map_err(|error| error.to_string())?;
        rest = rest.get(len..).unwrap_or_default();
    }
    // It is in the cold tier, whatever its own header said when it was sent there.
    let flags = header.flags.union(ChunkFlags::UPLOADED);
    let marked = ChunkHeader { flags, ..header }.encode();
    if let Some(start) = bytes.get_mut(..CHUNK_HEADER_LEN) {
        start.copy_from_slice(&marked);
    }
    Ok(bytes)
}

fn unreachable(layout: &ManifestLayout, error: &UploadError) -> AofError {
    let error = std::io::Error::other(error.to_string());
    AofError::io("fetch manifest chunks", layout.dir())(error)
}
