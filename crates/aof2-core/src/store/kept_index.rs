//! The indexes in `cold/`: of every object the end of its artifact, so that what is archived
//! is known and found without asking the bucket.

use std::path::Path;
use std::sync::Arc;

use super::cold::ColdStore;
use super::layout::{Layout, create_anew};
use super::listing::list_names;
use crate::error::{AofError, Result};
use crate::format::{
    ARTIFACT_TAIL_LEN_MAX, ArtifactIndex, ColdTailName, FormatError, WarmFileName,
};
use crate::io::{OpenMode, Storage};
use crate::planted::{self, StoreBug};
use crate::segment::Artifact;

/// Those that are there, oldest segment first; of the uploads of one segment the latest is
/// last.
pub(crate) fn list(storage: &dyn Storage, layout: &Layout) -> Result<Vec<ColdTailName>> {
    list_names(storage, &layout.cold_dir(), ColdTailName::parse)
}

/// Keeps the index of an object, durably.
pub(crate) fn store(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    index: &ArtifactIndex,
) -> Result<()> {
    layout.ensure_dir(storage, &layout.cold_dir())?;
    let path = layout.cold_path(name);
    if planted::in_store(StoreBug::KeptIndexUnsynced) {
        let written = create_anew(storage, &path)?.write_all_at(&index.encode_tail(), 0);
        return written.map_err(AofError::io("write", &path));
    }
    layout.replace_file(storage, &path, &index.encode_tail())
}

/// What a file says; the inner error is what is wrong with its bytes.
pub(crate) fn load(
    storage: &dyn Storage,
    path: &Path,
) -> Result<std::result::Result<ArtifactIndex, FormatError>> {
    let file = storage.open(path, OpenMode::Read).map_err(AofError::io("open", path))?;
    let len = file.len().map_err(AofError::io("read", path))?;
    if len > ARTIFACT_TAIL_LEN_MAX {
        let reason = "longer than the index of a segment";
        return Ok(Err(FormatError::BadField { field: "length", reason }));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", path))?;
    Ok(ArtifactIndex::decode_kept_tail(&bytes))
}

/// A cold copy as its kept index tells it. The object store is asked only if that is
/// damaged.
pub(super) fn open(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    cold: &ColdStore,
) -> Result<Arc<Artifact>> {
    let path = layout.cold_path(name);
    let index = match load(storage, &path)? {
        Ok(index) => index,
        Err(error) => {
            let reason = format!("it is not the index of a segment ({error})");
            let Some(index) = fetch(storage, layout, name, cold) else {
                return Err(AofError::Foreign { path, reason });
            };
            let path = path.display();
            tracing::warn!(%path, reason, "an index was fetched from the object store");
            index
        }
    };
    let source = cold.source(&index, name.epoch)?;
    Ok(Arc::new(Artifact::with_index(source, index)))
}

/// The index from the object itself, if that is the segment it should be.
fn fetch(
    storage: &dyn Storage,
    layout: &Layout,
    name: &ColdTailName,
    cold: &ColdStore,
) -> Option<ArtifactIndex> {
    let stream_id = layout.load_identity(storage).ok()??.stream_id;
    let index = cold.index(stream_id, name)?;
    (WarmFileName::of(&index.summary) == name.artifact).then_some(index)
}
