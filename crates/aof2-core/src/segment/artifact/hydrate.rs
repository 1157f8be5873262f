//! From an artifact to the segment file it was made from.

use std::path::{Path, PathBuf};

use super::read::Artifact;
use super::stream::SegmentCheck;
use crate::error::{AofError, Result};
use crate::io::Storage;
use crate::planted::{self, StoreBug};

/// Makes the segment file again, byte for byte, and gives its path. Memory does not
/// grow with the segment.
///
/// The file is complete, verified and durable before it gets its name, so that a crash
/// leaves no file of that name or the whole one, and perhaps a temporary beside it that
/// the next try replaces. When this returns, the name is durable too; if only that
/// failed, the file may have its name and is whole.
pub fn hydrate(storage: &dyn Storage, artifact: &Artifact, segments_dir: &Path) -> Result<PathBuf> {
    let path = segments_dir.join(artifact.meta().file_name().to_string());
    // Not the name of a segment: whoever lists the directory takes it for left over.
    let temporary = segments_dir.join(format!("{}.tmp", artifact.meta().file_name()));
    if let Err(error) = fill(storage, artifact, &temporary) {
        // Half a segment is worth nothing, and may be what fills the disk.
        let _ = storage.remove(&temporary);
        return Err(error);
    }
    storage.rename(&temporary, &path).map_err(AofError::io("name segment", &path))?;
    storage.sync_dir(segments_dir).map_err(AofError::io("sync directory", segments_dir))?;
    Ok(path)
}

/// Writes, verifies and syncs the temporary file.
fn fill(storage: &dyn Storage, artifact: &Artifact, temporary: &Path) -> Result<()> {
    if storage.exists(temporary).map_err(AofError::io("look for", temporary))? {
        storage.remove(temporary).map_err(AofError::io("remove", temporary))?;
    }
    let file = storage.create_new(temporary).map_err(AofError::io("create segment", temporary))?;
    let summary = &artifact.index().summary;
    // A full disk shows before anything is read. The unused middle gets no blocks: what
    // is never written between records and footer stays a hole.
    file.allocate(u64::from(summary.durable_bytes))
        .map_err(AofError::io("allocate segment", temporary))?;
    let write = |bytes: &[u8], offset: u32| {
        file.write_all_at(bytes, u64::from(offset))
            .map_err(AofError::io("write segment", temporary))
    };
    let mut check = SegmentCheck::new(artifact);
    let streamed = artifact.stream(|position, bytes| match check.take(position, bytes) {
        true => Ok(()),
        false => write(bytes, position),
    });
    let footer = match planted::in_store(StoreBug::HydrationUnverified) {
        true => artifact.footer().encode().to_vec(),
        false => streamed.and_then(|()| check.finish())?,
    };
    // The footer makes it a sealed segment, so it comes last.
    write(&footer, artifact.meta().space_end())?;
    file.sync().map_err(AofError::io("sync segment", temporary))
}
